//! What was begun has an end, whatever becomes of the journal meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{NodeName, ResourceClass};
use berth_store::Statement;
use berth_virt::guest_spec::HostPath;
use berth_virt::{
    DeviceCondition, DeviceOwner, DeviceType, OfferedDevice, PreparedDevice, Preparer,
};
use uuid::Uuid;

use super::*;
use crate::device::devices::Seen;
use crate::device::register::given_back;
use crate::device::report::Advice;
use crate::device::telling::Told;
use crate::device::test_card::Card;
use crate::device::{DeviceOptions, DeviceRegister, DevicesParts};
use crate::guest::disks::InstancesPath;
use crate::guest::reconcile::{GRACE, Reconciled, Reconciler};
use crate::guest::{
    Accelerators, ExternalEvents, GuestFiles, Guests, GuestsParts, HostResources, Released,
    SqlJournal,
};
use crate::metrics::Metrics;
use crate::service::KeptGuests as _;

const NAME: &str = "0000:81:00.0";

async fn done(register: &DeviceRegister, sql: &'static str) {
    register.execute(vec![Statement::new(sql)]).await.unwrap();
}

/// A host whose device can be reset; while it is, this is done to the journal.
async fn devices(meanwhile: &'static str) -> (DeviceRegister, Devices<Card>) {
    let journal = SqlJournal::in_memory().await.unwrap();
    let register = journal.devices();
    let spoilt = register.clone();
    let card = Card::resetting(move || {
        let register = spoilt.clone();
        Box::pin(async move {
            done(&register, meanwhile).await;
            Ok(())
        })
    });
    let parts = DevicesParts {
        driver: Arc::new(card),
        register: register.clone(),
        journal: Arc::new(journal),
        service: None,
        options: DeviceOptions::default(),
    };
    (register, Devices::open(parts).await.unwrap())
}

