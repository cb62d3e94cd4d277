use super::*;
use crate::kernel::{CARD, KernelSimulator, address, header};

const IDS: (u16, u16) = (0x10de, 0x1eb8);

fn health_of_card(kernel: &KernelSimulator) -> DeviceHealth {
    kernel.tree.sysfs().device_health(address()).unwrap()
}

fn write(kernel: &KernelSimulator, file: &str, content: impl AsRef<[u8]>) {
    kernel
        .tree
        .write(&format!("bus/pci/devices/{CARD}/{file}"), content);
}

fn counts(kernel: &KernelSimulator, fatal: u64, nonfatal: u64) {
    write(
        kernel,
        "aer_dev_fatal",
        format!("DLP 0\nTLP 0\nTOTAL_ERR_FATAL {fatal}\n"),
    );
    write(
        kernel,
        "aer_dev_nonfatal",
        format!("DLP 0\nTOTAL_ERR_NONFATAL {nonfatal}\n"),
    );
    write(kernel, "aer_dev_correctable", "RxErr 3\nTOTAL_ERR_COR 3\n");
}

#[test]
fn a_well_function_has_no_ailments() {
    let kernel = KernelSimulator::new();
    counts(&kernel, 1, 2);
    let health = health_of_card(&kernel);
    assert_eq!(
        health.aer,
        Some(AerCounts {
            correctable: 3,
            nonfatal: 2,
            fatal: 1
        })
    );
    assert_eq!(
        (health.driver.as_deref(), health.iommu_group),
        (Some("igb"), Some(12))
    );
    assert_eq!(health.ailments(IDS, &health), []);
}

#[test]
fn each_change_for_the_worse_is_named() {
    type Change = (&'static str, fn(&KernelSimulator));
    let changes: [Change; 8] = [
        ("it is gone", |kernel| {
            kernel.tree.remove(&format!("bus/pci/devices/{CARD}"))
        }),
        ("its configuration space is all ones", |kernel| {
            write(kernel, "config", [0xff; 256])
        }),
        ("another card answers in its place", |kernel| {
            write(kernel, "config", header(1, 2))
        }),
        ("its link is 2.5 GT/s x16, and was 8.0 GT/s x16", |kernel| {
            write(kernel, "current_link_speed", "2.5 GT/s PCIe");
        }),
        ("its link is down, and was 8.0 GT/s x16", |kernel| {
            write(kernel, "current_link_width", "0")
        }),
        ("it reported 4 fatal errors", |kernel| counts(kernel, 5, 2)),
        ("it reported 1 errors that lost data", |kernel| {
            counts(kernel, 1, 3)
        }),
        ("it is on no driver, and was on igb", |kernel| {
            kernel
                .tree
                .remove(&format!("bus/pci/devices/{CARD}/driver"));
        }),
    ];
    for (words, change) in changes {
        let kernel = KernelSimulator::new();
        counts(&kernel, 1, 2);
        let earlier = health_of_card(&kernel);
        change(&kernel);
        let ailments = health_of_card(&kernel).ailments(IDS, &earlier);
        let shown: Vec<_> = ailments.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [words]);
    }
}

#[test]
fn counters_that_start_again_count_from_nothing() {
    let kernel = KernelSimulator::new();
    counts(&kernel, 7, 0);
    let earlier = health_of_card(&kernel);
    counts(&kernel, 2, 0);
    assert_eq!(
        health_of_card(&kernel).ailments(IDS, &earlier),
        [Ailment::Fatal(2)]
    );
    counts(&kernel, 0, 0);
    assert_eq!(health_of_card(&kernel).ailments(IDS, &earlier), []);
}

#[test]
fn nonsense_in_a_counter_is_an_error_that_names_it() {
    let kernel = KernelSimulator::new();
    write(&kernel, "aer_dev_fatal", "TOTAL_ERR_FATAL many");
    let error = kernel
        .tree
        .sysfs()
        .device_health(address())
        .unwrap_err()
        .to_string();
    assert!(error.contains("aer_dev_fatal"), "{error}");
}
