use super::*;
use crate::kernel::{CARD, KernelSimulator, survives_a_kill_anywhere};

#[tokio::test]
async fn virtual_functions_are_made_once() {
    let kernel = KernelSimulator::new();
    let (devices, allowed) = (kernel.devices(), kernel.allowed());
    let made = devices.create_virtual_functions(&allowed, 3).await.unwrap();
    let VirtualFunctionsMade::Made(functions) = made else {
        panic!("{made:?}")
    };
    assert_eq!(functions.len(), 3);
    let again = devices.create_virtual_functions(&allowed, 3).await.unwrap();
    assert_eq!(again, VirtualFunctionsMade::AlreadyThere(functions));
    assert_eq!(
        kernel.log(),
        [format!("bus/pci/devices/{CARD}/sriov_numvfs=3")]
    );
}

#[tokio::test(start_paused = true)]
async fn making_survives_a_kill_anywhere() {
    let act = |kernel: std::sync::Arc<KernelSimulator>| async move {
        let made = kernel
            .devices()
            .create_virtual_functions(&kernel.allowed(), 2)
            .await;
        made.map(|_| ()).map_err(|error| error.to_string())
    };
    survives_a_kill_anywhere(
        |_| {},
        act,
        |kernel| {
            assert_eq!(kernel.tree.sysfs().pci_functions().unwrap().len(), 3);
        },
    )
    .await;
}

#[tokio::test]
async fn a_number_that_stands_is_never_changed() {
    let kernel = KernelSimulator::new();
    let (devices, allowed) = (kernel.devices(), kernel.allowed());
    devices.create_virtual_functions(&allowed, 2).await.unwrap();
    for wanted in [0, 1, 3] {
        let error = devices
            .create_virtual_functions(&allowed, wanted)
            .await
            .unwrap_err();
        assert!(
            matches!(error, SriovError::OtherNumber { found: 2, .. }),
            "{error}"
        );
        assert_eq!(error.disposition(), Disposition::Fatal);
    }
    assert_eq!(kernel.log().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_refused_with_the_remedy() {
    let kernel = KernelSimulator::new();
    let (devices, allowed) = (kernel.devices(), kernel.allowed());
    let error = devices
        .create_virtual_functions(&allowed, 5)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("can have 4"), "{error}");
    kernel.ignores("sriov_numvfs");
    let error = devices
        .create_virtual_functions(&allowed, 4)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("shows 0 virtual functions of 4"),
        "{error}"
    );
    kernel
        .tree
        .remove(&format!("bus/pci/devices/{CARD}/sriov_totalvfs"));
    let error = devices
        .create_virtual_functions(&allowed, 4)
        .await
        .unwrap_err();
    assert!(matches!(error, SriovError::NotPhysical { .. }), "{error}");
}
