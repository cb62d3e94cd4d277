use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use berth_virt::conformance::{check_guests, sample_guest};
use berth_virt::guest_spec::{
    AttachedDevice, DesiredPower, DeviceOrigin, GuestDevice, GuestDevices, GuestInterface,
    GuestInterfaces, GuestOwner, GuestPort, InterfaceSource, Label, PciManagement, PortConnection,
    ProjectId,
};
use berth_virt::{GuestDestroyOutcome, HostDeviceId, PowerAction, VirtDriver as _};
use uuid::Uuid;

use super::*;
use crate::LibvirtDriver;
use crate::test_node::{TestGuest, TestNode};

fn attached(device: GuestDevice, request: u128) -> AttachedDevice {
    let origin = DeviceOrigin::Arq(Uuid::from_u128(request).into());
    AttachedDevice { device, origin }
}

fn function(address: &str) -> GuestDevice {
    GuestDevice::Pci {
        address: address.parse().unwrap(),
        managed: PciManagement::Hypervisor,
    }
}

fn guest_spec(number: u128, devices: Vec<AttachedDevice>) -> GuestSpec {
    let uuid = ConsumerUuid::from(Uuid::from_u128(number));
    GuestSpec {
        devices: GuestDevices::new(devices).unwrap(),
        ..sample_guest(uuid, &format!("<guest> & {number}"))
    }
}

fn driver(guests: Vec<TestGuest>) -> (tempfile::TempDir, LibvirtDriver) {
    let directory = tempfile::tempdir().unwrap();
    let node = TestNode {
        cpus: 4,
        memory_mib: 4096,
        guests,
        ..TestNode::default()
    };
    let options = node.write(directory.path()).unwrap();
    (directory, LibvirtDriver::new(options))
}

#[tokio::test]
async fn the_driver_keeps_its_promises_about_guests() {
    let (_directory, driver) = driver(vec![]);
    let mdev = GuestDevice::Mdev {
        uuid: Uuid::from_u128(0x77),
    };
    let spec = guest_spec(1, vec![attached(function("81:00.0"), 1), attached(mdev, 2)]);
    let rival = guest_spec(2, vec![attached(mdev, 3)]);
    assert_eq!(check_guests(&driver, &spec, Some(&rival)).await, []);
}

#[tokio::test]
async fn a_guest_that_somebody_else_made_is_listed_and_left_alone() {
    let theirs = TestGuest {
        functions: vec!["81:00.0".parse().unwrap()],
        ..TestGuest::new("theirs", Uuid::from_u128(1))
    };
    let (_directory, driver) = driver(vec![theirs]);
    let uuid = ConsumerUuid::from(Uuid::from_u128(1));
    let listed = driver.guests().await.unwrap();
    assert_eq!(listed[&uuid].owner, None);
    let held = HeldDevice {
        device: HostDeviceId::Function("81:00.0".parse().unwrap()),
        arq: None,
        is_interface: false,
    };
    assert_eq!(listed[&uuid].devices, [held].into());
    let over_it = driver.spawn(&guest_spec(1, vec![])).await.unwrap_err();
    assert!(
        over_it.to_string().contains("not created by Berth"),
        "{over_it}"
    );
    let its_device = guest_spec(2, vec![attached(function("81:00.0"), 1)]);
    let busy = driver.spawn(&its_device).await.unwrap_err();
    assert!(matches!(busy, GuestError::DeviceBusy { .. }), "{busy}");
    assert_eq!(driver.guests().await.unwrap(), listed);
}

#[tokio::test]
async fn a_guest_that_cannot_be_read_hides_no_other_and_may_have_any_device() {
    let theirs = TestGuest {
        // XML that libvirt accepts, stores and shows, although it is invalid: `y` has no declaration.
        metadata: "<x:a xmlns:x='http://example.com/x'><y:b/></x:a>".to_owned(),
        ..TestGuest::new("theirs", Uuid::from_u128(9))
    };
    let (_directory, driver) = driver(vec![theirs]);
    let plain = guest_spec(1, vec![]);
    let _ = driver.spawn(&plain).await.unwrap();
    let listed = driver.guests().await.unwrap();
    assert_eq!(listed[&plain.uuid].unreadable, None);
    let odd = &listed[&ConsumerUuid::from(Uuid::from_u128(9))];
    assert_eq!(
        (odd.name.as_str(), odd.state),
        ("theirs", PowerState::Running)
    );
    assert!(
        odd.unreadable.as_ref().unwrap().contains("not XML"),
        "{odd:?}"
    );
    let with_device = guest_spec(2, vec![attached(function("81:00.0"), 1)]);
    let held_up = driver.spawn(&with_device).await.unwrap_err();
    assert_eq!(held_up.disposition(), berth_model::Disposition::Retry);
    assert!(held_up.to_string().contains("any device"), "{held_up}");
    assert_eq!(
        driver.destroy(plain.uuid).await.unwrap(),
        GuestDestroyOutcome::Destroyed
    );
}

