//! Many claims at once: never more than there is, and every refusal is a true one.

use berth_placement::PlacementApiOptions;
use berth_store::{Location, SqlOptions, SqlStore, Synchronous};
use serde_json::json;

use crate::service::{HOST, Service, consumer};

async fn on_disk(folder: &std::path::Path) -> Service {
    let options = SqlOptions {
        synchronous: Synchronous::Normal,
        ..SqlOptions::default()
    };
    let location = Location::SqliteFile(folder.join("placement.db"));
    let store = SqlStore::open(&location, &options).await.unwrap();
    Service::over(store, PlacementApiOptions::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_claims_never_over_allocate() {
    let folder = tempfile::tempdir().unwrap();
    let service = on_disk(folder.path()).await;
    for trial in 0..10 {
        let provider = format!("11111111-0000-0000-0001-{trial:012}");
        service.provider(&provider, None).await;
        service
            .inventories(&provider, json!({"VCPU": {"total": 6}}))
            .await;
        let claims: Vec<_> = (0..16)
            .map(|n| {
                let (service, provider) = (service.clone(), provider.clone());
                let consumer = consumer(trial * 100 + n);
                tokio::spawn(async move {
                    service
                        .claim(&consumer, &provider, json!({"VCPU": 1}))
                        .await
                        .status
                        .as_u16()
                })
            })
            .collect();
        let mut granted = 0;
        for claim in claims {
            match claim.await.unwrap() {
                204 => granted += 1,
                status => assert_eq!(status, 409),
            }
        }
        assert_eq!(granted, 6);
        assert_eq!(service.usages(&provider).await["VCPU"], 6);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_writers_on_one_generation_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let service = on_disk(folder.path()).await;
    service.provider(HOST, None).await;
    for generation in 0..5 {
        let writers: Vec<_> = (0..8)
            .map(|n| {
                let service = service.clone();
                tokio::spawn(async move {
                    let body = json!({
                        "resource_provider_generation": generation,
                        "inventories": {"VCPU": {"total": n + 1}},
                    });
                    let path = format!("/resource_providers/{HOST}/inventories");
                    service.put(&path, body).await.status.as_u16()
                })
            })
            .collect();
        let mut won = 0;
        for writer in writers {
            won += i32::from(writer.await.unwrap() == 200);
        }
        assert_eq!(won, 1);
        assert_eq!(service.generation(HOST).await, generation + 1);
    }
}
