//! [`HostGuests`]: the guest manager and the device manager of a compute host, assembled from the configuration.
//!
//! The agent is the process of a compute host that runs guests and manages their devices. [`HostGuests::open`] opens the
//! agent's journal (`guests.db`: the requested state of each guest, and the register of devices), the disks and the
//! managers. The other methods give the agent's main loop (`berth_agent::service`) what it runs.
//!
//! The other public functions make clients of the accelerator, image and hosts services. In `berth up`, these services
//! run in the same process, and the clients of the functions `*_in_process` call them without a network.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_agent::host_state::{HostStateService, OwnHostName};
use berth_agent::service::{DeviceService, GuestService};
use berth_agent_api::{EventAuth, compute_api, instances as api};
use berth_agent_devices::report::Scrub;
use berth_agent_devices::{DeviceManager, DeviceManagerParts, DeviceOptions, Fabric, HealthCheck};
use berth_agent_images::{
    ConfigDriveFormat, DiskError, DiskOptions, Disks, ImageSources, LoggedProgress,
};
use berth_agent_instances::reconcile::Reconciler;
use berth_agent_instances::{
    Accelerators, BuildContext, BuildOptions, ExternalEvents, GuestFiles, Guests, GuestsParts,
    HostPorts, HostResources, VifPlugging,
};
use berth_agent_journal::{JournalError, SqlJournal};
use berth_agent_tracker::KnownTrees;
use berth_client::{
    AcceleratorClient, AdapterOptions, Auth, ComputeClient, Downloads, GuestClient, HostsClient,
    HttpService, ImageClient, JitterRng, PlacementClient, TransportOptions,
};
use berth_config::{
    AuthStrategy, ComputeDriver, Config, ConfigDriveLayout, CpuMode, ScrubPolicy, Secret,
};
use berth_hook::{EndedHooks, Hook, end_left_behind};
use berth_http::audited_as;
use berth_net::{HostNetwork, NetworkPaths};
use berth_output::{ErrorCode, Failure};
use berth_ovsdb::OvsdbClient;
use berth_store::OpenError;
use berth_virt::FabricPartitions;
use berth_virt::guest_spec::{CpuModel, CpuModelName, HostPath};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::audit;
use super::host_state::host_state_options;
use super::{Driver, EMBEDDED_TOKEN};
use crate::images::image_service;
use crate::keystone_tokens::identity_client;
use crate::listener::EVENTS;

/// The id of the current boot of the host.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The host's name, which marks its interfaces in Open vSwitch.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The largest response of a service in this process, in bytes.
const LARGEST_RESPONSE: usize = 64 << 20;

/// A client of the accelerator service that `[cyborg]` names (Cyborg, or Berth's own on another host); `None` if the
/// section has no `auth_type`.
pub fn accelerators_over_network(config: &Config) -> Result<Option<AcceleratorClient>, Failure> {
    if config.cyborg.auth_type.is_none() {
        return Ok(None);
    }
    AcceleratorClient::from_options(&config.cyborg, None)
        .map(Some)
        .map_err(|error| {
            let what = "access to the accelerator service is not configured";
            Failure::caused(ErrorCode::Missing, what, &error)
                .hint("see [cyborg] in /usr/share/doc/berth/guide/reference/configuration.md")
        })
}

/// The connection to a service in this process, with the rights of an administrator. `endpoint` is only the start of
/// the URLs of requests: nothing resolves it or connects to it.
fn in_process(router: axum::Router, endpoint: &str) -> Result<(HttpService, Auth), Failure> {
    let http = HttpService::in_process::<_, axum::body::Body, _>(router, LARGEST_RESPONSE);
    let auth = Auth::admin_token(endpoint, &Secret::from(EMBEDDED_TOKEN)).map_err(|error| {
        Failure::caused(
            ErrorCode::Bug,
            "cannot set up the client of a built-in service",
            &error,
        )
    })?;
    Ok((http, auth))
}

