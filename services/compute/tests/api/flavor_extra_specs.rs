//! Tests of extra specs: set, read, changed and deleted.

use serde_json::{Value, json};

use super::service::{Reply, Service};

async fn ask(service: &Service, method: &str, path: &str, body: Option<Value>) -> Reply {
    let path = format!("/flavors/a/os-extra_specs{path}");
    service.ask("admin", "2.82", method, &path, body).await
}

async fn set(service: &Service, specs: Value) -> Reply {
    ask(service, "POST", "", Some(json!({"extra_specs": specs}))).await
}

#[tokio::test]
async fn extra_specs_are_added_to_existing_ones() {
    let service = Service::start().await;
    service.flavor("a", json!({})).await;
    let first = set(&service, json!({"hw:cpu_policy": "shared", "quota:x": "1"})).await;
    assert_eq!(
        first.body,
        json!({"extra_specs": {"hw:cpu_policy": "shared", "quota:x": "1"}})
    );
    set(
        &service,
        json!({"hw:cpu_policy": "dedicated", "hw:numa_nodes": 2}),
    )
    .await;
    let all = json!({"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2", "quota:x": "1"});
    let list = service.get("alice", "", "/flavors/a/os-extra_specs").await;
    assert_eq!(list.body, json!({ "extra_specs": all }));
    let shown = service.get("alice", "2.61", "/flavors/a").await;
    assert_eq!(shown.body["flavor"]["extra_specs"], all);
}

#[tokio::test]
async fn one_extra_spec_is_read_changed_and_removed() {
    let service = Service::start().await;
    service.flavor("a", json!({})).await;
    set(&service, json!({"hw:cpu_policy": "shared"})).await;
    let path = "/hw:cpu_policy";
    let one = json!({"hw:cpu_policy": "dedicated"});
    let put = ask(&service, "PUT", path, Some(one.clone())).await;
    assert_eq!((put.status.as_u16(), &put.body), (200, &one));
    assert_eq!(ask(&service, "GET", path, None).await.body, one);
    let other = ask(&service, "PUT", "/hw:numa_nodes", Some(one)).await;
    assert_eq!(other.message("badRequest"), "Request body and URI mismatch");
    assert_eq!(ask(&service, "DELETE", path, None).await.status, 200);
    for method in ["GET", "DELETE"] {
        let gone = ask(&service, method, path, None).await;
        assert_eq!(
            gone.message("itemNotFound"),
            "Flavor a has no extra specs with key hw:cpu_policy."
        );
    }
}

#[tokio::test]
async fn keys_and_values_are_what_nova_takes() {
    let service = Service::start().await;
    service.flavor("a", json!({})).await;
    for specs in [
        json!({"": "x"}),
        json!({"a/b": "x"}),
        json!({"ä": "x"}),
        json!({"k".repeat(256): "x"}),
        json!({"k": "x".repeat(256)}),
        json!({"k": null}),
        json!({"k": {}}),
        json!([]),
    ] {
        assert_eq!(set(&service, specs.clone()).await.status, 400, "{specs}");
    }
    let many: serde_json::Map<String, Value> =
        (0..257).map(|n| (format!("k{n}"), json!("x"))).collect();
    assert_eq!(set(&service, Value::Object(many)).await.status, 403);
    let list = ask(&service, "GET", "", None).await;
    assert_eq!(list.body, json!({"extra_specs": {}}));
}

#[tokio::test]
async fn only_operators_change_extra_specs_and_only_of_flavors_that_are_there() {
    let service = Service::start().await;
    service.flavor("a", json!({})).await;
    let body = Some(json!({"extra_specs": {"k": "v"}}));
    let path = "/flavors/a/os-extra_specs";
    let alice = service.ask("alice", "", "POST", path, body.clone()).await;
    assert_eq!(alice.status, 403);
    let path = "/flavors/none/os-extra_specs";
    let none = service.ask("admin", "", "POST", path, body).await;
    assert_eq!(
        none.message("itemNotFound"),
        "Flavor none could not be found."
    );
}
