//! `[libvirt]`

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "[libvirt]\nconnection_uri = \"qemu+ssh://other/system\"" => ["berth.toml:2:18: libvirt.connection_uri: \"qemu+ssh://other/system\" is not a local libvirt connection URI; write a URI such as \"qemu:///system\" [BERTH-E0105]"];
    "[libvirt]\nvirt_type = \"xen\"" => ["berth.toml:2:13: libvirt.virt_type: \"xen\" is not one of the words accepted; write one of kvm, qemu [BERTH-E0105]"];
};
