//! From the configuration to the parts: the driver, the tracker's options, the way to Placement. The only place that knows
//! all of them.

mod agents;
mod guests;
pub mod tls_door;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_agent::options::{Owner, Ratios, Rename, ReservedForHost, TrackerOptions};
use berth_agent::provider_config::ProviderConfigs;
use berth_client::{
    AdapterOptions, Auth, AuthOptions, AuthType, HttpService, PlacementClient, RequestObserver,
    Secret,
};
use berth_exec::{ExecDriver, ExecOptions};
use berth_fake::FakeDriver;
use berth_model::{
    Allocation, AllocationRatio, Allocations, ConsumerUuid, Desired, Homes, NodeName, ProviderTree,
};
use berth_placement::{Options as PlacementOptions, router};
use berth_store::SqlStore;
use berth_virt::guest_spec::{GuestInterfaces, GuestSpec};
use berth_virt::{
    Destroyed, DeviceError, DeviceReset, GuestError, GuestOnHost, HostEvents, HostView, NoLink,
    ObserveError, PciInPlacement, PowerAction, Powered, ProviderTreeError, Redefined, Spawned,
    Trees, VirtDriver, WantedDevice,
};

pub use agents::{AgentAt, AgentReceivers, KnownAgents};
pub use guests::{HostGuests, accelerators_in_process, accelerators_over_network};

use crate::config::{ComputeDriver, Config};
use crate::failure::{ErrorCode, Failure, sentence};

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

#[cfg(feature = "libvirt")]
mod libvirt {
    use berth_hook::Hook;
    use berth_libvirt::{DiskCache, DiskPlacement, LibvirtOptions, MdevType, MdevTypes, VirtType};
    use berth_model::{NodeName, ResourceClass};
    use berth_sysfs::AllowList;

    use crate::config::{self, Config};
    use crate::failure::{ErrorCode, Failure};

