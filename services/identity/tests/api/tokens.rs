//! Tokens asked for in every way, looked at, and revoked.

use std::sync::Arc;

use berth_identity::IdentityApiOptions;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::service::{PASSWORD, Service, by_name, cloud, project, user};

fn names(list: &Value) -> Vec<&str> {
    let items = list.as_array().unwrap();
    items
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_token_says_whose_it_is_what_it_is_for_and_where_the_services_are() {
    let service = Service::start().await;
    let reply = service.log_in(by_name("alice"), project("research")).await;
    assert_eq!(reply.status, 201);
    assert_eq!(reply.header("vary"), "X-Auth-Token");
    assert_eq!(reply.header("content-type"), "application/json");
    let token = &reply.body["token"];
    assert_eq!(
        token["user"],
        json!({"id": "u-alice", "name": "alice", "domain": {"id": "default", "name": "Default"}, "password_expires_at": null})
    );
    assert_eq!(
        token["project"],
        json!({"id": "p-research", "name": "research", "domain": {"id": "default", "name": "Default"}})
    );
    assert_eq!(token["is_domain"], false);
    assert_eq!(token["methods"], json!(["password"]));
    assert_eq!(token["issued_at"], "2026-11-23T10:00:00.000000Z");
    assert_eq!(token["expires_at"], "2026-11-23T11:00:00.000000Z");
    assert_eq!(names(&token["roles"]), ["member", "reader"]);
    assert_eq!(token["audit_ids"].as_array().unwrap().len(), 1);
    assert_eq!(names(&token["catalog"]), ["identity", "placement"]);
    assert_eq!(
        token["catalog"][1]["endpoints"][0]["url"],
        "http://cloud/placement"
    );
    assert!(!reply.body.to_string().contains("argon2"));
}

#[tokio::test]
async fn each_scope_gives_the_token_that_was_asked_for() {
    let service = Service::start().await;
    let bob = json!({"name": "bob", "domain": {"name": "elsewhere"}, "password": PASSWORD});
    let id = service.identity.users();
    let admin_id = id.user_named("default", "admin").unwrap().id.clone();
    let by_id = json!({"id": admin_id, "password": PASSWORD});
    let cases = [
        (by_name("admin"), None, "project", "admin"),
        (by_id, None, "project", "admin"),
        (by_name("admin"), Some(json!("unscoped")), "", ""),
        (by_name("admin"), Some(json!({"unscoped": {}})), "", ""),
        (
            by_name("admin"),
            Some(json!({"system": {"all": true}})),
            "system",
            "",
        ),
        (by_name("alice"), None, "", ""),
        (
            by_name("alice"),
            Some(json!({"project": {"id": "p-research"}})),
            "project",
            "research",
        ),
        (by_name("nobody"), None, "", ""),
        (
            bob,
            Some(json!({"domain": {"name": "elsewhere"}})),
            "domain",
            "elsewhere",
        ),
    ];
    for (user, scope, kind, name) in cases {
        let shown = format!("{} {scope:?}", user["name"]);
        let reply = service.log_in(user, scope).await;
        assert_eq!(reply.status, 201, "{shown}: {}", reply.body);
        let token = &reply.body["token"];
        for other in ["project", "domain", "system"] {
            assert_eq!(
                token.get(other).is_some(),
                other == kind,
                "{shown}: {token}"
            );
        }
        assert_eq!(token.get("roles").is_some(), !kind.is_empty(), "{shown}");
        assert_eq!(token.get("catalog").is_some(), !kind.is_empty(), "{shown}");
        if !name.is_empty() {
            assert_eq!(token[kind]["name"], name, "{shown}");
        }
    }
}

#[tokio::test]
async fn the_case_of_a_name_does_not_count_at_a_login() {
    let service = Service::start().await;
    for domain in ["Default", "default", "DEFAULT"] {
        let user = json!({"name": "Alice", "domain": {"name": domain}, "password": PASSWORD});
        let scope = json!({"project": {"name": "RESEARCH", "domain": {"name": domain}}});
        let reply = service.log_in(user, Some(scope)).await;
        assert_eq!(reply.status, 201, "{domain}: {}", reply.body);
        assert_eq!(reply.body["token"]["user"]["name"], "alice");
        assert_eq!(reply.body["token"]["project"]["name"], "research");
    }
}

#[tokio::test]
async fn a_refused_login_gets_no_reason() {
    let service = Service::start().await;
    let wrong =
        |name: &str| json!({"name": name, "domain": {"id": "default"}, "password": "wrong"});
    let elsewhere = json!({"name": "alice", "domain": {"name": "elsewhere"}, "password": PASSWORD});
    let nowhere = json!({"name": "alice", "domain": {"name": "nowhere"}, "password": PASSWORD});
    let long = json!({"name": "alice", "domain": {"id": "default"}, "password": "x".repeat(5000)});
    let cases = [
        (wrong("alice"), None),
        (wrong("nobody-at-all"), None),
        (elsewhere, None),
        (nowhere, None),
        (long, None),
        (json!({"id": "unknown", "password": PASSWORD}), None),
        (by_name("gone"), None),
        (by_name("alice"), project("admin")),
        (by_name("alice"), project("closed")),
        (by_name("alice"), project("no-such")),
        (by_name("alice"), Some(json!({"system": {"all": true}}))),
        (by_name("alice"), Some(json!({"domain": {"id": "default"}}))),
        (by_name("alice"), Some(json!({"domain": {"id": "nowhere"}}))),
    ];
    let mut bodies = Vec::new();
    for (user, scope) in cases {
        let shown = format!("{} {scope:?}", user["name"]);
        let reply = service.log_in(user, scope).await;
        assert_eq!(reply.status, 401, "{shown}: {}", reply.body);
        assert_eq!(
            reply.header("www-authenticate"),
            "Keystone uri=\"http://cloud/v3\""
        );
        assert_eq!(reply.header("x-subject-token"), "");
        bodies.push(reply.body);
    }
    let one = json!({"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}});
    assert!(bodies.iter().all(|body| *body == one), "{bodies:?}");
    assert_eq!(service.count().await, 0);
}

#[tokio::test]
async fn a_token_makes_another_that_ends_when_it_ends() {
    let service = Service::start().await;
    let first = service.token("admin", Some(json!("unscoped"))).await;
    service.passes(600);
    let by_token = |id: &str, scope: Value| {
        json!({"auth": {"identity": {"methods": ["token"], "token": {"id": id}}, "scope": scope}})
            .to_string()
    };
    let asked = by_token(&first, json!({"system": {"all": true}}));
    let second = service.post_text(&asked).await;
    assert_eq!(second.status, 201, "{}", second.body);
    let token = &second.body["token"];
    assert_eq!(token["methods"], json!(["password", "token"]));
    assert_eq!(token["expires_at"], "2026-11-23T11:00:00.000000Z");
    assert_eq!(token["issued_at"], "2026-11-23T10:10:00.000000Z");
    let subject = [
        ("x-auth-token", first.as_str()),
        ("x-subject-token", &first),
    ];
    let shown = service.ask("GET", "/v3/auth/tokens", &subject).await;
    assert_eq!(token["audit_ids"][1], shown.body["token"]["audit_ids"][0]);
    let refused = service
        .post_text(&by_token("no-such-token", json!("unscoped")))
        .await;
    assert_eq!(refused.status, 401);
    let refused = service
        .post_text(&by_token(&first, json!({"project": {"id": "p-research"}})))
        .await;
    assert_eq!(refused.status, 401, "admin has no role there");
}

#[tokio::test]
async fn a_token_is_validated_by_its_holder_by_services_and_by_operators() {
    let service = Service::start().await;
    let alice = service.token("alice", project("research")).await;
    let roleless = service.token("nobody", None).await;
    let admin = service.token("admin", None).await;
    let nova = service.token("nova", None).await;
    let system = service
        .token("admin", Some(json!({"system": {"all": true}})))
        .await;
    for (caller, status) in [
        (&alice, 200),
        (&admin, 200),
        (&nova, 200),
        (&system, 200),
        (&roleless, 403),
    ] {
        for method in ["GET", "HEAD"] {
            let headers = [
                ("x-auth-token", caller.as_str()),
                ("x-subject-token", &alice),
            ];
            let reply = service.ask(method, "/v3/auth/tokens", &headers).await;
            assert_eq!(reply.status, status, "{}", reply.body);
            if status == 200 {
                assert_eq!(reply.header("x-subject-token"), alice);
            }
            if (status, method) == (200, "GET") {
                assert_eq!(reply.body["token"]["user"]["id"], "u-alice");
                assert!(reply.body["token"]["catalog"].is_array());
            }
        }
    }
    let headers = [("x-auth-token", nova.as_str()), ("x-subject-token", &alice)];
    let bare = service
        .ask("GET", "/v3/auth/tokens?nocatalog", &headers)
        .await;
    assert_eq!(bare.body["token"].get("catalog"), None);
    for subject in ["", "no-such-token"] {
        let headers = [
            ("x-auth-token", nova.as_str()),
            ("x-subject-token", subject),
        ];
        let reply = service.ask("GET", "/v3/auth/tokens", &headers).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.body["error"]["title"]),
            (404, &json!("Not Found"))
        );
    }
    let headers = [
        ("x-auth-token", "no-such-token"),
        ("x-subject-token", &alice),
    ];
    let reply = service.ask("GET", "/v3/auth/tokens", &headers).await;
    assert_eq!(reply.status, 401);
    assert_eq!(
        reply.header("www-authenticate"),
        "Keystone uri=\"http://cloud/v3\""
    );
}

#[tokio::test]
async fn a_revoked_token_is_void_with_those_that_were_made_from_it() {
    let service = Service::start().await;
    let mut made = Vec::new();
    for cascade in ["", "?cascade=false"] {
        let first = service.token("alice", None).await;
        let body = json!({"auth": {"identity": {"methods": ["token"], "token": {"id": first}}, "scope": project("research")}});
        let second = service
            .post_text(&body.to_string())
            .await
            .header("x-subject-token")
            .to_owned();
        let roleless = service.token("nobody", None).await;
        let path = format!("/v3/auth/tokens{cascade}");
        let revoke = |caller: &str, subject: &str| {
            let headers = [
                ("x-auth-token".to_owned(), caller.to_owned()),
                ("x-subject-token".to_owned(), subject.to_owned()),
            ];
            let path = path.clone();
            let service = &service;
            async move {
                let headers: Vec<_> = headers
                    .iter()
                    .map(|(a, b)| (a.as_str(), b.as_str()))
                    .collect();
                service.ask("DELETE", &path, &headers).await
            }
        };
        assert_eq!(revoke(&roleless, &first).await.status, 403);
        assert_eq!(revoke(&first, &first).await.status, 204);
        assert_eq!(service.get(&first, "/v3/auth/projects").await.status, 401);
        made.push(
            service
                .get(&second, "/v3/auth/projects")
                .await
                .status
                .as_u16(),
        );
        assert_eq!(
            service.get(&roleless, "/v3/auth/projects").await.status,
            200
        );
        let admin = service.token("admin", None).await;
        assert_eq!(revoke(&admin, &first).await.status, 404);
    }
    assert_eq!(made, [401, 200]);
}

#[tokio::test]
async fn a_token_is_revoked_by_its_own_user_and_by_an_administrator_and_not_by_a_service() {
    let host = user("host/compute1", "default_project = \"service\"");
    let role = "[[role_assignment]]\nuser = \"host/compute1\"\nproject = \"service\"\nroles = [\"service\"]\n";
    let users = [cloud(), host, role.to_owned()].concat();
    let service = Service::with(&users, IdentityApiOptions::default()).await;
    for (caller, status) in [
        ("nova", 403),
        ("host/compute1", 403),
        ("nobody", 403),
        ("alice", 204),
        ("admin", 204),
    ] {
        let token = service.token("alice", project("research")).await;
        let own = service.token(caller, None).await;
        let headers = [("x-auth-token", own.as_str()), ("x-subject-token", &token)];
        let reply = service.ask("DELETE", "/v3/auth/tokens", &headers).await;
        assert_eq!(reply.status, status, "{caller}: {}", reply.body);
        assert_eq!(service.is_valid(&token).await, status == 403, "{caller}");
        assert!(service.is_valid(&own).await, "{caller}");
    }
}

#[tokio::test]
async fn more_wrong_logins_than_an_address_may_have_waiting_are_refused_with_a_time_to_wait() {
    let service = Arc::new(Service::start().await);
    let mut logins = JoinSet::new();
    for _ in 0..100 {
        let service = Arc::clone(&service);
        let mallory = json!({"name": "mallory", "domain": {"id": "default"}, "password": "wrong"});
        logins.spawn(async move { service.log_in(mallory, None).await });
    }
    let refused = loop {
        let reply = logins.join_next().await.unwrap().unwrap();
        if reply.status != 401 {
            break reply;
        }
    };
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert_eq!(refused.header("retry-after"), "4");
    assert_eq!(refused.body["error"]["code"], 429);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_made_of_a_token_while_it_is_revoked_goes_with_it() {
    let service = Service::start().await;
    let has_begun = tokio::sync::Notify::new();
    let ask_for_another = async |id: &str| {
        let body = json!({"auth": {"identity": {"methods": ["token"], "token": {"id": id}}, "scope": project("research")}});
        let made = service.post_text(&body.to_string()).await;
        (made.status == 201).then(|| {
            has_begun.notify_one();
            made.header("x-subject-token").to_owned()
        })
    };
    // Each makes the next one of the last, until there is none: that comes soon.
    const MANY: usize = 500;
    let thief = async |mut last: String| {
        let mut made = Vec::new();
        while made.len() < MANY
            && let Some(token) = ask_for_another(&last).await
        {
            made.push(token.clone());
            last = token;
        }
        made
    };
    let again = async |first: &str| {
        let mut made = Vec::new();
        while made.len() < MANY
            && let Some(token) = ask_for_another(first).await
        {
            made.push(token);
        }
        made
    };
    for _ in 0..10 {
        // Ignores the notification of the round before.
        let _ = tokio::time::timeout(std::time::Duration::ZERO, has_begun.notified()).await;
        let first = service.token("alice", None).await;
        let owner = async {
            let begun = std::time::Duration::from_secs(60);
            let begun = tokio::time::timeout(begun, has_begun.notified()).await;
            begun.expect("tokens are made of tokens");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let headers = [
                ("x-auth-token", first.as_str()),
                ("x-subject-token", first.as_str()),
            ];
            service.ask("DELETE", "/v3/auth/tokens", &headers).await
        };
        let (one, two, three, revoked) = tokio::join!(
            thief(first.clone()),
            thief(first.clone()),
            again(&first),
            owner
        );
        assert_eq!(revoked.status, 204);
        let made = [one, two, three].concat();
        assert!(!made.is_empty());
        for token in made {
            assert_eq!(service.get(&token, "/v3/auth/projects").await.status, 401);
        }
    }
}

#[tokio::test]
async fn links_and_challenges_name_the_public_endpoint_or_the_prefix() {
    let options = IdentityApiOptions {
        public_endpoint: Some("https://cloud.example.org/identity/v3/".to_owned()),
        path_prefix: "/identity".parse().unwrap(),
        ..IdentityApiOptions::default()
    };
    let service = Service::with(&super::service::cloud(), options).await;
    let base = "https://cloud.example.org/identity/v3";
    for path in ["/identity", "/identity/", "/"] {
        let versions = service.ask("GET", path, &[]).await;
        assert_eq!(versions.status, 300);
        let version = &versions.body["versions"]["values"][0];
        assert_eq!(version["links"][0]["href"], format!("{base}/"));
        assert_eq!(
            (&version["id"], &version["status"]),
            (&json!("v3.14"), &json!("stable"))
        );
    }
    let refused = service.ask("GET", "/identity/v3/users", &[]).await;
    assert_eq!(
        refused.header("www-authenticate"),
        format!("Keystone uri=\"{base}\"")
    );
    let plain = IdentityApiOptions {
        path_prefix: "/identity".parse().unwrap(),
        ..IdentityApiOptions::default()
    };
    let service = Service::with(&super::service::cloud(), plain).await;
    let version = service.ask("GET", "/identity/v3", &[]).await;
    assert_eq!(
        version.body["version"]["links"][0]["href"],
        "http://cloud/identity/v3/"
    );
    let refused = service.ask("GET", "/identity/v3/users", &[]).await;
    assert_eq!(
        refused.header("www-authenticate"),
        "Keystone uri=\"http://cloud/identity/v3\""
    );
}

#[tokio::test]
async fn a_user_who_asks_for_many_tokens_ends_those_and_no_other_login() {
    let service = Service::with_most_tokens(4).await;
    let other = service.token("alice", None).await;
    service.passes(1);
    let first = service.token("alice", None).await;
    let nobody = service.token("nobody", None).await;
    let mut last = first.clone();
    for _ in 0..20 {
        service.passes(1);
        last = service.token_of(&last).await;
    }
    assert_eq!(
        service.count().await,
        5,
        "four of alice's and one of another user"
    );
    assert!(service.is_valid(&other).await, "an older login");
    assert!(service.is_valid(&nobody).await, "another user");
    assert!(service.is_valid(&last).await, "the last token");
    assert!(!service.is_valid(&first).await, "the oldest of the many");
    service.passes(1);
    let by_password = service.token("alice", None).await;
    assert!(
        service.is_valid(&by_password).await,
        "a new login always works"
    );
    assert!(service.is_valid(&other).await);
}
