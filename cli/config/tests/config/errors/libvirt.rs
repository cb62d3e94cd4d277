//! `[libvirt]`

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "[libvirt]\nconnection_uri = \"qemu+ssh://user:hunter2@other/system\"" => ["berth.toml:2:18: libvirt.connection_uri: \"qemu+ssh://***@other/system\" is not a local libvirt connection URI; write a URI such as \"qemu:///system\" [BERTH-E0105]"];
    "[libvirt]\nconnection_uri = \"qemu+ssh://root:hunter2/system\"" => ["berth.toml:2:18: libvirt.connection_uri: \"qemu+ssh://root:***/system\" is not a local libvirt connection URI; write a URI such as \"qemu:///system\" [BERTH-E0105]"];
    "[libvirt]\nconnection_uri = \"qemu:///system?password=hunter2\"" => ["berth.toml:2:18: libvirt.connection_uri: \"qemu:///system?***\" is not a local libvirt connection URI; write a URI such as \"qemu:///system\" [BERTH-E0105]"];
    "[libvirt]\nconnection_uri = \"root:hunter2\"" => ["berth.toml:2:18: libvirt.connection_uri: \"root:***\" is not a local libvirt connection URI; write a URI such as \"qemu:///system\" [BERTH-E0105]"];
    "[libvirt]\nconnection_uri = \"qemu+ssh://other/system\"" => ["berth.toml:2:18: libvirt.connection_uri: \"qemu+ssh://other/system\" is not a local libvirt connection URI; write a URI such as \"qemu:///system\" [BERTH-E0105]"];
    "[libvirt]\nnwfilter = \"a filter\"" => ["berth.toml:2:12: libvirt.nwfilter: \"a filter\" is not a name of letters, digits, _, - and .; write \"berth-port-security\", the name of a filter that virsh nwfilter-list shows, or \"none\" [BERTH-E0105]"];
    "[libvirt]\nrx_queue_size = 128\ntx_queue_size = \"512\"" => ["berth.toml:2:17: libvirt.rx_queue_size: 128 is not one of the numbers accepted; write one of 256, 512, 1024 [BERTH-E0105]", "berth.toml:3:17: libvirt.tx_queue_size: a whole number is wanted, not the text \"512\"; write one of 256, 512, 1024 [BERTH-E0104]"];
    "[libvirt]\nvirt_type = \"xen\"" => ["berth.toml:2:13: libvirt.virt_type: \"xen\" is not one of the words accepted; write one of kvm, qemu [BERTH-E0105]"];
};
