//! A device is a guest's, or it is being reset, or it is set aside; never two of these by surprise.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::ConsumerUuid;
use proptest::prelude::*;

use crate::guest_journal::{DeviceClaim, GuestJournal};
use crate::register::{
    DeviceRegister, Quarantine, QuarantineAfterReset, QuarantinedBy, ResetEnd, ResetStart,
    WithheldReason,
};
use crate::samples::{bound, guest, request};
use crate::sql_journal::SqlJournal;
use crate::tests::{names, runtime, script};

async fn journal() -> (SqlJournal, DeviceRegister) {
    let journal = SqlJournal::in_memory().await.unwrap();
    for number in 0..3 {
        journal.accept(&request(number, &[1, 2])).await.unwrap();
    }
    let register = journal.devices();
    (journal, register)
}

fn name(device: u32) -> String {
    format!("0000:{device:02x}:00.0")
}

async fn claim(journal: &SqlJournal, number: u32, device: u32) -> DeviceClaim {
    let devices = bound(&[device]);
    let names = names(&devices);
    let claimed = journal.claim_devices(guest(number), &names, &devices).await;
    claimed.unwrap()
}

fn clean(release_count: i64) -> ResetEnd {
    ResetEnd::Clean {
        release_count: Some(release_count),
        quarantine: QuarantineAfterReset::Keep,
    }
}

fn why() -> Quarantine {
    Quarantine::new("it smells", QuarantinedBy::Operator)
}

#[tokio::test]
async fn no_guest_claims_a_device_that_is_being_reset() {
    let (journal, register) = journal().await;
    assert_eq!(
        register.begin_reset(&name(1)).await.unwrap(),
        ResetStart::Begun
    );
    assert_eq!(
        register.begin_reset(&name(1)).await.unwrap(),
        ResetStart::InProgress
    );
    let withheld = DeviceClaim::Withheld {
        device: name(1),
        why: WithheldReason::Resetting,
    };
    assert_eq!(claim(&journal, 1, 1).await, withheld);
    register.end_reset(&name(1), &clean(7)).await.unwrap();
    assert_eq!(
        register.read().await.unwrap().release_count_at_reset[&name(1)],
        7
    );
    assert_eq!(claim(&journal, 1, 1).await, DeviceClaim::Claimed);
}

#[tokio::test]
async fn a_device_that_a_guest_has_is_not_reset() {
    let (journal, register) = journal().await;
    assert_eq!(claim(&journal, 1, 1).await, DeviceClaim::Claimed);
    let held = ResetStart::Held(guest(1));
    assert_eq!(register.begin_reset(&name(1)).await.unwrap(), held);
    journal.drop_devices(guest(1)).await.unwrap();
    assert_eq!(
        register.begin_reset(&name(1)).await.unwrap(),
        ResetStart::Begun
    );
}

#[tokio::test]
async fn a_device_set_aside_is_claimed_by_nobody_but_who_has_it() {
    let (journal, register) = journal().await;
    assert_eq!(claim(&journal, 1, 1).await, DeviceClaim::Claimed);
    for device in [1, 2] {
        register.quarantine(&name(device), &why()).await.unwrap();
    }
    assert_eq!(claim(&journal, 1, 1).await, DeviceClaim::Claimed, "again");
    let withheld = DeviceClaim::Withheld {
        device: name(2),
        why: WithheldReason::Quarantined("it smells".to_owned()),
    };
    assert_eq!(claim(&journal, 2, 2).await, withheld);
    register.end_quarantine(&name(2), None).await.unwrap();
    assert_eq!(claim(&journal, 2, 2).await, DeviceClaim::Claimed);
}

#[tokio::test]
async fn a_start_knows_every_reset_that_was_cut_off_and_every_quarantine() {
    let folder = tempfile::tempdir().unwrap();
    {
        let journal = SqlJournal::open(folder.path()).await.unwrap();
        let register = journal.devices();
        register.begin_reset(&name(1)).await.unwrap();
        register.quarantine(&name(2), &why()).await.unwrap();
        journal.close().await;
    }
    let journal = SqlJournal::open(folder.path()).await.unwrap();
    let found = journal.devices().read().await.unwrap();
    assert_eq!(found.running_resets, BTreeSet::from([name(1)]));
    assert_eq!(
        found.release_count_at_reset,
        BTreeMap::new(),
        "no reset of it was verified"
    );
    assert_eq!(found.quarantines[&name(2)].reason, "it smells");
    assert_eq!(found.quarantines[&name(2)].by, QuarantinedBy::Operator);
}

