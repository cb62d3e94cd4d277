//! Limits of projects, in the API of Keystone's unified limits. A service of the catalog stores them.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use berth_identity::{
    DefaultLimit, IdentityApiOptions, LimitFuture, ProjectLimit, UnifiedLimitError, UnifiedLimits,
};
use http::{Request, StatusCode};
use serde_json::{Value, json};

use super::service::{PASSWORD, Reply, Service, cloud, project};

/// A service that keeps limits in memory: of servers (10) and GPUs (unlimited).
#[derive(Debug, Default)]
struct LimitsInMemory(Mutex<Vec<ProjectLimit>>);

impl LimitsInMemory {
    fn is_of(one: &ProjectLimit, other: &ProjectLimit) -> bool {
        one.project_id == other.project_id && one.resource_name == other.resource_name
    }
}

impl UnifiedLimits for LimitsInMemory {
    fn service_type(&self) -> &'static str {
        "placement"
    }

    fn defaults(&self) -> Vec<DefaultLimit> {
        let limits = [("servers", 10), ("class:VGPU", -1)];
        let limit = |(name, default_limit): (&str, i64)| DefaultLimit {
            resource_name: name.to_owned(),
            default_limit,
        };
        limits.map(limit).to_vec()
    }

    fn limits(&self) -> LimitFuture<'_, Vec<ProjectLimit>> {
        Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
    }

    fn create<'a>(&'a self, limits: &'a [ProjectLimit]) -> LimitFuture<'a, ()> {
        Box::pin(async move {
            let mut known = self.0.lock().unwrap();
            let mut all = known.clone();
            for limit in limits {
                if all.iter().any(|it| Self::is_of(it, limit)) {
                    let resource_name = limit.resource_name.clone();
                    return Err(UnifiedLimitError::Exists { resource_name });
                }
                if limit.resource_limit == 666 {
                    return Err(UnifiedLimitError::Database {
                        source: "no disk".into(),
                        will_pass: true,
                    });
                }
                all.push(limit.clone());
            }
            *known = all;
            Ok(())
        })
    }

    fn update<'a>(&'a self, limit: &'a ProjectLimit) -> LimitFuture<'a, ()> {
        Box::pin(async {
            let mut known = self.0.lock().unwrap();
            let found = known.iter_mut().find(|it| Self::is_of(it, limit));
            *found.ok_or(UnifiedLimitError::NotFound)? = limit.clone();
            Ok(())
        })
    }

    fn delete<'a>(&'a self, limit: &'a ProjectLimit) -> LimitFuture<'a, ()> {
        Box::pin(async {
            let mut known = self.0.lock().unwrap();
            known.retain(|it| !Self::is_of(it, limit));
            Ok(())
        })
    }
}

pub(super) async fn start() -> Service {
    let options = IdentityApiOptions {
        unified_limits: Some(Arc::new(LimitsInMemory::default())),
        ..IdentityApiOptions::default()
    };
    Service::with(&cloud(), options).await
}

pub(super) async fn send(
    service: &Service,
    token: &str,
    (method, path): (&str, &str),
    body: Value,
) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "cloud")
        .header("x-auth-token", token)
        .header("content-type", "application/json");
    let body = Body::from(body.to_string());
    service.send(request.body(body).unwrap()).await
}

