//! Versions, tokens, request ids, error documents.

use std::sync::Arc;

use axum::body::Body;
use berth_http::{NoAuth2, PolicyFile};
use berth_placement::{PlacementApiOptions, default_policy};
use http::Request;

use crate::service::{ABSENT, HOST, Service, consumer, refused};

#[tokio::test]
async fn the_version_document_needs_no_token() {
    let service = Service::start().await;
    let reply = service
        .send(Request::get("/").body(Body::empty()).unwrap())
        .await;
    assert_eq!(reply.status, 200);
    let version = &reply.body["versions"][0];
    assert_eq!(version["id"], "v1.0");
    assert_eq!(version["max_version"], "1.39");
    assert_eq!(version["links"][0]["href"], "");
}

#[tokio::test]
async fn without_a_token_the_answer_is_a_401_in_its_own_shape() {
    let service = Service::start().await;
    let request = Request::get("/resource_providers")
        .body(Body::empty())
        .unwrap();
    let reply = service.send(request).await;
    assert_eq!(reply.status, 401);
    assert_eq!(reply.body["code"], "401 Unauthorized");
    assert_eq!(reply.header("openstack-api-version"), "");
    assert!(reply.header("x-openstack-request-id").starts_with("req-"));
}

#[tokio::test]
async fn versions_are_negotiated_and_echoed() {
    let service = Service::start().await;
    for (asked, answered) in [
        (None, "placement 1.0"),
        (Some("placement 1.17"), "placement 1.17"),
        (Some("placement latest"), "placement 1.39"),
        (Some("compute 2.90"), "placement 1.0"),
        (Some("compute 2.90, placement 1.5"), "placement 1.5"),
        (Some("PLACEMENT 1.5"), "placement 1.5"),
    ] {
        let mut request = Request::get("/resource_providers").header("x-auth-token", "admin");
        if let Some(asked) = asked {
            request = request.header("OpenStack-API-Version", asked);
        }
        let reply = service.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, 200, "{asked:?}");
        assert_eq!(reply.header("openstack-api-version"), answered, "{asked:?}");
        assert_eq!(reply.header("vary"), "openstack-api-version", "{asked:?}");
    }
}

#[tokio::test]
async fn a_version_outside_the_range_gets_the_range() {
    let service = Service::start().await;
    for version in ["1.40", "0.9", "2.0", "99999999999.1"] {
        let reply = service.at(version).get("/resource_providers").await;
        refused(&reply, 406, "Unacceptable version header");
        assert_eq!(reply.body["errors"][0]["max_version"], "1.39");
        assert_eq!(reply.body["errors"][0]["min_version"], "1.0");
        assert_eq!(reply.header("openstack-api-version"), "");
    }
}

#[tokio::test]
async fn a_malformed_version_is_a_bad_request() {
    let service = Service::start().await;
    for version in ["x", "1", "1.2.3", "1.x", "one.two"] {
        let reply = service.at(version).get("/resource_providers").await;
        refused(&reply, 400, "invalid version string");
    }
}

#[tokio::test]
async fn codes_are_shown_from_their_version_on() {
    let service = Service::start().await;
    let path = format!("/resource_providers/{ABSENT}");
    assert_eq!(service.at("1.22").get(&path).await.code(), "");
    let reply = service.at("1.23").get(&path).await;
    assert_eq!(reply.code(), "placement.undefined_code");
    let id = reply.body["errors"][0]["request_id"].as_str().unwrap();
    assert_eq!(id, reply.header("x-openstack-request-id"));
}

#[tokio::test]
async fn each_request_has_an_id_of_its_own_whatever_its_caller_calls_it() {
    let service = Service::start().await;
    let given = "req-12345678-1234-1234-1234-123456789abc";
    let mut seen = std::collections::BTreeSet::new();
    for sent in [given, given, "req-x", "nonsense"] {
        let request = service
            .request("GET", "/resource_providers")
            .header("x-openstack-request-id", sent);
        let reply = service.send(request.body(Body::empty()).unwrap()).await;
        let answered = reply.header("x-openstack-request-id");
        assert!(
            answered.starts_with("req-") && answered != sent,
            "{answered}"
        );
        assert!(seen.insert(answered.to_owned()), "{answered}");
    }
}

