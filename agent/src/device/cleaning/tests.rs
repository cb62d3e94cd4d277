//! What was begun has an end, whatever becomes of the journal meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_store::Statement;
use berth_virt::{GuestOnHost, HostEvents, HostView, ObserveError};

use super::*;
use crate::device::register::given_back;
use crate::device::{DeviceOptions, DeviceRegister, DevicesParts};
use crate::guest::{Released, SqlJournal};

const NAME: &str = "0000:81:00.0";

/// A host whose device can be reset; while it is, this is done to the journal.
struct Card {
    register: DeviceRegister,
    meanwhile: &'static str,
}

impl VirtDriver for Card {
    fn name(&self) -> &'static str {
        "card"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        std::future::pending().await
    }

    fn watch(&self) -> HostEvents {
        Box::pin(futures_util::stream::pending())
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        Ok(BTreeMap::new())
    }

    async fn reset_device(&self, _: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        done(&self.register, self.meanwhile).await;
        Ok(DeviceReset::Reset { driver: None })
    }
}

async fn done(register: &DeviceRegister, sql: &'static str) {
    register.execute(vec![Statement::new(sql)]).await.unwrap();
}

async fn devices(meanwhile: &'static str) -> (DeviceRegister, Devices<Card>) {
    let journal = SqlJournal::in_memory().await.unwrap();
    let register = journal.devices();
    let parts = DevicesParts {
        driver: Arc::new(Card {
            register: register.clone(),
            meanwhile,
        }),
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
