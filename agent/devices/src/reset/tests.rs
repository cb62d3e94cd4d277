//! Tests of resets while the journal fails: each cleaning that was begun is finished.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::{ReleasedDevices, release_statements};
use berth_model::NodeName;
use uuid::Uuid;

use super::*;
use crate::devices::{LastReport, NodeObservation};
use crate::report::Advice;
use crate::test_card::{NAME, TestCard, devices, done, mdev, offered, uuid};

async fn reset(devices: &DeviceManager<TestCard>) -> Result<ResetOutcome, DeviceResetError> {
    let wanted = wanted_device(&OfferedHandle::Function(NAME.parse().unwrap()));
    let order = ResetRequest {
        release_count: Some(7),
        quarantine: QuarantineAfterReset::Keep,
        failures: 0,
    };
    devices.reset_free(NAME, &wanted, order).await
}

#[tokio::test]
async fn a_reset_whose_end_cannot_be_stored_is_finished_once_the_journal_is_writable() {
    let full = "CREATE TRIGGER full BEFORE DELETE ON device_cleaning \
                BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END";
    let (register, devices) = devices(full).await;
    let end = reset(&devices).await;
    assert!(matches!(end, Err(DeviceResetError::Journal(_))), "{end:?}");
    let table = register.read().await.unwrap();
    assert_eq!(table.running_resets, BTreeSet::from([NAME.to_owned()]));
    done(&register, "DROP TRIGGER full").await;
    while !register.read().await.unwrap().running_resets.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let table = register.read().await.unwrap();
    assert_eq!(
        table.release_count_at_reset[NAME], 7,
        "it was reset, and verified"
    );
}

#[tokio::test]
async fn a_reset_is_over_though_what_is_known_of_other_devices_cannot_be_read() {
    let (register, devices) = devices("SELECT 1").await;
    let odd = "INSERT INTO device_disabled (node, provider) VALUES ('n', 'no provider')";
    done(&register, odd).await;
    let end = reset(&devices).await;
    assert!(matches!(end, Err(DeviceResetError::Journal(_))), "{end:?}");
    done(&register, "DELETE FROM device_disabled").await;
    let table = register.read().await.unwrap();
    assert_eq!(table.running_resets, BTreeSet::new());
}

#[tokio::test]
async fn a_clean_device_is_unclean_after_it_was_programmed() {
    let (register, _) = devices("SELECT 1").await;
    let released = ReleasedDevices {
        clean: BTreeSet::from([NAME.to_owned()]),
        ..ReleasedDevices::default()
    };
    register
        .execute(release_statements(&released))
        .await
        .unwrap();
    assert_eq!(register.begin_reset(NAME).await.unwrap(), ResetStart::Begun);
    register.end_reset(NAME, &ResetEnd::Unknown).await.unwrap();
    assert!(!register.take_reset_at_deletion(NAME, 7).await.unwrap());
}

/// Without the condition, a quarantined device would wake the reporter ten times a second.
#[tokio::test]
async fn a_reset_without_a_retry_does_not_wake_the_reporter() {
    let (_, devices) = devices("SELECT 1").await;
    let now = Instant::now();
    let fails = |name: &str, again| {
        let attempt = ResetAttempt {
            failures: 1,
            retry_at: again,
        };
        devices
            .table()
            .reset_attempts
            .insert(name.to_owned(), attempt);
    };
    fails(NAME, now);
    assert_eq!(devices.next_retry(now), None);
    fails("0000:82:00.0", now + FIRST_PAUSE);
    assert_eq!(devices.next_retry(now), Some(now + FIRST_PAUSE));
}

#[tokio::test]
async fn a_mediated_device_is_removed_only_if_it_certainly_has_no_user() {
    let (register, devices) = devices("SELECT 1").await;
    let [unowned, a_guests, bound, unclean, quarantined_mdev, gone] = [1, 2, 3, 4, 5, 6].map(mdev);
    let all = [
        &unowned,
        &a_guests,
        &bound,
        &unclean,
        &quarantined_mdev,
        &gone,
    ];
    let there = all
        .iter()
        .filter(|handle| ***handle != gone)
        .map(|handle| uuid(handle));
    *devices.inner.driver.mdevs.lock().unwrap() = there.collect();
    let quarantined = BTreeMap::from([(quarantined_mdev.name(), "no".to_owned())]);
    let released = ReleasedDevices {
        quarantined,
        ..ReleasedDevices::default()
    };
    register
        .execute(release_statements(&released))
        .await
        .unwrap();
    let node = NodeName::new("compute1").unwrap();
    let observation = NodeObservation {
        devices: vec![offered(all.map(Clone::clone).into())],
        guests: BTreeSet::new(),
        used: BTreeMap::from([(a_guests.name(), Uuid::from_u128(9).into())]),
    };
    devices.table().observed.insert(node.clone(), observation);
    let removed = || async { devices.remove_orphan_mdevs().await.unwrap() };
    assert_eq!(
        removed().await,
        Vec::<String>::new(),
        "the service has not answered yet"
    );
    // A bound device has no release counter.
    let free = all.iter().filter(|handle| ***handle != bound);
    let advice = Advice {
        release_counts: free.map(|handle| (handle.name(), 0)).collect(),
        unclean: vec![UncleanHandle {
            name: unclean.name(),
            wanted: wanted_device(&unclean),
            release_count: 1,
        }],
        ..Advice::default()
    };
    let report = LastReport::answered(advice);
    devices.table().reports.insert(node, report);
    assert_eq!(removed().await, [unowned.name()]);
    // Checked once: a later device belongs to a guest that is being built.
    devices
        .inner
        .driver
        .mdevs
        .lock()
        .unwrap()
        .insert(uuid(&unowned));
    assert_eq!(removed().await, Vec::<String>::new());
    let left = [&unowned, &a_guests, &bound, &unclean, &quarantined_mdev].map(uuid);
    assert_eq!(*devices.inner.driver.mdevs.lock().unwrap(), left.into());
}
