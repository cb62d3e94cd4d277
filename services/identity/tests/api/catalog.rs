//! The catalog, as it is shown with tokens and by itself.

use serde_json::json;

use super::service::{Service, project};

#[tokio::test]
async fn the_catalog_is_shown_to_whoever_has_a_project() {
    let service = Service::start().await;
    let alice = service.token("alice", project("research")).await;
    let reply = service.get(&alice, "/v3/auth/catalog").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.names("catalog"), ["identity", "placement"]);
    assert_eq!(
        reply.body["links"],
        json!({"self": "http://cloud/v3/auth/catalog"})
    );
    let endpoint = &reply.body["catalog"][0]["endpoints"][0];
    assert_eq!(endpoint["region"], endpoint["region_id"]);
    for scope in [None, Some(json!({"system": {"all": true}}))] {
        let token = service
            .token("admin", scope.clone().or(Some(json!("unscoped"))))
            .await;
        let reply = service.get(&token, "/v3/auth/catalog").await;
        assert_eq!(reply.status, 403, "{scope:?}");
    }
}

#[tokio::test]
async fn ids_of_services_and_endpoints_are_the_same_in_another_process() {
    let mut shown = Vec::new();
    for _ in 0..2 {
        let service = Service::start().await;
        let admin = service.token("admin", None).await;
        shown.push(service.get(&admin, "/v3/endpoints").await.body);
    }
    assert_eq!(shown[0], shown[1]);
}
