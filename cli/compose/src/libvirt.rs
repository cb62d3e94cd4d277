//! The options of the libvirt driver, from the configuration.

use berth_config::Config;
use berth_hook::Hook;
use berth_libvirt::{DiskCache, DiskPlacement, LibvirtOptions, MdevTypeOptions, MdevTypes, VirtType};
use berth_model::{NodeName, ResourceClass};
use berth_output::{ErrorCode, Failure};
use berth_sysfs::AllowList;

pub(super) fn options(config: &Config) -> Result<LibvirtOptions, Failure> {
    let wrong = |what: String| Failure::new(ErrorCode::Driver, what);
    let mut options = LibvirtOptions::new(config.libvirt.connection_uri());
    if let Some(host) = &config.host {
        let node = NodeName::new(host).map_err(|error| wrong(format!("host: {error}")))?;
        options.node = Some(node);
    }
    options.virt_type = match config.libvirt.virt_type {
        berth_config::VirtType::Kvm => VirtType::Kvm,
        berth_config::VirtType::Qemu => VirtType::Qemu,
    };
    options.disk = DiskPlacement::Local(config.instances_path());
    options
        .cpu_shared_set
        .clone_from(&config.compute.cpu_shared_set);
    options
        .cpu_dedicated_set
        .clone_from(&config.compute.cpu_dedicated_set);
    options.model = config.model.0;
    options.disk_cache = match config.libvirt.disk_cache() {
        berth_config::CacheMode::None => DiskCache::Bypassed,
        berth_config::CacheMode::Writeback => DiskCache::Writeback,
    };
    options.emulator.clone_from(&config.libvirt.emulator);
    options.pci_devices = allow_list("pci", &config.pci.device_spec)?;
    options.report_pci_in_placement = config.pci.report_in_placement;
    options.accelerator_devices = allow_list("accelerators", &config.accelerators.device_spec)?;
    options.device_life.resting = Some(config.state_path.join("resting-drivers"));
    options.device_life.baselines = Some(config.state_path.join("device-baselines"));
    options.device_life.reset_hook = config.accelerators.reset_hook.as_ref().map(|program| Hook {
        called: "reset hook",
        program: program.clone(),
        deadline: config.accelerators.reset_hook_timeout,
    });
    let mut types = Vec::new();
    for id in &config.devices.enabled_mdev_types {
        let mut mdev = MdevTypeOptions::new(id);
        if let Some(section) = config.mdev.get(id) {
            mdev.device_addresses = section.device_addresses.iter().copied().collect();
            mdev.class = ResourceClass::new(&section.mdev_class)
                .map_err(|error| wrong(format!("[mdev_{id}] mdev_class: {error}")))?;
            mdev.max_instances = section.max_instances.map(u64::from);
        }
        types.push(mdev);
    }
    options.mdev_types = MdevTypes::new(types).map_err(|error| {
        Failure::caused(
            ErrorCode::Contradiction,
            "the mediated device types",
            &error,
        )
    })?;
    Ok(options)
}

fn allow_list(section: &str, entries: &[serde_json::Value]) -> Result<AllowList, Failure> {
    AllowList::read(entries)
        .map_err(|error| Failure::new(ErrorCode::BadValue, format!("[{section}] {error}")))
}
