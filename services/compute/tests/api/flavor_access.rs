//! Tests of access lists of flavors.

use serde_json::{Value, json};

use super::service::{Reply, Service};

const ALICE: &str = "project-of-alice";

async fn act(service: &Service, action: &str, project: &str) -> Reply {
    let body = json!({action: {"tenant": project}});
    service
        .ask("admin", "", "POST", "/flavors/a/action", Some(body))
        .await
}

async fn private() -> Service {
    let service = Service::start().await;
    let more = json!({"os-flavor-access:is_public": false});
    assert_eq!(service.flavor("a", more).await.status, 200);
    service
}

#[tokio::test]
async fn a_project_sees_a_private_flavor_while_it_may_use_it() {
    let service = private().await;
    let sees = async |token: &str| {
        let one = service.get(token, "", "/flavors/a").await.status == 200;
        let list = service.get(token, "", "/flavors").await;
        let listed = list.body["flavors"] != json!([]);
        assert_eq!(one, listed, "{token}");
        one
    };
    assert!(!sees("alice").await);
    let added = act(&service, "addTenantAccess", ALICE).await;
    let expected = json!({"flavor_access": [{"flavor_id": "a", "tenant_id": ALICE}]});
    assert_eq!((added.status.as_u16(), &added.body), (200, &expected));
    let listed = service
        .get("admin", "", "/flavors/a/os-flavor-access")
        .await;
    assert_eq!(listed.body, expected);
    assert!(sees("alice").await && !sees("bob").await);
    let removed = act(&service, "removeTenantAccess", ALICE).await;
    assert_eq!(removed.body, json!({"flavor_access": []}));
    assert!(!sees("alice").await);
}

#[tokio::test]
async fn what_cannot_be_done_is_reported() {
    let service = private().await;
    act(&service, "addTenantAccess", ALICE).await;
    let again = act(&service, "addTenantAccess", ALICE).await;
    assert!(again.message("conflictingRequest").contains(ALICE));
    let never = act(&service, "removeTenantAccess", "other").await;
    assert!(never.message("itemNotFound").contains("other"));
    let nobody = act(&service, "addTenantAccess", "nobody").await;
    assert_eq!(
        nobody.message("badRequest"),
        "Project ID nobody is not a valid project."
    );
    assert_eq!(act(&service, "lend", ALICE).await.status, 400);
    assert_eq!(act(&service, "addTenantAccess", "").await.status, 400);
    service.flavor("b", json!({})).await;
    let body = Some(json!({"addTenantAccess": {"tenant": ALICE}}));
    let public = service
        .ask("admin", "", "POST", "/flavors/b/action", body)
        .await;
    assert_eq!(
        public.message("conflictingRequest"),
        "Can not add access to a public flavor."
    );
    let list = service
        .get("admin", "", "/flavors/b/os-flavor-access")
        .await;
    assert_eq!(list.status, 404);
}

#[tokio::test]
async fn only_operators_read_and_change_access() {
    let service = private().await;
    let body: Option<Value> = Some(json!({"addTenantAccess": {"tenant": ALICE}}));
    let path = "/flavors/a/action";
    assert_eq!(
        service.ask("alice", "", "POST", path, body).await.status,
        403
    );
    let path = "/flavors/a/os-flavor-access";
    assert_eq!(service.get("alice", "", path).await.status, 403);
}
