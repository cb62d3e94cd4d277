//! /allocations and /resource_providers/{uuid}/allocations

use serde_json::{Value, json};

use crate::service::{ABSENT, GPU_0, HOST, Service, allocations, consumer, refused};

async fn host() -> Service {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    service
        .inventories(
            HOST,
            json!({
                "VCPU": {"total": 8, "allocation_ratio": 2.0},
                "MEMORY_MB": {"total": 1024, "reserved": 24, "max_unit": 512, "step_size": 16},
            }),
        )
        .await;
    service
}

fn path(n: usize) -> String {
    format!("/allocations/{}", consumer(n))
}

#[tokio::test]
async fn what_is_put_is_shown_by_version() {
    let service = host().await;
    let reply = service
        .claim(&consumer(1), HOST, json!({"VCPU": 2, "MEMORY_MB": 64}))
        .await;
    assert_eq!(reply.status, 204, "{reply:?}");
    let held = json!({HOST: {"resources": {"VCPU": 2, "MEMORY_MB": 64}, "generation": 2}});
    let mut expected = json!({"allocations": held});
    assert_eq!(service.at("1.11").get(&path(1)).await.body, expected);
    expected["project_id"] = json!("project");
    expected["user_id"] = json!("user");
    assert_eq!(service.at("1.27").get(&path(1)).await.body, expected);
    expected["consumer_generation"] = json!(1);
    assert_eq!(service.at("1.37").get(&path(1)).await.body, expected);
    expected["consumer_type"] = json!("INSTANCE");
    assert_eq!(service.at("1.38").get(&path(1)).await.body, expected);
    let of_provider = format!("/resource_providers/{HOST}/allocations");
    assert_eq!(
        service.get(&of_provider).await.body,
        json!({
            "allocations": {consumer(1): {
                "resources": {"VCPU": 2, "MEMORY_MB": 64}, "consumer_generation": 1,
            }},
            "resource_provider_generation": 2,
        })
    );
}

#[tokio::test]
async fn a_uuid_means_the_same_in_upper_and_lower_case_wherever_it_stands() {
    let lower = "abcdefab-0000-0000-0000-000000000001";
    let host = lower.to_uppercase();
    let service = Service::start().await;
    service.provider(&host, None).await;
    let inventory = json!({"VCPU": {"total": 8}});
    service.inventories(&host, inventory).await;
    let upper = format!("/allocations/{}", consumer(7).to_uppercase());
    let claimed = service
        .claim(&consumer(7).to_uppercase(), &host, json!({"VCPU": 2}))
        .await;
    assert_eq!(claimed.status, 204, "{claimed:?}");
    let shown = service.get(&path(7)).await.body;
    assert_eq!(shown["allocations"][lower]["resources"], json!({"VCPU": 2}));
    assert_eq!(service.get(&upper).await.body, shown);
    for path in [
        format!("/resource_providers?uuid={host}"),
        format!("/resource_providers?in_tree={host}"),
    ] {
        let listed = service.get(&path).await.body;
        assert_eq!(listed["resource_providers"][0]["uuid"], lower, "{path}");
    }
    let provider = service.get(&format!("/resource_providers/{host}")).await;
    assert_eq!(provider.body["uuid"], lower);
    assert_eq!(service.delete(&upper).await.status, 204);
    assert_eq!(service.get(&path(7)).await.body["allocations"], json!({}));
}

