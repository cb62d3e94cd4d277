//! Guests created on a fake machine.

use std::path::Path;
use std::time::Duration;

use berth_fake::{FakeDriver, machines as shipped};
use berth_model::{ConsumerUuid, NodeName, PciAddress};
use berth_virt::conformance::{check, check_guests, check_watch, sample_guest};
use berth_virt::guest_spec::{
    AttachedDevice, DeviceOrigin, GuestDevice, GuestDevices, GuestSpec, PciManagement,
};
use berth_virt::{
    GuestDestroyOutcome, GuestError, GuestSpawnOutcome, ObserveError, PowerAction, VirtDriver,
};
use tokio::time::sleep;
use uuid::Uuid;

fn spec(number: u128, devices: Vec<AttachedDevice>) -> GuestSpec {
    let uuid = ConsumerUuid::from(Uuid::from_u128(number << 64));
    GuestSpec {
        devices: GuestDevices::new(devices).unwrap(),
        ..sample_guest(uuid, &format!("made-{number}"))
    }
}

fn attached(device: GuestDevice, request: u128) -> AttachedDevice {
    let origin = DeviceOrigin::Arq(Uuid::from_u128(request).into());
    AttachedDevice { device, origin }
}

fn function(address: PciAddress, request: u128) -> AttachedDevice {
    let managed = PciManagement::Hypervisor;
    attached(GuestDevice::Pci { address, managed }, request)
}

fn mdev(request: u128) -> AttachedDevice {
    let uuid = Uuid::from_u128(0x77);
    attached(GuestDevice::Mdev { uuid }, request)
}

/// A function of the machine that none of its guests has.
async fn free_function(driver: &FakeDriver) -> Option<PciAddress> {
    let view = driver.observe().await.unwrap();
    let held = driver.guests().await.unwrap();
    let is_free = |address: &PciAddress| {
        let device = berth_virt::HostDeviceId::Function(*address);
        !held
            .values()
            .any(|guest| guest.devices.iter().any(|held| held.device == device))
    };
    let nodes = view.nodes.values();
    let mut all = nodes.flat_map(|node| {
        let of_cards = node.functions.iter().flat_map(|card| &card.addresses);
        of_cards
            .copied()
            .chain(node.gpus.iter().map(|gpu| gpu.address))
    });
    all.find(is_free)
}

#[tokio::test]
async fn every_shipped_machine_keeps_the_promises_about_guests() {
    for (name, text) in shipped() {
        let driver = FakeDriver::from_text(name, text).unwrap();
        let mut devices = vec![mdev(1)];
        let free = free_function(&driver).await;
        devices.extend(free.map(|address| function(address, 2)));
        let rival = spec(2, vec![mdev(3)]);
        let broken = check_guests(&driver, &spec(1, devices), Some(&rival)).await;
        assert_eq!(broken, [], "{name}");
    }
}

fn in_a_file(folder: &Path) -> FakeDriver {
    let machine = folder.join("machine.toml");
    if !machine.exists() {
        std::fs::write(&machine, shipped()[0].1).unwrap();
    }
    FakeDriver::from_file(&machine).unwrap()
}

#[tokio::test]
async fn a_machine_in_a_file_keeps_them_too_and_is_not_written_itself() {
    let folder = tempfile::tempdir().unwrap();
    let driver = in_a_file(folder.path());
    let broken = check_guests(
        &driver,
        &spec(1, vec![mdev(1)]),
        Some(&spec(2, vec![mdev(2)])),
    )
    .await;
    assert_eq!(broken, []);
    assert_eq!(check(&driver).await, []);
    let text = std::fs::read_to_string(folder.path().join("machine.toml")).unwrap();
    assert_eq!(text, shipped()[0].1);
}

#[tokio::test]
async fn a_guest_is_on_the_node_that_its_spec_names() {
    let node = |name: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\nmemory_mib = 1024\ndisk = \"none\"\ncpus = {{ online = \"0-1\" }}\n"
        )
    };
    let driver = FakeDriver::from_text("two", &format!("{}{}", node("a"), node("b"))).unwrap();
    for (number, named) in [(1, Some("b")), (2, Some("a")), (3, None), (4, Some("gone"))] {
        let named = named.map(|name| NodeName::new(name).unwrap());
        let wanted = GuestSpec {
            node: named,
            ..spec(number, Vec::new())
        };
        assert_eq!(
            driver.spawn(&wanted).await.unwrap(),
            GuestSpawnOutcome::Spawned
        );
    }
    let view = driver.observe().await.unwrap();
    let on = |number| {
        let uuid = spec(number, Vec::new()).uuid;
        let mut nodes = view.nodes.iter();
        nodes
            .find(|(_, node)| node.guests.contains_key(&uuid))
            .map(|(name, _)| name.as_str().to_owned())
    };
    // A guest without a node and a guest of a removed node are on the first node.
    assert_eq!(
        [on(1), on(2), on(3), on(4)].map(Option::unwrap),
        ["b", "a", "a", "a"]
    );
}

