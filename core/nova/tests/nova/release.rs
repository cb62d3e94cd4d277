//! The version tables.

use std::collections::BTreeSet;

use berth_nova::compute::ComputeMethod;
use berth_nova::conductor::ConductorMethod;
use berth_nova::{NovaRelease, ObjectVersion, UnsendableObject};
use serde_json::json;

use crate::messages::{messages_of, release, text};

#[test]
fn every_table_is_read_and_the_newest_is_last() {
    let versions: Vec<i64> = NovaRelease::all()
        .iter()
        .map(NovaRelease::service_version)
        .collect();
    assert!(versions.is_sorted(), "{versions:?}");
    assert_eq!(release().release(), "34.0.0");
    assert_eq!(release().rpc().compute.to_string(), "6.5");
    assert_eq!(release().rpc().conductor.to_string(), "3.0");
}

#[test]
fn the_oldest_nova_compute_of_a_cell_decides_the_release() {
    for minimum in [0, 72, 73, 74] {
        let fits = NovaRelease::for_minimum(minimum).unwrap();
        assert_eq!(fits.service_version(), 74, "{minimum}");
    }
    assert_eq!(
        NovaRelease::for_minimum(75).unwrap_err().to_string(),
        "the oldest nova-compute of this cell has the service version 75, and this release of Berth has none newer than 74 (Nova \
         34.0.0); install a newer release of Berth"
    );
    assert_eq!(
        NovaRelease::for_minimum(71).unwrap_err().to_string(),
        "a nova-compute of this cell has the service version 71, and Nova 34.0.0 needs at least 72; upgrade that nova-compute first"
    );
    assert!(NovaRelease::for_minimum(-1).is_err());
    assert!(NovaRelease::for_minimum(i64::MAX).is_err());
}

#[test]
fn manifests_are_those_that_nova_compute_sent() {
    let mut compared = BTreeSet::new();
    for message in messages_of("out", "call") {
        let args = &message["args"];
        if args["object_versions"].is_null() {
            continue;
        }
        let class = text(args, "objname");
        let manifest = release().manifest(class).unwrap();
        assert_eq!(manifest.to_json(), args["object_versions"], "{class}");
        compared.insert(class.to_owned());
    }
    assert!(compared.len() >= 12, "{compared:?}");
}

#[test]
fn the_methods_of_the_enumeration_are_those_of_the_release() {
    let ours: BTreeSet<&str> = ComputeMethod::all()
        .iter()
        .map(|method| method.name())
        .collect();
    let table = release().compute_methods();
    assert_eq!(ours, table.keys().map(String::as_str).collect());
    assert_eq!(ours.len(), 73);
    for (name, entry) in table {
        let supported = release().rpc().compute;
        assert!(supported.understands(entry.version), "{name}");
    }
}

#[test]
fn a_conductor_of_the_release_understands_the_versions_of_all_calls() {
    for method in [
        ConductorMethod::ObjectClassActionVersions,
        ConductorMethod::ObjectAction,
        ConductorMethod::ObjectBackportVersions,
        ConductorMethod::BuildInstances,
        ConductorMethod::Ping,
    ] {
        let rpc = release().rpc();
        let table = match method.namespace() {
            None => rpc.conductor,
            Some("compute_task") => rpc.compute_task,
            Some("baseapi") => rpc.baseapi,
            Some(other) => panic!("{other}"),
        };
        assert!(table.understands(method.version()), "{method:?}");
    }
}

#[test]
fn versions_compare_as_numbers_and_only_within_a_major_number() {
    let version = |text: &str| text.parse::<ObjectVersion>().unwrap();
    assert!(version("1.10").understands(version("1.9")));
    assert!(!version("1.9").understands(version("1.10")));
    assert!(!version("2.0").understands(version("1.0")));
    assert_eq!(version("2.8").to_string(), "2.8");
    for text in [
        "",
        "1",
        "1.",
        ".1",
        "1.2.3",
        "+1.2",
        "1.-2",
        "01.2",
        "1.99999999999",
        "a.b",
    ] {
        assert!(text.parse::<ObjectVersion>().is_err(), "{text:?}");
    }
}

#[test]
fn an_object_that_the_release_does_not_have_is_named() {
    let object = |name: &str, version: &str| json!({"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": version, "nova_object.data": {}});
    let check = |json| {
        release()
            .check_sendable(&json)
            .map_err(|error| error.to_string())
    };
    assert_eq!(check(object("Service", "1.22")), Ok(()));
    assert_eq!(check(object("Service", "1.0")), Ok(()));
    assert_eq!(
        check(json!([{"a": object("Service", "1.30")}])),
        Err("the object Service has the version 1.30, and Nova 34.0.0 has 1.22".to_owned())
    );
    assert_eq!(
        check(object("Quantum", "1.0")),
        Err("Nova 34.0.0 has no object Quantum".to_owned())
    );
    assert_eq!(
        check(json!({"nova_object.name": "Service"})),
        Err("nova_object.namespace of the object Service is missing; \"nova\" is right".to_owned())
    );
    assert!(matches!(
        release().manifest("Quantum"),
        Err(UnsendableObject::Unknown { .. })
    ));
}
