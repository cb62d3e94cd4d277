//! Opens the driver that `compute_driver` names.

use berth_compute_driver::{Driver, DriverError, DriverSetup, MdevTypeOptions, MdevTypes};
use berth_config::Config;
use berth_hook::Hook;
use berth_model::{NodeName, ResourceClass};
use berth_output::{ErrorCode, Failure};
use berth_sysfs::AllowList;

/// Opens the driver of `compute_driver`.
///
/// Errors: The machine file is missing or invalid, the mediated device types contradict each other, or this program was
/// built without the driver.
pub fn open_driver(config: &Config) -> Result<Driver, Failure> {
    let host = config.host.as_deref().map(NodeName::new).transpose();
    let accelerators = &config.accelerators;
    let setup = DriverSetup {
        values: &config.values,
        host: host.map_err(|error| Failure::new(ErrorCode::BadValue, format!("host: {error}")))?,
        state_path: &config.state_path,
        instances_path: config.instances_path(),
        cpu_shared_set: config.compute.cpu_shared_set.clone(),
        cpu_dedicated_set: config.compute.cpu_dedicated_set.clone(),
        model: config.model.0,
        mdev_types: mdev_types(config)?,
        pci_devices: allow_list("pci", &config.pci.device_spec)?,
        report_pci_in_placement: config.pci.report_in_placement,
        accelerator_devices: allow_list("accelerators", &accelerators.device_spec)?,
        reset_hook: accelerators.reset_hook.as_ref().map(|program| Hook {
            name: "reset hook",
            program: program.clone(),
            deadline: accelerators.reset_hook_timeout,
        }),
    };
    Driver::open(&config.compute_driver, &setup).map_err(|error| {
        let code = match error {
            DriverError::NoMachine => ErrorCode::Missing,
            DriverError::Unusable { .. } | DriverError::NotBuilt(_) => ErrorCode::Driver,
            DriverError::Misfit(_) => ErrorCode::Bug,
        };
        let failure = Failure::from_error(code, &error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

fn mdev_types(config: &Config) -> Result<MdevTypes, Failure> {
    let mut types = Vec::new();
    for id in &config.devices.enabled_mdev_types {
        let mut mdev = MdevTypeOptions::new(id);
        if let Some(section) = config.mdev.get(id) {
            mdev.device_addresses = section.device_addresses.iter().copied().collect();
            mdev.class = ResourceClass::new(&section.mdev_class).map_err(|error| {
                let what = format!("[mdev_{id}] mdev_class: {error}");
                Failure::new(ErrorCode::Driver, what)
            })?;
            mdev.max_instances = section.max_instances.map(u64::from);
        }
        types.push(mdev);
    }
    MdevTypes::new(types).map_err(|error| {
        Failure::caused(
            ErrorCode::Contradiction,
            "the mediated device types",
            &error,
        )
    })
}

fn allow_list(section: &str, entries: &[serde_json::Value]) -> Result<AllowList, Failure> {
    AllowList::read(entries)
        .map_err(|error| Failure::new(ErrorCode::BadValue, format!("[{section}] {error}")))
}
