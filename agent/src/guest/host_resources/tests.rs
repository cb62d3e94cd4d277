//! What is made of a device that does not come back.

use std::sync::Mutex;

use berth_virt::{
    DeviceReset, GuestError, GuestOnHost, HostDevice, HostEvents, HostView, ObserveError,
};

use super::*;
use crate::guest::disks::DiskPlan;
use crate::guest::resources::Anew;
use crate::guest::samples::{bound, spec};
use crate::guest::tests::stage::instances;

/// A host whose devices answer so, the last first.
struct Card(Mutex<Vec<DeviceError>>);

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
        Err(self.0.lock().unwrap().pop().unwrap())
    }
}

#[tokio::test]
async fn a_card_that_was_gone_is_not_blamed_for_what_was_tried_before() {
    let device = HostDevice::Function("0000:01:00.0".parse().unwrap());
    let late = || DeviceError::Unfinished {
        device,
        call: "a reset",
        reason: "it takes long".to_owned(),
    };
    let gone = DeviceError::Quarantined {
        device,
        cause: UnfitReason::Vanished,
        reason: "it is gone".to_owned(),
    };
    let four = || std::iter::repeat_with(late).take(4);
    let answers = std::iter::once(late())
        .chain(four())
        .chain([gone])
        .chain(four());
    let card = Arc::new(Card(Mutex::new(answers.collect())));
    let resources = HostResources::new(card, GuestFiles::below(instances()));
    let bound = bound(&[1]);
    let spec = bound.attached_to(&spec(1)).unwrap();
    let plan = DiskPlan::default();
    let release = async || {
        let provision = Provision {
            spec: &spec,
            bound: &bound,
            mdevs: &[],
            disks: &plan,
            ran: true,
            anew: Anew::Nothing,
        };
        resources.release(provision).await
    };
    for _ in 0..4 {
        release().await.unwrap_err();
    }
    assert_eq!(release().await.unwrap(), Released::default(), "it is gone");
    for _ in 0..4 {
        release().await.unwrap_err();
    }
    let released = release().await.unwrap();
    assert_eq!(released.spoilt.len(), 1, "five times in a row");
}