/// A client of the accelerator service of this process.
pub fn accelerators_in_process(router: axum::Router) -> Result<AcceleratorClient, Failure> {
    let (http, auth) = in_process(router, "http://accelerator")?;
    Ok(AcceleratorClient::new(
        http,
        auth,
        &AdapterOptions::default(),
    ))
}

/// A client of the image service of this process.
pub fn images_in_process(router: axum::Router) -> Result<ImageClient, Failure> {
    let downloads = Downloads::in_process::<_, axum::body::Body, _>(router.clone());
    let (http, auth) = in_process(router, "http://image")?;
    let options = AdapterOptions::default();
    Ok(ImageClient::new(http, downloads, auth, &options))
}

/// A client of the hosts service of this process, which stores the states of hosts for the scheduler.
pub fn hosts_in_process(router: axum::Router) -> Result<HostsClient, Failure> {
    let (http, auth) = in_process(router, "http://hosts")?;
    Ok(HostsClient::new(http, auth, &AdapterOptions::default()))
}

/// The guest manager and the device manager of this host, with the journal that both write.
pub struct HostGuests {
    journal: SqlJournal,
    guests: Guests<Driver, HostResources<Driver>>,
    devices: DeviceManager<Driver>,
    /// Compares the guests with the hypervisor, the accelerator service and Placement.
    reconciler: Reconciler<Driver, HostResources<Driver>>,
    reconcile_interval: Duration,
    /// The provider trees of this host's nodes in Placement. The agent updates them.
    provider_trees: KnownTrees,
    /// The name under which the agent reports this host.
    own_host_name: OwnHostName,
}

impl HostGuests {
    /// Opens the journal below `state_path`, the disks and the managers. Changes no guest. `own_images` is a client of the
    /// image service of this process, which is used if `[glance]` is not set.
    ///
    /// Errors: the journal is locked by another process, damaged, or from a later release; or an option has a value that
    /// this host cannot use.
    pub async fn open(
        config: &Config,
        driver: &Arc<Driver>,
        accelerators: Option<AcceleratorClient>,
        placement: PlacementClient,
        own_images: Option<ImageClient>,
    ) -> Result<Self, Failure> {
        let boot_id = std::fs::read_to_string(BOOT_ID).map_err(|error| {
            let what = format!("cannot read the id of the host's boot from {BOOT_ID}");
            Failure::caused(ErrorCode::File, what, &error)
        })?;
        let journal = SqlJournal::open(&config.state_path)
            .await
            .map_err(|error| journal_failure(&error))?;
        end_hooks_of_killed_agent().await;
        let disks = open_disks(config, own_images)?;
        let instances = disks.instances_path().clone();
        let files = GuestFiles {
            image_directories: image_directories(config)?,
            // Kernels and RAM disks are images, too.
            kernel_directories: image_directories(config)?,
            ..GuestFiles::below(instances.clone())
        };
        let provider_trees = KnownTrees::default();
        let partitions = fabric_partitions(config)?;
        let devices = open_devices(config, driver, &journal, accelerators.clone())
            .await?
            .with_trees(provider_trees.clone())
            .with_partitions(partitions.clone());
        let guests = Guests::new(GuestsParts {
            journal: Arc::new(journal.clone()),
            driver: Arc::clone(driver),
            resources: Arc::new(
                HostResources::new(Arc::clone(driver), files)
                    .with_disks(disks)
                    .with_ports(host_ports(config)?)
                    .with_fabric(fabric(config, partitions, &journal)),
            ),
            accelerators: Accelerators {
                client: accelerators,
                events: ExternalEvents::default(),
                binding_timeout: config.arq_binding_timeout,
            },
            boot_id: boot_id.trim().to_owned(),
            max_concurrent_builds: config.max_concurrent_builds,
        });
        let known_trees = provider_trees.clone();
        let guests = guests.with_build_context(BuildContext {
            options: BuildOptions {
                instances,
                cpu_model: cpu_model(config)?,
                kernel_directories: image_directories(config)?,
            },
            provider_trees: Arc::new(move |node| known_trees.of(node)),
            device_conditions: Some(Arc::new(devices.clone())),
        });
        let reconciler = Reconciler::new(guests.clone(), Some(devices.clone()), Some(placement));
        Ok(Self {
            journal,
            guests,
            devices,
            reconciler,
            reconcile_interval: config.reconcile_interval,
            provider_trees,
            own_host_name: OwnHostName::default(),
        })
    }

