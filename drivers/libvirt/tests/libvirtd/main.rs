//! The driver against the real libvirtd with its QEMU driver: what it sees, and what it does when libvirtd goes away.

mod capabilities;
mod cards;
mod consoles;
mod daemon;
mod devices;
mod disk_files;
mod emulator;
mod firmware;
mod guests;
mod held_devices;
mod stuck;
#[path = "../../src/devices/test_kernel.rs"]
#[allow(dead_code, reason = "the unit tests use all of it")]
#[expect(clippy::unwrap_used, reason = "it is a test's")]
mod test_kernel;

use std::time::Duration;

use berth_libvirt::{
    DiskPlacement, LibvirtDriver, LibvirtOptions, MdevTypeOptions, MdevTypes, VirtType,
};
use berth_model::PciAddress;
use berth_virt::{
    HostEvent, HostEvents, HostView, NodeView, ObserveError, PowerState, VirtDriver as _,
};
use daemon::Daemon;
use nix::sys::signal::Signal;
use uuid::Uuid;
use virt::connect::Connect;
use virt::domain::Domain;

/// For what must happen; never reached by a test that passes.
const PATIENCE: Duration = Duration::from_secs(120);

fn driver(daemon: &Daemon) -> LibvirtDriver {
    LibvirtDriver::new(options(daemon))
}

fn options(daemon: &Daemon) -> LibvirtOptions {
    let mut options = LibvirtOptions::new(&daemon.uri());
    options.disk = DiskPlacement::Local("/".into());
    // Emulation is there on every machine.
    options.virt_type = VirtType::Qemu;
    options
}

/// The node, but for its memory: on a virtual machine that may change at any time.
async fn node(driver: &LibvirtDriver) -> NodeView {
    of_node(driver.observe().await.expect("libvirtd runs"))
}

fn of_node(view: HostView) -> NodeView {
    let mut seen = view.nodes.into_values().next().expect("one node");
    seen.memory_mib = 0;
    for cell in &mut seen.cells {
        cell.memory_mib = 0;
    }
    seen
}

