//! Tests of generations that were written into the database by hand and cannot be raised: every change is refused.

use berth_store::{SqlError, Statement, Transaction, Work};
use serde_json::json;

use crate::service::{HOST, Reply, Service, allocations, consumer};

struct Edit(&'static str);

impl Work for Edit {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        tx.execute(Statement::new(self.0)).await.map(drop)
    }
}

fn full(reply: &Reply, counter: &str) {
    assert_eq!(reply.status, 500, "{reply:?}");
    assert!(reply.detail().contains(counter), "{reply:?}");
    assert!(
        reply.detail().contains("cannot be incremented"),
        "{reply:?}"
    );
}

#[tokio::test]
async fn an_exhausted_generation_is_reported_and_nothing_is_changed() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    service
        .inventories(HOST, json!({"VCPU": {"total": 16}}))
        .await;
    let claimed = service.claim(&consumer(1), HOST, json!({"VCPU": 2})).await;
    assert_eq!(claimed.status, 204, "{claimed:?}");

    let edit = Edit("UPDATE consumers SET generation = 9223372036854775807");
    service.store.write(&edit).await.unwrap();
    let path = format!("/allocations/{}", consumer(1));
    let body = allocations(&[(HOST, json!({"VCPU": 3}))], Some(i64::MAX));
    full(&service.put(&path, body).await, "generation");

    let edit = Edit("UPDATE resource_providers SET generation = 9223372036854775807");
    service.store.write(&edit).await.unwrap();
    full(
        &service.claim(&consumer(2), HOST, json!({"VCPU": 1})).await,
        "generation",
    );
    let provider = format!("/resource_providers/{HOST}");
    let body =
        json!({"resource_provider_generation": i64::MAX, "inventories": {"VCPU": {"total": 8}}});
    full(
        &service.put(&format!("{provider}/inventories"), body).await,
        "generation",
    );
    let body = json!({"resource_provider_generation": i64::MAX, "traits": ["HW_CPU_X86_AVX"]});
    full(
        &service.put(&format!("{provider}/traits"), body).await,
        "generation",
    );
    let body = json!({"resource_provider_generation": i64::MAX,
        "aggregates": ["aaaaaaaa-0000-0000-0000-000000000001"]});
    full(
        &service.put(&format!("{provider}/aggregates"), body).await,
        "generation",
    );
    assert_eq!(service.usages(HOST).await, json!({"VCPU": 2}));
}

#[tokio::test]
async fn a_class_whose_id_is_the_last_keeps_others_from_being_made() {
    let service = Service::start().await;
    let edit =
        Edit("INSERT INTO resource_classes (id, name) VALUES (9223372036854775807, 'CUSTOM_LAST')");
    service.store.write(&edit).await.unwrap();
    full(
        &service.put_empty("/resource_classes/CUSTOM_NEXT").await,
        "id",
    );
}
