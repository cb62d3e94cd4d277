use super::*;
use crate::kernel::{CARD, KernelSimulator, address, survives_a_kill_anywhere};
use crate::tree::CardFixture;

fn group(kernel: &KernelSimulator) -> ViableGroup {
    let sysfs = kernel.tree.sysfs();
    sysfs
        .viable_group(&kernel.allowed(), &KernelSimulator::list())
        .unwrap()
}

fn reserved(kernel: &KernelSimulator) -> String {
    let file = kernel
        .tree
        .path(&format!("bus/pci/devices/{CARD}/driver_override"));
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_function_goes_to_vfio_and_back_to_its_driver() {
    let kernel = KernelSimulator::new();
    let (devices, allowed) = (kernel.devices(), kernel.allowed());
    let bound = devices.bind_vfio(&allowed, &group(&kernel)).await.unwrap();
    assert_eq!(
        (bound, kernel.driver().as_deref()),
        (VfioBound::Bound, Some("vfio-pci"))
    );
    assert_eq!(reserved(&kernel), "vfio-pci");
    assert_eq!(
        kernel.log(),
        [
            format!("bus/pci/devices/{CARD}/driver_override=vfio-pci\n"),
            format!("bus/pci/devices/{CARD}/driver/unbind={CARD}"),
            format!("bus/pci/drivers_probe={CARD}"),
        ]
    );
    let released = devices.release_vfio(&allowed, Some("igb")).await.unwrap();
    assert_eq!(
        (released, kernel.driver().as_deref()),
        (VfioReleased::Released, Some("igb"))
    );
    assert_eq!(reserved(&kernel), "(null)");
}

#[tokio::test]
async fn what_is_done_already_is_not_done_again() {
    let kernel = KernelSimulator::new();
    let (devices, allowed) = (kernel.devices(), kernel.allowed());
    let nothing = devices.release_vfio(&allowed, Some("igb")).await.unwrap();
    assert_eq!(
        (nothing, kernel.log().len()),
        (VfioReleased::AlreadyReleased, 0)
    );
    devices.bind_vfio(&allowed, &group(&kernel)).await.unwrap();
    let writes = kernel.log().len();
    let again = devices.bind_vfio(&allowed, &group(&kernel)).await.unwrap();
    assert_eq!(
        (again, kernel.log().len()),
        (VfioBound::AlreadyBound, writes)
    );
}

#[tokio::test]
async fn a_function_without_a_driver_goes_back_to_none() {
    let kernel = KernelSimulator::new();
    kernel
        .tree
        .remove(&format!("bus/pci/devices/{CARD}/driver"));
    let (devices, allowed) = (kernel.devices(), kernel.allowed());
    devices.bind_vfio(&allowed, &group(&kernel)).await.unwrap();
    devices.release_vfio(&allowed, None).await.unwrap();
    assert_eq!(
        (kernel.driver(), reserved(&kernel).as_str()),
        (None, "(null)")
    );
}

#[tokio::test(start_paused = true)]
async fn binding_survives_a_kill_anywhere() {
    let act = |kernel: std::sync::Arc<KernelSimulator>| async move {
        let bound = kernel
            .devices()
            .bind_vfio(&kernel.allowed(), &group(&kernel))
            .await;
        bound.map(|_| ()).map_err(|error| error.to_string())
    };
    let check = |kernel: &KernelSimulator| assert_eq!(kernel.driver().as_deref(), Some("vfio-pci"));
    survives_a_kill_anywhere(|_| {}, act, check).await;
}

#[tokio::test(start_paused = true)]
async fn giving_back_survives_a_kill_anywhere() {
    let prepare = |kernel: &KernelSimulator| {
        kernel
            .tree
            .remove(&format!("bus/pci/devices/{CARD}/driver"));
        let vfio = kernel.tree.path("bus/pci/drivers/vfio-pci");
        kernel
            .tree
            .link(&format!("devices/pci0000:80/{CARD}/driver"), &vfio);
        kernel.tree.write(
            &format!("bus/pci/devices/{CARD}/driver_override"),
            "vfio-pci\n",
        );
    };
    let act = |kernel: std::sync::Arc<KernelSimulator>| async move {
        let released = kernel
            .devices()
            .release_vfio(&kernel.allowed(), Some("igb"))
            .await;
        released.map(|_| ()).map_err(|error| error.to_string())
    };
    let check = |kernel: &KernelSimulator| {
        assert_eq!(
            (kernel.driver().as_deref(), reserved(kernel).as_str()),
            (Some("igb"), "(null)")
        );
    };
    survives_a_kill_anywhere(prepare, act, check).await;
}

#[tokio::test]
async fn a_bind_that_was_begun_can_be_undone() {
    let kernel = KernelSimulator::new();
    kernel.refuses("drivers_probe");
    let (devices, allowed) = (kernel.devices(), kernel.allowed());
    let error = devices
        .bind_vfio(&allowed, &group(&kernel))
        .await
        .unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry);
    assert_eq!(kernel.driver(), None);
    devices.release_vfio(&allowed, Some("igb")).await.unwrap();
    assert_eq!(
        (kernel.driver().as_deref(), reserved(&kernel).as_str()),
        (Some("igb"), "(null)")
    );
}

