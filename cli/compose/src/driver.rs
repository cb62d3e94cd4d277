//! The hypervisor driver that the configuration names, as one type: an enum that implements [`VirtDriver`] by calling the driver
//! it holds.

use std::collections::BTreeMap;
use std::path::Path;

use berth_config::{ComputeDriver, Config};
use berth_exec::{ExecDriver, ExecOptions};
use berth_fake::FakeDriver;
use berth_model::{Allocation, Allocations, ConsumerUuid, DesiredTree, Homes, NodeName, ProviderTree};
use berth_output::{ErrorCode, Failure};
use berth_virt::guest_spec::{GuestInterfaces, GuestSpec};
use berth_virt::{
    GuestDestroyOutcome, DeviceError, DeviceReset, GuestError, GuestOnHost, HostCpuStats, HostEvents,
    HostView, NoLink, ObserveError, PciInPlacement, PowerAction, GuestPowerOutcome, PreparedDevice,
    ProviderTreeError, GuestRedefineOutcome, GuestSpawnOutcome, TreePair, VirtDriver, WantedDevice,
};

#[cfg(feature = "libvirt")]
use super::libvirt;

/// The file below `state_path` with the guests that were made on the machine of a fake driver.
const FAKE_GUESTS: &str = "fake-guests";
/// The directory below `state_path` that is an out-of-tree driver's own.
const EXEC_STATE: &str = "exec-driver";

/// Declares the enum of drivers, and the macro `on_driver!` that runs an expression on the driver at hand.
macro_rules! drivers {
    ($d:tt $($(#[$attribute:meta])* $variant:ident($driver:ty),)+) => {
        /// The driver that `compute_driver` names.
        #[allow(clippy::large_enum_variant, reason = "there is one in a process")]
        pub enum Driver {
            $($(#[$attribute])* $variant($driver),)+
        }

        macro_rules! on_driver {
            ($d this:expr, $d driver:ident => $d call:expr) => {
                match $d this {
                    $($(#[$attribute])* Driver::$variant($d driver) => $d call,)+
                }
            };
        }
    };
}

// A new driver is one line here, and how `Driver::of` makes it from the configuration.
drivers! {$
    Fake(FakeDriver),
    Exec(ExecDriver),
    #[cfg(feature = "libvirt")]
    Libvirt(berth_libvirt::LibvirtDriver),
}

impl Driver {
    /// The driver of `compute_driver`.
    ///
    /// Errors: The machine file is missing or wrong, the mediated device types contradict each other, or this program
    /// was built without the driver.
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
        on_driver!(self, driver => driver.name())
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        on_driver!(self, driver => driver.observe().await)
    }

    async fn host_cpu_stats(&self) -> Result<Option<HostCpuStats>, ObserveError> {
        on_driver!(self, driver => driver.host_cpu_stats().await)
    }

    fn watch(&self) -> HostEvents {
        on_driver!(self, driver => driver.watch())
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        on_driver!(self, driver => driver.spawn(spec).await)
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
        on_driver!(self, driver => driver.destroy(uuid).await)
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        on_driver!(self, driver => driver.guests().await)
    }

    async fn guest(&self, uuid: ConsumerUuid) -> Result<Option<GuestOnHost>, GuestError> {
        on_driver!(self, driver => driver.guest(uuid).await)
    }

    async fn power(&self, uuid: ConsumerUuid, action: PowerAction) -> Result<GuestPowerOutcome, GuestError> {
        on_driver!(self, driver => driver.power(uuid, action).await)
    }

    async fn redefine(&self, spec: &GuestSpec) -> Result<GuestRedefineOutcome, GuestError> {
        on_driver!(self, driver => driver.redefine(spec).await)
    }

    async fn no_link(&self, interfaces: &GuestInterfaces) -> Result<Option<NoLink>, GuestError> {
        on_driver!(self, driver => driver.no_link(interfaces).await)
    }

    async fn suspend(&self, uuid: ConsumerUuid) -> Result<GuestPowerOutcome, GuestError> {
        on_driver!(self, driver => driver.suspend(uuid).await)
    }

    async fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        destination: &NodeName,
    ) -> Result<(), GuestError> {
        on_driver!(self, driver => driver.live_migrate(uuid, destination).await)
    }

    async fn prepare_host(&self) -> Vec<DeviceError> {
        on_driver!(self, driver => driver.prepare_host().await)
    }

    async fn check_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        on_driver!(self, driver => driver.check_device(wanted).await)
    }

    async fn prepare_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        on_driver!(self, driver => driver.prepare_device(wanted).await)
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        on_driver!(self, driver => driver.prepared_devices().await)
    }

    async fn reset_device(&self, wanted: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        on_driver!(self, driver => driver.reset_device(wanted).await)
    }

    fn update_provider_tree(
        &self,
        view: &HostView,
        current: &ProviderTree,
        node: &NodeName,
    ) -> Result<DesiredTree, ProviderTreeError> {
        on_driver!(self, driver => driver.update_provider_tree(view, current, node))
    }

    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: TreePair<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        on_driver!(self, driver => driver.homes(view, node, trees, allocation, all))
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