/// Waits until the stream brings this event; others may come before it.
async fn until(events: &mut HostEvents, wanted: HostEvent) {
    let waiting = async {
        loop {
            let next = std::future::poll_fn(|context| events.as_mut().poll_next(context)).await;
            if next.expect("the driver lives") == wanted {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .expect("the event comes");
}

fn loaded() {
    berth_libvirt::symbols::load().expect("libvirt0 is installed where this is built");
    // Else libvirt prints each failed try to reach a daemon that is still starting.
    virt::error::clear_error_callback();
}

/// A guest of firmware alone, emulated, so that it starts anywhere.
fn start_guest(connect: &Connect, uuid: Uuid) -> Domain {
    let document = format!(
        "<domain type='qemu'><name>seen</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features><devices/></domain>"
    );
    connect
        .create_domain_xml(&document, 0)
        .expect("the guest starts")
}

#[tokio::test]
async fn a_real_host_is_observed() {
    loaded();
    let daemon = Daemon::start();
    let driver = driver(&daemon);
    let view = driver.observe().await.expect("libvirtd runs");
    assert_eq!(view.hypervisor.kind, "QEMU");
    let seen = view.nodes.values().next().expect("one node");
    assert!(!seen.cpus.online.is_empty());
    assert!(seen.memory_mib > 0);
    assert!(!seen.cells.is_empty());
    let traits: Vec<&str> = seen.traits.iter().map(|one| one.as_str()).collect();
    for expected in [
        "HW_ARCH_X86_64",
        "HW_CPU_X86_SSE2",
        "COMPUTE_STORAGE_BUS_VIRTIO",
        "COMPUTE_FIRMWARE_BIOS",
    ] {
        assert!(traits.contains(&expected), "{expected} in {traits:?}");
    }
    assert!(seen.guests.is_empty());
}

#[tokio::test]
async fn a_guest_that_starts_and_ends_is_an_event_and_is_seen() {
    loaded();
    let daemon = Daemon::start();
    let driver = driver(&daemon);
    let mut events = driver.watch();
    node(&driver).await;
    let uuid = Uuid::from_u128(0x5ee0_0000_0000_4000_8000_0000_0000_0001);
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let guest = start_guest(&connect, uuid);
    until(&mut events, HostEvent::Guests).await;
    let seen = node(&driver).await;
    let of_guest = &seen.guests[&uuid.into()];
    assert_eq!(of_guest.power, PowerState::Running);
    assert_eq!((of_guest.vcpus, of_guest.memory_mib), (1, 64));
    guest.destroy().expect("the guest ends");
    until(&mut events, HostEvent::Guests).await;
    while node(&driver).await.guests.contains_key(&uuid.into()) {
        until(&mut events, HostEvent::Guests).await;
    }
}

#[tokio::test]
async fn a_libvirtd_that_is_killed_is_an_error_and_is_found_again_when_it_is_back() {
    loaded();
    let mut daemon = Daemon::start();
    let driver = driver(&daemon);
    let mut events = driver.watch();
    let before = node(&driver).await;
    daemon.kill();
    until(&mut events, HostEvent::Unknown).await;
    let error = driver.observe().await.expect_err("libvirtd was killed");
    assert!(
        matches!(error, ObserveError::Unreachable { .. }),
        "{error:?}"
    );
    daemon.start_again();
    // The driver reconnects by itself, and then publishes an event.
    until(&mut events, HostEvent::Unknown).await;
    assert_eq!(node(&driver).await, before);
    // Its events are registered again.
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let guest = start_guest(&connect, Uuid::from_u128(2));
    until(&mut events, HostEvent::Guests).await;
    guest.destroy().expect("the guest ends");
}

#[tokio::test]
async fn a_libvirtd_that_hangs_is_an_error_within_the_limit_and_is_well_afterwards() {
    loaded();
    let daemon = Daemon::start();
    let patient = driver(&daemon);
    let before = node(&patient).await;
    let mut hasty = options(&daemon);
    hasty.call_timeout = Duration::from_millis(300);
    let hasty = LibvirtDriver::new(hasty);
    daemon.signal(Signal::SIGSTOP);
    for _ in 0..6 {
        // At first each look leaves a thread behind, later none is left to spare.
        let error = hasty.observe().await.expect_err("libvirtd hangs");
        assert!(
            matches!(
                error,
                ObserveError::TimedOut { .. } | ObserveError::Unreachable { .. }
            ),
            "{error:?}"
        );
    }
    daemon.signal(Signal::SIGCONT);
    assert_eq!(node(&patient).await, before);
}

#[tokio::test]
async fn a_libvirtd_that_comes_back_and_does_not_answer_is_an_error_and_is_well_afterwards() {
    loaded();
    let mut daemon = Daemon::start();
    let mut hasty = options(&daemon);
    hasty.call_timeout = Duration::from_secs(3);
    let hasty = LibvirtDriver::new(hasty);
    let before = node(&driver(&daemon)).await;
    let mut events = hasty.watch();
    assert_eq!(node(&hasty).await, before);
    daemon.kill();
    until(&mut events, HostEvent::Unknown).await;
    let error = hasty.observe().await.expect_err("libvirtd was killed");
    assert!(
        matches!(error, ObserveError::Unreachable { .. }),
        "{error:?}"
    );
    std::fs::remove_file(daemon.socket()).expect("what the killed one left");
    let silent = tokio::net::UnixListener::bind(daemon.socket()).expect("the socket is free");
    // The driver looks for it by itself, and hears nothing.
    let connected = tokio::time::timeout(PATIENCE, silent.accept()).await;
    let connected = connected.expect("it comes").expect("a connection");
    let asked = tokio::time::timeout(Duration::from_secs(60), hasty.observe()).await;
    let error = asked
        .expect("the call has a timeout")
        .expect_err("it hangs");
    assert!(matches!(error, ObserveError::TimedOut { .. }), "{error:?}");
    drop((connected, silent));
    std::fs::remove_file(daemon.socket()).expect("our own");
    daemon.start_again();
    // It may be slow at first, and the driver is hasty.
    let well = async {
        loop {
            match hasty.observe().await {
                Ok(view) => return of_node(view),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let well = tokio::time::timeout(PATIENCE, well).await;
    assert_eq!(well.expect("it is found again"), before);
}

#[tokio::test]
async fn cards_are_seen_with_their_parts() {
    loaded();
    let daemon = Daemon::start_with_cards();
    let connect = Connect::open(Some(&daemon.uri())).expect("libvirtd runs");
    let mdev = format!("mdev_{}_{}", cards::MDEV, cards::GPU).replace(['-', ':', '.'], "_");
    connect
        .lookup_node_device_by_name(&mdev)
        .expect("it is libvirtd that sees the cards, not the device tree alone");
    let address = |text: &str| text.parse::<PciAddress>().expect("an address");
    let mut options = options(&daemon);
    options.sysfs = Some(daemon.device_tree());
    options.mdev_types =
        MdevTypes::new([MdevTypeOptions::new(cards::MDEV_TYPE)]).expect("one type");
    let seen = node(&LibvirtDriver::new(options)).await;
    assert_eq!(seen.gpus.len(), 1);
    let gpu = &seen.gpus[0];
    assert_eq!(gpu.address, address(cards::GPU));
    assert_eq!(gpu.numa_node, Some(0));
    let offered = gpu.offered.as_ref().expect("the type is enabled");
    assert_eq!(offered.total, cards::AVAILABLE + 1, "one exists");
}