async fn reset(devices: &Devices<Card>) -> Result<ResetEnd, ResetError> {
    let wanted = wanted(&OfferedHandle::Function(NAME.parse().unwrap()));
    let order = Order {
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
    let released = Released {
        clean: BTreeSet::from([NAME.to_owned()]),
        ..Released::default()
    };
    register.execute(given_back(&released)).await.unwrap();
    assert_eq!(register.begin(NAME).await.unwrap(), Cleaning::Begun);
    register.end(NAME, &Cleaned::Unknown).await.unwrap();
    assert!(!register.take_as_cleaned(NAME, 7).await.unwrap());
}

/// One that was set aside after its reset failed would else wake whoever keeps the devices ten times a second, for ever.
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
    let released = Released {
        spoilt,
        ..Released::default()
    };
    register.execute(given_back(&released)).await.unwrap();
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
    let told = Told::answered(advice);
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

/// A comparison does not find it again: what it removed is said by the one that removed it, and once.
#[tokio::test]
async fn a_mediated_device_that_was_removed_is_found_by_the_comparison_that_did_it() {
    let (_, devices) = devices("SELECT 1").await;
    let nobodys = mdev(1);
    let driver = Arc::clone(&devices.inner.driver);
    driver.mdevs.lock().unwrap().insert(uuid(&nobodys));
    let node = NodeName::new("compute1").unwrap();
    let seen = Seen {
        devices: vec![offered(vec![nobodys.clone()])],
        ..Seen::default()
    };
    let advice = Advice {
        releases: [(nobodys.name(), 0)].into(),
        ..Advice::default()
    };
    devices.known().seen.insert(node.clone(), seen);
    let told = Told::answered(advice);
    devices.known().told.insert(node, told);
    let reconciler = reconciler(&devices);
    let looked = reconciler.look().await.unwrap();
    assert_eq!(codes(looked), [], "a look removes nothing");
    let repaired = reconciler.repair().await.unwrap();
    assert_eq!(codes(repaired), [("mdev_orphan", nobodys.name())]);
    assert_eq!(codes(reconciler.repair().await.unwrap()), []);
}

/// The reconciler of a host with these devices and no guest.
fn reconciler(devices: &Devices<Card>) -> Reconciler<Card, HostResources<Card>> {
    let driver = Arc::clone(&devices.inner.driver);
    let folder = InstancesPath::new(HostPath::new("/nonexistent").unwrap());
    let files = GuestFiles::below(folder);
    let guests = Guests::new(GuestsParts {
        journal: Arc::clone(&devices.inner.journal),
        driver: Arc::clone(&driver),
        resources: Arc::new(HostResources::new(driver, files)),
        accelerators: Accelerators {
            client: None,
            events: ExternalEvents::default(),
            binding_timeout: Duration::from_secs(1),
        },
        boot_id: "boot".to_owned(),
    });
    Reconciler::new(guests, Some(devices.clone()), None)
}

fn codes(found: Reconciled) -> Vec<(&'static str, String)> {
    let found = found.findings.into_iter();
    found.map(|(it, _)| (it.code(), it.subject())).collect()
}

/// What a guest of a journal that was lost left behind, with its spawn cut off before the hypervisor knew of it.
#[tokio::test]
async fn what_a_guest_that_nobody_knows_left_is_taken_back_when_it_was_nobodys_for_a_while() {
    let (register, devices) = devices("SELECT 1").await;
    let function = OfferedHandle::Function(NAME.parse().unwrap());
    let left = |handle: &OfferedHandle, by| PreparedDevice {
        wanted: wanted(handle),
        by,
        fellows: BTreeSet::new(),
    };
    let [ours, anothers, set_aside] = [1, 2, 3].map(mdev);
    let driver = Arc::clone(&devices.inner.driver);
    let there = [&ours, &anothers, &set_aside].map(uuid);
    *driver.mdevs.lock().unwrap() = there.into();
    *driver.prepared.lock().unwrap() = vec![
        left(&function, Preparer::Berth),
        left(&ours, Preparer::Berth),
        left(&anothers, Preparer::Another),
        left(&set_aside, Preparer::Berth),
    ];
    let why = Quarantine::new("no", QuarantinedBy::Operator);
    register.quarantine(&set_aside.name(), &why).await.unwrap();
    devices.refresh().await.unwrap();
    let reconciler = reconciler(&devices);
    let metrics = Metrics::default();
    reconciler.count_by(&metrics);
    let counts = |code: &str, count: usize| {
        let row = format!("berth_reconcile_findings{{code=\"{code}\"}} {count}");
        let page = metrics.render();
        assert!(page.lines().any(|line| line == row), "{row} in {page}");
    };
    let found = [
        ("device_left", function.name()),
        ("mdev_orphan", ours.name()),
    ];
    // A guest that is being taken back leaves it so for a moment.
    for _ in 0..2 {
        assert_eq!(codes(reconciler.look().await.unwrap()), found);
        assert_eq!(codes(reconciler.repair().await.unwrap()), found);
    }
    assert_eq!(driver.prepared.lock().unwrap().len(), 4);
    counts("mdev_orphan", 0);
    reconciler.let_pass(GRACE);
    assert_eq!(codes(reconciler.repair().await.unwrap()), found);
    counts("mdev_orphan", 1);
    counts("guest_stuck", 0);
    assert_eq!(codes(reconciler.look().await.unwrap()), []);
    counts("mdev_orphan", 0);
    let prepared = driver.prepared.lock().unwrap();
    let stays: Vec<_> = prepared.iter().map(|it| it.wanted.device.name()).collect();
    assert_eq!(stays, [anothers.name(), set_aside.name()]);
}

fn mdev(number: u128) -> OfferedHandle {
    OfferedHandle::Mdev {
        uuid: Uuid::from_u128(number),
        parent: NAME.parse().unwrap(),
        mdev_type: "nvidia-35".to_owned(),
    }
}

fn uuid(handle: &OfferedHandle) -> Uuid {
    match handle {
        OfferedHandle::Mdev { uuid, .. } => *uuid,
        OfferedHandle::Function(_) => unreachable!("a mediated device is expected"),
    }
}

fn offered(handles: Vec<OfferedHandle>) -> OfferedDevice {
    OfferedDevice {
        address: NAME.parse().unwrap(),
        vendor_id: 0x10de,
        product_id: 0x1eb8,
        owner: DeviceOwner::Accelerator,
        device_type: DeviceType::Gpu,
        model: None,
        numa_node: None,
        physical_network: None,
        class: ResourceClass::VGPU,
        class_origin: berth_virt::ClassOrigin::Said,
        traits: BTreeSet::new(),
        handles,
        unit: berth_virt::DeviceUnit::Handle,
        set_aside: BTreeSet::new(),
        one_time_use: false,
        condition: DeviceCondition::Fit,
    }
}
