//! POST /reshaper: everything or nothing, and lawful for every user of what it touches.

use serde_json::{Map, Value, json};

use crate::service::{ABSENT, GPU_0, GPU_1, HOST, Service, allocations, consumer, refused};

/// An eight-unit VGPU host with two empty children and two consumers of two units each.
async fn host() -> Service {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    service.provider(GPU_0, Some(HOST)).await;
    service.provider(GPU_1, Some(HOST)).await;
    service
        .inventories(HOST, json!({"VCPU": {"total": 16}, "VGPU": {"total": 8}}))
        .await;
    for n in [1, 2] {
        let reply = service
            .claim(&consumer(n), HOST, json!({"VCPU": 2, "VGPU": 2}))
            .await;
        assert_eq!(reply.status, 204, "{reply:?}");
    }
    service
}

async fn body(service: &Service, inventories: &[(&str, Value)], allocations: Value) -> Value {
    let mut providers = Map::new();
    for (provider, wanted) in inventories {
        let body = json!({
            "resource_provider_generation": service.generation(provider).await,
            "inventories": wanted,
        });
        providers.insert((*provider).to_owned(), body);
    }
    json!({"inventories": providers, "allocations": allocations})
}

fn moved(to: &str) -> Value {
    allocations(
        &[(HOST, json!({"VCPU": 2})), (to, json!({"VGPU": 2}))],
        Some(1),
    )
}

fn both_moved() -> Value {
    json!({consumer(1): moved(GPU_0), consumer(2): moved(GPU_1)})
}

fn split() -> Vec<(&'static str, Value)> {
    vec![
        (HOST, json!({"VCPU": {"total": 16}})),
        (GPU_0, json!({"VGPU": {"total": 4}})),
        (GPU_1, json!({"VGPU": {"total": 4}})),
    ]
}

#[tokio::test]
async fn inventory_and_allocations_move_together() {
    let service = host().await;
    let body = body(&service, &split(), both_moved()).await;
    let reply = service.post("/reshaper", body).await;
    assert_eq!(reply.status, 204, "{reply:?}");
    assert_eq!(service.usages(HOST).await, json!({"VCPU": 4}));
    assert_eq!(service.usages(GPU_0).await, json!({"VGPU": 2}));
    assert_eq!(service.usages(GPU_1).await, json!({"VGPU": 2}));
    let held = service.allocations_of(&consumer(1)).await;
    assert_eq!(held[HOST]["resources"], json!({"VCPU": 2}));
    assert_eq!(held[GPU_0]["resources"], json!({"VGPU": 2}));
}

