//! Compares the incremental snapshot with a complete one, after random writes.

use std::sync::Arc;

use axum::body::Body;
use berth_store::SqlStore;
use http::{Request, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::Snapshots;
use crate::store::trees;
use crate::{PlacementApiOptions, prepare, router};

/// A random write of a client. Numbers refer to providers, consumers, aggregates and traits.
#[derive(Debug, Clone)]
enum RandomWrite {
    Make {
        provider: usize,
        parent: Option<usize>,
    },
    Move {
        provider: usize,
        parent: Option<usize>,
    },
    Delete {
        provider: usize,
    },
    Inventory {
        provider: usize,
        total: i64,
    },
    Traits {
        provider: usize,
        sharing: bool,
    },
    Aggregates {
        provider: usize,
        aggregates: Vec<usize>,
    },
    Claim {
        consumer: usize,
        providers: Vec<usize>,
        amount: i64,
    },
    Release {
        consumer: usize,
    },
    Reshape {
        from: usize,
        to: usize,
        consumer: usize,
    },
    Name {
        name: usize,
    },
    Unname {
        name: usize,
    },
}

fn some_write() -> impl Strategy<Value = RandomWrite> {
    let provider = || 0..5_usize;
    let parent = || proptest::option::of(0..5_usize);
    prop_oneof![
        3 => (provider(), parent()).prop_map(|(provider, parent)| RandomWrite::Make { provider, parent }),
        1 => (provider(), parent()).prop_map(|(provider, parent)| RandomWrite::Move { provider, parent }),
        1 => provider().prop_map(|provider| RandomWrite::Delete { provider }),
        2 => (provider(), 0..9_i64).prop_map(|(provider, total)| RandomWrite::Inventory { provider, total }),
        1 => (provider(), any::<bool>()).prop_map(|(provider, sharing)| RandomWrite::Traits { provider, sharing }),
        1 => (provider(), proptest::collection::vec(0..3_usize, 0..3))
            .prop_map(|(provider, aggregates)| RandomWrite::Aggregates { provider, aggregates }),
        3 => (0..3_usize, proptest::collection::vec(provider(), 0..3), 1..4_i64).prop_map(
            |(consumer, providers, amount)| RandomWrite::Claim { consumer, providers, amount }
        ),
        1 => (0..3_usize).prop_map(|consumer| RandomWrite::Release { consumer }),
        1 => (provider(), provider(), 0..3_usize)
            .prop_map(|(from, to, consumer)| RandomWrite::Reshape { from, to, consumer }),
        1 => (0..2_usize).prop_map(|name| RandomWrite::Name { name }),
        1 => (0..2_usize).prop_map(|name| RandomWrite::Unname { name }),
    ]
}

struct TestService {
    store: SqlStore,
}

fn uuid(kind: char, n: usize) -> String {
    format!("{kind}0000000-0000-0000-0000-{n:012}")
}

impl TestService {
    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        // A new router each time: all routers over one store see each other's writes.
        let router = router(
            self.store.clone(),
            PlacementApiOptions {
                policy: crate::default_policy(crate::DeprecatedDefaults::Honoured),
                ..PlacementApiOptions::default()
            },
        );
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("x-auth-token", "admin")
            .header("openstack-api-version", "placement 1.37")
            .header("content-type", "application/json");
        let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
        let response = router.oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn generation(&self, provider: usize) -> Value {
        let path = format!("/resource_providers/{}", uuid('a', provider));
        self.send("GET", &path, None).await.1["generation"].clone()
    }

    async fn consumer_generation(&self, consumer: usize) -> Value {
        let path = format!("/allocations/{}", uuid('c', consumer));
        self.send("GET", &path, None).await.1["consumer_generation"].clone()
    }

    /// Sends the write and ignores the response.
    async fn write(&self, write: &RandomWrite) {
        let at = |provider: usize| format!("/resource_providers/{}", uuid('a', provider));
        let parent_uuid = |parent: &Option<usize>| parent.map(|parent| uuid('a', parent));
        let (method, path, body) = match write {
            RandomWrite::Make { provider, parent } => {
                let uuid = uuid('a', *provider);
                let body = json!({"uuid": uuid, "name": uuid, "parent_provider_uuid": parent_uuid(parent)});
                ("POST", "/resource_providers".to_owned(), Some(body))
            }
            RandomWrite::Move { provider, parent } => {
                let body = json!({"name": uuid('a', *provider), "parent_provider_uuid": parent_uuid(parent)});
                ("PUT", at(*provider), Some(body))
            }
            RandomWrite::Delete { provider } => ("DELETE", at(*provider), None),
            RandomWrite::Inventory { provider, total } => {
                let inventories = match total {
                    0 => json!({}),
                    total => json!({"VCPU": {"total": total}}),
                };
                let generation = self.generation(*provider).await;
                let body =
                    json!({"resource_provider_generation": generation, "inventories": inventories});
                ("PUT", format!("{}/inventories", at(*provider)), Some(body))
            }
            RandomWrite::Traits { provider, sharing } => {
                let traits = if *sharing {
                    vec!["MISC_SHARES_VIA_AGGREGATE"]
                } else {
                    vec!["HW_CPU_X86_AVX2"]
                };
                let generation = self.generation(*provider).await;
                let body = json!({"resource_provider_generation": generation, "traits": traits});
                ("PUT", format!("{}/traits", at(*provider)), Some(body))
            }
            RandomWrite::Aggregates {
                provider,
                aggregates,
            } => {
                let mut uuids: Vec<String> = aggregates.iter().map(|n| uuid('b', *n)).collect();
                uuids.sort();
                uuids.dedup();
                let generation = self.generation(*provider).await;
                let body = json!({"resource_provider_generation": generation, "aggregates": uuids});
                ("PUT", format!("{}/aggregates", at(*provider)), Some(body))
            }
            RandomWrite::Claim {
                consumer,
                providers,
                amount,
            } => {
                let allocations: serde_json::Map<String, Value> = providers
                    .iter()
                    .map(|provider| (uuid('a', *provider), json!({"resources": {"VCPU": amount}})))
                    .collect();
                let generation = self.consumer_generation(*consumer).await;
                let body = json!({
                    "allocations": allocations, "project_id": "p", "user_id": "u", "consumer_generation": generation,
                });
                (
                    "PUT",
                    format!("/allocations/{}", uuid('c', *consumer)),
                    Some(body),
                )
            }
            RandomWrite::Release { consumer } => (
                "DELETE",
                format!("/allocations/{}", uuid('c', *consumer)),
                None,
            ),
            RandomWrite::Reshape { from, to, consumer } => {
                let inventories = json!({
                    uuid('a', *from): {"resource_provider_generation": self.generation(*from).await, "inventories": {}},
                    uuid('a', *to): {
                        "resource_provider_generation": self.generation(*to).await,
                        "inventories": {"VCPU": {"total": 8}},
                    },
                });
                let allocations = json!({uuid('c', *consumer): {
                    "allocations": {uuid('a', *to): {"resources": {"VCPU": 1}}},
                    "project_id": "p", "user_id": "u",
                    "consumer_generation": self.consumer_generation(*consumer).await,
                }});
                let body = json!({"inventories": inventories, "allocations": allocations});
                ("POST", "/reshaper".to_owned(), Some(body))
            }
            RandomWrite::Name { name } => ("PUT", format!("/traits/CUSTOM_{name}"), None),
            RandomWrite::Unname { name } => ("DELETE", format!("/traits/CUSTOM_{name}"), None),
        };
        self.send(method, &path, body).await;
    }
}

fn on_a_thread<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

async fn service() -> TestService {
    let store = SqlStore::in_memory().await.unwrap();
    prepare(&store).await.unwrap();
    TestService { store }
}

async fn whole(store: &SqlStore) -> crate::candidates::Snapshot {
    trees::all(&mut store.read().await.unwrap()).await.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_updated_snapshot_equals_a_complete_one(writes in proptest::collection::vec(some_write(), 1..40)) {
        on_a_thread(async {
            let service = service().await;
            let snapshots = Snapshots::new(service.store.clone());
            for (number, write) in writes.iter().enumerate() {
                service.write(write).await;
                // Sometimes several writes are followed at once.
                if number % 3 != 1 {
                    let followed = snapshots.current().await.unwrap();
                    let read = whole(&service.store).await;
                    prop_assert_eq!(&*followed, &read, "after {:?}", write);
                }
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_search_in_an_older_snapshot_is_not_disturbed() {
    let service = service().await;
    let snapshots = Snapshots::new(service.store.clone());
    let make = RandomWrite::Make {
        provider: 1,
        parent: None,
    };
    service.write(&make).await;
    let before = snapshots.current().await.unwrap();
    service
        .write(&RandomWrite::Inventory {
            provider: 1,
            total: 4,
        })
        .await;
    let after = snapshots.current().await.unwrap();
    assert!(before.trees().next().unwrap().members[0].rooms.is_empty());
    assert_eq!(after.trees().next().unwrap().members[0].rooms.len(), 1);
}

#[tokio::test]
async fn what_was_not_touched_is_not_read_again() {
    let service = service().await;
    let snapshots = Snapshots::new(service.store.clone());
    service
        .write(&RandomWrite::Make {
            provider: 1,
            parent: None,
        })
        .await;
    service
        .write(&RandomWrite::Make {
            provider: 2,
            parent: None,
        })
        .await;
    let first = snapshots.current().await.unwrap();
    assert!(Arc::ptr_eq(&first, &snapshots.current().await.unwrap()));
    service
        .write(&RandomWrite::Inventory {
            provider: 2,
            total: 4,
        })
        .await;
    let second = snapshots.current().await.unwrap();
    let tree = |snapshot: &crate::candidates::Snapshot, at: usize| {
        std::ptr::from_ref(snapshot.trees().nth(at).unwrap())
    };
    assert!(std::ptr::eq(tree(&first, 0), tree(&second, 0)));
    assert!(!std::ptr::eq(tree(&first, 1), tree(&second, 1)));
}

#[tokio::test]
async fn a_refused_write_touches_nothing() {
    let service = service().await;
    let snapshots = Snapshots::new(service.store.clone());
    service
        .write(&RandomWrite::Make {
            provider: 1,
            parent: None,
        })
        .await;
    let before = snapshots.current().await.unwrap();
    service
        .write(&RandomWrite::Claim {
            consumer: 1,
            providers: vec![1],
            amount: 1,
        })
        .await;
    assert!(Arc::ptr_eq(&before, &snapshots.current().await.unwrap()));
}

#[tokio::test]
async fn an_abandoned_write_counts_as_touching_everything() {
    let service = service().await;
    let snapshots = Snapshots::new(service.store.clone());
    service
        .write(&RandomWrite::Make {
            provider: 1,
            parent: None,
        })
        .await;
    snapshots.current().await.unwrap();
    let write = crate::store::providers::CreateProvider {
        uuid: uuid('a', 2),
        name: "late".to_owned(),
        parent: None,
    };
    let mut writing = Box::pin(snapshots.write(&write));
    let waker = std::task::Waker::noop();
    let _ = writing
        .as_mut()
        .poll(&mut std::task::Context::from_waker(waker));
    drop(writing);
    assert!(snapshots.memory.noted().all);
    // Whether or not it was committed, the snapshot must equal the database.
    let followed = snapshots.current().await.unwrap();
    assert_eq!(*followed, whole(&service.store).await);
}

#[tokio::test]
async fn an_answer_shows_names_as_they_are_now() {
    let service = service().await;
    let at = |path: &str| format!("/resource_providers/{}{path}", uuid('a', 1));
    service
        .write(&RandomWrite::Make {
            provider: 1,
            parent: None,
        })
        .await;
    service
        .send("PUT", "/resource_classes/CUSTOM_OLD", None)
        .await;
    let body =
        json!({"resource_provider_generation": 0, "inventories": {"CUSTOM_OLD": {"total": 1}}});
    service.send("PUT", &at("/inventories"), Some(body)).await;
    let shown = async |class: &str| {
        let path = format!("/allocation_candidates?resources={class}:1");
        let (_, body) = service.send("GET", &path, None).await;
        body["provider_summaries"][uuid('a', 1)]["resources"].clone()
    };
    let room = json!({"capacity": 1, "used": 0});
    assert_eq!(shown("CUSTOM_OLD").await, json!({"CUSTOM_OLD": room}));
    // Only before 1.7 a class is renamed.
    let request = Request::put("/resource_classes/CUSTOM_OLD")
        .header("x-auth-token", "admin")
        .header("openstack-api-version", "placement 1.6")
        .header("content-type", "application/json")
        .body(Body::from(json!({"name": "CUSTOM_NEW"}).to_string()));
    let options = PlacementApiOptions {
        policy: crate::default_policy(crate::DeprecatedDefaults::Honoured),
        ..PlacementApiOptions::default()
    };
    let response = router(service.store.clone(), options)
        .oneshot(request.unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(shown("CUSTOM_NEW").await, json!({"CUSTOM_NEW": room}));
}