    /// The part of the agent that reconciles guests and serves them on the admin socket.
    #[must_use]
    pub fn guest_service(&self) -> GuestService {
        GuestService::new(self.reconciler.clone(), self.reconcile_interval)
    }

    /// The part of the agent that checks, resets and programs devices, and serves them on the admin socket.
    #[must_use]
    pub fn device_service(&self) -> DeviceService {
        DeviceService::new(
            self.devices.clone(),
            Some(self.guests.completed_reconciles()),
        )
    }

    /// The part of the agent that reports the state of this host to the hosts service, for the scheduler.
    pub fn host_state_service(
        &self,
        config: &Config,
        client: HostsClient,
    ) -> Result<HostStateService, Failure> {
        Ok(HostStateService {
            client,
            journal: Arc::new(self.journal.clone()),
            changes: self.guests.changes(),
            own_name: self.own_host_name.clone(),
            options: host_state_options(config)?,
        })
    }

    /// The provider trees of this host's nodes in Placement, shared with the agent, which updates them. Builds read them to
    /// find the devices behind a guest's allocations.
    #[must_use]
    pub fn provider_trees(&self) -> KnownTrees {
        self.provider_trees.clone()
    }

    /// The name under which this host is reported, shared with the agent, which sets it.
    #[must_use]
    pub fn own_host_name(&self) -> OwnHostName {
        self.own_host_name.clone()
    }

    /// The API that receives external events, which the accelerator service sends after it has bound a device. It is the
    /// part of Nova's compute API that Cyborg calls. `sources` says which callers are accepted.
    fn event_api(&self, sources: EventAuth) -> axum::Router {
        let journal = Arc::new(self.journal.clone());
        compute_api(journal, self.guests.events().clone(), sources)
    }

    /// Receives external events on `[agent] events_listen` until `stop`. Returns `None` if the option is not set.
    pub async fn serve_events(
        &self,
        config: &Config,
        stop: &CancellationToken,
    ) -> Result<Option<JoinHandle<()>>, Failure> {
        let Some(address) = config.agent.events_listen.address() else {
            return Ok(None);
        };
        let strategy = config.agent.events_auth_strategy;
        let sources = match strategy {
            AuthStrategy::Noauth2 => EventAuth::NoToken,
            AuthStrategy::Keystone => EventAuth::WithToken {
                identity: Box::new(identity_client(&config.keystone_authtoken)?),
                // The roles that Nova accepts.
                roles: Arc::new(["service".to_owned(), "admin".to_owned()]),
            },
        };
        let listener = EVENTS.listen_on(config, address, strategy).await?;
        let api = self.event_api(sources);
        let api = audited_as(api, &audit::open(config)?, "service/agent");
        let stop = stop.clone().cancelled_owned();
        Ok(Some(tokio::spawn(listener.serve(api, stop))))
    }

    /// A client that sends external events to this host, for an accelerator service in the same process.
    pub fn event_receiver_client(&self) -> Result<ComputeClient, Failure> {
        let router = self.event_api(EventAuth::NoToken);
        let (http, auth) = in_process(router, "http://agent/v2.1")?;
        Ok(ComputeClient::new(http, auth, &AdapterOptions::default()))
    }

    /// A client of this host's guest API (create, show, delete), for a conductor in the same process.
    pub fn guest_api_client(&self) -> Result<GuestClient, Failure> {
        let (http, auth) = in_process(api::routes(&self.guests), "http://agent")?;
        Ok(GuestClient::new(http, auth, &AdapterOptions::default()))
    }