/// Name, inventories, allocations; status, code and message of the refusal.
type Refused<'a> = (&'a str, Vec<(&'a str, Value)>, Value, u16, &'a str, &'a str);

#[tokio::test]
async fn every_refusal_leaves_every_row_as_it_was() {
    let service = host().await;
    let new = |n: usize, held: &[(&str, Value)]| json!({consumer(n): allocations(held, None)});
    let only_host = |inventories: Value| vec![(HOST, inventories)];
    let cases: Vec<Refused> = vec![
        (
            "a class in use is dropped",
            only_host(json!({"VCPU": {"total": 16}})),
            json!({}),
            409,
            "placement.inventory.inuse",
            "Inventory for 'VGPU' on resource provider",
        ),
        (
            "half of the users are moved, the class is dropped",
            split(),
            json!({consumer(1): moved(GPU_0)}),
            409,
            "placement.inventory.inuse",
            "in use.",
        ),
        (
            "the inventory is below what unnamed consumers use",
            only_host(json!({"VCPU": {"total": 16}, "VGPU": {"total": 3}})),
            json!({}),
            409,
            "placement.undefined_code",
            "would exceed the capacity",
        ),
        (
            "the target is too small",
            vec![split()[0].clone(), (GPU_0, json!({"VGPU": {"total": 3}}))],
            json!({consumer(1): moved(GPU_0), consumer(2): moved(GPU_0)}),
            409,
            "placement.undefined_code",
            "would exceed the capacity",
        ),
        (
            "the target has no inventory",
            only_host(json!({"VCPU": {"total": 16}})),
            both_moved(),
            409,
            "placement.undefined_code",
            "Inventory for",
        ),
        (
            "the amounts violate the target's steps",
            vec![
                split()[0].clone(),
                (GPU_0, json!({"VGPU": {"total": 4, "max_unit": 1}})),
                split()[2].clone(),
            ],
            both_moved(),
            409,
            "placement.undefined_code",
            "would violate inventory constraints",
        ),
        (
            "a class is unknown",
            only_host(json!({"CUSTOM_NO": {"total": 16}})),
            json!({}),
            400,
            "placement.undefined_code",
            "malformed reshaper data: No such resource class CUSTOM_NO.",
        ),
        (
            "a target provider is unknown, after new names were seen",
            only_host(json!({"VCPU": {"total": 16}, "VGPU": {"total": 8}})),
            new(7, &[(ABSENT, json!({"VGPU": 1}))]),
            400,
            "placement.undefined_code",
            "that does not exist.",
        ),
        (
            "a consumer's generation is old",
            split(),
            json!({consumer(1): allocations(&[(GPU_0, json!({"VGPU": 2}))], Some(9))}),
            409,
            "placement.concurrent_update",
            "consumer generation conflict - expected 1 but got 9",
        ),
    ];
    for (name, inventories, allocations, status, code, reason) in cases {
        let before = service.rows().await;
        let mut body = body(&service, &inventories, allocations).await;
        for consumer in body["allocations"].as_object_mut().unwrap().values_mut() {
            consumer["project_id"] = json!("a project never seen");
            consumer["user_id"] = json!("a user never seen");
            consumer["consumer_type"] = json!("NEVER_SEEN");
        }
        let reply = service.post("/reshaper", body).await;
        assert_eq!(reply.status, status, "{name}: {reply:?}");
        assert_eq!(reply.code(), code, "{name}");
        assert!(
            reply.detail().contains(reason),
            "{name}: {:?}",
            reply.detail()
        );
        assert_eq!(service.rows().await, before, "{name}");
    }
}

#[tokio::test]
async fn an_unknown_or_stale_provider_has_its_error_code() {
    let service = host().await;
    let before = service.rows().await;
    let at = |provider: &str, generation: i64| {
        json!({
            "inventories": {provider: {"resource_provider_generation": generation, "inventories": {}}},
            "allocations": {},
        })
    };
    let unknown = service.post("/reshaper", at(ABSENT, 0)).await;
    refused(&unknown, 400, "in inventories not found");
    assert_eq!(unknown.code(), "placement.resource_provider.not_found");
    let stale = service.post("/reshaper", at(HOST, 99)).await;
    refused(
        &stale,
        409,
        "resource provider generation conflict for provider",
    );
    assert_eq!(stale.code(), "placement.concurrent_update");
    assert_eq!(service.rows().await, before);
}

#[tokio::test]
async fn units_without_a_new_home_are_held_in_place() {
    let service = host().await;
    let held = json!({"VCPU": {"total": 16}, "VGPU": {"total": 2, "reserved": 2}});
    let inventories = [(HOST, held), split()[1].clone()];
    for named in [false, true] {
        let service = host().await;
        let mut consumers = json!({consumer(1): moved(GPU_0)});
        if named {
            let unchanged = json!({"VCPU": 2, "VGPU": 2});
            consumers[consumer(2)] = allocations(&[(HOST, unchanged)], Some(1));
        }
        let body = body(&service, &inventories, consumers).await;
        let reply = service.post("/reshaper", body).await;
        assert_eq!(reply.status, 204, "named: {named}, {reply:?}");
        assert_eq!(service.usages(HOST).await["VGPU"], 2);
        let more = service.claim(&consumer(3), HOST, json!({"VGPU": 1})).await;
        assert_eq!(more.status, 409, "nothing new on a held class");
    }
    // An inventory with more units reserved than used is invalid: the remaining units could not be claimed.
    let wrong = json!({"VCPU": {"total": 16}, "VGPU": {"total": 3, "reserved": 3}});
    let inventories = [(HOST, wrong), split()[1].clone()];
    let body = body(&service, &inventories, json!({consumer(1): moved(GPU_0)})).await;
    assert_eq!(service.post("/reshaper", body).await.status, 409);
}

#[tokio::test]
async fn what_was_over_before_may_stay_but_not_worsen() {
    let service = host().await;
    service
        .inventories(HOST, json!({"VCPU": {"total": 16}, "VGPU": {"total": 3}}))
        .await;
    for (total, status) in [(2, 409), (3, 204), (4, 204)] {
        let wanted = json!({"VCPU": {"total": 16}, "VGPU": {"total": total}});
        let body = body(&service, &[(HOST, wanted)], json!({})).await;
        let reply = service.post("/reshaper", body).await;
        assert_eq!(reply.status, status, "{total}: {reply:?}");
    }
}

#[tokio::test]
async fn consumers_that_give_all_back_are_removed_and_new_ones_made() {
    let service = host().await;
    let allocations = json!({
        consumer(1): allocations(&[], Some(1)),
        consumer(2): moved(GPU_1),
        consumer(3): allocations(&[(GPU_0, json!({"VGPU": 4}))], None),
    });
    let body = body(&service, &split(), allocations).await;
    assert_eq!(service.post("/reshaper", body).await.status, 204);
    assert_eq!(service.allocations_of(&consumer(1)).await, json!({}));
    assert_eq!(service.usages(GPU_0).await, json!({"VGPU": 4}));
    assert_eq!(service.usages(HOST).await, json!({"VCPU": 2}));
}

#[tokio::test]
async fn a_class_is_renamed_for_all_its_users() {
    let service = host().await;
    service.put_empty("/resource_classes/CUSTOM_GPU").await;
    let wanted = json!({"VCPU": {"total": 16}, "CUSTOM_GPU": {"total": 8}});
    let renamed = || allocations(&[(HOST, json!({"VCPU": 2, "CUSTOM_GPU": 2}))], Some(1));
    let consumers = json!({consumer(1): renamed(), consumer(2): renamed()});
    let body = body(&service, &[(HOST, wanted)], consumers).await;
    assert_eq!(service.post("/reshaper", body).await.status, 204);
    assert_eq!(
        service.usages(HOST).await,
        json!({"VCPU": 4, "CUSTOM_GPU": 4})
    );
}

#[tokio::test]
async fn the_route_comes_with_its_version() {
    let service = host().await;
    assert_eq!(
        service.at("1.29").post("/reshaper", json!({})).await.status,
        404
    );
    for (body, reason) in [
        (json!({}), "is a required property"),
        (
            json!({"inventories": {}, "allocations": {}}),
            "should be non-empty",
        ),
        (
            json!({"inventories": [], "allocations": {}}),
            "is not of type 'object'",
        ),
    ] {
        refused(&service.post("/reshaper", body).await, 400, reason);
    }
}

#[tokio::test]
async fn a_thousand_consumers_move_in_one_call() {
    const CONSUMERS: usize = 1_000;
    let service = Service::start().await;
    service.provider(HOST, None).await;
    service
        .inventories(
            HOST,
            json!({"VCPU": {"total": 4000}, "VGPU": {"total": 1000}}),
        )
        .await;
    let children: Vec<String> = (0..8)
        .map(|n| format!("11111111-0000-0000-0002-{n:012}"))
        .collect();
    for child in &children {
        service.provider(child, Some(HOST)).await;
    }
    let all = |held: &dyn Fn(usize) -> Value| -> Value {
        let body: Map<String, Value> = (0..CONSUMERS).map(|n| (consumer(n), held(n))).collect();
        Value::Object(body)
    };
    let flat = all(&|_| allocations(&[(HOST, json!({"VCPU": 2, "VGPU": 1}))], None));
    assert_eq!(service.post("/allocations", flat).await.status, 204);
    let nested = all(&|n| {
        let child = children[n % 8].as_str();
        allocations(
            &[(HOST, json!({"VCPU": 2})), (child, json!({"VGPU": 1}))],
            Some(1),
        )
    });
    let mut inventories = vec![(HOST, json!({"VCPU": {"total": 4000}}))];
    for child in &children {
        inventories.push((child, json!({"VGPU": {"total": 125}})));
    }
    let body = body(&service, &inventories, nested).await;
    assert_eq!(service.post("/reshaper", body).await.status, 204);
    for child in &children {
        assert_eq!(service.usages(child).await, json!({"VGPU": 125}));
    }
    assert_eq!(service.usages(HOST).await, json!({"VCPU": 2000}));
}
