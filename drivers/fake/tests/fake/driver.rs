//! The driver follows the contract, notices edits of its file, and survives invalid edits.

use std::path::Path;
use std::time::Duration;

use berth_fake::{FakeDriver, GpuHost, Machine, MachineError, machines as shipped};
use berth_model::{Disposition, NodeName};
use berth_virt::conformance::{check, check_recovery, check_watch};
use berth_virt::{PowerState, ResourceModel, VirtDriver};
use tokio::time::sleep;

/// Much longer than an event takes; only a broken driver reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

fn host(guests: u32) -> Machine {
    Machine::gpu_host(&GpuHost {
        name: NodeName::new("big-01").unwrap(),
        gpus: 8,
        guests,
        second_unit_every: 5,
        migration_every: 7,
        model: ResourceModel::default(),
    })
}

fn rewrite(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn every_shipped_machine_keeps_the_contracts_promises() {
    for (name, text) in shipped() {
        let driver = FakeDriver::from_text(name, text).unwrap();
        assert_eq!(check(&driver).await, [], "{name}");
    }
}

#[tokio::test]
async fn a_generated_machine_keeps_them_too() {
    let driver = FakeDriver::from_machine("big", &host(40));
    assert_eq!(check(&driver).await, []);
}

#[tokio::test]
async fn a_machine_in_memory_reports_changes_and_recovers() {
    let (name, text) = shipped()[0];
    let driver = FakeDriver::from_text(name, text).unwrap();
    let change = async {
        driver
            .replace(&text.replace("disk = 7000", "disk = 6000"))
            .unwrap()
    };
    assert_eq!(check_watch(&driver, change, sleep(PATIENCE)).await, []);
    let breaks = async { driver.replace("[[node").unwrap() };
    let repairs = async { driver.replace(text).unwrap() };
    driver.replace(text).unwrap();
    assert_eq!(check_recovery(&driver, breaks, repairs).await, []);
}

#[tokio::test]
async fn a_machine_in_a_file_reports_changes_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("machine.toml");
    let (_, text) = shipped()[0];
    rewrite(&path, text);
    let driver = FakeDriver::from_file(&path).unwrap();
    let edited = text.replace("disk = 7000", "disk = 60");
    let change = async { rewrite(&path, &edited) };
    assert_eq!(check_watch(&driver, change, sleep(PATIENCE)).await, []);
    let breaks = async { std::fs::remove_file(&path).unwrap() };
    let repairs = async { rewrite(&path, &edited) };
    assert_eq!(check_recovery(&driver, breaks, repairs).await, []);
    let replaced = directory.path().join("new.toml");
    rewrite(&replaced, text);
    let change = async { std::fs::rename(&replaced, &path).unwrap() };
    assert_eq!(check_watch(&driver, change, sleep(PATIENCE)).await, []);
}

#[tokio::test]
async fn an_edit_is_seen_at_the_next_observation_however_soon_it_comes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("machine.toml");
    let (_, text) = shipped()[0];
    rewrite(&path, text);
    let driver = FakeDriver::from_file(&path).unwrap();
    for word in ["running", "shut off", "running"] {
        rewrite(&path, &text.replace("shut off", word));
        let view = driver.observe().await.unwrap();
        let asleep = view.nodes.values().flat_map(|node| node.guests.values());
        let asleep = asleep.filter(|guest| guest.name == "asleep");
        let off: Vec<_> = asleep
            .map(|guest| guest.power == PowerState::ShutOff)
            .collect();
        assert_eq!(off, [word == "shut off"]);
    }
}

#[tokio::test]
async fn an_error_while_it_runs_names_the_place_and_may_be_retried() {
    let (name, text) = shipped()[0];
    let driver = FakeDriver::from_text(name, text).unwrap();
    driver
        .replace(&text.replace("disk = 7000", "disk = \"lots\""))
        .unwrap();
    let error = driver.observe().await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry);
    assert_eq!(
        error.to_string(),
        "eight-gpu-flat:18:8: node[0].disk: unknown value \"lots\"; known are \"shared\", \"none\""
    );
}

#[test]
fn a_file_that_is_not_there_or_no_text_is_an_error_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing.toml");
    let error = FakeDriver::from_file(&missing).unwrap_err();
    assert!(error.to_string().ends_with("missing.toml"), "{error}");
    let binary = directory.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    let error = FakeDriver::from_file(&binary).unwrap_err();
    assert!(matches!(error, MachineError::Unreadable { .. }));
    let vast = directory.path().join("vast.toml");
    let file = std::fs::File::create(&vast).unwrap();
    file.set_len((16 << 20) + 1).unwrap();
    let error = FakeDriver::from_file(&vast).unwrap_err();
    assert!(matches!(error, MachineError::TooLarge { .. }), "{error}");
}

#[test]
fn a_thousand_guests_on_eight_gpus_are_one_call() {
    let machine = host(1000);
    let node = &machine.nodes[0];
    assert_eq!((node.gpus.len(), node.guests.len()), (8, 1000));
    let units: usize = node.guests.iter().map(|guest| guest.seen.mdevs.len()).sum();
    assert_eq!(units, 1200);
    let migrations = node.guests.iter().filter(|guest| guest.migration.is_some());
    assert_eq!(migrations.count(), 142);
    let read = Machine::from_text("big", &machine.to_toml()).unwrap();
    assert_eq!(read, machine);
}
