use super::*;
use crate::kernel::{CARD, KernelSimulator, ResetEffect, survives_a_kill_anywhere};

fn methods(kernel: &KernelSimulator) -> String {
    let file = kernel
        .tree
        .path(&format!("bus/pci/devices/{CARD}/reset_method"));
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_reset_that_came_back_is_verified() {
    let kernel = KernelSimulator::new();
    let reset = kernel
        .devices()
        .reset(&kernel.allowed(), ResetSelection::Kernels)
        .await
        .unwrap();
    assert_eq!(reset.link.unwrap().to_string(), "8.0 GT/s x16");
    assert_eq!(kernel.log(), [format!("bus/pci/devices/{CARD}/reset=1")]);
}

#[tokio::test]
async fn a_chosen_way_is_taken_and_the_kernels_order_restored() {
    let kernel = KernelSimulator::new();
    let selection = ResetSelection::Only(ResetMethod::Bus);
    kernel
        .devices()
        .reset(&kernel.allowed(), selection)
        .await
        .unwrap();
    let at = format!("bus/pci/devices/{CARD}");
    assert_eq!(
        kernel.log(),
        [
            format!("{at}/reset_method=bus"),
            format!("{at}/reset=1"),
            format!("{at}/reset_method=default")
        ]
    );
    assert_eq!(methods(&kernel), "flr bus");
}

#[tokio::test(start_paused = true)]
async fn a_reset_survives_a_kill_anywhere() {
    let act = |kernel: std::sync::Arc<KernelSimulator>| async move {
        let selection = ResetSelection::Only(ResetMethod::FunctionLevel);
        let reset = kernel.devices().reset(&kernel.allowed(), selection).await;
        reset.map(|_| ()).map_err(|error| error.to_string())
    };
    survives_a_kill_anywhere(|_| {}, act, |kernel| assert_eq!(methods(kernel), "flr bus")).await;
}

#[tokio::test(start_paused = true)]
async fn a_choice_left_standing_by_a_kill_does_not_hide_the_others() {
    let kernel = KernelSimulator::new();
    kernel
        .tree
        .write(&format!("bus/pci/devices/{CARD}/reset_method"), "flr\n");
    let selection = ResetSelection::Only(ResetMethod::Bus);
    kernel
        .devices()
        .reset(&kernel.allowed(), selection)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_card_that_does_not_come_back_is_not_clean() {
    for (comeback, words) in [
        (ResetEffect::AllOnes, "all ones"),
        (
            ResetEffect::SlowLink,
            "its link is 8.0 GT/s x1, and was 8.0 GT/s x16",
        ),
        (ResetEffect::AsAnotherCard, "10de:0001 instead of 10de:1eb8"),
        (ResetEffect::Never, "it is gone"),
    ] {
        let kernel = KernelSimulator::new();
        kernel.set_reset_effect(comeback);
        let error = kernel
            .devices()
            .reset(&kernel.allowed(), ResetSelection::Kernels)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.disposition(), Disposition::Fatal);
    }
}

#[tokio::test]
async fn a_way_that_is_not_there_is_not_taken() {
    let kernel = KernelSimulator::new();
    let selection = ResetSelection::Only(ResetMethod::PowerManagement);
    let error = kernel
        .devices()
        .reset(&kernel.allowed(), selection)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("offers: flr bus"), "{error}");
    kernel.tree.remove(&format!("bus/pci/devices/{CARD}/reset"));
    let error = kernel
        .devices()
        .reset(&kernel.allowed(), ResetSelection::Kernels)
        .await
        .unwrap_err();
    assert!(
        matches!(error, FunctionResetError::NoResetMethod { .. }),
        "{error}"
    );
    assert!(
        !kernel.log().iter().any(|write| write.contains("/reset=")),
        "{:?}",
        kernel.log()
    );
}

#[tokio::test]
async fn a_reset_that_the_kernel_refuses_leaves_its_order_as_it_was() {
    let kernel = KernelSimulator::new();
    kernel.refuses("/reset");
    let selection = ResetSelection::Only(ResetMethod::Bus);
    let error = kernel
        .devices()
        .reset(&kernel.allowed(), selection)
        .await
        .unwrap_err();
    assert!(matches!(error, FunctionResetError::Write { .. }), "{error}");
    assert_eq!(methods(&kernel), "flr bus");
}
