//! The driver that the configuration names, as one type.

use std::collections::BTreeMap;
use std::path::Path;

use berth_config::{ComputeDriver, Config};
use berth_output::{ErrorCode, Failure};
use berth_exec::{ExecDriver, ExecOptions};
use berth_fake::FakeDriver;
use berth_model::{Allocation, Allocations, ConsumerUuid, Desired, Homes, NodeName, ProviderTree};
use berth_virt::guest_spec::{GuestInterfaces, GuestSpec};
use berth_virt::{
    Destroyed, DeviceError, DeviceReset, GuestError, GuestOnHost, HostCpuStats, HostEvents,
    HostView, NoLink, ObserveError, PciInPlacement, PowerAction, Powered, PreparedDevice,
    ProviderTreeError, Redefined, Spawned, Trees, VirtDriver, WantedDevice,
};

#[cfg(feature = "libvirt")]
use super::libvirt;

/// The file below `state_path` with the guests that were made on the machine of a fake driver.
const FAKE_GUESTS: &str = "fake-guests";
/// The directory below `state_path` that is an out-of-tree driver's own.
const EXEC_STATE: &str = "exec-driver";

/// The driver the configuration names.
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum Driver {
    /// A machine in a file.
    Fake(FakeDriver),
    /// Whatever a program of somebody else's drives.
    Exec(ExecDriver),
    /// This host, through libvirt.
    #[cfg(feature = "libvirt")]
    Libvirt(berth_libvirt::LibvirtDriver),
}

impl Driver {
    /// The driver of `compute_driver`.
    ///
    /// # Errors
    /// The machine file is missing or wrong, the mediated device types contradict each other, or this program was built
    /// without the driver.
    pub fn of(config: &Config) -> Result<Self, Failure> {
        match &config.compute_driver {
            ComputeDriver::Fake => {
                let Some(machine) = &config.fake.machine else {
                    return Err(Failure::new(
                        ErrorCode::Missing,
                        "[fake] machine is not set: compute_driver = \"fake\" needs a machine file",
                    )
                    .mend("set [fake] machine = \"FILE\", or give --machine FILE"));
                };
                let book = config.state_path.join(FAKE_GUESTS);
                FakeDriver::from_file(machine)
                    .map(|driver| Driver::Fake(driver.with_guests_at(&book)))
                    .map_err(|error| {
                        Failure::caused(
                            ErrorCode::Driver,
                            "the machine file cannot be used",
                            &error,
                        )
                    })
            }
            ComputeDriver::Exec(program) => {
                exec_options(config, program).map(|options| Driver::Exec(ExecDriver::new(options)))
            }
            #[cfg(feature = "libvirt")]
            ComputeDriver::Libvirt => libvirt::options(config)
                .map(|options| Driver::Libvirt(berth_libvirt::LibvirtDriver::new(options))),
            #[cfg(not(feature = "libvirt"))]
            ComputeDriver::Libvirt => Err(Failure::new(
                ErrorCode::Driver,
                "compute_driver is libvirt, but this berth was built without it",
            )
            .mend("set compute_driver = \"fake\", or use a build with the feature libvirt")),
        }
    }
}