#[test]
fn a_guest_whose_caller_is_gone_is_neither_started_nor_left_defined() {
    let directory = tempfile::tempdir().unwrap();
    let node = TestNode {
        cpus: 4,
        memory_mib: 4096,
        ..TestNode::default()
    };
    let uri = node.write(directory.path()).unwrap().connection_uri;
    let options = GuestXmlOptions {
        virtualisation: Virtualisation::Test,
        ..GuestXmlOptions::default()
    };
    let spec = guest_spec(1, vec![]);
    let connect = Connect::open(Some(&uri)).unwrap();
    for gives_up_at in 0..2 {
        let asked = std::cell::Cell::new(0);
        let is_waited_for = || asked.replace(asked.get() + 1) < gives_up_at;
        let error = spawn(&connect, &spec, &options, None, &is_waited_for).unwrap_err();
        assert!(
            error.to_string().contains("no longer waits for it"),
            "{error}"
        );
        assert!(
            guests(&connect, &Starts::new(Path::new("/proc")), None)
                .unwrap()
                .is_empty(),
            "{gives_up_at}"
        );
    }
    // A guest defined by another call is not changed.
    let _ = spawn(&connect, &spec, &options, None, &|| true).unwrap();
    let _ = spawn(&connect, &spec, &options, None, &|| false).unwrap_err();
    let left = &guests(&connect, &Starts::new(Path::new("/proc")), None).unwrap()[&spec.uuid];
    assert_eq!(left.state, PowerState::Running);
}

/// A guest with a macvtap of the function `81:02.0`.
fn with_macvtap(number: u128, power: DesiredPower) -> GuestSpec {
    let address = "81:02.0".parse().unwrap();
    let connection = PortConnection::Macvtap {
        address,
        vlan: None,
        trusted: false,
    };
    let id = Uuid::from_u128(7);
    let port = GuestPort::new(id, Label::new("storage").unwrap(), vec![], None, connection);
    let interface = GuestInterface {
        mac: "fa:16:3e:00:00:07".parse().unwrap(),
        source: InterfaceSource::Port(Box::new(port.unwrap())),
    };
    let managed = PciManagement::HostDriver;
    let device = AttachedDevice {
        device: GuestDevice::Pci { address, managed },
        origin: DeviceOrigin::Port(id),
    };
    GuestSpec {
        interfaces: GuestInterfaces::new(vec![interface]).unwrap(),
        power,
        ..guest_spec(number, vec![device])
    }
}

/// The options for guests with a macvtap of the function `81:02.0`, which has this network interface.
fn with_link(link: &str) -> GuestXmlOptions {
    GuestXmlOptions {
        virtualisation: Virtualisation::Test,
        function_links: [("81:02.0".parse().unwrap(), link.to_owned())].into(),
        ..GuestXmlOptions::default()
    }
}

#[test]
fn a_guest_that_is_off_gets_its_macvtap_on_the_interface_that_its_function_has_now() {
    let directory = tempfile::tempdir().unwrap();
    let uri = TestNode::default().write(directory.path()).unwrap();
    let connect = Connect::open(Some(&uri.connection_uri)).unwrap();
    let off = with_macvtap(1, DesiredPower::ShutOff);
    let running = with_macvtap(1, DesiredPower::Running);
    for (spec, link) in [(&off, "ens5v1"), (&off, "ens5v2"), (&running, "ens5v3")] {
        let _ = spawn(&connect, spec, &with_link(link), None, &|| true).unwrap();
        let domain = find(&connect, spec.uuid).unwrap().unwrap();
        let text = domain.xml_desc(0).unwrap();
        assert!(text.contains(&format!("<source dev='{link}'")), "{text}");
    }
}

