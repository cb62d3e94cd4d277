//! Opens the libvirt driver.

use berth_libvirt::{DiskPlacement, LibvirtDriver, LibvirtOptions, LibvirtSection, VncSection};

use crate::{DriverError, DriverSetup};

pub(super) fn open_libvirt(setup: &DriverSetup<'_>) -> Result<LibvirtDriver, DriverError> {
    let section: LibvirtSection = setup.values.read()?;
    let mut options = LibvirtOptions::new(section.connection_uri());
    options.node.clone_from(&setup.host);
    options.virt_type = section.virt_type;
    options.cpu_mode = section.cpu_mode();
    options.cpu_model = section.cpu_models.first().cloned();
    options.disk = DiskPlacement::Local(setup.instances_path.clone());
    options.cpu_shared_set.clone_from(&setup.cpu_shared_set);
    options
        .cpu_dedicated_set
        .clone_from(&setup.cpu_dedicated_set);
    options.model = setup.model;
    options.disk_cache = section.disk_cache();
    options.nwfilter = section.nwfilter().map(str::to_owned);
    options.port_isolation = section.port_isolation;
    options.pcie_root_ports = section.num_pcie_ports;
    options.memory_statistics_s = section.mem_stats_period_seconds;
    options.queue_sizes = section.queue_sizes();
    options.vnc = setup.values.read::<VncSection>()?.servers();
    options.emulator = section.emulator;
    options.pci_devices = setup.pci_devices.clone();
    options.report_pci_in_placement = setup.report_pci_in_placement;
    options.accelerator_devices = setup.accelerator_devices.clone();
    options.device_assignment.home_drivers = Some(setup.state_path.join("resting-drivers"));
    options.device_assignment.baselines = Some(setup.state_path.join("device-baselines"));
    options
        .device_assignment
        .reset_hook
        .clone_from(&setup.reset_hook);
    options.mdev_types = setup.mdev_types.clone();
    Ok(LibvirtDriver::new(options))
}
