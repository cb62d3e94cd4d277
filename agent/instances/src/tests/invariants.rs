//! Checks of invariants: the shared audit for S3 and L1, and own checks for S4, S5, S7, L3 and L4.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::GuestJournal;
use berth_agent_journal::samples::NODE;
use berth_invariants::{Device, Guest, Journal, SystemSnapshot, audit, audit_at_rest};
use berth_model::{ArqState, ConsumerUuid};
use berth_virt::PowerState;

use crate::fault_harness::{FaultHarness, SimulatedFailure, device_names};

/// The harness's state as a snapshot for the audit.
async fn worlds(harness: &FaultHarness) -> SystemSnapshot {
    let records = harness.journal().guests().await.unwrap();
    let world = harness.world();
    let guests = world.guests.iter().map(|(uuid, found)| {
        let guest = Guest {
            node: NODE.to_owned(),
            migrations: BTreeSet::new(),
            devices: device_names(found).into_iter().collect(),
        };
        (*uuid, guest)
    });
    let devices = world.devices.iter().map(|(name, device)| Device {
        name: name.clone(),
        owners: device
            .prepared
            .into_iter()
            .chain(device.used_by.iter().copied())
            .collect(),
    });
    let open = records.iter().filter_map(|record| record.open());
    SystemSnapshot {
        guests: guests.collect(),
        devices: devices.collect(),
        journals: vec![Journal {
            name: "guests.db".to_owned(),
            open: open.collect(),
        }],
        ..SystemSnapshot::default()
    }
}

/// Invariants that hold at any time.
pub(super) async fn check_always(harness: &FaultHarness) {
    assert_eq!(audit(&worlds(harness).await), []);
    check_write_ahead(&harness.history());
    let world = harness.world();
    assert_eq!(world.violations, Vec::<String>::new());
    // S4: a running guest of ours has exactly the devices that are bound for it, and those of its direct ports.
    for (uuid, found) in world
        .guests
        .iter()
        .filter(|(_, found)| found.owner.is_some())
    {
        if found.state == PowerState::Running {
            let has: BTreeSet<_> = device_names(found).into_iter().collect();
            let mut own = bound_for(&world, *uuid);
            own.extend(functions_of_ports(&world, *uuid));
            assert_eq!(has, own, "S4: guest {uuid}");
        }
    }
}

fn functions_of_ports(
    world: &crate::fault_harness::SimulatedWorld,
    uuid: ConsumerUuid,
) -> Vec<String> {
    let document = world.documents.get(&uuid).into_iter();
    let ports = document.flat_map(|spec| spec.interfaces.ports());
    let functions = ports.filter_map(|(_, port)| port.network_function());
    functions.map(|address| address.to_string()).collect()
}

fn bound_for(world: &crate::fault_harness::SimulatedWorld, uuid: ConsumerUuid) -> BTreeSet<String> {
    let bound = world.arqs.values().filter_map(|arq| match &arq.state {
        ArqState::Bound(binding, handle)
            if binding.instance == uuid && binding.hostname == NODE =>
        {
            Some(handle.info.address().to_string())
        }
        _ => None,
    });
    bound.collect()
}

