//! Tests of API versions, microversion negotiation and error documents.

use serde_json::json;

use super::service::{Ask, Service};

fn anonymous() -> Ask<'static> {
    Ask {
        token: "",
        version: "",
        headers: Vec::new(),
    }
}

#[tokio::test]
async fn versions_need_no_token_and_link_below_the_prefix() {
    let service = Service::start().await;
    let all = service.send(anonymous(), "GET", "/", None).await;
    assert_eq!(all.status, 200, "{all:?}");
    let version = &all.body["versions"][0];
    assert_eq!(
        (&version["version"], &version["min_version"]),
        (&json!("2.82"), &json!("2.1"))
    );
    for path in ["/v2.1", "/v2.1/"] {
        let one = service.send(anonymous(), "GET", path, None).await;
        assert_eq!(one.status, 200, "{path}");
        assert_eq!(
            one.body["version"]["links"][0]["href"],
            "http://cloud.example/compute/v2.1/"
        );
    }
}

#[tokio::test]
async fn a_version_is_negotiated_by_either_header_and_both_are_returned() {
    let service = Service::start().await;
    for (header, value, spoken) in [
        ("accept", "application/json", "2.1"),
        ("openstack-api-version", "compute 2.61", "2.61"),
        ("openstack-api-version", "compute latest", "2.82"),
        ("openstack-api-version", "placement 1.39", "2.1"),
        ("x-openstack-nova-api-version", "2.47", "2.47"),
        ("x-openstack-nova-api-version", "latest", "2.82"),
    ] {
        let ask = Ask {
            token: "alice",
            version: "",
            headers: vec![(header, value)],
        };
        let reply = service.send(ask, "GET", "/v2.1/flavors", None).await;
        assert_eq!(reply.status, 200, "{header}: {value}");
        assert_eq!(
            reply.header("openstack-api-version"),
            format!("compute {spoken}")
        );
        assert_eq!(reply.header("x-openstack-nova-api-version"), spoken);
        assert_eq!(
            reply.header("vary"),
            "openstack-api-version, x-openstack-nova-api-version"
        );
        assert_eq!(
            reply.header("x-compute-request-id"),
            reply.header("x-openstack-request-id")
        );
    }
}

#[tokio::test]
async fn a_version_that_is_not_spoken_is_refused_in_novas_words() {
    let service = Service::start().await;
    for (version, status, kind, expected) in [
        (
            "2.83",
            406,
            "computeFault",
            "Version 2.83 is not supported by the API. Minimum is 2.1 and maximum is 2.82.",
        ),
        ("3.1", 406, "computeFault", "Version 3.1 is not supported"),
        ("2", 400, "badRequest", "of invalid format"),
        ("two", 400, "badRequest", "of invalid format"),
        ("x", 400, "badRequest", "of invalid format"),
        ("2.-1", 400, "badRequest", "of invalid format"),
        ("-2.1", 400, "badRequest", "of invalid format"),
        ("2.+1", 400, "badRequest", "of invalid format"),
        ("2. 1", 400, "badRequest", "of invalid format"),
        ("2.01", 400, "badRequest", "of invalid format"),
        ("0.1", 400, "badRequest", "of invalid format"),
        ("2.", 400, "badRequest", "of invalid format"),
        ("2.1.1", 400, "badRequest", "of invalid format"),
        (
            "2.99999999999999999999",
            406,
            "computeFault",
            "Version 2.99999999999999999999 is not supported",
        ),
    ] {
        let reply = service.get("alice", version, "/flavors").await;
        assert_eq!(reply.status, status, "{version}");
        assert!(reply.message(kind).contains(expected), "{reply:?}");
    }
}

#[tokio::test]
async fn each_refusal_is_named_as_nova_names_it() {
    let service = Service::start().await;
    for (method, path, status, kind) in [
        ("GET", "/no-such-thing", 404, "itemNotFound"),
        ("GET", "/flavors/none", 404, "itemNotFound"),
        ("DELETE", "/flavors", 405, "badMethod"),
        ("DELETE", "/flavors/none", 403, "forbidden"),
        ("GET", "/flavors?limit=many", 400, "badRequest"),
    ] {
        let reply = service.ask("alice", "", method, path, None).await;
        assert_eq!(reply.status, status, "{path}: {reply:?}");
        assert!(!reply.message(kind).is_empty());
    }
    let unknown = service.get("stranger", "", "/flavors").await;
    assert_eq!(unknown.status, 401);
    let rule = service
        .ask("alice", "", "DELETE", "/flavors/none", None)
        .await;
    assert!(
        rule.message("forbidden")
            .contains("os_compute_api:os-flavor-manage:delete"),
        "{rule:?}"
    );
}

#[tokio::test]
async fn old_clients_find_what_they_call_extensions() {
    let service = Service::start().await;
    let list = service.get("alice", "", "/extensions").await;
    let all = list.body["extensions"].as_array().unwrap();
    for known in all {
        let path = format!("/extensions/{}", known["alias"].as_str().unwrap());
        let one = service.get("alice", "", &path).await;
        assert_eq!(one.body, json!({ "extension": known }));
    }
    assert!(all.iter().any(|one| one["alias"] == "os-keypairs"));
    let one = service.get("alice", "", "/extensions/os-volumes").await;
    assert_eq!(one.status, 404);
}

#[tokio::test]
async fn a_path_may_have_the_callers_project_in_it_and_no_other() {
    let service = Service::start().await;
    let own = "/project-of-alice";
    service.flavor("f", json!({})).await;
    for path in [
        "/flavors",
        "/flavors/f",
        "/servers/detail?limit=1",
        "/limits",
    ] {
        let plain = service.get("alice", "2.82", path).await;
        let named = service.get("alice", "2.82", &format!("{own}{path}")).await;
        assert_eq!(
            (named.status, &named.body),
            (plain.status, &plain.body),
            "{path}"
        );
        assert_eq!(named.status, 200, "{path}");
    }
    let others = service
        .get("alice", "2.82", "/project-of-bob/servers")
        .await;
    let sentence = "Malformed request URL: URL's project_id 'project-of-bob' doesn't match Context's project_id 'project-of-alice'";
    assert_eq!(others.message("badRequest"), sentence);
    for path in [
        "/project-of-alice",
        "/project-of-alice/nothing",
        "//servers",
    ] {
        assert_eq!(
            service.get("alice", "2.82", path).await.status,
            404,
            "{path}"
        );
    }
    let unknown = service
        .get("stranger", "2.82", "/project-of-bob/servers")
        .await;
    assert_eq!(unknown.status, 401);
}

#[tokio::test]
async fn a_route_of_novas_that_is_not_here_is_named() {
    let service = Service::start().await;
    for (path, message) in [
        (
            "/os-snapshots",
            "This compute API does not offer /v2.1/os-snapshots.",
        ),
        (
            "/os-networks",
            "This cloud has no network service, so this compute API does not offer /v2.1/os-networks. Create servers \
             without ports and security groups: on the network that the operator chose (openstack server create --nic \
             auto), or on none (--no-network).",
        ),
        (
            "/project-of-alice/os-networks/blue",
            "This cloud has no network service, so this compute API does not offer",
        ),
    ] {
        let reply = service.get("alice", "2.35", path).await;
        assert_eq!(reply.status, 404, "{reply:?}");
        let told = reply.body["itemNotFound"]["message"].to_string();
        let told = told.trim_matches('"');
        assert!(told.starts_with(message), "{told}");
    }
}