    pub(super) fn options(config: &Config) -> Result<LibvirtOptions, Failure> {
        let wrong = |what: String| Failure::new(ErrorCode::Driver, what);
        let mut options = LibvirtOptions::new(config.libvirt.connection_uri());
        if let Some(host) = &config.host {
            let node = NodeName::new(host).map_err(|error| wrong(format!("host: {error}")))?;
            options.node = Some(node);
        }
        options.virt_type = match config.libvirt.virt_type {
            config::VirtType::Kvm => VirtType::Kvm,
            config::VirtType::Qemu => VirtType::Qemu,
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
            config::CacheMode::None => DiskCache::Bypassed,
            config::CacheMode::Writeback => DiskCache::Writeback,
        };
        options.emulator.clone_from(&config.libvirt.emulator);
        options.pci_devices = allow_list("pci", &config.pci.device_spec)?;
        options.report_pci_in_placement = config.pci.report_in_placement;
        options.accelerator_devices = allow_list("accelerators", &config.accelerators.device_spec)?;
        options.device_life.resting = Some(config.state_path.join("resting-drivers"));
        options.device_life.baselines = Some(config.state_path.join("device-baselines"));
        options.device_life.reset_hook =
            config.accelerators.reset_hook.as_ref().map(|program| Hook {
                called: "reset hook",
                program: program.clone(),
                deadline: config.accelerators.reset_hook_timeout,
            });
        let mut types = Vec::new();
        for id in &config.devices.enabled_mdev_types {
            let mut mdev = MdevType::new(id);
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
}

/// What the configuration says about reporting.
///
/// # Errors
/// A ratio is out of range.
pub fn tracker_options(config: &Config, rename: Rename) -> Result<TrackerOptions, Failure> {
    let ratio = |name: &str, value: f64| {
        AllocationRatio::new(value).map_err(|error| {
            Failure::new(
                ErrorCode::BadValue,
                format!("{name}_allocation_ratio: {error}"),
            )
        })
    };
    // Nova's meaning of 0.0: not configured.
    let configured = |name: &str, value: Option<f64>| {
        value
            .filter(|value| *value != 0.0)
            .map(|value| ratio(name, value))
            .transpose()
    };
    Ok(TrackerOptions {
        ratios: Ratios {
            cpu: configured("cpu", config.cpu_allocation_ratio)?,
            ram: configured("ram", config.ram_allocation_ratio)?,
            disk: configured("disk", config.disk_allocation_ratio)?,
            initial_cpu: ratio("initial_cpu", config.initial_cpu_allocation_ratio)?,
            initial_ram: ratio("initial_ram", config.initial_ram_allocation_ratio)?,
            initial_disk: ratio("initial_disk", config.initial_disk_allocation_ratio)?,
        },
        reserved: ReservedForHost {
            cpus: config.reserved_host_cpus,
            memory_mib: config.reserved_host_memory_mb,
            disk_mib: u32::try_from(config.reserved_host_disk_mb).unwrap_or(u32::MAX),
        },
        owner: if config.compute.owner_nova {
            Owner::Nova
        } else {
            Owner::Berth
        },
        association_refresh: config.compute.resource_provider_association_refresh(),
        aggregates_per_request: config.compute.sharing_providers_max_uuids_per_request,
        rename,
        provider_configs: provider_configs(&config.compute.provider_config_location).map_err(
            |wrong| {
                let wrong = wrong.join("; ");
                let what = format!("[compute] provider_config_location: {wrong}");
                Failure::new(ErrorCode::BadValue, what)
            },
        )?,
        ..TrackerOptions::default()
    })
}

/// What the files of this directory add to providers. One that is named and not there is no empty one: all that its files gave
/// to Placement would be taken away.
///
/// # Errors
/// Everything that is wrong with them, a sentence each.
pub(crate) fn provider_configs(directory: &Path) -> Result<ProviderConfigs, Vec<String>> {
    if directory != Path::new(PROVIDER_CONFIGS) && !directory.exists() {
        let shown = directory.display();
        return Err(vec![format!(
            "the directory {shown} is not there; make it, or name the one that the files are in"
        )]);
    }
    ProviderConfigs::read(directory)
        .map_err(|errors| errors.iter().map(|error| sentence(error)).collect())
}

/// Where the files are that add to providers, unless the configuration says where else.
const PROVIDER_CONFIGS: &str = "/etc/berth/provider_config";

/// Placement as `[placement]` says: over the network.
///
/// # Errors
/// Options are missing or contradict each other, or a file they name cannot be used.
pub fn placement_over_network(
    config: &Config,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Result<PlacementClient, Failure> {
    PlacementClient::from_options(&config.placement, observer).map_err(|error| {
        Failure::caused(
            ErrorCode::Missing,
            "the way to Placement is not configured",
            &error,
        )
        .mend("see [placement] in docs/guide/reference/configuration.md, or use `berth up`")
    })
}

/// The file below `state_path` in which `berth up` says where its Placement is, for as long as it runs.
pub const ENDPOINT_FILE: &str = "placement.endpoint";
/// The same of its accelerator service.
pub const ACCELERATOR_ENDPOINT_FILE: &str = "accelerator.endpoint";
/// The same of its conductor, where that listens on an address beside its socket.
pub const CONDUCTOR_ENDPOINT_FILE: &str = "conductor.endpoint";

/// Where the conductor of `berth up` is asked: beside the agent's admin socket, and by the same people.
#[must_use]
pub fn conductor_socket(config: &Config) -> PathBuf {
    config.agent.admin_socket.with_file_name("conductor.sock")
}

/// Placement for a command that looks once: as `[placement]` says, else the one that `berth up` serves on this machine.
///
/// # Errors
/// Options contradict each other, or a file they name cannot be used.
pub fn placement_for_commands(config: &Config) -> Result<PlacementClient, Failure> {
    if config.placement.auth_type.is_some() || config.placement.endpoint_override.is_some() {
        return placement_over_network(config, None);
    }
    let local = AuthOptions {
        auth_type: Some(AuthType::AdminToken),
        endpoint: Some(endpoint_of_up(config)),
        token: Some(Secret::from(EMBEDDED_TOKEN)),
        ..config.placement.clone()
    };
    PlacementClient::from_options(&local, None)
        .map_err(|error| Failure::caused(ErrorCode::Bug, "the built-in Placement", &error))
}

/// Where `berth up` serves Placement: as it said when it started, else where it is to listen.
fn endpoint_of_up(config: &Config) -> String {
    let said = std::fs::read_to_string(config.state_path.join(ENDPOINT_FILE));
    let url = said.ok().filter(|url| url.starts_with("http://"));
    url.map_or_else(
        || format!("http://{}", config.placement_service.listen),
        |url| url.trim().to_owned(),
    )
}

/// The token the built-in Placement takes for an administrator's where no Keystone is asked (noauth2).
pub const EMBEDDED_TOKEN: &str = "admin";

/// How many requests the built-in Placement is asked at once: it reads a database, and reads once for all of them.
const IN_PROCESS_AT_ONCE: usize = 128;

/// The built-in Placement in this process, on an open database.
///
/// # Errors
/// Never in practice: the endpoint's name is a constant.
pub fn placement_in_process(
    store: SqlStore,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Result<PlacementClient, Failure> {
    let service = router(store, PlacementOptions::default());
    let http = HttpService::in_process::<_, axum::body::Body, _>(service, 64 << 20);
    let auth = Auth::admin_token("http://placement", &Secret::from(EMBEDDED_TOKEN))
        .map_err(|error| Failure::caused(ErrorCode::Bug, "the built-in Placement", &error))?;
    let options = AdapterOptions {
        observer,
        ..AdapterOptions::default()
    };
    Ok(PlacementClient::new(http, auth, &options).with_requests_at_once(IN_PROCESS_AT_ONCE))
}

/// How long `--once` and offline commands wait for a service that is away, unless told otherwise.
pub const DEADLINE: Duration = Duration::from_secs(60);
