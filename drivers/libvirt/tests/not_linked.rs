//! A program that holds the libvirt driver maps libvirt's library only when it is asked to (ADR 0004).

use berth_libvirt::{LibvirtDriver, LibvirtOptions};
use berth_virt::VirtDriver as _;

/// Whether libvirt's library is mapped into this process.
fn mapped() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a process may read its own maps");
    maps.contains("/libvirt.so")
}

#[tokio::test]
async fn the_library_is_mapped_only_once_it_is_asked_for() {
    assert!(
        !mapped(),
        "the program was linked with libvirt: a name is missing in symbols.rs"
    );
    let driver = LibvirtDriver::new(LibvirtOptions::new("test:///default"));
    let _events = driver.watch();
    assert!(!mapped(), "making a driver loads nothing");
    driver
        .observe()
        .await
        .expect("libvirt0 is installed where this is built");
    assert!(mapped());
}