/// The id of the service that has limits.
async fn service_id(service: &Service, token: &str) -> String {
    let services = service.get(token, "/v3/services?type=placement").await;
    services.body["services"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Asks for limits of the project research, each a resource and a number.
pub(super) async fn create(service: &Service, token: &str, limits: &[(&str, i64)]) -> Reply {
    let admin = service.token("admin", None).await;
    let id = service_id(service, &admin).await;
    let limits: Vec<Value> = limits
        .iter()
        .map(|(resource, limit)| {
            json!({"service_id": id, "project_id": "p-research", "resource_name": resource,
                "resource_limit": limit})
        })
        .collect();
    let path = ("POST", "/v3/limits");
    send(service, token, path, json!({ "limits": limits })).await
}

fn error(reply: &Reply) -> &str {
    reply.body["error"]["message"].as_str().unwrap()
}

#[tokio::test]
async fn default_limits_are_shown_to_every_caller_and_changed_by_none() {
    let service = start().await;
    let admin = service.token("admin", None).await;
    let alice = service.token("alice", project("research")).await;
    let id = service_id(&service, &admin).await;
    let listed = service.get(&alice, "/v3/registered_limits").await;
    let limits = &listed.body["registered_limits"];
    let shown = |limit: &Value| {
        (
            limit["resource_name"].clone(),
            limit["default_limit"].clone(),
        )
    };
    assert_eq!(shown(&limits[0]), (json!("servers"), json!(10)));
    assert_eq!(shown(&limits[1]), (json!("class:VGPU"), json!(-1)));
    assert_eq!(limits[0]["service_id"], id);
    let link = limits[0]["links"]["self"].as_str().unwrap();
    let path = link.strip_prefix("http://cloud").unwrap();
    let one = service.get(&alice, path).await;
    assert_eq!(one.body["registered_limit"], limits[0]);
    let model = service.get(&alice, "/v3/limits/model").await;
    assert_eq!(model.body["model"]["name"], "flat");
    for (query, count) in [
        ("resource_name=servers", 1),
        ("service_id=other", 0),
        ("region_id=RegionOne", 0),
    ] {
        let path = format!("/v3/registered_limits?{query}");
        let found = service.get(&alice, &path).await;
        let found = found.body["registered_limits"].as_array().unwrap().len();
        assert_eq!(found, count, "{query}");
    }
    for call in [
        ("POST", "/v3/registered_limits"),
        ("PATCH", path),
        ("DELETE", path),
    ] {
        let refused = send(&service, &admin, call, json!({})).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{call:?}");
        assert!(error(&refused).contains("[quota]"), "{}", refused.body);
    }
    let missing = service.get(&alice, "/v3/registered_limits/no-such").await;
    assert_eq!(error(&missing), "Could not find registered limit: no-such.");
}

#[tokio::test]
async fn an_operator_creates_changes_and_deletes_limits_of_projects() {
    let service = start().await;
    let admin = service.token("admin", None).await;
    let limits = [("servers", 4), ("class:VGPU", 8)];
    let created = create(&service, &admin, &limits).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
    assert_eq!(created.body.get("links"), None, "as in Keystone");
    let vgpu = &created.body["limits"][1];
    let id = vgpu["id"].as_str().unwrap();
    let path = format!("/v3/limits/{id}");
    assert_eq!(
        *vgpu,
        json!({"id": id, "service_id": service_id(&service, &admin).await, "region_id": null,
            "project_id": "p-research", "domain_id": null, "resource_name": "class:VGPU", "resource_limit": 8,
            "description": null, "links": {"self": format!("http://cloud{path}")}})
    );
    assert_eq!(service.get(&admin, &path).await.body["limit"], *vgpu);
    for (query, count) in [
        ("", 2),
        ("?resource_name=class:VGPU", 1),
        ("?project_id=p-research", 2),
        ("?project_id=other", 0),
        ("?domain_id=default", 0),
        ("?region_id=RegionOne", 0),
    ] {
        let listed = service.get(&admin, &format!("/v3/limits{query}")).await;
        let listed = listed.body["limits"].as_array().unwrap().len();
        assert_eq!(listed, count, "{query}");
    }
    for number in [0, -1] {
        let change = json!({"limit": {"resource_limit": number}});
        let changed = send(&service, &admin, ("PATCH", &path), change).await;
        assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
        assert_eq!(changed.body["limit"]["resource_limit"], number);
        assert_eq!(changed.body["limit"]["id"], id);
    }
    let twice = create(&service, &admin, &[("class:VGPU", 1)]).await;
    assert_eq!(twice.status, StatusCode::CONFLICT);
    assert!(error(&twice).contains("class:VGPU"), "{}", twice.body);
    let deleted = send(&service, &admin, ("DELETE", &path), json!({})).await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    for method in ["GET", "PATCH", "DELETE"] {
        let body = json!({"limit": {"resource_limit": 1}});
        let missing = send(&service, &admin, (method, &path), body).await;
        assert_eq!(error(&missing), format!("Could not find limit: {id}."));
    }
    let again = create(&service, &admin, &[("class:VGPU", 1)]).await;
    assert_eq!(again.body["limits"][0]["id"], id, "ids are derived");
}

#[tokio::test]
async fn callers_see_the_limits_of_their_project_or_domain_and_change_none() {
    let service = start().await;
    let admin = service.token("admin", None).await;
    let users = service.identity.users();
    let elsewhere = &users.domain_named("elsewhere").unwrap().id;
    let other = &users.project_named(elsewhere, "research").unwrap().id;
    let id = service_id(&service, &admin).await;
    let body = json!({"limits": [{"service_id": id, "project_id": other, "resource_name": "servers",
        "resource_limit": 2}]});
    let theirs = send(&service, &admin, ("POST", "/v3/limits"), body).await;
    let own = create(&service, &admin, &[("servers", 4)]).await;
    let ids = [&own, &theirs].map(|it| it.body["limits"][0]["id"].as_str().unwrap().to_owned());
    let bob = json!({"name": "bob", "domain": {"name": "elsewhere"}, "password": PASSWORD});
    let of_domain = Some(json!({"domain": {"name": "elsewhere"}}));
    let bob = service.log_in(bob, of_domain).await;
    let bob = bob.header("x-subject-token").to_owned();
    let alice = service.token("alice", project("research")).await;
    let nova = service.token("nova", None).await;
    let unscoped = service.token("alice", Some(json!("unscoped"))).await;
    for (name, token, listed, shown) in [
        ("alice", &alice, vec![&ids[0]], [200, 403]),
        ("bob", &bob, vec![&ids[1]], [403, 200]),
        ("unscoped", &unscoped, vec![], [403, 403]),
        ("a service", &nova, vec![&ids[1], &ids[0]], [403, 403]),
        ("admin", &admin, vec![&ids[1], &ids[0]], [200, 200]),
    ] {
        let list = service.get(token, "/v3/limits").await;
        let list = list.body["limits"].as_array().unwrap();
        let found: Vec<&str> = list.iter().map(|it| it["id"].as_str().unwrap()).collect();
        assert_eq!(found, listed, "{name}");
        for (id, status) in ids.iter().zip(shown) {
            let reply = service.get(token, &format!("/v3/limits/{id}")).await;
            assert_eq!(reply.status, status, "{name} {id}");
        }
    }
    let missing = service.get(&alice, "/v3/limits/no-such").await;
    assert_eq!(missing.status, 403, "it tells nothing of others");
    let path = format!("/v3/limits/{}", ids[0]);
    for (call, rule) in [
        (("POST", "/v3/limits"), "identity:create_limits"),
        (("PATCH", path.as_str()), "identity:update_limit"),
        (("DELETE", path.as_str()), "identity:delete_limit"),
    ] {
        let refused = send(&service, &alice, call, json!({})).await;
        assert_eq!(refused.status, 403);
        assert!(error(&refused).contains(rule), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_limit_that_cannot_be_kept_is_refused_and_the_error_names_the_field() {
    let service = start().await;
    let admin = service.token("admin", None).await;
    let good = json!({"service_id": service_id(&service, &admin).await, "project_id": "p-research",
        "resource_name": "servers", "resource_limit": 4});
    let with = |key: &str, value: Value| {
        let mut limit = good.clone();
        limit[key] = value;
        limit
    };
    for (limit, status, named) in [
        (with("service_id", json!("other")), 400, "service_id"),
        (with("region_id", json!("RegionOne")), 400, "region_id"),
        (with("domain_id", json!("default")), 400, "domain_id"),
        (with("description", json!("for them")), 400, "description"),
        (with("project_id", json!(null)), 400, "project_id"),
        (with("project_id", json!("no-such")), 400, "project_id"),
        (with("resource_limit", json!(-2)), 400, "resource_limit"),
        (
            with("resource_limit", json!(1_i64 << 31)),
            400,
            "resource_limit",
        ),
        (with("resource_limit", json!("4")), 400, "resource_limit"),
        (with("colour", json!("red")), 400, "colour"),
        // As in Keystone.
        (
            with("resource_name", json!("class:PGPU")),
            403,
            "resource_classes",
        ),
        (with("resource_limit", json!(666)), 503, "database"),
    ] {
        // The first one is good, and is not stored either.
        let first = with("resource_name", json!("class:VGPU"));
        let body = json!({"limits": [first, limit]});
        let refused = send(&service, &admin, ("POST", "/v3/limits"), body).await;
        assert_eq!(refused.status, status, "{limit}: {}", refused.body);
        assert!(error(&refused).contains(named), "{limit}: {}", refused.body);
    }
    let none = send(
        &service,
        &admin,
        ("POST", "/v3/limits"),
        json!({"limits": []}),
    )
    .await;
    assert_eq!(none.status, 400);
    let listed = service.get(&admin, "/v3/limits").await;
    assert_eq!(listed.body["limits"], json!([]));
}

#[tokio::test]
async fn without_a_service_that_has_limits_the_paths_do_not_exist() {
    let service = Service::start().await;
    let admin = service.token("admin", None).await;
    let unknown = service.get(&admin, "/v3/no-such-path").await;
    for call in [
        ("GET", "/v3/limits"),
        ("POST", "/v3/limits"),
        ("GET", "/v3/limits/model"),
        ("PATCH", "/v3/limits/one"),
        ("DELETE", "/v3/limits/one"),
        ("GET", "/v3/registered_limits"),
        ("POST", "/v3/registered_limits"),
        ("GET", "/v3/registered_limits/one"),
    ] {
        let missing = send(&service, &admin, call, json!({})).await;
        assert_eq!(
            (missing.status, &missing.body),
            (StatusCode::NOT_FOUND, &unknown.body),
            "{call:?}"
        );
    }
}
