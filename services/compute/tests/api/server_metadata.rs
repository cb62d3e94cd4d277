//! Tests of metadata and tags of servers.

use serde_json::json;

use super::service::Service;

#[tokio::test]
async fn metadata_is_added_replaced_and_taken_away() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let uuid = service.running(json!({"metadata": {"a": "1"}})).await;
    let path = format!("/servers/{uuid}/metadata");
    let ask = |method, path: String, body| {
        let service = &service;
        async move { service.ask("alice", "2.1", method, &path, body).await }
    };
    let body = |metadata| Some(json!({ "metadata": metadata }));
    let all = ask("POST", path.clone(), body(json!({"b": "2"}))).await;
    assert_eq!(all.body, json!({"metadata": {"a": "1", "b": "2"}}));
    let one = ask("GET", format!("{path}/b"), None).await;
    assert_eq!(one.body, json!({"meta": {"b": "2"}}));
    let one = ask(
        "PUT",
        format!("{path}/b"),
        Some(json!({"meta": {"b": "3"}})),
    )
    .await;
    assert_eq!(one.body, json!({"meta": {"b": "3"}}));
    let all = ask("PUT", path.clone(), body(json!({"c": "4", "d": "5"}))).await;
    assert_eq!(all.body, json!({"metadata": {"c": "4", "d": "5"}}));
    assert_eq!(ask("DELETE", format!("{path}/c"), None).await.status, 204);
    let all = ask("GET", path.clone(), None).await;
    assert_eq!(all.body, json!({"metadata": {"d": "5"}}));
    for (method, end, body, status) in [
        ("DELETE", "/c", None, 404),
        ("GET", "/c", None, 404),
        ("PUT", "/c", Some(json!({"meta": {"d": "1"}})), 400),
        (
            "PUT",
            "/c",
            Some(json!({"meta": {"c": "1", "d": "1"}})),
            400,
        ),
        ("POST", "", Some(json!({"metadata": {"c": null}})), 400),
        (
            "POST",
            "",
            Some(json!({"metadata": {"c": "x".repeat(256)}})),
            400,
        ),
        ("POST", "", Some(json!({"meta": {}})), 400),
    ] {
        let refused = ask(method, format!("{path}{end}"), body.clone()).await;
        assert_eq!(refused.status, status, "{method} {body:?}");
    }
    let many: serde_json::Map<_, _> = (0..128).map(|n| (format!("k{n}"), json!("v"))).collect();
    let refused = ask("POST", path, body(many.into())).await;
    assert_eq!(
        refused.message("forbidden"),
        "Maximum number of metadata items exceeds 128"
    );
}

#[tokio::test]
async fn tags_are_put_on_and_taken_off() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let uuid = service.running(json!({})).await;
    let path = format!("/servers/{uuid}/tags");
    let ask = |method, path: String, body| {
        let service = &service;
        async move { service.ask("alice", "2.26", method, &path, body).await }
    };
    let tag = |name: &str| format!("{path}/{name}");
    let put = ask("PUT", tag("a"), None).await;
    assert_eq!(put.status, 201);
    assert!(put.header("location").ends_with("/tags/a"), "{put:?}");
    assert_eq!(ask("PUT", tag("a"), None).await.status, 204);
    assert_eq!(ask("GET", tag("a"), None).await.status, 204);
    assert_eq!(ask("GET", tag("b"), None).await.status, 404);
    let all = ask("PUT", path.clone(), Some(json!({"tags": ["y", "x", "y"]}))).await;
    assert_eq!(all.body, json!({"tags": ["x", "y"]}));
    assert_eq!(ask("DELETE", tag("x"), None).await.status, 204);
    let none = ask("DELETE", tag("x"), None).await;
    assert_eq!(
        none.message("itemNotFound"),
        format!("Instance {uuid} has no tag 'x'")
    );
    assert_eq!(
        ask("GET", path.clone(), None).await.body,
        json!({"tags": ["y"]})
    );
    assert_eq!(ask("PUT", tag(&"x".repeat(61)), None).await.status, 400);
    let many: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let body = Some(json!({ "tags": many }));
    assert_eq!(ask("PUT", path.clone(), body).await.status, 200);
    let one_more = ask("PUT", tag("more"), None).await;
    assert!(
        one_more.message("badRequest").contains("limit 50"),
        "{one_more:?}"
    );
    assert_eq!(ask("DELETE", path.clone(), None).await.status, 204);
    assert_eq!(
        ask("GET", path.clone(), None).await.body,
        json!({"tags": []})
    );
    let early = service.get("alice", "2.25", &path).await;
    assert_eq!(early.status, 404);
}

#[tokio::test]
async fn the_metadata_of_a_server_stays_while_it_is_made() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let uuid = service.server(json!({"metadata": {"a": "1"}})).await;
    for (does, method, path, body) in [
        (
            "update metadata",
            "POST",
            "metadata",
            json!({"metadata": {}}),
        ),
        (
            "update metadata",
            "PUT",
            "metadata",
            json!({"metadata": {}}),
        ),
        (
            "update metadata",
            "PUT",
            "metadata/a",
            json!({"meta": {"a": "2"}}),
        ),
        ("delete metadata", "DELETE", "metadata/a", json!({})),
        ("update tags", "PUT", "tags", json!({"tags": []})),
        ("update tag", "PUT", "tags/a", json!({})),
        ("delete tags", "DELETE", "tags", json!({})),
        ("delete tag", "DELETE", "tags/a", json!({})),
    ] {
        let body = Some(body).filter(|_| method != "DELETE" && path != "tags/a");
        let path = format!("/servers/{uuid}/{path}");
        let refused = service.ask("alice", "2.82", method, &path, body).await;
        assert_eq!(
            refused.message("conflictingRequest"),
            format!("Cannot '{does}' instance {uuid} while it is in vm_state building")
        );
    }
}