#[test]
fn a_function_below_the_macvtap_of_another_domain_is_held() {
    let directory = tempfile::tempdir().unwrap();
    let uri = TestNode::default().write(directory.path()).unwrap();
    let connect = Connect::open(Some(&uri.connection_uri)).unwrap();
    let link = directory.path().join("class/net/ens5v1");
    std::fs::create_dir_all(&link).unwrap();
    symlink("../../../0000:81:02.0", link.join("device")).unwrap();
    let sysfs = Sysfs::at(directory.path());
    let spec = with_macvtap(1, DesiredPower::Running);
    let options = with_link("ens5v1");
    let _ = spawn(&connect, &spec, &options, Some(&sysfs), &|| true).unwrap();
    let starts = Starts::new(Path::new("/proc"));
    let listed = guests(&connect, &starts, Some(&sysfs)).unwrap();
    assert_eq!(listed[&spec.uuid].devices, spec.held_devices());
    let rival = guest_spec(2, vec![attached(function("81:02.0"), 1)]);
    let busy = spawn(&connect, &rival, &options, Some(&sysfs), &|| true).unwrap_err();
    assert!(matches!(busy, GuestError::DeviceBusy { .. }), "{busy}");
    // The definition of an own guest that is off may have a previous name of the interface.
    let domain = find(&connect, spec.uuid).unwrap().unwrap();
    domain.destroy().unwrap();
    let listed = guests(&connect, &starts, Some(&sysfs)).unwrap();
    assert!(listed[&spec.uuid].devices.is_empty());
    // Another domain has its devices also while it is off.
    let text = domain.xml_desc(0).unwrap();
    let metadata = text.find("<metadata>").unwrap()..text.find("</metadata>").unwrap();
    let theirs = [&text[..metadata.start], "<metadata>", &text[metadata.end..]].concat();
    let theirs = document::guest(
        "theirs".to_owned(),
        &theirs,
        PowerState::ShutOff,
        Some(&sysfs),
    );
    assert_eq!(theirs.unwrap().devices, spec.held_devices());
}

#[tokio::test]
async fn a_name_is_one_guests() {
    let (_directory, driver) = driver(vec![]);
    let first = guest_spec(1, vec![]);
    let _ = driver.spawn(&first).await.unwrap();
    let namesake = GuestSpec {
        name: first.name.clone(),
        ..guest_spec(2, vec![])
    };
    let taken = driver.spawn(&namesake).await.unwrap_err();
    assert!(matches!(taken, GuestError::NameTaken { .. }), "{taken}");
}

#[tokio::test]
async fn a_guest_of_another_project_or_with_other_devices_is_another_guest() {
    let (_directory, driver) = driver(vec![]);
    let first = guest_spec(1, vec![attached(function("81:00.0"), 1)]);
    let _ = driver.spawn(&first).await.unwrap();
    let project = GuestOwner {
        project: ProjectId::new("another").unwrap(),
        ..first.owner.clone()
    };
    let with_owner = GuestSpec {
        owner: project,
        ..first.clone()
    };
    let for_another_request = guest_spec(1, vec![attached(function("81:00.0"), 9)]);
    for (other, words) in [
        (with_owner, "another project"),
        (for_another_request, "for ARQ"),
        (guest_spec(1, vec![]), "instead of no devices"),
    ] {
        let refused = driver.spawn(&other).await.unwrap_err();
        assert!(matches!(refused, GuestError::Another { .. }), "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
    }
}

#[tokio::test]
async fn a_guest_is_asked_to_end_before_it_is_switched_off() {
    let (_directory, driver) = driver(vec![]);
    let spec = guest_spec(1, vec![]);
    let _ = driver.spawn(&spec).await.unwrap();
    // The test driver's guests shut down at once.
    let grace = Duration::from_secs(60);
    let stopped = driver.power(spec.uuid, PowerAction::Stop { grace }).await;
    assert_eq!(stopped.unwrap(), GuestPowerOutcome::Done);
    let state = driver.guests().await.unwrap()[&spec.uuid].state;
    assert_eq!(state, PowerState::ShutOff);
}

#[tokio::test]
async fn a_spawn_does_not_switch_a_running_guest_off() {
    let (_directory, driver) = driver(vec![]);
    let spec = guest_spec(1, vec![]);
    let _ = driver.spawn(&spec).await.unwrap();
    let off = GuestSpec {
        power: DesiredPower::ShutOff,
        ..spec
    };
    let refused = driver.spawn(&off).await.unwrap_err();
    assert!(refused.to_string().contains("should be off"), "{refused}");
}

#[tokio::test]
async fn a_guest_that_was_made_is_observed_with_what_it_holds() {
    let (_directory, driver) = driver(vec![]);
    let migration = ConsumerUuid::from(Uuid::from_u128(0x319));
    let mut spec = guest_spec(1, vec![attached(function("81:00.0"), 1)]);
    spec.owner.consumer = migration;
    let _ = driver.spawn(&spec).await.unwrap();
    let own = guest_spec(2, vec![]);
    let _ = driver.spawn(&own).await.unwrap();
    let view = driver.observe().await.unwrap();
    let node = view.nodes.into_values().next().unwrap();
    let seen = &node.guests[&spec.uuid];
    assert_eq!(seen.name, spec.name.as_str());
    assert_eq!(seen.functions, ["81:00.0".parse().unwrap()].into());
    assert_eq!(seen.also, [migration].into());
    assert!(node.guests[&own.uuid].also.is_empty());
}
