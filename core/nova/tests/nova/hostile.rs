//! Messages with random damage: nothing panics, and what is read keeps every field.

use berth_nova::compute::{
    ComputeMethod, ComputeRequest, arguments_to_backport, outcome_of_unserved,
};
use berth_nova::conductor::{ConductorApi, ConductorCall};
use berth_nova::objects::{
    NovaBlockDeviceMapping, NovaInstance, NovaObjectList, NovaObjectType, NovaService,
};
use berth_nova::{NovaObject, RemoteFailure};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::messages::{messages, objects_in, ordered, release};

const CASES: u64 = 30_000;

/// SplitMix64, so that a failure can be repeated from its case.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % (end.max(1) as u64)).unwrap()
    }
}

fn junk(numbers: &mut Numbers) -> Value {
    let choices = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(u64::MAX),
        json!(1.5e300),
        json!(""),
        json!("9999999999.0"),
        json!("\u{0}\u{fffd}ÄÖ/../~1"),
        json!([]),
        json!([[[]]]),
        json!({}),
        json!({"nova_object.name": 1}),
        json!({"nova_object.data": {}}),
        json!({
            "nova_object.name": "Instance", "nova_object.namespace": "nova",
            "nova_object.version": "2.8", "nova_object.data": {"x": 1},
        }),
        json!({
            "nova_object.name": "InstanceList", "nova_object.namespace": "nova",
            "nova_object.version": "9.9", "nova_object.data": {"objects": 3},
        }),
    ];
    choices[numbers.below(choices.len())].clone()
}

/// Goes down from the root to a random place and damages it.
fn damage(value: &mut Value, numbers: &mut Numbers) {
    let deeper = numbers.below(8) > 0;
    match value {
        Value::Object(entries) if deeper && !entries.is_empty() => {
            let index = numbers.below(entries.len());
            let key = entries.keys().nth(index).cloned().unwrap_or_default();
            match numbers.below(12) {
                0 => {
                    entries.remove(&key);
                }
                1 => {
                    entries.insert(format!("unknown {index}"), junk(numbers));
                }
                2 => {
                    let moved = entries.remove(&key).unwrap_or_default();
                    entries.insert("nova_object.changes".to_owned(), moved);
                }
                _ => damage(&mut entries[&key], numbers),
            }
        }
        Value::Array(items) if deeper && !items.is_empty() => {
            let index = numbers.below(items.len());
            match numbers.below(6) {
                0 => {
                    items.remove(index);
                }
                1 => items.push(junk(numbers)),
                _ => damage(&mut items[index], numbers),
            }
        }
        other => *other = junk(numbers),
    }
}

/// Reads every object in the JSON, and writes it again.
fn round_trips(value: &Value) -> usize {
    let mut read = 0;
    for json in objects_in(value) {
        if let Ok(object) = NovaObject::from_json(json.clone()) {
            assert_eq!(ordered(&object.into_json()), ordered(json));
            read += 1;
        }
        if let Ok(list) = NovaObjectList::<NovaInstance>::from_json(json.clone()) {
            assert_eq!(ordered(&list.into_json()), ordered(json));
        }
        if let Ok(list) = NovaObjectList::<NovaBlockDeviceMapping>::from_json(json.clone()) {
            assert_eq!(ordered(&list.into_json()), ordered(json));
        }
        if let Ok(instance) = NovaInstance::from_json(json.clone()) {
            reads_and_changes(instance, json);
        }
    }
    read
}

/// Reads fields of an instance, and changes one: all others stay.
fn reads_and_changes(mut instance: NovaInstance, json: &Value) {
    let _ = (
        instance.flavor(),
        instance.numa_topology(),
        instance.pci_requests(),
        instance.metadata(),
        instance.system_metadata(),
        instance.launched_at(),
        instance.power_state(),
        instance.keypairs(),
    );
    if let Ok(Some(cache)) = instance.info_cache() {
        let _ = cache.interfaces();
    }
    for method in [ComputeMethod::SuspendInstance, ComputeMethod::PrepResize] {
        let _ = outcome_of_unserved(method, &instance);
    }
    instance.set_host(Some("cmp9"));
    let changed = instance.into_json();
    let before = json["nova_object.data"].as_object().expect("fields");
    let after = changed["nova_object.data"].as_object().expect("fields");
    for (field, value) in before.iter().filter(|(field, _)| *field != "host") {
        assert_eq!(after.get(field), Some(value), "{field}");
    }
}

/// Reads an answer with the reader of each kind.
fn answers(result: &Value) {
    let api = ConductorApi::new(release());
    let answer = || result.clone();
    let _ = api.minimum_service_version("x").unwrap().answer(answer());
    let _ = api.service("x", "y").unwrap().answer(answer());
    let _ = api.compute_nodes_of_host("x").unwrap().answer(answer());
    let _ = api.resources(Uuid::nil()).unwrap().answer(answer());
    let mut service: NovaService = release().new_object().unwrap();
    if let Ok(updates) = api.save_service(&service).unwrap().answer(answer()) {
        let _ = updates.merge_into(&mut service);
    }
}

#[test]
fn damaged_messages_never_panic_and_never_lose_a_field() {
    let messages = messages();
    let none = Map::new();
    let (mut parsed, mut refused, mut read, mut calls) = (0, 0, 0, 0);
    for case in 0..CASES {
        let mut numbers = Numbers(case);
        let mut message = messages[numbers.below(messages.len())].clone();
        for _ in 0..=numbers.below(3) {
            damage(&mut message, &mut numbers);
        }
        read += round_trips(&message);
        let args = message["args"].as_object().unwrap_or(&none);
        let _ = arguments_to_backport(release(), args);
        let method = message["method"].as_str().unwrap_or_default();
        let version = message["version"].as_str().unwrap_or_default();
        let namespace = message["namespace"].as_str();
        match ComputeRequest::parse(release(), namespace, method, version, args.clone()) {
            Ok(_) => parsed += 1,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
        match ConductorCall::restored(release(), method, args.clone()) {
            Ok(call) => {
                calls += 1;
                assert!(!call.to_string().is_empty());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        answers(message.get("result").unwrap_or(&Value::Null));
        let _ = RemoteFailure::parse(message["failure"].as_str().unwrap_or_default());
    }
    // Neither all nor none is good: the damage reaches every reader.
    assert!(parsed > 1_000 && refused > 1_000, "{parsed} {refused}");
    assert!(read > 30_000 && calls > 1_000, "{read} {calls}");
}