    /// Closes the journal. The caller has stopped all tasks that use it.
    pub async fn close(&self) {
        self.journal.close().await;
    }
}

/// Opens the device manager with the operator's hooks: programs that Berth runs to program a device or to check its
/// health.
async fn open_devices(
    config: &Config,
    driver: &Arc<Driver>,
    journal: &SqlJournal,
    accelerators: Option<AcceleratorClient>,
) -> Result<DeviceManager<Driver>, Failure> {
    let options = &config.accelerators;
    let mut devices = DeviceManager::open(DeviceManagerParts {
        driver: Arc::clone(driver),
        register: journal.devices(),
        journal: Arc::new(journal.clone()),
        service: accelerators,
        options: DeviceOptions {
            scrub: match options.scrub {
                ScrubPolicy::Always => Scrub::Always,
                ScrubPolicy::Never => Scrub::Never,
            },
            seed: JitterRng::from_os().next(),
            ..DeviceOptions::default()
        },
    })
    .await
    .map_err(|error| journal_failure(&error))?;
    if let Some(program) = &options.program_hook {
        devices = devices.with_program_hook(Hook {
            name: "program hook",
            program: program.clone(),
            deadline: options.program_hook_timeout,
        });
    }
    if let Some(program) = &options.health_hook {
        devices = devices.with_health_check(HealthCheck {
            hook: Hook {
                name: "health hook",
                program: program.clone(),
                deadline: options.health_hook_timeout,
            },
            interval: options.health_hook_interval,
        });
    }
    Ok(devices)
}

/// The partitions of `[fabric] partitions`.
pub(crate) fn fabric_partitions(config: &Config) -> Result<FabricPartitions, Failure> {
    FabricPartitions::read(&config.fabric.partitions)
        .map_err(|error| Failure::new(ErrorCode::BadValue, format!("[fabric] {error}")))
}

fn fabric(config: &Config, partitions: FabricPartitions, journal: &SqlJournal) -> Fabric {
    let options = &config.fabric;
    let hook = options.partition_hook.as_ref().map(|program| Hook {
        name: "partition hook",
        program: program.clone(),
        deadline: options.partition_hook_timeout,
    });
    Fabric::new(partitions, hook, journal.devices())
}

/// Ends the hooks of an agent that was killed: two hooks must not work on one device at once.
async fn end_hooks_of_killed_agent() {
    let EndedHooks { ended, staying } = end_left_behind().await;
    if !ended.is_empty() {
        tracing::info!(processes = ?ended, "ended device hooks that a killed process left");
    }
    if !staying.is_empty() {
        tracing::warn!(processes = ?staying, "device hooks that a killed process left do not end: the kernel waits for a device");
    }
}

fn host_path(option: &str, path: &Path) -> Result<HostPath, Failure> {
    HostPath::new(&path.display().to_string())
        .map_err(|error| Failure::new(ErrorCode::BadValue, format!("{option}: {error}")))
}

/// The folders of `[image_cache] image_directories`.
fn image_directories(config: &Config) -> Result<Vec<HostPath>, Failure> {
    let directories = config.image_cache.image_directories.iter();
    directories
        .map(|directory| host_path("[image_cache] image_directories", directory))
        .collect()
}

/// The CPU model of guests. Only the libvirt driver has options for it. `cpu_mode = custom` without a model means the
/// default.
fn cpu_model(config: &Config) -> Result<CpuModel, Failure> {
    let libvirt = &config.libvirt;
    if config.compute_driver != ComputeDriver::Libvirt {
        return Ok(CpuModel::Default);
    }
    Ok(match (libvirt.cpu_mode(), libvirt.cpu_models.first()) {
        (CpuMode::None, _) | (CpuMode::Custom, None) => CpuModel::Default,
        (CpuMode::HostModel, _) => CpuModel::HostModel,
        (CpuMode::HostPassthrough, _) => CpuModel::HostPassthrough,
        (CpuMode::Maximum, _) => CpuModel::Maximum,
        (CpuMode::Custom, Some(name)) => {
            CpuModel::Named(CpuModelName::new(name).map_err(|error| {
                let what = format!("[libvirt] cpu_models: {error}");
                Failure::new(ErrorCode::BadValue, what)
            })?)
        }
    })
}