/// Invariants that hold once all operations have finished.
pub(super) async fn check_at_rest(harness: &FaultHarness) {
    check_always(harness).await;
    assert_eq!(audit_at_rest(&worlds(harness).await), []);
    let world = harness.world();
    let odd = |failure: &SimulatedFailure| {
        // These bind requests that the guest does not list, or never bind. Their creator deletes them.
        matches!(
            failure,
            SimulatedFailure::Extra(_) | SimulatedFailure::Bound(..)
        )
    };
    if !world.failures.iter().any(odd) {
        // L3: a bound request has its guest, and no request is in progress.
        for arq in world.arqs.values() {
            match &arq.state {
                ArqState::Bound(binding, handle) => {
                    let found = world.guests.get(&binding.instance);
                    let name = handle.info.address().to_string();
                    assert!(
                        found.is_some_and(|found| device_names(found).contains(&name)),
                        "L3: {arq:?}"
                    );
                }
                ArqState::Unbound => {}
                state => panic!("L3: a request remains {state:?}"),
            }
        }
    }
    // The switch has the ports of the guests, and no others.
    let ports = world.documents.iter().flat_map(|(uuid, spec)| {
        let ports = spec.interfaces.ports().map(|(_, port)| port);
        let plugged = ports.filter(|port| port.network_function().is_none());
        plugged.map(|port| (port.id(), *uuid))
    });
    assert_eq!(world.plugged, ports.collect(), "ports");
    // L4: an unused device is free and was reset.
    let held: BTreeMap<String, ConsumerUuid> = world
        .guests
        .iter()
        .filter(|(_, found)| found.owner.is_some())
        .flat_map(|(uuid, found)| {
            device_names(found)
                .into_iter()
                .map(move |name| (name, *uuid))
        })
        .collect();
    for (name, device) in &world.devices {
        let owner = held.get(name).copied();
        assert_eq!(device.prepared, owner, "L4: {name}");
        let users: Vec<_> = device.used_by.iter().copied().collect();
        assert_eq!(users, owner.into_iter().collect::<Vec<_>>(), "L4: {name}");
    }
}

/// S7: the journal records the intent of each effect before it, and its end after it.
pub(super) fn check_write_ahead(trace: &[String]) {
    let mut open = BTreeSet::new();
    for line in trace {
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            ["store", "write", step, "begun" | "undoing"] => {
                open.insert(*step);
            }
            ["store", "write", step, "done" | "undone"] => {
                open.remove(step);
            }
            // The claim lasts until the function is released, which a kill may prevent.
            ["store", "write", "claim_function"] => {
                open.insert("claim_function");
            }
            ["sysfs", "write", "prepare_function" | "release_function"] => {
                assert!(open.contains("claim_function"), "S7: {trace:#?}");
            }
            ["store", "write", "live", steps @ ..] => {
                for step in steps.chunks(2) {
                    match step {
                        [step, "begun" | "undoing"] => open.insert(*step),
                        [step, _] => open.remove(step),
                        _ => false,
                    };
                }
            }
            ["store", "write", "turn", "destroy"] => {
                // The goal covers the deletion of requests, whatever the steps are.
                open.insert("destroy");
            }
            ["store", "write", "want"] => {
                open.insert("power");
            }
            ["driver", "write", "power"] => assert!(open.contains("power"), "S7: {trace:#?}"),
            ["driver", "write", "spawn"] => assert!(
                open.contains("define") || open.contains("start"),
                "S7: {trace:#?}"
            ),
            ["driver", "write", "suspend"] => assert!(open.contains("power"), "S7: {trace:#?}"),
            ["driver", "write", "redefine"] => assert!(open.contains("define"), "S7: {trace:#?}"),
            ["driver", "write", "destroy"] => assert!(
                open.contains("define") || open.contains("start"),
                "S7: {trace:#?}"
            ),
            // The spawn before has recorded the intent to prepare.
            ["sysfs", "write", "prepare"] if open.contains("power") => {}
            ["sysfs", "write", ..] => assert!(open.contains("prepare"), "S7: {trace:#?}"),
            ["http", "write", "DELETE", ..] => assert!(
                open.contains("destroy") || open.contains("bind"),
                "S7: {trace:#?}"
            ),
            ["http", "write", ..] => assert!(open.contains("bind"), "S7: {trace:#?}"),
            _ => {}
        }
    }
}

#[test]
#[should_panic(expected = "S7")]
fn an_effect_without_an_intent_is_caught() {
    let trace = ["store write bind begun", "sysfs write prepare"];
    check_write_ahead(&trace.map(ToOwned::to_owned));
}
