//! GET /allocation_candidates: shapes by microversion, refusals, and that what is offered can be had.

use berth_placement::PlacementApiOptions;
use berth_store::SqlStore;
use berth_wire::placement::AllocationCandidates;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::service::{ABSENT, GPU_0, GPU_1, HOST, Service, consumer, refused};

/// A host with two GPUs of two units.
async fn host(service: &Service) {
    service.provider(HOST, None).await;
    service
        .inventories(
            HOST,
            json!({"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096}}),
        )
        .await;
    for gpu in [GPU_0, GPU_1] {
        service.provider(gpu, Some(HOST)).await;
        service
            .inventories(gpu, json!({"VGPU": {"total": 2}}))
            .await;
    }
}

async fn traits(service: &Service, provider: &str, traits: &[&str]) {
    let body = json!({
        "resource_provider_generation": service.generation(provider).await,
        "traits": traits,
    });
    let path = format!("/resource_providers/{provider}/traits");
    assert_eq!(service.put(&path, body).await.status, 200);
}

async fn candidates(service: &Service, query: &str) -> AllocationCandidates {
    let reply = service
        .get(&format!("/allocation_candidates?{query}"))
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    serde_json::from_value(reply.body).unwrap()
}

#[tokio::test]
async fn the_newest_shape_has_mappings_and_whole_summaries() {
    let service = Service::start().await;
    host(&service).await;
    traits(&service, GPU_0, &["HW_GPU_API_VULKAN"]).await;
    let query = "/allocation_candidates?resources=VCPU:1&resources_gpu=VGPU:1&required_gpu=HW_GPU_API_VULKAN";
    let body = service.get(query).await.body;
    let expected = json!({
        "allocation_requests": [{
            "allocations": {HOST: {"resources": {"VCPU": 1}}, GPU_0: {"resources": {"VGPU": 1}}},
            "mappings": {"": [HOST], "_gpu": [GPU_0]},
        }],
        "provider_summaries": {
            HOST: {
                "resources": {"VCPU": {"capacity": 8, "used": 0}, "MEMORY_MB": {"capacity": 4096, "used": 0}},
                "traits": [], "parent_provider_uuid": null, "root_provider_uuid": HOST,
            },
            GPU_0: {
                "resources": {"VGPU": {"capacity": 2, "used": 0}},
                "traits": ["HW_GPU_API_VULKAN"], "parent_provider_uuid": HOST, "root_provider_uuid": HOST,
            },
            GPU_1: {
                "resources": {"VGPU": {"capacity": 2, "used": 0}},
                "traits": [], "parent_provider_uuid": HOST, "root_provider_uuid": HOST,
            },
        },
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn each_microversion_has_its_own_shape() {
    let service = Service::start().await;
    host(&service).await;
    let ask = async |version| {
        let reply = service
            .at(version)
            .get("/allocation_candidates?resources=VCPU:1")
            .await;
        (
            reply.body["allocation_requests"][0].clone(),
            reply.body["provider_summaries"].clone(),
        )
    };
    let (request, summaries) = ask("1.10").await;
    let listed =
        json!({"allocations": [{"resource_provider": {"uuid": HOST}, "resources": {"VCPU": 1}}]});
    assert_eq!(request, listed);
    assert_eq!(
        summaries,
        json!({HOST: {"resources": {"VCPU": {"capacity": 8, "used": 0}}}})
    );
    let (request, _) = ask("1.12").await;
    assert_eq!(
        request,
        json!({"allocations": {HOST: {"resources": {"VCPU": 1}}}})
    );
    let (_, summaries) = ask("1.17").await;
    assert_eq!(summaries[HOST]["traits"], json!([]));
    assert_eq!(summaries[HOST]["resources"].as_object().unwrap().len(), 1);
    let (_, summaries) = ask("1.27").await;
    assert_eq!(summaries[HOST]["resources"].as_object().unwrap().len(), 2);
    assert_eq!(summaries.as_object().unwrap().len(), 1);
    let (request, summaries) = ask("1.29").await;
    assert_eq!(summaries.as_object().unwrap().len(), 3);
    assert_eq!(summaries[GPU_0]["parent_provider_uuid"], HOST);
    assert_eq!(request["mappings"], Value::Null);
    assert_eq!(
        service
            .at("1.9")
            .get("/allocation_candidates?resources=VCPU:1")
            .await
            .status,
        404
    );
    // Who does not know of nesting is offered nothing from two providers of one tree.
    let query = "/allocation_candidates?resources=VCPU:1,VGPU:1";
    assert_eq!(
        service.at("1.28").get(query).await.body["allocation_requests"],
        json!([])
    );
    let body = service.at("1.29").get(query).await.body;
    assert_eq!(body["allocation_requests"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_taken_is_not_offered_and_what_is_released_is() {
    let service = Service::start().await;
    host(&service).await;
    let count = async |query| candidates(&service, query).await.allocation_requests.len();
    assert_eq!(count("resources=VGPU:2").await, 2);
    assert_eq!(
        service
            .claim(&consumer(1), GPU_0, json!({"VGPU": 1}))
            .await
            .status,
        204
    );
    assert_eq!(count("resources=VGPU:2").await, 1);
    assert_eq!(count("resources=VGPU:1").await, 2);
    service
        .delete(&format!("/allocations/{}", consumer(1)))
        .await;
    assert_eq!(count("resources=VGPU:2").await, 2);
    service
        .delete(&format!("/resource_providers/{GPU_1}"))
        .await;
    assert_eq!(count("resources=VGPU:2").await, 1);
}

#[tokio::test]
async fn errors_of_a_query_are_reported() {
    let service = Service::start().await;
    host(&service).await;
    for (version, query, message) in [
        ("1.39", "resources=GPUS:1", "No such resource class GPUS"),
        (
            "1.39",
            "resources=VCPU:1&required=CUSTOM_NO",
            "No such trait(s): CUSTOM_NO",
        ),
        (
            "1.39",
            "resources=VCPU:1&root_required=CUSTOM_NO",
            "No such trait(s): CUSTOM_NO",
        ),
        ("1.39", "resources=VCPU:0", "requires amount >= 1"),
        (
            "1.39",
            "resources=VCPU:1&limit=0",
            "Failed validating 'pattern'",
        ),
        (
            "1.39",
            "resources1=VCPU:1&resources2=VCPU:1",
            "\"group_policy\" parameter is required",
        ),
        (
            "1.39",
            "resources=VCPU:1&group_policy=some",
            "'some' is not one of",
        ),
        ("1.39", "limit=1", "There must be at least one resources"),
        (
            "1.39",
            "resources=VCPU:1&in_tree=host",
            "to be a format of uuid",
        ),
        (
            "1.24",
            "resources=VCPU:1&resources1=VCPU:1",
            "'resources1' was unexpected",
        ),
        (
            "1.25",
            "resources_a=VCPU:1",
            "'resources_a' does not match any of the regexes",
        ),
        (
            "1.30",
            "resources=VCPU:1&in_tree=x",
            "'in_tree' does not match any of the regexes",
        ),
    ] {
        let reply = service
            .at(version)
            .get(&format!("/allocation_candidates?{query}"))
            .await;
        refused(&reply, 400, message);
    }
    let query = format!("resources=VCPU:1&in_tree={ABSENT}");
    assert_eq!(
        candidates(&service, &query).await.allocation_requests.len(),
        0
    );
}

#[tokio::test]
async fn an_answer_has_no_more_candidates_than_the_service_allows() {
    let options = PlacementApiOptions {
        max_allocation_candidates: 1,
        randomize_allocation_candidates: true,
        ..PlacementApiOptions::default()
    };
    let service = Service::with(options).await;
    host(&service).await;
    for query in ["resources=VGPU:1", "resources=VGPU:1&limit=2"] {
        assert_eq!(
            candidates(&service, query).await.allocation_requests.len(),
            1
        );
    }
}

/// The search leaves out a choice early if a later group finds no provider. It left out too much where a provider that is
/// full for one group has room for another.
#[tokio::test]
async fn a_provider_that_is_full_for_one_group_is_still_tried_for_another() {
    let service = Service::start().await;
    service.provider(HOST, None).await;
    let inventories = json!({"DISK_GB": {"total": 5}, "VCPU": {"total": 10}});
    service.inventories(HOST, inventories).await;
    service.provider(GPU_0, Some(HOST)).await;
    let inventories = json!({"DISK_GB": {"total": 2}, "VCPU": {"total": 6}});
    service.inventories(GPU_0, inventories).await;
    let query =
        "resources=DISK_GB:2&resources1=DISK_GB:2,VCPU:2&resources2=VCPU:2&group_policy=isolate";
    let found = candidates(&service, query).await;
    assert_eq!(found.allocation_requests.len(), 3, "{found:?}");
}

const CLASSES: [&str; 3] = ["VCPU", "VGPU", "DISK_GB"];

/// A small world: for each provider its parent among the earlier ones, what it has, whether it shares, its aggregate.
type World = Vec<(Option<usize>, Vec<(usize, i64, i64)>, bool, bool)>;

fn some_world() -> impl Strategy<Value = World> {
    let inventory = proptest::collection::vec((0..3_usize, 1..6_i64, 1..4_i64), 0..3);
    let parent = prop_oneof![Just(None), (0..4_usize).prop_map(Some)];
    let provider = (
        parent,
        inventory,
        proptest::bool::weighted(0.3),
        any::<bool>(),
    );
    proptest::collection::vec(provider, 1..5)
}

async fn build(service: &Service, world: &World) {
    let uuid = |number: usize| format!("11111111-0000-0000-0000-{number:012}");
    for (number, (parent, inventories, sharing, grouped)) in world.iter().enumerate() {
        let parent = parent.filter(|parent| *parent < number).map(uuid);
        let uuid = uuid(number);
        service.provider(&uuid, parent.as_deref()).await;
        let inventories: serde_json::Map<String, Value> = inventories
            .iter()
            .map(|(class, total, max_unit)| {
                (
                    CLASSES[*class].to_owned(),
                    json!({"total": total, "max_unit": max_unit}),
                )
            })
            .collect();
        service.inventories(&uuid, Value::from(inventories)).await;
        if *sharing {
            traits(service, &uuid, &["MISC_SHARES_VIA_AGGREGATE"]).await;
        }
        if *grouped {
            let body = json!({
                "resource_provider_generation": service.generation(&uuid).await,
                "aggregates": [ABSENT],
            });
            service
                .put(&format!("/resource_providers/{uuid}/aggregates"), body)
                .await;
        }
    }
}

fn some_query() -> impl Strategy<Value = String> {
    let group = proptest::collection::btree_map(0..3_usize, 1..4_i64, 1..3);
    (
        proptest::collection::vec(group, 1..4),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(groups, spread, isolate)| {
            let mut query = format!("group_policy={}", if isolate { "isolate" } else { "none" });
            for (number, amounts) in groups.iter().enumerate() {
                let list: Vec<String> = amounts
                    .iter()
                    .map(|(class, amount)| format!("{}:{amount}", CLASSES[*class]))
                    .collect();
                let suffix = if number == 0 && spread {
                    String::new()
                } else {
                    format!("_{number}")
                };
                query.push_str(&format!("&resources{suffix}={}", list.join(",")));
            }
            query
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_candidate_can_be_claimed(world in some_world(), queries in proptest::collection::vec(some_query(), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let service = Service::over(SqlStore::in_memory().await.unwrap(), PlacementApiOptions::default()).await;
            build(&service, &world).await;
            for query in &queries {
                let offered = service.get(&format!("/allocation_candidates?limit=20&{query}")).await.body;
                for request in offered["allocation_requests"].as_array().unwrap() {
                    let mut claim = request.clone();
                    for (key, value) in [
                        ("project_id", json!("p")),
                        ("user_id", json!("u")),
                        ("consumer_generation", Value::Null),
                        ("consumer_type", json!("INSTANCE")),
                    ] {
                        claim[key] = value;
                    }
                    let path = format!("/allocations/{}", consumer(1));
                    let reply = service.put(&path, claim).await;
                    prop_assert_eq!(reply.status, 204, "{} of {}: {:?}", request, query, reply);
                    prop_assert_eq!(service.delete(&path).await.status, 204);
                }
            }
            Ok(())
        })?;
    }
}
