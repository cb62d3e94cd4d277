//! Users, projects, domains, roles and assignments: permitted callers can read them, and no caller can change them.

use http::{Method, Request};
use serde_json::json;

use super::service::{PASSWORD, Service, project};

#[tokio::test]
async fn every_list_is_readable_by_operators_only_and_filtered_by_its_keys() {
    let service = Service::start().await;
    let admin = service.token("admin", None).await;
    let alice = service.token("alice", project("research")).await;
    let elsewhere = service
        .identity
        .users()
        .domain_named("elsewhere")
        .unwrap()
        .id
        .clone();
    let cases = [
        ("/v3/users".to_owned(), "users", 6),
        ("/v3/users?name=alice".to_owned(), "users", 1),
        ("/v3/users?name=nobody-at-all".to_owned(), "users", 0),
        (format!("/v3/users?domain_id={elsewhere}"), "users", 1),
        ("/v3/users?enabled=false".to_owned(), "users", 1),
        (
            "/v3/users?enabled=true&domain_id=default".to_owned(),
            "users",
            4,
        ),
        ("/v3/projects".to_owned(), "projects", 5),
        ("/v3/projects?name=research".to_owned(), "projects", 2),
        (
            "/v3/projects?name=research&domain_id=default".to_owned(),
            "projects",
            1,
        ),
        ("/v3/projects?is_domain=true".to_owned(), "projects", 0),
        ("/v3/domains".to_owned(), "domains", 2),
        ("/v3/domains?name=elsewhere".to_owned(), "domains", 1),
        ("/v3/roles".to_owned(), "roles", 6),
        ("/v3/roles?name=operator".to_owned(), "roles", 1),
        ("/v3/roles?domain_id=default".to_owned(), "roles", 0),
        ("/v3/groups".to_owned(), "groups", 0),
        ("/v3/users/u-alice/projects".to_owned(), "projects", 2),
        ("/v3/users/u-alice/groups".to_owned(), "groups", 0),
        ("/v3/services".to_owned(), "services", 2),
        ("/v3/services?type=placement".to_owned(), "services", 1),
        ("/v3/endpoints".to_owned(), "endpoints", 6),
        ("/v3/endpoints?interface=public".to_owned(), "endpoints", 2),
        ("/v3/endpoints?region_id=nowhere".to_owned(), "endpoints", 0),
        ("/v3/regions".to_owned(), "regions", 1),
        ("/v3/role_assignments".to_owned(), "role_assignments", 7),
        (
            "/v3/role_assignments?user.id=u-alice".to_owned(),
            "role_assignments",
            2,
        ),
        (
            "/v3/role_assignments?user.id=u-alice&effective".to_owned(),
            "role_assignments",
            4,
        ),
        (
            "/v3/role_assignments?scope.project.id=p-research".to_owned(),
            "role_assignments",
            2,
        ),
        (
            "/v3/role_assignments?scope.system=all".to_owned(),
            "role_assignments",
            1,
        ),
        (
            format!("/v3/role_assignments?scope.domain.id={elsewhere}"),
            "role_assignments",
            1,
        ),
        (
            "/v3/role_assignments?group.id=g".to_owned(),
            "role_assignments",
            0,
        ),
    ];
    // What alice may read: regions, and what is about herself.
    let everybodys = |path: &str| path == "/v3/regions" || path.contains("u-alice");
    for (path, list, count) in cases {
        let reply = service.get(&admin, &path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        assert_eq!(
            reply.body[list].as_array().unwrap().len(),
            count,
            "{path}: {}",
            reply.body
        );
        let links = &reply.body["links"];
        assert_eq!(
            (&links["next"], &links["previous"]),
            (&json!(null), &json!(null))
        );
        assert_eq!(
            links["self"].as_str().unwrap(),
            format!("http://cloud{}", path.replace("&effective", "&effective="))
        );
        let status = if everybodys(&path) { 200 } else { 403 };
        assert_eq!(service.get(&alice, &path).await.status, status, "{path}");
        assert_eq!(service.get("", &path).await.status, 401, "{path}");
        let head = service
            .ask("HEAD", &path, &[("x-auth-token", &admin)])
            .await;
        assert_eq!(head.status, 200, "{path}");
    }
}

#[tokio::test]
async fn every_item_of_a_list_is_at_its_own_link_and_others_are_not_there() {
    let service = Service::start().await;
    let admin = service.token("admin", None).await;
    for (list, one) in [
        ("users", "user"),
        ("projects", "project"),
        ("domains", "domain"),
        ("roles", "role"),
        ("services", "service"),
        ("endpoints", "endpoint"),
        ("regions", "region"),
    ] {
        let listed = service.get(&admin, &format!("/v3/{list}")).await;
        for item in listed.body[list].as_array().unwrap() {
            let link = item["links"]["self"].as_str().unwrap();
            let path = link.strip_prefix("http://cloud").unwrap();
            let shown = service.get(&admin, path).await;
            assert_eq!(
                (shown.status.as_u16(), &shown.body[one]),
                (200, item),
                "{path}"
            );
            assert!(!item.to_string().contains("argon2"), "{item}");
        }
        let missing = service.get(&admin, &format!("/v3/{list}/no-such")).await;
        assert_eq!(missing.status, 404);
        let message = format!("Could not find {one}: no-such.");
        assert_eq!(
            missing.body["error"],
            json!({"code": 404, "title": "Not Found", "message": message})
        );
    }
}

#[tokio::test]
async fn one_sees_oneself_ones_project_and_ones_domain() {
    let service = Service::start().await;
    let alice = service.token("alice", project("research")).await;
    let other = service
        .identity
        .users()
        .domain_named("elsewhere")
        .unwrap()
        .id
        .clone();
    for (path, status) in [
        ("/v3/users/u-alice".to_owned(), 200),
        ("/v3/users/no-such".to_owned(), 403),
        ("/v3/projects/p-research".to_owned(), 200),
        ("/v3/projects/no-such".to_owned(), 403),
        ("/v3/domains/default".to_owned(), 200),
        (format!("/v3/domains/{other}"), 403),
        ("/v3/regions/RegionOne".to_owned(), 200),
        ("/v3/role_assignments".to_owned(), 403),
    ] {
        assert_eq!(service.get(&alice, &path).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_caller_can_list_its_possible_scopes() {
    let service = Service::start().await;
    let alice = service.token("alice", None).await;
    let mine = service.get(&alice, "/v3/auth/projects").await;
    assert_eq!(
        mine.names("projects"),
        ["research"],
        "a closed one is left out"
    );
    let none = service.get(&alice, "/v3/auth/domains").await;
    assert_eq!(none.body["domains"], json!([]));
    assert_eq!(
        service.get(&alice, "/v3/auth/system").await.body["system"],
        json!([])
    );
    let admin = service.token("admin", None).await;
    assert_eq!(
        service.get(&admin, "/v3/auth/system").await.body["system"],
        json!([{"all": true}])
    );
    let bob = json!({"name": "bob", "domain": {"name": "elsewhere"}, "password": PASSWORD});
    let bob = service
        .log_in(bob, None)
        .await
        .header("x-subject-token")
        .to_owned();
    let domains = service.get(&bob, "/v3/auth/domains").await;
    assert_eq!(domains.names("domains"), ["elsewhere"]);
}

#[tokio::test]
async fn assignments_have_names_where_they_are_asked_for() {
    let service = Service::start().await;
    let admin = service.token("admin", None).await;
    let path = "/v3/role_assignments?user.id=u-alice&scope.project.id=p-research";
    let plain = service.get(&admin, path).await.body["role_assignments"][0].clone();
    assert_eq!(plain["user"], json!({"id": "u-alice"}));
    assert_eq!(plain["scope"], json!({"project": {"id": "p-research"}}));
    let named = service
        .get(&admin, &format!("{path}&include_names=true"))
        .await;
    let named = &named.body["role_assignments"][0];
    assert_eq!(named["role"]["name"], "member");
    assert_eq!(
        named["scope"]["project"]["domain"],
        json!({"id": "default", "name": "Default"})
    );
    assert_eq!(
        named["links"]["assignment"],
        format!(
            "http://cloud/v3/projects/p-research/users/u-alice/roles/{}",
            named["role"]["id"].as_str().unwrap()
        )
    );
}

#[tokio::test]
async fn role_assignments_can_be_checked_and_listed() {
    let service = Service::start().await;
    let admin = service.token("admin", None).await;
    let id = |name: &str| {
        let users = service.identity.users();
        users
            .roles()
            .find(|role| role.name == name)
            .unwrap()
            .id
            .clone()
    };
    let (member, reader, admins) = (id("member"), id("reader"), id("admin"));
    let user = |name: &str| {
        let users = service.identity.users();
        users.user_named("default", name).unwrap().id.clone()
    };
    let research = "/v3/projects/p-research/users/u-alice/roles";
    let system = format!("/v3/system/users/{}/roles", user("admin"));
    let default = "/v3/domains/default/users/u-alice/roles";
    for (path, names) in [
        (research, vec!["member"]),
        (&system, vec!["admin"]),
        (default, vec![]),
    ] {
        let listed = service.get(&admin, path).await;
        assert_eq!(listed.names("roles"), names, "{path}");
        let link = listed.body["links"]["self"].as_str().unwrap();
        assert_eq!(link, format!("http://cloud{path}"));
    }
    for (path, status) in [
        (format!("{research}/{member}"), 204),
        // What another role implies was not given.
        (format!("{research}/{reader}"), 404),
        (format!("{research}/no-such"), 404),
        (format!("{system}/{admins}"), 204),
        (format!("{system}/{member}"), 404),
        (format!("{default}/{member}"), 404),
        (
            format!("/v3/projects/none/users/u-alice/roles/{member}"),
            404,
        ),
        (
            format!("/v3/projects/p-research/users/none/roles/{member}"),
            404,
        ),
        (
            format!("/v3/domains/none/users/u-alice/roles/{member}"),
            404,
        ),
    ] {
        for method in ["HEAD", "GET"] {
            let token = [("x-auth-token", admin.as_str())];
            let reported = service.ask(method, &path, &token).await;
            assert_eq!(reported.status, status, "{method} {path}");
        }
    }
    let alice = service.token("alice", project("research")).await;
    let path = format!("{research}/{member}");
    for path in [research, &path] {
        assert_eq!(service.get(&alice, path).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn every_write_is_refused_and_only_operators_see_the_file() {
    let service = Service::start().await;
    let admin = service.token("admin", None).await;
    let others = [
        service.token("alice", project("research")).await,
        service.token("nova", None).await,
        service.token("nobody", None).await,
    ];
    let file = service.path.display().to_string();
    let cases = [
        (Method::POST, "/v3/users", file.as_str()),
        (Method::PATCH, "/v3/users/u-alice", &file),
        (Method::DELETE, "/v3/users/u-alice", &file),
        (Method::POST, "/v3/users/u-alice/password", &file),
        (
            Method::POST,
            "/v3/users/u-alice/application_credentials",
            &file,
        ),
        (Method::POST, "/v3/projects", &file),
        (Method::DELETE, "/v3/projects/p-research", &file),
        (Method::POST, "/v3/domains", &file),
        (Method::POST, "/v3/roles", &file),
        (Method::POST, "/v3/groups", &file),
        (
            Method::PUT,
            "/v3/projects/p-research/users/u-alice/roles/r",
            &file,
        ),
        (
            Method::PUT,
            "/v3/domains/default/users/u-alice/roles/r",
            &file,
        ),
        (Method::DELETE, "/v3/system/users/u-alice/roles/r", &file),
        (Method::POST, "/v3/services", "[identity_service] catalog"),
        (Method::POST, "/v3/endpoints", "[identity_service] catalog"),
        (
            Method::PATCH,
            "/v3/regions/RegionOne",
            "[identity_service] catalog",
        ),
    ];
    for (method, path, words) in cases {
        let ask = |token: &str| {
            let request = Request::builder().method(method.clone()).uri(path);
            let request = request
                .header("x-auth-token", token)
                .header("content-type", "application/json");
            service.send(request.body(r#"{"user": {"name": "eve"}}"#.into()).unwrap())
        };
        let reply = ask(&admin).await;
        assert_eq!(reply.status, 403, "{method} {path}");
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{method} {path}: {message}");
        for token in &others {
            let reply = ask(token).await;
            assert_eq!(reply.status, 403, "{method} {path}");
            let message = reply.body["error"]["message"].as_str().unwrap();
            let is_of_file = words == file;
            let is_plain = !message.contains(&file) && message.contains("operator") == is_of_file;
            assert!(is_plain, "{method} {path}: {message}");
        }
        assert_eq!(ask("").await.status, 401, "{method} {path}");
    }
}
