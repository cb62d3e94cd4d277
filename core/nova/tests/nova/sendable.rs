//! No message carries an object that is newer than the release's.

use berth_nova::conductor::{ConductorApi, ConductorCall};
use berth_nova::objects::{NovaInstance, NovaObjectType, NovaService};
use berth_nova::{ObjectVersion, SchedulerNews, UnsendableObject};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::golden::made_again;
use crate::messages::{map, messages_of, objects_in, release};

fn version_of(object: &Value) -> ObjectVersion {
    let text = object["nova_object.version"].as_str().unwrap();
    text.parse().unwrap()
}

/// The first object in the JSON that is newer than the release's, found without the code under test.
fn newer(json: &Value) -> Option<String> {
    objects_in(json).into_iter().find_map(|object| {
        let name = object["nova_object.name"].as_str().unwrap();
        let table = release().version_of(name).ok();
        let version = version_of(object);
        let fits =
            table.is_some_and(|table| table.major == version.major && table.minor >= version.minor);
        (!fits).then(|| format!("{name} {version}"))
    })
}

/// Gives one of the objects in the JSON another version.
fn with_version(json: &mut Value, which: &Index, version: ObjectVersion) {
    fn all<'v>(json: &'v mut Value, found: &mut Vec<&'v mut Value>) {
        match json {
            Value::Array(items) => items.iter_mut().for_each(|item| all(item, found)),
            Value::Object(entries) => {
                for (key, value) in entries {
                    match key.as_str() {
                        "nova_object.version" => found.push(value),
                        _ => all(value, found),
                    }
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    all(json, &mut found);
    if !found.is_empty() {
        let index = which.index(found.len());
        *found[index] = version.to_string().into();
    }
}

#[test]
fn every_constructor_makes_messages_of_the_release() {
    for message in messages_of("out", "call") {
        let call = made_again(message);
        let args = Value::Object(call.args().clone());
        assert_eq!(newer(&args), None, "{call}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_call_exists_only_if_no_object_in_it_is_newer(
        message in any::<Index>(),
        object in any::<Index>(),
        major in 0_u32..4,
        minor in 0_u32..40,
    ) {
        let mut calls = messages_of("out", "call");
        calls.retain(|message| message["method"] == "object_action");
        let mut args = message.get(&calls)["args"].clone();
        with_version(&mut args, &object, ObjectVersion { major, minor });
        let expected = newer(&args);
        let call = ConductorCall::restored(release(), "object_action", map(&args));
        prop_assert_eq!(call.is_err(), expected.is_some(), "{:?}", expected);
        if args["objinst"]["nova_object.name"] == "Instance" {
            let instance = NovaInstance::from_json(args["objinst"].clone()).unwrap();
            let api = ConductorApi::new(release());
            let saved = api.save_instance(&instance, &[]);
            prop_assert_eq!(saved.is_err(), expected.is_some());
            prop_assert_eq!(api.destroy_instance(&instance).is_err(), expected.is_some());
            let news = SchedulerNews::updated(release(), "cmp1", vec![instance]);
            prop_assert_eq!(news.is_err(), expected.is_some());
        }
    }
}

#[test]
fn a_field_that_is_set_to_a_newer_object_is_found_as_well() {
    let mut service: NovaService = release().new_object().unwrap();
    let node = json!({
        "nova_object.name": "ComputeNode", "nova_object.namespace": "nova", "nova_object.version": "1.20", "nova_object.data": {},
    });
    let node = berth_nova::NovaObject::from_json(node).unwrap();
    service.object_mut().set("compute_node", node);
    let error = ConductorApi::new(release())
        .create_service(&service)
        .unwrap_err();
    assert!(matches!(error, UnsendableObject::Newer { .. }), "{error}");
}

#[test]
fn a_received_object_that_is_newer_goes_back_to_be_made_older() {
    let json = json!({
        "nova_object.name": "Service", "nova_object.namespace": "nova", "nova_object.version": "1.23",
        "nova_object.data": {"host": "cmp1", "from_the_future": 1},
    });
    let object = berth_nova::NovaObject::from_json(json.clone()).unwrap();
    let request = ConductorApi::new(release()).backport(object).unwrap();
    let args = request.call().args();
    assert_eq!(args["objinst"], json);
    assert_eq!(args["object_versions"]["Service"], "1.22");
    let mut older = json;
    older["nova_object.version"] = "1.22".into();
    let older = request.answer(older).unwrap();
    assert_eq!(older.version().to_string(), "1.22");
}
