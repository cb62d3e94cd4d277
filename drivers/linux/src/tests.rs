//! The driver passes the conformance suite, on a machine of files and on this one.

use std::fs;
use std::path::Path;

use berth_virt::conformance::{check, check_recovery, check_watch};
use tempfile::TempDir;

use super::*;

const ONLINE: &str = "sys/devices/system/cpu/online";

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn driver_of(root: &Path) -> LinuxDriver {
    LinuxDriver::new(LinuxOptions {
        root: root.to_owned(),
        host: None,
        cpu_shared_set: None,
        cpu_dedicated_set: None,
        model: ResourceModel::default(),
    })
}

fn machine() -> (TempDir, LinuxDriver) {
    let root = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("proc/sys/kernel/hostname", "box-1\n"),
        ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
        (
            "proc/meminfo",
            "MemTotal:       16307684 kB\nMemFree:          123456 kB\n",
        ),
        (ONLINE, "0-3,6\n"),
    ] {
        write(root.path(), file, text);
    }
    let driver = driver_of(root.path());
    (root, driver)
}

#[tokio::test]
async fn cpus_memory_and_names_are_those_of_the_kernels_files() {
    let (_root, driver) = machine();
    let view = driver.observe().await.unwrap();
    assert_eq!(view.hypervisor.version, "6.1.0");
    let (node, seen) = view.nodes.first_key_value().unwrap();
    assert_eq!(node.as_str(), "box-1");
    assert_eq!(seen.cpus.online, "0-3,6".parse().unwrap());
    assert_eq!(seen.memory_mib, 15_925);
}

#[tokio::test]
async fn the_driver_keeps_the_promises_about_its_machine() {
    let (root, mut driver) = machine();
    assert_eq!(check(&driver).await, []);
    driver.options.cpu_shared_set = Some("0-1".parse().unwrap());
    driver.options.cpu_dedicated_set = Some("2-3".parse().unwrap());
    assert_eq!(check(&driver).await, []);
    let change = async { write(root.path(), ONLINE, "0-3\n") };
    let patience = sleep(Duration::from_mins(1));
    assert_eq!(check_watch(&driver, change, patience).await, []);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_fails_the_observation_until_it_is_repaired() {
    let (root, driver) = machine();
    for text in ["", "four\n"] {
        let breaks = async { write(root.path(), ONLINE, text) };
        let repairs = async { write(root.path(), ONLINE, "0-3,6\n") };
        let broken = check_recovery(&driver, breaks, repairs).await;
        assert_eq!(broken, [], "{text:?}");
    }
    let meminfo = root.path().join("proc/meminfo");
    let text = fs::read_to_string(&meminfo).unwrap();
    let breaks = async { fs::remove_file(&meminfo).unwrap() };
    let repairs = async { fs::write(&meminfo, &text).unwrap() };
    assert_eq!(check_recovery(&driver, breaks, repairs).await, []);
}

#[tokio::test]
async fn this_machine_keeps_the_promises() {
    assert_eq!(check(&driver_of(Path::new("/"))).await, []);
}
