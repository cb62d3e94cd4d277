use std::sync::Arc;

use super::*;
use crate::kernel::{CARD, KernelSimulator, ResetEffect, survives_a_kill_anywhere};

const IGB: &str = "igb";

fn igb() -> HomeDriver {
    HomeDriver::Driver(Some(IGB.to_owned()))
}

/// The state after the hypervisor was killed while a guest had the function.
fn left_on_vfio(kernel: &KernelSimulator) {
    let driver = format!("bus/pci/devices/{CARD}/driver");
    kernel.tree.remove(&driver);
    let vfio = kernel.tree.path("bus/pci/drivers/vfio-pci");
    kernel.tree.link(&driver, &vfio);
    let reserved = format!("bus/pci/devices/{CARD}/driver_override");
    kernel.tree.write(&reserved, "vfio-pci\n");
}

async fn take_back(
    kernel: &Arc<KernelSimulator>,
    home: &HomeDriver,
) -> Result<ReturnedFunction, ReturnError> {
    let devices = kernel.devices();
    devices
        .return_function(&kernel.allowed(), home, ResetNeed::Always)
        .await
}

#[tokio::test]
async fn a_card_that_is_on_its_driver_again_is_reset_without_it() {
    for home in [igb(), HomeDriver::KernelsChoice] {
        let kernel = KernelSimulator::new();
        let returned = take_back(&kernel, &home).await.unwrap();
        assert_eq!(returned.driver.as_deref(), Some(IGB));
        let at = format!("bus/pci/devices/{CARD}");
        assert_eq!(
            kernel.log(),
            [
                format!("{at}/driver/unbind={CARD}"),
                format!("{at}/reset=1"),
                format!("bus/pci/drivers/igb/bind={CARD}"),
            ]
        );
    }
}

#[tokio::test]
async fn a_card_that_was_left_on_vfio_is_reset_there_and_given_to_its_driver() {
    for home in [igb(), HomeDriver::KernelsChoice] {
        let kernel = KernelSimulator::new();
        left_on_vfio(&kernel);
        let returned = take_back(&kernel, &home).await.unwrap();
        assert_eq!(returned.driver.as_deref(), Some(IGB));
        assert!(returned.reset.is_some());
        assert!(kernel.log()[0].ends_with("reset=1"), "{:?}", kernel.log());
    }
}

#[tokio::test]
async fn a_card_that_rests_on_vfio_stays_there() {
    let kernel = KernelSimulator::new();
    left_on_vfio(&kernel);
    let returned = take_back(&kernel, &HomeDriver::ItsPlace).await.unwrap();
    assert_eq!(returned.driver.as_deref(), Some("vfio-pci"));
    assert_eq!(kernel.log(), [format!("bus/pci/devices/{CARD}/reset=1")]);
}

#[tokio::test(start_paused = true)]
async fn a_kill_anywhere_is_repaired_by_asking_again() {
    let nothing: fn(&KernelSimulator) = |_| {};
    for prepare in [nothing, left_on_vfio] {
        let act = |kernel: Arc<KernelSimulator>| async move {
            let returned = take_back(&kernel, &igb()).await;
            returned.map(|_| ()).map_err(|error| error.to_string())
        };
        survives_a_kill_anywhere(prepare, act, |kernel| {
            assert_eq!(kernel.driver().as_deref(), Some(IGB));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_memory_of_its_driver_a_kill_is_repaired_as_well() {
    let nothing: fn(&KernelSimulator) = |_| {};
    for prepare in [nothing, left_on_vfio] {
        let act = |kernel: Arc<KernelSimulator>| async move {
            let returned = take_back(&kernel, &HomeDriver::KernelsChoice).await;
            returned.map(|_| ()).map_err(|error| error.to_string())
        };
        survives_a_kill_anywhere(prepare, act, |kernel| {
            assert_eq!(kernel.driver().as_deref(), Some(IGB));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_card_that_does_not_come_back_is_given_to_no_driver() {
    for comeback in [
        ResetEffect::AllOnes,
        ResetEffect::SlowLink,
        ResetEffect::AsAnotherCard,
    ] {
        let kernel = KernelSimulator::new();
        kernel.set_reset_effect(comeback);
        let error = take_back(&kernel, &igb()).await.unwrap_err();
        let dead = matches!(
            error,
            ReturnError::Reset(FunctionResetError::NotBack { .. })
        );
        assert!(dead, "{comeback:?}: {error}");
        assert_eq!(kernel.driver(), None);
    }
}

#[tokio::test]
async fn a_card_that_cannot_be_reset_is_left_alone_unless_something_else_cleans_it() {
    let kernel = KernelSimulator::new();
    kernel.tree.remove(&format!("bus/pci/devices/{CARD}/reset"));
    let error = take_back(&kernel, &igb()).await.unwrap_err();
    let no_method = matches!(
        error,
        ReturnError::Reset(FunctionResetError::NoResetMethod { .. })
    );
    assert!(no_method && kernel.log().is_empty(), "{error}");
    left_on_vfio(&kernel);
    let devices = kernel.devices();
    let returned = devices
        .return_function(&kernel.allowed(), &igb(), ResetNeed::WhereOffered)
        .await
        .unwrap();
    let (reset, driver) = (None, Some(IGB.to_owned()));
    assert_eq!(returned, ReturnedFunction { reset, driver });
}

#[tokio::test]
async fn a_card_whose_power_states_alone_can_be_changed_is_not_clean_unless_something_else_cleans_it()
 {
    let kernel = KernelSimulator::new();
    let methods = format!("bus/pci/devices/{CARD}/reset_method");
    kernel.tree.write(&methods, "pm\n");
    let error = take_back(&kernel, &igb()).await.unwrap_err();
    let only = matches!(
        error,
        ReturnError::Reset(FunctionResetError::PowerStateOnly { .. })
    );
    assert!(only && kernel.log().is_empty(), "{error}");
    assert_eq!(error.disposition(), Disposition::Fatal);
    assert!(error.to_string().contains("reset_hook"), "{error}");
    let devices = kernel.devices();
    let returned = devices
        .return_function(&kernel.allowed(), &igb(), ResetNeed::WhereOffered)
        .await
        .unwrap();
    assert!(returned.reset.is_some());
    assert_eq!(kernel.driver().as_deref(), Some(IGB));
}

#[tokio::test]
async fn a_gpu_that_only_its_bus_resets_is_not_clean_unless_its_entry_or_a_cleaner_says_so() {
    let kernel = KernelSimulator::new();
    let methods = format!("bus/pci/devices/{CARD}/reset_method");
    kernel.tree.write(&methods, "bus\n");
    let error = take_back(&kernel, &igb()).await.unwrap_err();
    let text = error.to_string();
    assert!(kernel.log().is_empty(), "{text}");
    assert_eq!(error.disposition(), Disposition::Fatal);
    for part in [
        "the kernel offers bus,",
        "[accelerators] reset_hook",
        "reset_clears_memory = \"yes\"",
        "berth device release 0000:81:00.0",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    let devices = kernel.devices();
    let returned = devices
        .return_function(&kernel.allowed(), &igb(), ResetNeed::WhereOffered)
        .await
        .unwrap();
    assert!(returned.reset.is_some());
    let entry = serde_json::json!({"vendor_id": "10de", "reset_clears_memory": "yes"});
    let list = crate::AllowList::read(&[entry]).unwrap();
    let allowed = kernel.tree.sysfs().allowed(&list, crate::kernel::address());
    let returned = devices
        .return_function(&allowed.unwrap(), &igb(), ResetNeed::Always)
        .await
        .unwrap();
    assert!(returned.reset.is_some());
}