#[tokio::test]
async fn without_the_vfio_driver_nothing_is_touched() {
    let kernel = KernelSimulator::new();
    kernel.tree.remove_directory("bus/pci/drivers/vfio-pci");
    let error = kernel
        .devices()
        .bind_vfio(&kernel.allowed(), &group(&kernel))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("modprobe vfio-pci"), "{error}");
    assert_eq!(
        (kernel.log().len(), kernel.driver().as_deref()),
        (0, Some("igb"))
    );
}

#[tokio::test]
async fn another_card_in_the_same_slot_is_not_touched() {
    let kernel = KernelSimulator::new();
    let (allowed, group) = (kernel.allowed(), group(&kernel));
    kernel
        .tree
        .write(&format!("bus/pci/devices/{CARD}/device"), "0x0001\n");
    let devices = kernel.devices();
    assert!(matches!(
        devices.bind_vfio(&allowed, &group).await,
        Err(VfioError::Changed { .. })
    ));
    assert!(matches!(
        devices.release_vfio(&allowed, None).await,
        Err(VfioError::Changed { .. })
    ));
    kernel.tree.remove(&format!("bus/pci/devices/{CARD}"));
    assert!(matches!(
        devices.bind_vfio(&allowed, &group).await,
        Err(VfioError::Gone { .. })
    ));
    assert_eq!(
        devices.release_vfio(&allowed, None).await.unwrap(),
        VfioReleased::NotThere
    );
    assert_eq!(kernel.log().len(), 0);
}

#[tokio::test]
async fn a_group_is_the_functions_own() {
    let kernel = KernelSimulator::new();
    kernel.tree.card(CardFixture::gpu("0000:82:00.0", 13));
    let sysfs = kernel.tree.sysfs();
    let other = sysfs
        .allowed(&KernelSimulator::list(), "82:00.0".parse().unwrap())
        .unwrap();
    let refused = kernel.devices().bind_vfio(&other, &group(&kernel)).await;
    assert!(matches!(refused, Err(VfioError::OtherGroup { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_kernel_that_says_yes_and_does_nothing_is_found_out() {
    let kernel = KernelSimulator::new();
    kernel.ignores("drivers_probe");
    let error = kernel
        .devices()
        .bind_vfio(&kernel.allowed(), &group(&kernel))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("on vfio-pci")
            && text.contains("no driver")
            && text.contains(&address().to_string()),
        "{text}"
    );
}

#[tokio::test]
async fn a_drivers_name_is_no_path() {
    let kernel = KernelSimulator::new();
    for name in ["../../x", "", "..", "a/b"] {
        let refused = kernel
            .devices()
            .release_vfio(&kernel.allowed(), Some(name))
            .await;
        assert!(
            matches!(refused, Err(VfioError::DriverName { .. })),
            "{name}"
        );
    }
    assert_eq!(kernel.log().len(), 0);
}