#[tokio::test]
async fn guests_outlive_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = spec(1, vec![mdev(1)]);
    let first = in_a_file(folder.path());
    assert_eq!(
        first.spawn(&wanted).await.unwrap(),
        GuestSpawnOutcome::Spawned
    );
    let second = in_a_file(folder.path());
    assert_eq!(
        second.spawn(&wanted).await.unwrap(),
        GuestSpawnOutcome::AlreadyThere
    );
    assert_eq!(
        second.guests().await.unwrap(),
        first.guests().await.unwrap()
    );
    let view = second.observe().await.unwrap();
    let seen = view
        .nodes
        .values()
        .find_map(|node| node.guests.get(&wanted.uuid));
    assert_eq!(seen.unwrap().mdevs.len(), 1);
    assert_eq!(
        second.destroy(wanted.uuid).await.unwrap(),
        GuestDestroyOutcome::Destroyed
    );
    assert!(!first.guests().await.unwrap().contains_key(&wanted.uuid));
    let leftovers = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(leftovers, 2, "the machine and its book");
}

#[tokio::test]
async fn a_new_guest_is_an_event() {
    let (name, text) = shipped()[0];
    let driver = FakeDriver::from_text(name, text).unwrap();
    let change = async {
        let _ = driver.spawn(&spec(1, vec![])).await.unwrap();
    };
    let patience = sleep(Duration::from_secs(20));
    assert_eq!(check_watch(&driver, change, patience).await, []);
}

#[tokio::test]
async fn a_corrupt_book_hides_no_device_but_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let driver = in_a_file(folder.path());
    let _ = driver.spawn(&spec(1, vec![mdev(1)])).await.unwrap();
    let book = folder.path().join("machine.toml.guests");
    let text = std::fs::read_to_string(&book).unwrap();
    for corrupt in [&text[..text.len() / 2], "", "{}", "\0"] {
        std::fs::write(&book, corrupt).unwrap();
        let seen = driver.observe().await;
        assert!(
            matches!(seen, Err(ObserveError::Malformed { .. })),
            "{corrupt:?}"
        );
        let spawned = driver.spawn(&spec(2, vec![mdev(1)])).await;
        assert!(
            matches!(spawned, Err(GuestError::Malformed { .. })),
            "{corrupt:?}"
        );
    }
    std::fs::write(&book, &text).unwrap();
    assert!(driver.observe().await.is_ok());
}

#[tokio::test]
async fn a_change_that_a_kill_cut_off_is_not_there_and_the_next_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let driver = in_a_file(folder.path());
    for number in 1..=3 {
        let _ = driver.spawn(&spec(number, vec![])).await.unwrap();
    }
    let book = folder.path().join("machine.toml.guests");
    let text = std::fs::read_to_string(&book).unwrap();
    assert_eq!(text.lines().count(), 3, "one more line for one more guest");
    std::fs::write(&book, &text[..text.len() - 10]).unwrap();
    let guests = driver.guests().await.unwrap();
    assert!(guests.contains_key(&spec(2, vec![]).uuid));
    assert!(!guests.contains_key(&spec(3, vec![]).uuid));
    for number in 3..=4 {
        let spawned = driver.spawn(&spec(number, vec![])).await.unwrap();
        assert_eq!(spawned, GuestSpawnOutcome::Spawned);
    }
    let again = in_a_file(folder.path());
    let guests = again.guests().await.unwrap();
    assert_eq!(guests, driver.guests().await.unwrap());
    for number in 1..=4 {
        assert!(guests.contains_key(&spec(number, vec![]).uuid));
    }
}

#[tokio::test]
async fn a_book_does_not_grow_with_what_was_done_but_with_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let driver = in_a_file(folder.path());
    for _ in 0..130 {
        let _ = driver.spawn(&spec(1, vec![])).await.unwrap();
        assert_eq!(
            driver.destroy(spec(1, vec![]).uuid).await.unwrap(),
            GuestDestroyOutcome::Destroyed
        );
    }
    let book = std::fs::read_to_string(folder.path().join("machine.toml.guests")).unwrap();
    assert!(book.lines().count() <= 101, "{}", book.lines().count());
}

#[tokio::test]
async fn what_the_machine_does_not_have_is_not_given() {
    let (name, text) = shipped()[0];
    let driver = FakeDriver::from_text(name, text).unwrap();
    let nowhere = function("fffe:1f:1f.7".parse().unwrap(), 1);
    let refused = driver.spawn(&spec(1, vec![nowhere])).await.unwrap_err();
    assert!(
        refused.to_string().contains("no PCI function fffe:1f:1f.7"),
        "{refused}"
    );
    assert!(
        !driver
            .guests()
            .await
            .unwrap()
            .contains_key(&spec(1, vec![]).uuid)
    );
}

#[tokio::test]
async fn a_guest_of_the_machine_file_is_its_authors() {
    for (name, text) in shipped() {
        let driver = FakeDriver::from_text(name, text).unwrap();
        let before = driver.guests().await.unwrap();
        let Some((uuid, theirs)) = before.iter().next() else {
            continue;
        };
        assert_eq!(theirs.owner, None);
        let over_it = GuestSpec {
            uuid: *uuid,
            ..spec(1, vec![])
        };
        assert!(matches!(
            driver.spawn(&over_it).await,
            Err(GuestError::Another { .. })
        ));
        assert!(matches!(
            driver.destroy(*uuid).await,
            Err(GuestError::Refused { .. })
        ));
        let started = driver.power(*uuid, PowerAction::Start).await;
        assert!(matches!(started, Err(GuestError::Refused { .. })));
        assert_eq!(driver.guests().await.unwrap(), before);
        return;
    }
    panic!("no shipped machine has a guest");
}
