//! What was begun has an end, whatever becomes of the journal meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::{ReleasedDevices, record_released};
use berth_model::NodeName;
use uuid::Uuid;

use super::*;
use crate::devices::{LastReport, Seen};
use crate::report::Advice;
use crate::test_card::{Card, NAME, devices, done, mdev, offered, uuid};

async fn reset(devices: &Devices<Card>) -> Result<ResetOutcome, ResetError> {
    let wanted = wanted(&OfferedHandle::Function(NAME.parse().unwrap()));
    let order = ResetRequest {
        releases: Some(7),
        quarantine: QuarantineStays::Yes,
        failures: 0,
    };
    devices.reset_free(NAME, &wanted, order).await
}

#[tokio::test]
async fn a_reset_whose_end_the_journal_does_not_take_is_over_as_soon_as_it_does() {
    let full = "CREATE TRIGGER full BEFORE DELETE ON device_cleaning \
                BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END";
    let (register, devices) = devices(full).await;
    let end = reset(&devices).await;
    assert!(matches!(end, Err(ResetError::Journal(_))), "{end:?}");
    let known = register.read().await.unwrap();
    assert_eq!(known.cleaning, BTreeSet::from([NAME.to_owned()]));
    done(&register, "DROP TRIGGER full").await;
    while !register.read().await.unwrap().cleaning.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let known = register.read().await.unwrap();
    assert_eq!(known.cleaned[NAME], 7, "it was reset, and verified");
}

#[tokio::test]
async fn a_reset_is_over_though_what_is_known_of_other_devices_cannot_be_read() {
    let (register, devices) = devices("SELECT 1").await;
    let odd = "INSERT INTO device_disabled (node, provider) VALUES ('n', 'no provider')";
    done(&register, odd).await;
    let end = reset(&devices).await;
    assert!(matches!(end, Err(ResetError::Journal(_))), "{end:?}");
    done(&register, "DELETE FROM device_disabled").await;
    let known = register.read().await.unwrap();
    assert_eq!(known.cleaning, BTreeSet::new());
}

#[tokio::test]
async fn what_a_guest_gave_back_clean_is_not_clean_any_more_when_it_was_programmed_since() {
    let (register, _) = devices("SELECT 1").await;
    let released = ReleasedDevices {
        clean: BTreeSet::from([NAME.to_owned()]),
        ..ReleasedDevices::default()
    };
    register.execute(record_released(&released)).await.unwrap();
    assert_eq!(
        register.begin_cleaning(NAME).await.unwrap(),
        CleaningStart::Begun
    );
    register
        .end_cleaning(NAME, &CleaningOutcome::Unknown)
        .await
        .unwrap();
    assert!(!register.count_as_cleaned(NAME, 7).await.unwrap());
}

/// Without the condition, a device that is quarantined after a failed reset would wake the device loop ten times a second, for ever.
#[tokio::test]
async fn a_reset_that_is_not_tried_again_wakes_nobody() {
    let (_, devices) = devices("SELECT 1").await;
    let now = Instant::now();
    let fails = |name: &str, again| {
        let attempt = Attempt { failures: 1, again };
        devices.known().attempts.insert(name.to_owned(), attempt);
    };
    fails(NAME, now);
    assert_eq!(devices.next_try(now), None);
    fails("0000:82:00.0", now + FIRST_PAUSE);
    assert_eq!(devices.next_try(now), Some(now + FIRST_PAUSE));
}

#[tokio::test]
async fn a_mediated_device_is_removed_only_where_it_is_surely_nobodys() {
    let (register, devices) = devices("SELECT 1").await;
    let [nobodys, a_guests, bound, unclean, set_aside, gone] = [1, 2, 3, 4, 5, 6].map(mdev);
    let all = [&nobodys, &a_guests, &bound, &unclean, &set_aside, &gone];
    let there = all.iter().filter(|it| ***it != gone).map(|it| uuid(it));
    *devices.inner.driver.mdevs.lock().unwrap() = there.collect();
    let spoilt = BTreeMap::from([(set_aside.name(), "no".to_owned())]);
    let released = ReleasedDevices {
        spoilt,
        ..ReleasedDevices::default()
    };
    register.execute(record_released(&released)).await.unwrap();
    let node = NodeName::new("compute1").unwrap();
    let seen = Seen {
        devices: vec![offered(all.map(Clone::clone).into())],
        guests: BTreeSet::new(),
        used: BTreeMap::from([(a_guests.name(), Uuid::from_u128(9).into())]),
    };
    devices.known().seen.insert(node.clone(), seen);
    let removed = || async { devices.remove_orphan_mdevs().await.unwrap() };
    assert_eq!(
        removed().await,
        Vec::<String>::new(),
        "the service said nothing yet"
    );
    // What is bound has no release.
    let free = all.iter().filter(|it| ***it != bound);
    let advice = Advice {
        releases: free.map(|it| (it.name(), 0)).collect(),
        unclean: vec![Unclean {
            name: unclean.name(),
            wanted: wanted(&unclean),
            releases: 1,
        }],
        ..Advice::default()
    };
    let told = LastReport::answered(advice);
    devices.known().told.insert(node, told);
    assert_eq!(removed().await, [nobodys.name()]);
    // Looked for once: what comes later is a guest's that is being built.
    devices
        .inner
        .driver
        .mdevs
        .lock()
        .unwrap()
        .insert(uuid(&nobodys));
    assert_eq!(removed().await, Vec::<String>::new());
    let left = [&nobodys, &a_guests, &bound, &unclean, &set_aside].map(uuid);
    assert_eq!(*devices.inner.driver.mdevs.lock().unwrap(), left.into());
}
