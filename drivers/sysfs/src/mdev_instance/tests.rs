use super::*;
use crate::kernel::{CARD, KernelSimulator, survives_a_kill_anywhere};

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn all(kernel: &KernelSimulator) -> usize {
    kernel.tree.sysfs().mdev_devices().unwrap().len()
}

#[tokio::test]
async fn a_mediated_device_is_made_and_removed_once() {
    let kernel = KernelSimulator::new();
    let devices = kernel.devices();
    let make = || devices.create_mdev(CARD, "nvidia-222", uuid(1));
    assert_eq!(make().await.unwrap(), MdevMade::Made);
    assert_eq!(make().await.unwrap(), MdevMade::AlreadyThere);
    assert_eq!(
        devices.remove_mdev(uuid(1)).await.unwrap(),
        MdevRemoved::Removed
    );
    assert_eq!(
        devices.remove_mdev(uuid(1)).await.unwrap(),
        MdevRemoved::NotThere
    );
    assert_eq!((all(&kernel), kernel.log().len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn making_and_removing_survive_a_kill_anywhere() {
    let make = |kernel: std::sync::Arc<KernelSimulator>| async move {
        let made = kernel
            .devices()
            .create_mdev(CARD, "nvidia-222", uuid(1))
            .await;
        made.map(|_| ()).map_err(|error| error.to_string())
    };
    survives_a_kill_anywhere(|_| {}, make, |kernel| assert_eq!(all(kernel), 1)).await;
    let prepare = |kernel: &KernelSimulator| {
        kernel.tree.mdev(CARD, "nvidia-222", &uuid(1).to_string());
        kernel
            .tree
            .write(&format!("bus/mdev/devices/{}/remove", uuid(1)), "");
    };
    let remove = |kernel: std::sync::Arc<KernelSimulator>| async move {
        let removed = kernel.devices().remove_mdev(uuid(1)).await;
        removed.map(|_| ()).map_err(|error| error.to_string())
    };
    survives_a_kill_anywhere(prepare, remove, |kernel| assert_eq!(all(kernel), 0)).await;
}

#[tokio::test]
async fn a_uuid_is_one_devices() {
    let kernel = KernelSimulator::new();
    let devices = kernel.devices();
    devices
        .create_mdev(CARD, "nvidia-222", uuid(1))
        .await
        .unwrap();
    let error = devices
        .create_mdev(CARD, "nvidia-223", uuid(1))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("exists as nvidia-222"),
        "{error}"
    );
    assert_eq!(error.disposition(), Disposition::Fatal);
}

#[tokio::test(start_paused = true)]
async fn what_the_parent_does_not_offer_is_refused() {
    let kernel = KernelSimulator::new();
    let devices = kernel.devices();
    let refused = async |parent: &str, kind: &str, number| {
        devices
            .create_mdev(parent, kind, uuid(number))
            .await
            .unwrap_err()
            .to_string()
    };
    assert!(
        refused("0000:99:00.0", "nvidia-222", 1)
            .await
            .contains("offers no mediated devices")
    );
    assert!(
        refused("../../x", "nvidia-222", 1)
            .await
            .contains("offers no mediated devices")
    );
    let text = refused(CARD, "nvidia-9", 1).await;
    assert!(text.contains("it offers: nvidia-222 nvidia-223"), "{text}");
    devices
        .create_mdev(CARD, "nvidia-222", uuid(1))
        .await
        .unwrap();
    // Both types draw on one pool.
    let text = refused(CARD, "nvidia-223", 2).await;
    assert!(text.contains("left"), "{text}");
    kernel.ignores("create");
    let text = refused(CARD, "nvidia-222", 2).await;
    assert!(text.contains("does not exist, although"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_device_in_use_stays_and_is_reported() {
    let kernel = KernelSimulator::new();
    let devices = kernel.devices();
    devices
        .create_mdev(CARD, "nvidia-222", uuid(1))
        .await
        .unwrap();
    kernel.refuses("remove");
    let error = devices.remove_mdev(uuid(1)).await.unwrap_err();
    assert!(matches!(error, MdevError::Write { .. }), "{error}");
    assert_eq!(all(&kernel), 1);
}