#[tokio::test]
async fn every_older_form_is_taken() {
    let service = host().await;
    let listed = json!([{"resource_provider": {"uuid": HOST}, "resources": {"VCPU": 1}}]);
    let by_provider = json!({HOST: {"resources": {"VCPU": 1}}});
    for (n, (version, body)) in [
        ("1.0", json!({"allocations": listed})),
        ("1.8", json!({"allocations": listed, "project_id": "p", "user_id": "u"})),
        ("1.12", json!({"allocations": by_provider, "project_id": "p", "user_id": "u"})),
        (
            "1.28",
            json!({"allocations": by_provider, "project_id": "p", "user_id": "u", "consumer_generation": null}),
        ),
        (
            "1.34",
            json!({"allocations": by_provider, "project_id": "p", "user_id": "u", "consumer_generation": null, "mappings": {"": [HOST]}}),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let reply = service.at(version).put(&path(n), body).await;
        assert_eq!(reply.status, 204, "{version} {reply:?}");
    }
    let reply = service.get(&path(0)).await;
    assert_eq!(
        reply.body["project_id"],
        "00000000-0000-0000-0000-000000000000"
    );
    assert_eq!(reply.body["consumer_type"], "unknown");
}

#[tokio::test]
async fn claims_that_do_not_fit_are_refused_and_leave_no_row() {
    let service = host().await;
    service.provider(GPU_0, None).await;
    let before = service.rows().await;
    for (provider, resources, status, reason) in [
        (
            HOST,
            json!({"VCPU": 17}),
            409,
            "The requested amount would exceed the capacity.",
        ),
        (
            HOST,
            json!({"MEMORY_MB": 15}),
            409,
            "would violate inventory constraints.",
        ),
        (
            HOST,
            json!({"MEMORY_MB": 528}),
            409,
            "would violate inventory constraints.",
        ),
        (
            HOST,
            json!({"VGPU": 1}),
            409,
            "Inventory for 'VGPU' on resource provider",
        ),
        (
            HOST,
            json!({"VGPU": 1, "VCPU": 1}),
            409,
            "Inventory for 'VGPU' on resource provider",
        ),
        (
            GPU_0,
            json!({"VCPU": 1}),
            409,
            "Inventory for 'VCPU' on resource provider",
        ),
        (
            HOST,
            json!({"CUSTOM_NO": 1}),
            400,
            "No such resource class CUSTOM_NO.",
        ),
        (ABSENT, json!({"VCPU": 1}), 400, "that does not exist."),
        (
            HOST,
            json!({"VCPU": 0}),
            400,
            "0 is less than the minimum of 1",
        ),
        (
            HOST,
            json!({"vcpu": 1}),
            400,
            "does not match any of the regexes",
        ),
        (HOST, json!({}), 400, "should be non-empty"),
        (
            HOST,
            json!({"VCPU": 9_223_372_036_854_775_807_i64}),
            409,
            "violate inventory constraints",
        ),
        (
            HOST,
            json!({"VCPU": 1e300}),
            409,
            "violate inventory constraints",
        ),
    ] {
        let reply = service.claim(&consumer(1), provider, resources).await;
        refused(&reply, status, reason);
        assert_eq!(reply.code(), "placement.undefined_code");
    }
    assert_eq!(service.rows().await, before);
}

#[tokio::test]
async fn the_consumers_generation_is_checked() {
    let service = host().await;
    let one = || json!({"VCPU": 1});
    let put = |generation| {
        let service = service.clone();
        async move {
            let body = allocations(&[(HOST, one())], generation);
            service.put(&path(1), body).await
        }
    };
    refused(&put(Some(0)).await, 409, "expected null but got 0");
    assert_eq!(put(None).await.status, 204);
    let stale = put(None).await;
    refused(&stale, 409, "expected 1 but got None");
    assert_eq!(stale.code(), "placement.concurrent_update");
    assert_eq!(put(Some(1)).await.status, 204);
    refused(&put(Some(1)).await, 409, "expected 2 but got 1");
}

#[tokio::test]
async fn a_consumer_that_gives_all_back_is_gone() {
    let service = host().await;
    service.claim(&consumer(1), HOST, json!({"VCPU": 2})).await;
    let reply = service.put(&path(1), allocations(&[], Some(1))).await;
    assert_eq!(reply.status, 204, "{reply:?}");
    assert_eq!(service.get(&path(1)).await.body, json!({"allocations": {}}));
    let consumers = service.rows().await;
    assert!(
        !consumers.iter().any(|row| row.starts_with("consumers:")),
        "{consumers:?}"
    );
    assert_eq!(service.generation(HOST).await, 3);
}

#[tokio::test]
async fn project_user_and_type_follow_the_last_write() {
    let service = host().await;
    service.claim(&consumer(1), HOST, json!({"VCPU": 2})).await;
    let mut body = allocations(&[(HOST, json!({"VCPU": 1}))], Some(1));
    body["project_id"] = json!("other");
    body["consumer_type"] = json!("MIGRATION");
    service.put(&path(1), body).await;
    let shown = service.get(&path(1)).await.body;
    assert_eq!(shown["project_id"], "other");
    assert_eq!(shown["consumer_type"], "MIGRATION");
    let mut older = allocations(&[(HOST, json!({"VCPU": 1}))], Some(2));
    older.as_object_mut().unwrap().remove("consumer_type");
    service.at("1.28").put(&path(1), older).await;
    assert_eq!(
        service.get(&path(1)).await.body["consumer_type"],
        "MIGRATION"
    );
}

#[tokio::test]
async fn an_overage_may_shrink_or_stay_but_not_grow() {
    let service = host().await;
    service.claim(&consumer(1), HOST, json!({"VCPU": 16})).await;
    service
        .inventories(HOST, json!({"VCPU": {"total": 4}}))
        .await;
    let put = |amount: i64, generation| {
        let service = service.clone();
        async move {
            let body = allocations(&[(HOST, json!({"VCPU": amount}))], Some(generation));
            service.put(&path(1), body).await.status.as_u16()
        }
    };
    assert_eq!(put(16, 1).await, 204);
    assert_eq!(put(15, 2).await, 204);
    assert_eq!(put(16, 3).await, 409);
    let other = service.claim(&consumer(2), HOST, json!({"VCPU": 1})).await;
    assert_eq!(other.status, 409);
}

#[tokio::test]
async fn several_consumers_are_written_together_or_not_at_all() {
    let service = host().await;
    service.claim(&consumer(1), HOST, json!({"VCPU": 10})).await;
    let moved = |second: Value| {
        json!({
            consumer(1): allocations(&[], Some(1)),
            consumer(2): second,
        })
    };
    let before = service.rows().await;
    let too_much = moved(allocations(&[(HOST, json!({"VCPU": 17}))], None));
    let reply = service.post("/allocations", too_much).await;
    refused(&reply, 409, "would exceed the capacity");
    assert_eq!(service.rows().await, before);
    let fits = moved(allocations(&[(HOST, json!({"VCPU": 16}))], None));
    assert_eq!(service.post("/allocations", fits).await.status, 204);
    assert_eq!(service.allocations_of(&consumer(1)).await, json!({}));
    assert_eq!(service.usages(HOST).await["VCPU"], 16);
    assert_eq!(
        service
            .at("1.12")
            .post("/allocations", json!({}))
            .await
            .status,
        404
    );
    refused(
        &service.post("/allocations", json!({})).await,
        400,
        "should be non-empty",
    );
}

#[tokio::test]
async fn deleting_twice_is_reported() {
    let service = host().await;
    service.claim(&consumer(1), HOST, json!({"VCPU": 1})).await;
    assert_eq!(service.delete(&path(1)).await.status, 204);
    refused(
        &service.delete(&path(1)).await,
        404,
        "No allocations for consumer",
    );
    let odd = service
        .put(
            "/allocations/odd",
            allocations(&[(HOST, json!({"VCPU": 1}))], None),
        )
        .await;
    refused(&odd, 400, "Malformed consumer_uuid: odd");
}