#[tokio::test]
async fn a_journal_of_before_devices_were_known_gets_their_tables() {
    let folder = tempfile::tempdir().unwrap();
    {
        let journal = SqlJournal::open(folder.path()).await.unwrap();
        journal.close().await;
    }
    script(
        folder.path(),
        "DROP TABLE device_quarantine; DROP TABLE device_cleaning; DROP TABLE device_cleaned; DROP TABLE device_disabled; \
         DROP TABLE fabric_partition",
    )
    .await;
    let journal = SqlJournal::open(folder.path()).await.unwrap();
    assert_eq!(journal.devices().read().await.unwrap(), Default::default());
    let partitions = journal.devices().partitions_of(guest(1)).await;
    assert_eq!(partitions.unwrap(), []);
}

#[derive(Debug, Clone)]
enum Op {
    Claim(u32, u32),
    Disclaim(u32),
    Begin(u32),
    End(u32, bool),
    Quarantine(u32),
    Release(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let (guests, devices) = (0..3_u32, 1..3_u32);
    prop_oneof![
        (guests.clone(), devices.clone()).prop_map(|(g, d)| Op::Claim(g, d)),
        guests.prop_map(Op::Disclaim),
        devices.clone().prop_map(Op::Begin),
        (devices.clone(), any::<bool>()).prop_map(|(d, well)| Op::End(d, well)),
        devices.clone().prop_map(Op::Quarantine),
        devices.prop_map(Op::Release),
    ]
}

/// What must be so, by device.
#[derive(Default)]
struct Model {
    held: BTreeMap<String, ConsumerUuid>,
    resetting: BTreeSet<String>,
    aside: BTreeSet<String>,
}

async fn apply(op: Op, journal: &SqlJournal, register: &DeviceRegister, model: &mut Model) {
    match op {
        Op::Claim(number, device) => {
            let key = name(device);
            let holder = model.held.get(&key).copied();
            let expected = match holder {
                Some(holder) => holder == guest(number),
                None => !model.resetting.contains(&key) && !model.aside.contains(&key),
            };
            let ours = claim(journal, number, device).await == DeviceClaim::Claimed;
            assert_eq!(ours, expected, "{key}");
            if ours {
                model.held.retain(|_, holder| *holder != guest(number));
                model.held.insert(key, guest(number));
            }
        }
        Op::Disclaim(number) => {
            journal.drop_devices(guest(number)).await.unwrap();
            model.held.retain(|_, holder| *holder != guest(number));
        }
        Op::Begin(device) => {
            let begun = register.begin_reset(&name(device)).await.unwrap();
            let expected = match model.held.get(&name(device)) {
                Some(holder) => ResetStart::Held(*holder),
                None if model.resetting.contains(&name(device)) => ResetStart::InProgress,
                None => ResetStart::Begun,
            };
            assert_eq!(begun, expected);
            if begun == ResetStart::Begun {
                model.resetting.insert(name(device));
            }
        }
        // Whoever has not begun ends nothing.
        Op::End(device, well) if model.resetting.remove(&name(device)) => {
            let end = match well {
                true => clean(1),
                false => ResetEnd::Failed(why()),
            };
            register.end_reset(&name(device), &end).await.unwrap();
            if !well {
                model.aside.insert(name(device));
            }
        }
        Op::End(..) => {}
        Op::Quarantine(device) => {
            register.quarantine(&name(device), &why()).await.unwrap();
            model.aside.insert(name(device));
        }
        Op::Release(device) => {
            register.end_quarantine(&name(device), None).await.unwrap();
            model.aside.remove(&name(device));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_device_is_never_held_and_reset_at_once(ops in proptest::collection::vec(op(), 1..40)) {
        runtime().block_on(async {
            let (journal, register) = journal().await;
            let mut model = Model::default();
            for op in ops {
                apply(op, &journal, &register, &mut model).await;
                let found = register.read().await.unwrap();
                assert!(found.held.keys().all(|key| !found.running_resets.contains(key)));
                assert_eq!(found.held, model.held);
                assert_eq!(found.running_resets, model.resetting);
                assert!(found.quarantines.keys().eq(model.aside.iter()));
            }
        });
    }
}
