//! What must hold: the audit where it has the invariant (S3, L1), and what it does not have yet (S4, S5, S7, L3, L4).

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::GuestJournal;
use berth_agent_journal::samples::NODE;
use berth_invariants::{Device, Guest, Journal, SystemSnapshot, audit, audit_at_rest};
use berth_model::{ArqState, ConsumerUuid};
use berth_virt::GuestState;

use crate::stage::{Mishap, Stage, names};

/// The stage as the audit's worlds.
async fn worlds(stage: &Stage) -> SystemSnapshot {
    let records = stage.journal().guests().await.unwrap();
    let world = stage.world();
    let guests = world.guests.iter().map(|(uuid, found)| {
        let guest = Guest {
            node: NODE.to_owned(),
            migrations: BTreeSet::new(),
            devices: names(found).into_iter().collect(),
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

/// At any moment, mid-journey included.
pub(super) async fn always(stage: &Stage) {
    assert_eq!(audit(&worlds(stage).await), []);
    write_ahead(&stage.history());
    let world = stage.world();
    assert_eq!(world.broken, Vec::<String>::new());
    // S4: what a running guest of ours has is what is bound for it.
    for (uuid, found) in world
        .guests
        .iter()
        .filter(|(_, found)| found.owner.is_some())
    {
        if found.state == GuestState::Running {
            let has: BTreeSet<_> = names(found).into_iter().collect();
            assert_eq!(has, bound_for(&world, *uuid), "S4: guest {uuid}");
        }
    }
}

fn bound_for(world: &crate::stage::World, uuid: ConsumerUuid) -> BTreeSet<String> {
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

/// When every journey had its time.
pub(super) async fn at_rest(stage: &Stage) {
    always(stage).await;
    assert_eq!(audit_at_rest(&worlds(stage).await), []);
    let world = stage.world();
    let odd = |mishap: &Mishap| {
        // These bind what the guest was not asked for with, or bind nothing ever: whoever did that ends it.
        matches!(mishap, Mishap::Extra(_) | Mishap::Bound(..))
    };
    if !world.mishaps.iter().any(odd) {
        // L3: a bound request has its guest, and none is on its way.
        for arq in world.arqs.values() {
            match &arq.state {
                ArqState::Bound(binding, handle) => {
                    let found = world.guests.get(&binding.instance);
                    let name = handle.info.address().to_string();
                    assert!(
                        found.is_some_and(|found| names(found).contains(&name)),
                        "L3: {arq:?}"
                    );
                }
                ArqState::Unbound => {}
                state => panic!("L3: a request rests as {state:?}"),
            }
        }
    }
    // L4: what nobody has is free and was reset.
    let held: BTreeMap<String, ConsumerUuid> = world
        .guests
        .iter()
        .filter(|(_, found)| found.owner.is_some())
        .flat_map(|(uuid, found)| names(found).into_iter().map(move |name| (name, *uuid)))
        .collect();
    for (name, device) in &world.devices {
        let owner = held.get(name).copied();
        assert_eq!(device.prepared, owner, "L4: {name}");
        let users: Vec<_> = device.used_by.iter().copied().collect();
        assert_eq!(users, owner.into_iter().collect::<Vec<_>>(), "L4: {name}");
    }
}

/// S7: before each effect there is an intent of it in the journal, and its end comes after it.
pub(super) fn write_ahead(trace: &[String]) {
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
                // The requests of a guest that is deleted go by this word, whatever its steps say.
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
            // What is made ready for a start was made ready for the spawn before.
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
    write_ahead(&trace.map(ToOwned::to_owned));
}
