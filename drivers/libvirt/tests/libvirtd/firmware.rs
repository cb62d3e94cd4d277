//! Guests that start by UEFI, on the real libvirtd with Debian's firmware in the real QEMU, emulated.

use std::time::{Duration, Instant};

use berth_virt::guest_spec::{GuestBoot, GuestDisks, GuestSpec, GuestTopology};
use berth_virt::{
    GuestError, GuestPowerOutcome, GuestRedefineOutcome, PowerAction, PowerState, VirtDriver as _,
};
use virt::connect::Connect;

use crate::daemon::Daemon;
use crate::guests::{driver, guest_spec};
use crate::{PATIENCE, loaded};

fn by_uefi(folder: &std::path::Path, secure_boot: bool) -> GuestSpec {
    GuestSpec {
        boot: GuestBoot::Uefi {
            secure_boot,
            stateless: false,
        },
        topology: GuestTopology::plain(1, 256).expect("a small guest"),
        ..guest_spec(folder, GuestDisks::default())
    }
}

/// Waits until the firmware's boot manager speaks on the guest's console.
async fn until_it_speaks(spec: &GuestSpec) {
    let begun = Instant::now();
    loop {
        let output = std::fs::read(spec.console_log.as_str()).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        if output.contains("BdsDxe") {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{output}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_guest_by_uefi_runs_its_firmware_keeps_its_variables_and_leaves_none() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let spec = by_uefi(folder.path(), false);
    let _ = driver.spawn(&spec).await.expect("it starts");
    until_it_speaks(&spec).await;
    let [variables] = daemon.variables().try_into().expect("one guest's");
    let inode = |path: &std::path::Path| {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata(path).expect("it is there").ino()
    };
    let before = inode(&variables);
    let rebooted = driver.power(spec.uuid, PowerAction::HardReboot).await;
    assert_eq!(rebooted.expect("it is on again"), GuestPowerOutcome::Done);
    until_it_speaks(&spec).await;
    let at_once = PowerAction::Stop {
        grace: Duration::ZERO,
    };
    let _ = driver.power(spec.uuid, at_once).await.expect("it is off");
    // As in a rescue: another document of the same firmware.
    let redefined = driver.redefine(&spec).await.expect("it is off");
    assert_eq!(redefined, GuestRedefineOutcome::Redefined);
    assert_eq!(daemon.variables(), std::slice::from_ref(&variables));
    assert_eq!(inode(&variables), before);
    let _ = driver.destroy(spec.uuid).await.expect("it ends");
    assert_eq!(daemon.variables(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn a_guest_with_secure_boot_gets_a_firmware_that_has_it() {
    loaded();
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let spec = by_uefi(folder.path(), true);
    let _ = driver.spawn(&spec).await.expect("it starts");
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let domain = connect.lookup_domain_by_uuid(*spec.uuid.as_uuid());
    let text = domain.and_then(|domain| domain.xml_desc(0));
    let text = text.expect("it runs");
    assert!(text.contains("secure='yes'"), "{text}");
    let guests = driver.guests().await.expect("guests are listed");
    assert_eq!(guests[&spec.uuid].state, PowerState::Running);
    let _ = driver.destroy(spec.uuid).await.expect("it ends");
    assert_eq!(daemon.variables(), Vec::<std::path::PathBuf>::new());
}

fn stateless(spec: GuestSpec, secure_boot: bool) -> GuestSpec {
    GuestSpec {
        boot: GuestBoot::Uefi {
            secure_boot,
            stateless: true,
        },
        ..spec
    }
}

#[tokio::test]
async fn a_guest_with_stateless_firmware_keeps_no_variables() {
    const TRAIT: &str = "COMPUTE_SECURITY_STATELESS_FIRMWARE";
    loaded();
    let daemon = Daemon::start_with_stateless_firmware();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    let node = crate::node(&driver).await;
    assert!(node.traits.iter().any(|one| one.as_str() == TRAIT));
    let spec = stateless(by_uefi(folder.path(), false), false);
    let _ = driver.spawn(&spec).await.expect("it starts");
    until_it_speaks(&spec).await;
    assert_eq!(daemon.variables(), Vec::<std::path::PathBuf>::new());
    let _ = driver.destroy(spec.uuid).await.expect("it ends");
    // This host has such firmware for guests without secure boot alone.
    let refused = driver.spawn(&stateless(spec, true)).await;
    let refused = refused.expect_err("there is none").to_string();
    let missing = "no stateless UEFI firmware with secure boot:";
    assert!(refused.contains(missing), "{refused}");
}

#[tokio::test]
async fn a_host_without_uefi_says_what_is_missing_and_keeps_nothing_of_the_guest() {
    loaded();
    let daemon = Daemon::start_without_firmware();
    let folder = tempfile::tempdir().expect("a folder");
    let driver = driver(&daemon);
    for (secure_boot, missing) in [
        (false, "no UEFI firmware:"),
        (true, "no UEFI firmware with secure boot:"),
    ] {
        let spec = by_uefi(folder.path(), secure_boot);
        let refused = driver.spawn(&spec).await.expect_err("there is none");
        let message = refused.to_string();
        assert!(
            matches!(refused, GuestError::NoFirmware { .. }),
            "{message}"
        );
        assert!(
            message.contains(missing) && message.contains("ovmf"),
            "{message}"
        );
    }
    assert!(driver.guests().await.expect("guests are listed").is_empty());
    let node = crate::node(&driver).await;
    let traits: Vec<_> = node.traits.iter().map(|one| one.as_str()).collect();
    for name in [
        "COMPUTE_FIRMWARE_UEFI",
        "COMPUTE_SECURITY_STATELESS_FIRMWARE",
    ] {
        assert!(!traits.contains(&name), "{traits:?}");
    }
}
