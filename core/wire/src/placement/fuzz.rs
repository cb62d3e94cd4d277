//! Property tests: any bytes or JSON are either parsed or refused with a named field, without a panic.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    AllocationCandidates, AllocationsOfConsumer, AllocationsOfProvider, ErrorDocument,
    ProviderAggregates, ProviderInventories, ProviderList, ProviderTraits, ProviderUsages,
    ResourceClassList, TraitList, VersionDocument,
};
use crate::decode;
use crate::keystone::TokenDocument;

fn read_as_everything(bytes: &[u8]) {
    let _ = decode::<AllocationCandidates>(bytes).map(|body| {
        for request in &body.allocation_requests {
            let _ = request.resources();
        }
        for summary in body.provider_summaries.values() {
            let _ = summary.traits();
        }
    });
    let _ =
        decode::<AllocationsOfConsumer>(bytes).and_then(AllocationsOfConsumer::into_allocations);
    let _ = decode::<AllocationsOfProvider>(bytes).and_then(|body| body.by_consumer());
    let _ = decode::<ErrorDocument>(bytes).map(|body| body.errors.len());
    let _ = decode::<ProviderAggregates>(bytes).map(|body| body.aggregates());
    let _ = decode::<ProviderInventories>(bytes).and_then(|body| body.inventories());
    let _ = decode::<ProviderList>(bytes).and_then(ProviderList::into_providers);
    let _ = decode::<ProviderTraits>(bytes).and_then(|body| body.traits());
    let _ = decode::<ProviderUsages>(bytes).and_then(|body| body.usages());
    let _ = decode::<ResourceClassList>(bytes).and_then(ResourceClassList::into_classes);
    let _ = decode::<TraitList>(bytes).and_then(TraitList::into_traits);
    let _ = decode::<VersionDocument>(bytes).map(|body| body.highest_minor());
    let _ = decode::<TokenDocument>(bytes).map(|body| body.token.catalog.len());
}

/// Random JSON with Placement's keys and values of every type.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(serde_json::Value::from),
        any::<u64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        number,
        "[A-Z_]{0,8}".prop_map(serde_json::Value::from),
        Just(serde_json::Value::from(
            "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01"
        )),
    ];
    let key = prop::sample::select(vec![
        "resource_providers",
        "uuid",
        "name",
        "generation",
        "resource_provider_generation",
        "inventories",
        "total",
        "reserved",
        "allocations",
        "allocation_requests",
        "provider_summaries",
        "mappings",
        "resources",
        "capacity",
        "used",
        "traits",
        "aggregates",
        "usages",
        "errors",
        "status",
        "VCPU",
        "token",
        "catalog",
        "endpoints",
        "expires_at",
        "project_id",
        "user_id",
        "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01",
    ]);
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6).prop_map(|map| {
                map.into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_a_reader_panic(value in json()) {
        read_as_everything(value.to_string().as_bytes());
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_as_everything(&bytes);
    }

    #[test]
    fn a_cut_body_is_refused(cut in 1usize..60) {
        let body = br#"{"resource_provider_generation": 1, "usages": {"VGPU": 12}}"#;
        let head = &body[..body.len() - cut.min(body.len() - 1)];
        prop_assert!(decode::<ProviderUsages>(head).is_err());
    }

    #[test]
    fn inventories_in_range_survive_the_way_out_and_back(
        total in 1u32..=i32::MAX as u32, reserved in 0u32..=i32::MAX as u32, step in 1u32..1000, ratio in 0.01f64..1000.0,
    ) {
        let ratio = berth_model::AllocationRatio::new(ratio).unwrap();
        let inventory = berth_model::Inventory {
            step_size: step,
            ..berth_model::Inventory::of(u64::from(total)).unwrap().reserving(reserved).with_ratio(ratio)
        };
        let inventories = BTreeMap::from([(berth_model::ResourceClass::VGPU, inventory)]);
        let put = super::PutInventories::new(berth_model::Generation::answered(1), &inventories);
        let back: ProviderInventories = decode(&crate::encode(&put)).unwrap();
        prop_assert_eq!(back.inventories().unwrap(), inventories);
    }
}
