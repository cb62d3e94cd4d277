//! A program that holds the libvirt driver maps libvirt's library only when it is asked to (ADR 0004).

/// Whether libvirt's library is mapped into this process.
fn mapped() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a process may read its own maps");
    maps.contains("/libvirt.so")
}

#[test]
fn the_library_is_mapped_only_once_it_is_asked_for() {
    assert!(
        !mapped(),
        "the program was linked with libvirt: a name is missing in symbols.rs"
    );
    berth_libvirt::symbols::load().expect("libvirt0 is installed where this is built");
    assert!(mapped());
}