#[tokio::test]
async fn unknown_paths_are_404_and_unknown_methods_405_with_what_is_allowed() {
    let service = Service::start().await;
    assert_eq!(service.get("/nope").await.status, 404);
    assert_eq!(service.get("/allocation_candidate").await.status, 404);
    for (method, path, allow) in [
        ("PUT", "/resource_providers", "GET, POST"),
        ("PATCH", "/resource_providers/x", "GET, DELETE, PUT"),
        ("HEAD", "/resource_providers", "GET, POST"),
        ("GET", "/reshaper", "POST"),
        ("OPTIONS", "/traits", "GET"),
    ] {
        let request = service.request(method, path).body(Body::empty()).unwrap();
        let reply = service.send(request).await;
        assert_eq!(reply.status, 405, "{method} {path}");
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
    }
}

#[tokio::test]
async fn a_body_needs_its_content_type() {
    let service = Service::start().await;
    let untyped = service
        .request("POST", "/resource_providers")
        .header("content-length", "2");
    let reply = service.send(untyped.body(Body::from("{}")).unwrap()).await;
    refused(&reply, 400, "content-type header required");
    let text = service
        .request("POST", "/resource_providers")
        .header("content-type", "text/plain");
    let reply = service.send(text.body(Body::from("{}")).unwrap()).await;
    refused(&reply, 415, "The media type text/plain is not supported");
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused() {
    let service = Service::with(PlacementApiOptions {
        body_limit: 100,
        ..PlacementApiOptions::default()
    })
    .await;
    let body = serde_json::json!({"name": "x".repeat(200)});
    let reply = service.post("/resource_providers", body).await;
    refused(&reply, 413, "larger than 100 bytes");
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused() {
    let service = Service::start().await;
    for body in [&b"{"[..], b"", b"\xff", b"[", b"nul", b"{\"a\":NaN}"] {
        let request = service
            .request("POST", "/resource_providers")
            .header("content-type", "application/json");
        let reply = service.send(request.body(Body::from(body)).unwrap()).await;
        refused(&reply, 400, "Malformed JSON");
    }
}

#[tokio::test]
async fn a_caller_that_does_not_accept_json_gets_an_accepted_format() {
    let service = Service::start().await;
    for (accept, form) in [("text/html", "text/html"), ("text/plain", "text/plain")] {
        let request = service
            .request("GET", "/resource_providers")
            .header("accept", accept);
        let reply = service.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.status, 406);
        assert!(reply.header("content-type").starts_with(form), "{accept}");
    }
}

#[tokio::test]
async fn roles_decide_by_rule() {
    let strict = PlacementApiOptions {
        tokens: Arc::new(NoAuth2::with_admin_roles(["admin"])),
        ..PlacementApiOptions::default()
    };
    let lenient = PlacementApiOptions {
        policy: default_policy(berth_placement::DeprecatedDefaults::Honoured),
        ..strict.clone()
    };
    let reshape = ("POST", "/reshaper");
    let list = ("GET", "/resource_providers");
    let usages = ("GET", "/usages?project_id=p");
    for (options, roles, (method, path), passes) in [
        (&strict, "admin", list, true),
        (&strict, "service", list, true),
        (&strict, "reader", list, false),
        (&strict, "", list, false),
        (&strict, "admin", reshape, false),
        (&strict, "service", reshape, true),
        (&lenient, "admin", reshape, true),
        (&strict, "reader", usages, true),
        (&strict, "member", usages, false),
    ] {
        let service = Service::with(options.clone()).await;
        let request = service
            .request(method, path)
            .header("x-roles", roles)
            .header("x-project-id", "p")
            .header("content-type", "application/json");
        let reply = service.send(request.body(Body::from("{}")).unwrap()).await;
        assert_eq!(reply.status != 403, passes, "{roles} {path}");
    }
}

#[tokio::test]
async fn what_an_operator_says_of_a_base_rule_holds_for_the_rules_made_of_it() {
    let deprecated = [
        berth_placement::DeprecatedDefaults::Honoured,
        berth_placement::DeprecatedDefaults::Ignored,
    ];
    for deprecated in deprecated {
        let file = PolicyFile::read("admin_or_service_api: role:keeper").unwrap();
        let options = PlacementApiOptions {
            tokens: Arc::new(NoAuth2::with_admin_roles(["admin"])),
            policy: default_policy(deprecated).with_file(file).unwrap(),
            ..PlacementApiOptions::default()
        };
        let service = Service::with(options).await;
        for (roles, path, passes) in [
            ("keeper", "/resource_providers", true),
            ("admin", "/resource_providers", false),
            ("service", "/resource_providers", false),
            ("admin", "/usages?project_id=p", true),
            ("keeper", "/usages?project_id=p", false),
        ] {
            let request = service.request("GET", path).header("x-roles", roles);
            let reply = service.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(reply.status != 403, passes, "{roles} {path}");
        }
    }
}

#[tokio::test]
async fn behind_a_prefix_links_and_locations_have_it() {
    let options = PlacementApiOptions {
        path_prefix: "/placement".parse().unwrap(),
        ..PlacementApiOptions::default()
    };
    let service = Service::with(options).await;
    let body = r#"{"name": "host", "uuid": "11111111-0000-0000-0000-000000000001"}"#;
    let request = service
        .request("POST", "/placement/resource_providers")
        .header("content-type", "application/json")
        .header("host", "evil.example");
    let reply = service.send(request.body(Body::from(body)).unwrap()).await;
    assert_eq!(reply.status, 200);
    let own = format!("/placement/resource_providers/{HOST}");
    assert_eq!(reply.header("location"), own);
    assert_eq!(reply.body["links"][0]["href"], own);
    assert_eq!(reply.body["links"][1]["href"], format!("{own}/inventories"));
    // A proxy may have taken it away.
    for path in ["/placement/resource_classes/VCPU", "/resource_classes/VCPU"] {
        let request = service.request("GET", path).body(Body::empty()).unwrap();
        let reply = service.send(request).await;
        let href = &reply.body["links"][0]["href"];
        assert_eq!(href, "/placement/resource_classes/VCPU", "{path}");
    }
    for (path, status) in [
        ("/placement", 200),
        ("/placement/", 200),
        ("/", 200),
        ("/placement/nothing", 404),
        ("/placements", 404),
        ("/placement/traits", 401),
    ] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let with = service.request("GET", path).body(Body::empty()).unwrap();
        let request = if status == 401 || status == 200 {
            request
        } else {
            with
        };
        assert_eq!(service.send(request).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_refusal_names_its_rule() {
    let service = Service::start().await;
    let request = service
        .request("POST", "/reshaper")
        .header("x-roles", "admin");
    let request = request.header("content-type", "application/json");
    let reply = service.send(request.body(Body::from("{}")).unwrap()).await;
    refused(
        &reply,
        403,
        "Policy does not allow placement:reshaper:reshape to be performed.",
    );
}

#[tokio::test]
async fn the_embedded_administrator_may_reshape() {
    let service = Service::start().await;
    let reply = service.post("/reshaper", serde_json::json!({})).await;
    refused(&reply, 400, "'inventories' is a required property");
}

#[tokio::test]
async fn a_token_for_the_cloud_passes_no_rule() {
    let service = Service::start().await;
    let request = service
        .request("GET", "/resource_providers")
        .header("openstack-system-scope", "all");
    let reply = service.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(reply.status, 403);
}

#[tokio::test]
async fn a_body_of_ten_thousand_levels_is_malformed() {
    let service = Service::with(PlacementApiOptions {
        body_limit: 1 << 20,
        ..PlacementApiOptions::default()
    })
    .await;
    let consumer = consumer(1);
    let paths = [
        ("POST", "/reshaper".to_owned()),
        ("POST", "/allocations".to_owned()),
        ("PUT", format!("/allocations/{consumer}")),
        ("POST", "/resource_providers".to_owned()),
    ];
    for (open, close) in [("[", "]"), (r#"{"allocations":"#, "}"), (r#"{"x":"#, "}")] {
        let deep = format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
        // Within what a schema passes unseen as well as in place of the whole.
        let unchecked = format!(
            r#"{{"allocations": {{}}, "project_id": "p", "user_id": "u", "consumer_generation": null,
                "consumer_type": "T", "mappings": {{"": {deep}}}}}"#
        );
        for body in [&deep, &unchecked] {
            for (method, path) in &paths {
                let request = service.request(method, path);
                let request = request.header("content-type", "application/json");
                let body = Body::from(body.clone());
                let reply = service.send(request.body(body).unwrap()).await;
                refused(&reply, 400, "Malformed JSON");
            }
        }
    }
}