/// The ports of guests. Only guests of libvirt have interfaces on the host's switch.
fn host_ports(config: &Config) -> Result<HostPorts, Failure> {
    if config.compute_driver != ComputeDriver::Libvirt {
        return Ok(HostPorts::InMemory);
    }
    let options = &config.os_vif_ovs;
    let ovsdb = options.ovsdb().ok_or_else(|| {
        let what = "[os_vif_ovs] ovsdb_connection is not the address of an Open vSwitch database";
        Failure::new(ErrorCode::BadValue, what)
    })?;
    let node = match &config.host {
        Some(host) => host.clone(),
        None => {
            let name = std::fs::read_to_string(HOST_NAME).map_err(|error| {
                let what = format!("cannot read the host's name from {HOST_NAME}");
                Failure::caused(ErrorCode::File, what, &error)
            })?;
            name.trim().to_owned()
        }
    };
    Ok(HostPorts::Switch {
        network: HostNetwork::new(
            OvsdbClient::new(ovsdb, options.ovs_vsctl_timeout),
            node,
            NetworkPaths::default(),
        ),
        plugging: VifPlugging {
            timeout: config.vif_plugging_timeout,
            is_fatal: config.vif_plugging_is_fatal,
        },
    })
}

/// Opens the folder of the guests' disks, with the sources of their images.
fn open_disks(config: &Config, own_images: Option<ImageClient>) -> Result<Disks, Failure> {
    let folder = config.instances_path();
    let cache = &config.image_cache;
    let mut options = DiskOptions::new(host_path("instances_path", &folder)?).map_err(|error| {
        Failure::caused(
            ErrorCode::Bug,
            "a default value of the disk options is invalid",
            &error,
        )
    })?;
    options.config_drive_format = match config.config_drive_layout {
        ConfigDriveLayout::OpenStack => ConfigDriveFormat::OpenStack,
        ConfigDriveLayout::NoCloud => ConfigDriveFormat::NoCloud,
    };
    options.largest_image = cache.largest_image_gb << 30;
    options.remove_unused_base_images = cache.remove_unused_base_images;
    options.remove_unused_original_minimum_age = cache.remove_unused_original_minimum_age_seconds;
    let downloads = Downloads::network(&TransportOptions::default(), Downloads::DEFAULT_PATIENCE);
    let glance = match config.glance.auth_type {
        Some(_) => Some(image_service(config)?),
        None => own_images,
    };
    let sources = ImageSources {
        directories: image_directories(config)?,
        downloads: Some(downloads.map_err(|error| {
            Failure::caused(ErrorCode::Missing, "cannot download images", &error)
        })?),
        glance,
    };
    Disks::open(options, sources, Arc::new(LoggedProgress::default())).map_err(|error| {
        let what = format!("cannot use the guests' disks below {}", folder.display());
        let code = match &error {
            DiskError::Untrusted { .. } => ErrorCode::Untrusted,
            _ => ErrorCode::State,
        };
        Failure::caused(code, what, &error).hint("set instances_path to another directory")
    })
}

fn journal_failure(error: &JournalError) -> Failure {
    let what = "cannot use the guests' journal";
    Failure::caused(journal_code(error), what, error)
}

/// The error code of a process that cannot start because of its journal.
pub(crate) fn journal_code(error: &JournalError) -> ErrorCode {
    match error {
        JournalError::Open {
            source: OpenError::Held { .. },
            ..
        } => ErrorCode::Held,
        JournalError::Newer { .. } => ErrorCode::OtherRelease,
        JournalError::Unknown { .. } => ErrorCode::Bug,
        _ => ErrorCode::State,
    }
}
