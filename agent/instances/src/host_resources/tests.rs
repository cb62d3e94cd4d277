//! Tests of devices whose reset fails.

use berth_agent_devices::test_card::TestCard;
use berth_agent_images::{DiskPlan, RecreateDisks};
use berth_agent_journal::samples::{bound, spec};
use berth_virt::HostDeviceId;

use super::*;
use crate::fault_harness::instances;

#[tokio::test]
async fn a_card_that_was_gone_is_not_blamed_for_what_was_tried_before() {
    let device = HostDeviceId::Function("0000:01:00.0".parse().unwrap());
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
    let answers: Mutex<Vec<DeviceError>> = Mutex::new(answers.collect());
    // The last result comes first.
    let card = TestCard::resetting(move || {
        let answer = answers.lock().unwrap().pop().unwrap();
        Box::pin(std::future::ready(Err(answer)))
    });
    let card = Arc::new(card);
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
            has_run_before: true,
            recreate: RecreateDisks::None,
        };
        resources.release(provision).await
    };
    for _ in 0..4 {
        release().await.unwrap_err();
    }
    assert_eq!(
        release().await.unwrap(),
        ReleasedDevices::default(),
        "it is gone"
    );
    for _ in 0..4 {
        release().await.unwrap_err();
    }
    let released = release().await.unwrap();
    assert_eq!(released.quarantined.len(), 1, "five times in a row");
}
