//! Each call: its method, path, microversion and body, and what it makes of the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use berth_client::placement::{DeleteOutcome, TypedAllocations};
use berth_client::{Auth, HttpService, PlacementClient, RouteTemplate};
use berth_model::{
    AggregateUuid, ConsumerAllocations, ConsumerUuid, Generation, Inventory, Provider,
    ProviderName, ProviderUuid, ResourceClass, Trait,
};
use uuid::Uuid;

use crate::script::{Script, answer, error_reply, options};

const ROOT: &str = "00000000-0000-0000-0000-000000000001";

fn root() -> ProviderUuid {
    Uuid::from_u128(1).into()
}

fn name(text: &str) -> ProviderName {
    ProviderName::new(text).unwrap()
}

fn provider_json(uuid: &str, name: &str, parent: &str) -> String {
    format!(
        r#"{{"uuid": "{uuid}", "name": "{name}", "generation": 3, "parent_provider_uuid": {parent}, "root_provider_uuid": "{ROOT}", "links": []}}"#
    )
}

fn one_root() -> String {
    provider_json(ROOT, "gpu-01", "null")
}

#[tokio::test]
async fn the_tree_is_one_request() {
    let child = provider_json(
        "00000000-0000-0000-0000-000000000002",
        "gpu-01_pci",
        &format!("\"{ROOT}\""),
    );
    let script = Script::of(vec![answer(
        200,
        format!(r#"{{"resource_providers": [{}, {child}]}}"#, one_root()),
    )]);
    let tree = script.placement().providers_in_tree(root()).await.unwrap();
    assert_eq!(tree[0].generation, Some(Generation::answered(3)));
    assert_eq!(tree[1].parent(), Some(root()));
    assert_eq!(
        script.lines(),
        [format!(
            "GET /resource_providers?in_tree={ROOT} [placement 1.14]"
        )]
    );
}

#[tokio::test]
async fn a_provider_is_found_by_name_or_uuid_or_is_none() {
    let list = format!(r#"{{"resource_providers": [{}]}}"#, one_root());
    let script = Script::of(vec![
        answer(200, list),
        answer(200, r#"{"resource_providers": []}"#),
        answer(200, one_root()),
        error_reply(404, "placement.undefined_code", "No resource provider"),
    ]);
    let client = script.placement();
    assert_eq!(
        client
            .provider_by_name(&name("gpu 01&x"))
            .await
            .unwrap()
            .unwrap()
            .uuid(),
        root()
    );
    assert_eq!(client.provider_by_name(&name("other")).await.unwrap(), None);
    assert_eq!(
        client.provider(root()).await.unwrap().unwrap().name,
        name("gpu-01")
    );
    assert_eq!(client.provider(root()).await.unwrap(), None);
    assert_eq!(
        script.lines()[0],
        "GET /resource_providers?name=gpu%2001%26x [placement 1.14]"
    );
    assert_eq!(
        script.lines()[2],
        format!("GET /resource_providers/{ROOT} [placement 1.14]")
    );
}

#[tokio::test]
async fn sharing_providers_are_asked_for_in_chunks_and_each_given_once() {
    let script = Script::of(vec![answer(
        200,
        format!(r#"{{"resource_providers": [{}]}}"#, one_root()),
    )]);
    let client = script.placement().with_uuids_per_request(2);
    let aggregates: BTreeSet<AggregateUuid> = (1..=5).map(|n| Uuid::from_u128(n).into()).collect();
    assert_eq!(
        client.sharing_providers(&aggregates).await.unwrap().len(),
        1
    );
    assert_eq!(
        script.lines()[2],
        "GET /resource_providers?member_of=in:00000000-0000-0000-0000-000000000005&required=MISC_SHARES_VIA_AGGREGATE [placement 1.18]"
    );
    assert_eq!(script.lines().len(), 3);
    client.sharing_providers(&BTreeSet::new()).await.unwrap();
    assert_eq!(script.lines().len(), 3);
}

#[tokio::test]
async fn those_who_are_in_an_aggregate_are_asked_for_by_it() {
    let list = format!(r#"{{"resource_providers": [{}]}}"#, one_root());
    let script = Script::of(vec![answer(200, list)]);
    let aggregate = Uuid::from_u128(5).into();
    let members = script.placement().providers_in_aggregate(aggregate).await;
    assert_eq!(members.unwrap().len(), 1);
    assert_eq!(
        script.lines()[0],
        "GET /resource_providers?member_of=00000000-0000-0000-0000-000000000005 [placement 1.14]"
    );
}

#[tokio::test]
async fn providers_are_created_renamed_moved_and_deleted() {
    let script = Script::of(vec![
        answer(200, one_root()),
        answer(200, one_root()),
        answer(200, one_root()),
        answer(204, ""),
        error_reply(404, "placement.undefined_code", "gone"),
    ]);
    let client = script.placement();
    let child = Provider::child(Uuid::from_u128(2).into(), name("gpu-01_pci"), root());
    assert_eq!(
        client.create_provider(&child).await.unwrap().generation,
        Some(Generation::answered(3))
    );
    client.rename_provider(root(), &name("new")).await.unwrap();
    client
        .place_provider_under(child.uuid(), &child.name, root())
        .await
        .unwrap();
    assert_eq!(
        client.delete_provider(root()).await.unwrap(),
        DeleteOutcome::Deleted
    );
    assert_eq!(
        client.delete_provider(root()).await.unwrap(),
        DeleteOutcome::AlreadyGone
    );
    assert_eq!(
        script.lines()[..4],
        [
            "POST /resource_providers [placement 1.23]".to_owned(),
            format!("PUT /resource_providers/{ROOT} [placement 1.23]"),
            "PUT /resource_providers/00000000-0000-0000-0000-000000000002 [placement 1.37]"
                .to_owned(),
            format!("DELETE /resource_providers/{ROOT} [placement 1.23]"),
        ]
    );
    let bodies: Vec<_> = script.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(
        bodies[0],
        format!(
            r#"{{"name":"gpu-01_pci","uuid":"00000000-0000-0000-0000-000000000002","parent_provider_uuid":"{ROOT}"}}"#
        )
    );
    assert_eq!(bodies[1], r#"{"name":"new"}"#);
    assert_eq!(
        bodies[2],
        format!(r#"{{"name":"gpu-01_pci","parent_provider_uuid":"{ROOT}"}}"#)
    );
}

#[tokio::test]
async fn inventories_are_read_written_and_removed() {
    let body = r#"{"resource_provider_generation": 5, "inventories": {"VGPU": {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1.0}}}"#;
    let script = Script::of(vec![answer(200, body), answer(200, body), answer(204, "")]);
    let client = script.placement();
    let read = client.inventories(root()).await.unwrap();
    let expected = BTreeMap::from([(ResourceClass::VGPU, Inventory::of(8).unwrap())]);
    assert_eq!(
        (read.generation, &read.value),
        (Generation::answered(5), &expected)
    );
    let generation = client
        .put_inventories(root(), Generation::answered(4), &expected)
        .await
        .unwrap();
    assert_eq!(generation, Generation::answered(5));
    client.delete_inventories(root()).await.unwrap();
    let path = format!("/resource_providers/{ROOT}/inventories");
    assert_eq!(
        script.lines(),
        ["GET", "PUT", "DELETE"].map(|method| format!("{method} {path} [placement 1.26]"))
    );
    assert!(
        script.seen()[1]
            .body
            .starts_with(r#"{"resource_provider_generation":4,"inventories":{"VGPU":{"total":8,"#)
    );
}

#[tokio::test]
async fn traits_and_aggregates_are_read_and_written() {
    let script = Script::of(vec![
        answer(
            200,
            r#"{"traits": ["COMPUTE_NODE"], "resource_provider_generation": 2}"#,
        ),
        answer(200, r#"{"traits": [], "resource_provider_generation": 3}"#),
        answer(
            200,
            format!(r#"{{"aggregates": ["{ROOT}"], "resource_provider_generation": 4}}"#),
        ),
        answer(
            200,
            r#"{"aggregates": [], "resource_provider_generation": 5}"#,
        ),
    ]);
    let client = script.placement();
    let traits = client.traits(root()).await.unwrap();
    assert_eq!(traits.value, BTreeSet::from([Trait::COMPUTE_NODE]));
    let generation = client
        .put_traits(root(), traits.generation, &traits.value)
        .await
        .unwrap();
    assert_eq!(generation, Generation::answered(3));
    let aggregates = client.aggregates(root()).await.unwrap();
    assert_eq!(
        aggregates.value,
        BTreeSet::from([AggregateUuid::from(Uuid::from_u128(1))])
    );
    let generation = client
        .put_aggregates(root(), aggregates.generation, &aggregates.value)
        .await
        .unwrap();
    assert_eq!(generation, Generation::answered(5));
    assert_eq!(
        script.lines(),
        [
            format!("GET /resource_providers/{ROOT}/traits [placement 1.6]"),
            format!("PUT /resource_providers/{ROOT}/traits [placement 1.23]"),
            format!("GET /resource_providers/{ROOT}/aggregates [placement 1.19]"),
            format!("PUT /resource_providers/{ROOT}/aggregates [placement 1.23]"),
        ]
    );
    assert_eq!(
        script.seen()[1].body,
        r#"{"traits":["COMPUTE_NODE"],"resource_provider_generation":2}"#
    );
    assert_eq!(
        script.seen()[3].body,
        format!(r#"{{"aggregates":["{ROOT}"],"resource_provider_generation":4}}"#)
    );
}

#[tokio::test]
async fn names_are_resolved_and_ensured() {
    let script = Script::of(vec![
        answer(200, r#"{"traits": ["COMPUTE_NODE"]}"#),
        answer(201, ""),
        answer(204, ""),
        answer(
            200,
            r#"{"resource_classes": [{"name": "VCPU", "links": []}, {"name": "CUSTOM_A", "links": []}]}"#,
        ),
    ]);
    let client = script.placement();
    let wanted = BTreeSet::from([Trait::COMPUTE_NODE, Trait::new("CUSTOM_X").unwrap()]);
    assert_eq!(
        client.known_traits(&wanted).await.unwrap(),
        BTreeSet::from([Trait::COMPUTE_NODE])
    );
    client
        .ensure_trait(&Trait::new("CUSTOM_X").unwrap())
        .await
        .unwrap();
    client
        .ensure_resource_class(&ResourceClass::new("CUSTOM_A").unwrap())
        .await
        .unwrap();
    assert_eq!(client.resource_classes().await.unwrap().len(), 2);
    assert_eq!(
        script.lines(),
        [
            "GET /traits?name=in:COMPUTE_NODE,CUSTOM_X [placement 1.6]",
            "PUT /traits/CUSTOM_X [placement 1.23]",
            "PUT /resource_classes/CUSTOM_A [placement 1.23]",
            "GET /resource_classes [placement 1.2]",
        ]
    );
}

#[tokio::test]
async fn usages_and_allocations_are_read() {
    let consumer = ConsumerUuid::from(Uuid::from_u128(7));
    let holds = r#""allocations": {"00000000-0000-0000-0000-000000000001": {"generation": 3, "resources": {"VGPU": 2}}}, "project_id": "p", "user_id": "u", "consumer_generation": 4"#;
    let script = Script::of(vec![
        answer(
            200,
            r#"{"resource_provider_generation": 3, "usages": {"VGPU": 2}}"#,
        ),
        answer(
            200,
            format!(
                r#"{{"resource_provider_generation": 3, "allocations": {{"{consumer}": {{"resources": {{"VGPU": 2}}, "consumer_generation": 4}}}}}}"#
            ),
        ),
        answer(200, format!("{{{holds}}}")),
        answer(200, format!(r#"{{{holds}, "consumer_type": "MIGRATION"}}"#)),
        answer(200, r#"{"allocations": {}}"#),
    ]);
    let client = script.placement();
    let amounts = BTreeMap::from([(ResourceClass::VGPU, 2)]);
    assert_eq!(client.usages(root()).await.unwrap().value, amounts);
    assert_eq!(
        client.provider_allocations(root()).await.unwrap().value,
        BTreeMap::from([(consumer, amounts)])
    );
    let held = client.allocations(consumer).await.unwrap().unwrap();
    assert_eq!(held.generation, Some(Generation::answered(4)));
    assert_eq!(
        held.resources,
        BTreeMap::from([((root(), ResourceClass::VGPU), 2)])
    );
    let typed = client.typed_allocations(consumer).await.unwrap().unwrap();
    assert_eq!(
        (typed.consumer_type.as_str(), &typed.allocations),
        ("MIGRATION", &held)
    );
    assert_eq!(client.allocations(consumer).await.unwrap(), None);
    assert_eq!(
        script.lines()[..4],
        [
            format!("GET /resource_providers/{ROOT}/usages [placement 1.14]"),
            format!("GET /resource_providers/{ROOT}/allocations [placement 1.28]"),
            format!("GET /allocations/{consumer} [placement 1.28]"),
            format!("GET /allocations/{consumer} [placement 1.38]"),
        ]
    );
}

#[tokio::test]
async fn allocations_are_written_with_or_without_type_and_freed() {
    let script = Script::of(vec![answer(204, "")]);
    let client = script.placement();
    let consumer = ConsumerUuid::from(Uuid::from_u128(7));
    let allocations = ConsumerAllocations {
        project_id: "p".into(),
        user_id: "u".into(),
        generation: None,
        resources: BTreeMap::from([((root(), ResourceClass::VGPU), 1)]),
    };
    client
        .put_allocations(consumer, &allocations)
        .await
        .unwrap();
    let typed = TypedAllocations {
        allocations,
        consumer_type: "INSTANCE".into(),
    };
    client
        .put_typed_allocations(consumer, &typed)
        .await
        .unwrap();
    assert_eq!(
        client.delete_allocations(consumer).await.unwrap(),
        DeleteOutcome::Deleted
    );
    assert_eq!(
        script.lines(),
        [
            format!("PUT /allocations/{consumer} [placement 1.28]"),
            format!("PUT /allocations/{consumer} [placement 1.38]"),
            format!("DELETE /allocations/{consumer} [placement 1.28]"),
        ]
    );
    assert!(
        script.seen()[1]
            .body
            .ends_with(r#""consumer_generation":null,"consumer_type":"INSTANCE"}"#)
    );
}

#[tokio::test]
async fn the_version_document_needs_no_microversion() {
    let script = Script::of(vec![answer(
        200,
        r#"{"versions": [{"id": "v1.0", "max_version": "1.39", "min_version": "1.0", "status": "CURRENT", "links": []}]}"#,
    )]);
    assert_eq!(
        script
            .placement()
            .version_document()
            .await
            .unwrap()
            .highest_minor(),
        Some(39)
    );
    assert_eq!(script.lines(), ["GET / [-]"]);
}

#[tokio::test]
async fn every_request_has_its_own_id_and_a_seed_repeats_them() {
    let ids = async || {
        let script = Script::of(vec![answer(200, r#"{"resource_providers": []}"#)]);
        let client = script.placement();
        client.providers_in_tree(root()).await.unwrap();
        client.providers_in_tree(root()).await.unwrap();
        script
            .seen()
            .into_iter()
            .map(|seen| seen.id)
            .collect::<Vec<_>>()
    };
    let (first, second) = (ids().await, ids().await);
    assert_eq!(first, second);
    assert_ne!(first[0], first[1]);
    assert!(
        first[0].starts_with("req-") && first[0].len() == 40,
        "{}",
        first[0]
    );
}

#[tokio::test]
async fn a_decorator_of_the_transport_gets_the_route() {
    let routes = Arc::new(Mutex::new(Vec::new()));
    let (script, kept) = (Script::of(vec![answer(500, "")]), Arc::clone(&routes));
    let inner = script.http.clone();
    let decorated = HttpService::new(tower::service_fn(
        move |request: http::Request<bytes::Bytes>| {
            kept.lock()
                .unwrap()
                .push(request.extensions().get::<RouteTemplate>().copied());
            let inner = inner.clone();
            async move { inner.send(request).await }
        },
    ));
    let client = PlacementClient::new(
        decorated,
        Auth::none("http://placement").unwrap(),
        &options(),
    );
    client.inventories(root()).await.unwrap_err();
    assert_eq!(
        *routes.lock().unwrap(),
        [Some(RouteTemplate(
            "/resource_providers/{uuid}/inventories"
        ))]
    );
}
