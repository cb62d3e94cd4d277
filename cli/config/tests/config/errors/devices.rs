//! `[devices]` and the `[mdev_TYPE]` sections.

use super::Case;

pub(super) const CASES: &[Case] = super::cases! {
    "[devices]\nenabled_vgpu_types = [\"nvidia-35\"]" => ["berth.toml:2:1: devices.enabled_vgpu_types: berth does not have this option; write enabled_mdev_types [BERTH-E0102]"];
    "[devices]\nenabled_mdev_types = \"nvidia-35\"" => ["berth.toml:2:22: devices.enabled_mdev_types: a list is wanted, not a text; write [\"nvidia-35\"] [BERTH-E0104]"];
    "[devices]\nenabled_mdev_types = [\"nvidia-35\", 36]" => ["berth.toml:2:36: devices.enabled_mdev_types: a list of texts is wanted, this element is the number 36; write names as in mdev_supported_types, such as [\"nvidia-35\"] [BERTH-E0104]"];
    "[devices]\nenabled_mdev_types = [\"nvidia-35\", \"nvidia-35\"]" => ["berth.toml:2:36: devices.enabled_mdev_types: \"nvidia-35\" is in the list twice; write it once [BERTH-E0105]"];
    "[devices]\nenabled_mdev_types = [\"nvidia-35\", \"nvidia-36\"]\n[mdev_nvidia-35]\ndevice_addresses = [\"0000:84:00.0\"]" => ["berth.toml:2:22: mdev_nvidia-36.device_addresses: 2 types are enabled, so this one needs its GPUs named; write device_addresses = [\"0000:84:00.0\"] in [mdev_nvidia-36] [BERTH-E0107]"];
    "[devices]\nenabled_mdev_types = [\"a\", \"b\"]\n[mdev_a]\ndevice_addresses = [\"0000:84:00.0\"]\n[mdev_b]\ndevice_addresses = [\"84:00.0\"]" => ["berth.toml:6:20: mdev_b.device_addresses: 0000:84:00.0 is in [mdev_a] too; a GPU offers one type [BERTH-E0108]"];
    "[devices]\nenabled_mdev_types = [\"a\"]\n[mdev_a]\ndevice_addresses = [\n  \"0000:84:00.0\",\n  \"0000:84:00.9\",\n]" => ["berth.toml:6:3: mdev_a.device_addresses: \"0000:84:00.9\" is not a PCI address; write addresses such as [\"0000:84:00.0\"] [BERTH-E0105]"];
    "[mdev_a]\nmdev_class = \"GPU\"" => ["berth.toml:2:14: mdev_a.mdev_class: \"GPU\" is not accepted; write \"VGPU\" or a custom class such as \"CUSTOM_GPU_SLICE\" [BERTH-E0105]"];
    "[mdev_a]\nmax_instances = 0" => ["berth.toml:2:17: mdev_a.max_instances: 0 is out of range; write a whole number from 1 to 2147483647 [BERTH-E0105]"];
};
