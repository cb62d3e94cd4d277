//! Compares the accessors with the fields of Nova's objects.

use std::collections::BTreeMap;

use serde_json::Value;
use strum::VariantArray;

use super::*;
use crate::states::{NovaTaskState, NovaVmState};

const FIELDS: &str = include_str!("../../tests/nova/fields-34.json");

fn facts(key: &str) -> Value {
    let facts: Value = serde_json::from_str(FIELDS).unwrap();
    facts[key].clone()
}

fn check<T: NovaObjectType>(facts: &Value, fields: &[(&str, bool)]) {
    let known: BTreeMap<&str, &str> = facts[T::NAME]
        .as_object()
        .unwrap_or_else(|| panic!("Nova has the object {}", T::NAME))
        .iter()
        .map(|(name, kind)| (name.as_str(), kind.as_str().unwrap()))
        .collect();
    for (field, nullable) in fields {
        let kind = known
            .get(field)
            .unwrap_or_else(|| panic!("{} has the field {field}", T::NAME));
        let objects = ["objects", "supported_hv_specs", "cells", "requests"].contains(field);
        assert!(
            objects || kind.ends_with('?') == *nullable,
            "{}.{field} is {kind}",
            T::NAME
        );
    }
    if let Some(list) = T::LIST {
        assert_eq!(facts[list]["objects"], T::NAME, "the items of {list}");
    }
}

macro_rules! check_all {
    ($facts:expr; $($Type:ident)*) => { $(check::<$Type>($facts, $Type::FIELDS);)* };
}

#[test]
fn every_accessor_is_a_field_of_nova_with_its_nullability() {
    check_all! { &facts("objects");
        NovaBlockDeviceMapping NovaComputeNode NovaConsoleAuthToken NovaExternalEvent NovaFlavor NovaHvSpec NovaInfoCache NovaInstance
        NovaInstanceAction NovaInstanceActionEvent NovaInstanceFault NovaInstanceNumaCell NovaInstanceNumaTopology
        NovaInstancePciRequest NovaInstancePciRequests NovaInstanceResource NovaKeyPair NovaMigration NovaNetworkRequest NovaPciDevice
        NovaPciDevicePool NovaRequestSpec NovaSchedulerLimits NovaSelection NovaService NovaShareMapping NovaVirtualInterface
    }
}

fn words<T: Copy + VariantArray + Into<&'static str>>() -> Vec<&'static str> {
    let mut words: Vec<_> = T::VARIANTS.iter().map(|word| (*word).into()).collect();
    words.sort_unstable();
    words
}

#[test]
fn states_and_names_are_those_of_nova() {
    let facts = facts("words");
    assert_eq!(
        facts["vm_states"],
        serde_json::json!(words::<NovaVmState>())
    );
    assert_eq!(
        facts["task_states"],
        serde_json::json!(words::<NovaTaskState>())
    );
    assert_eq!(
        facts["external_events"],
        serde_json::json!(words::<NovaEventName>())
    );
    assert_eq!(
        facts["pci_device_statuses"],
        serde_json::json!(words::<NovaPciDeviceStatus>())
    );
}