impl VirtDriver for Driver {
    fn name(&self) -> &'static str {
        match self {
            Driver::Fake(driver) => driver.name(),
            Driver::Exec(driver) => driver.name(),
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.name(),
        }
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        match self {
            Driver::Fake(driver) => driver.observe().await,
            Driver::Exec(driver) => driver.observe().await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.observe().await,
        }
    }

    async fn host_cpu_stats(&self) -> Result<Option<HostCpuStats>, ObserveError> {
        match self {
            Driver::Fake(driver) => driver.host_cpu_stats().await,
            Driver::Exec(driver) => driver.host_cpu_stats().await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.host_cpu_stats().await,
        }
    }

    fn watch(&self) -> HostEvents {
        match self {
            Driver::Fake(driver) => driver.watch(),
            Driver::Exec(driver) => driver.watch(),
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.watch(),
        }
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<Spawned, GuestError> {
        match self {
            Driver::Fake(driver) => driver.spawn(spec).await,
            Driver::Exec(driver) => driver.spawn(spec).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.spawn(spec).await,
        }
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<Destroyed, GuestError> {
        match self {
            Driver::Fake(driver) => driver.destroy(uuid).await,
            Driver::Exec(driver) => driver.destroy(uuid).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.destroy(uuid).await,
        }
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        match self {
            Driver::Fake(driver) => driver.guests().await,
            Driver::Exec(driver) => driver.guests().await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.guests().await,
        }
    }

    async fn guest(&self, uuid: ConsumerUuid) -> Result<Option<GuestOnHost>, GuestError> {
        match self {
            Driver::Fake(driver) => driver.guest(uuid).await,
            Driver::Exec(driver) => driver.guest(uuid).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.guest(uuid).await,
        }
    }

    async fn power(&self, uuid: ConsumerUuid, action: PowerAction) -> Result<Powered, GuestError> {
        match self {
            Driver::Fake(driver) => driver.power(uuid, action).await,
            Driver::Exec(driver) => driver.power(uuid, action).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.power(uuid, action).await,
        }
    }

    async fn redefine(&self, spec: &GuestSpec) -> Result<Redefined, GuestError> {
        match self {
            Driver::Fake(driver) => driver.redefine(spec).await,
            Driver::Exec(driver) => driver.redefine(spec).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.redefine(spec).await,
        }
    }

    async fn no_link(&self, interfaces: &GuestInterfaces) -> Result<Option<NoLink>, GuestError> {
        match self {
            Driver::Fake(driver) => driver.no_link(interfaces).await,
            Driver::Exec(driver) => driver.no_link(interfaces).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.no_link(interfaces).await,
        }
    }

    async fn suspend(&self, uuid: ConsumerUuid) -> Result<Powered, GuestError> {
        match self {
            Driver::Fake(driver) => driver.suspend(uuid).await,
            Driver::Exec(driver) => driver.suspend(uuid).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.suspend(uuid).await,
        }
    }

    async fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        destination: &NodeName,
    ) -> Result<(), GuestError> {
        match self {
            Driver::Fake(driver) => driver.live_migrate(uuid, destination).await,
            Driver::Exec(driver) => driver.live_migrate(uuid, destination).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.live_migrate(uuid, destination).await,
        }
    }

    async fn prepare_host(&self) -> Vec<DeviceError> {
        match self {
            Driver::Fake(driver) => driver.prepare_host().await,
            Driver::Exec(driver) => driver.prepare_host().await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.prepare_host().await,
        }
    }

    async fn check_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        match self {
            Driver::Fake(driver) => driver.check_device(wanted).await,
            Driver::Exec(driver) => driver.check_device(wanted).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.check_device(wanted).await,
        }
    }

    async fn prepare_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        match self {
            Driver::Fake(driver) => driver.prepare_device(wanted).await,
            Driver::Exec(driver) => driver.prepare_device(wanted).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.prepare_device(wanted).await,
        }
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        match self {
            Driver::Fake(driver) => driver.prepared_devices().await,
            Driver::Exec(driver) => driver.prepared_devices().await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.prepared_devices().await,
        }
    }

    async fn reset_device(&self, wanted: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        match self {
            Driver::Fake(driver) => driver.reset_device(wanted).await,
            Driver::Exec(driver) => driver.reset_device(wanted).await,
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.reset_device(wanted).await,
        }
    }

    fn update_provider_tree(
        &self,
        view: &HostView,
        current: &ProviderTree,
        node: &NodeName,
    ) -> Result<Desired, ProviderTreeError> {
        match self {
            Driver::Fake(driver) => driver.update_provider_tree(view, current, node),
            Driver::Exec(driver) => driver.update_provider_tree(view, current, node),
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.update_provider_tree(view, current, node),
        }
    }

    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: Trees<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        match self {
            Driver::Fake(driver) => driver.homes(view, node, trees, allocation, all),
            Driver::Exec(driver) => driver.homes(view, node, trees, allocation, all),
            #[cfg(feature = "libvirt")]
            Driver::Libvirt(driver) => driver.homes(view, node, trees, allocation, all),
        }
    }
}

/// What an out-of-tree driver is told of the configuration.
fn exec_options(config: &Config, program: &Path) -> Result<ExecOptions, Failure> {
    let host = config.host.as_deref().map(NodeName::new).transpose();
    Ok(ExecOptions {
        host: host.map_err(|error| Failure::new(ErrorCode::BadValue, format!("host: {error}")))?,
        cpu_shared_set: config.compute.cpu_shared_set.clone(),
        cpu_dedicated_set: config.compute.cpu_dedicated_set.clone(),
        model: config.model.0,
        pci: match config.pci.report_in_placement {
            true => PciInPlacement::Reported,
            false => PciInPlacement::NotReported,
        },
        ..ExecOptions::new(program.to_owned(), config.state_path.join(EXEC_STATE))
    })
}
