//! This host's guests, built from the configuration: their journal, their devices, and the client of the accelerator service.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_agent::host_state::HostStateService;
use berth_agent::service::{DeviceService, GuestService};
use berth_agent_api::{EventSources, compute_api, instances as api};
use berth_agent_devices::report::Scrub;
use berth_agent_devices::{DeviceManager, DeviceManagerParts, DeviceOptions, HealthCheck};
use berth_agent_images::{
    ConfigDriveFormat, DiskError, DiskOptions, Disks, ImageSources, LoggedProgress,
};
use berth_agent_instances::reconcile::Reconciler;
use berth_agent_instances::{
    Accelerators, BuildContext, BuildOptions, ExternalEvents, GuestFiles, Guests, GuestsParts,
    HostResources,
};
use berth_agent_journal::{GuestJournal, JournalError, SqlJournal};
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
use berth_output::{ErrorCode, Failure};
use berth_store::OpenError;
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

/// The largest response of a service in this process, in bytes.
const LARGEST_ANSWER: usize = 64 << 20;

/// The accelerator service of `[cyborg]`, over the network; `None` if the section is not set.
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

/// A client of a service in this process, with the rights of an administrator.
fn in_process(router: axum::Router, endpoint: &str) -> Result<(HttpService, Auth), Failure> {
    let http = HttpService::in_process::<_, axum::body::Body, _>(router, LARGEST_ANSWER);
    let auth = Auth::admin_token(endpoint, &Secret::from(EMBEDDED_TOKEN))
        .map_err(|error| Failure::caused(ErrorCode::Bug, "a built-in service", &error))?;
    Ok((http, auth))
}

/// The built-in accelerator service in this process.
pub fn accelerators_in_process(router: axum::Router) -> Result<AcceleratorClient, Failure> {
    let (http, auth) = in_process(router, "http://accelerator")?;
    Ok(AcceleratorClient::new(
        http,
        auth,
        &AdapterOptions::default(),
    ))
}

/// The built-in image service in this process.
pub fn images_in_process(router: axum::Router) -> Result<ImageClient, Failure> {
    let downloads = Downloads::in_process::<_, axum::body::Body, _>(router.clone());
    let (http, auth) = in_process(router, "http://image")?;
    let options = AdapterOptions::default();
    Ok(ImageClient::new(http, downloads, auth, &options))
}

/// The built-in hosts service in this process.
pub fn hosts_in_process(router: axum::Router) -> Result<HostsClient, Failure> {
    let (http, auth) = in_process(router, "http://hosts")?;
    Ok(HostsClient::new(http, auth, &AdapterOptions::default()))
}

/// This host's guests and devices, with their journal.
pub struct HostGuests {
    journal: SqlJournal,
    guests: Guests<Driver, HostResources<Driver>>,
    devices: DeviceManager<Driver>,
    reconciler: Reconciler<Driver, HostResources<Driver>>,
    trees: KnownTrees,
    interval: Duration,
}

impl HostGuests {
    /// Opens the journal below `state_path`; no guest is changed yet. `images` is the image service of this process,
    /// which is used if `[glance]` is not set.
    ///
    /// Errors: Another process uses the journal, it is damaged or from a later release, or the disk fails.
    pub async fn open(
        config: &Config,
        driver: &Arc<Driver>,
        accelerators: Option<AcceleratorClient>,
        placement: PlacementClient,
        images: Option<ImageClient>,
    ) -> Result<Self, Failure> {
        let boot_id = std::fs::read_to_string(BOOT_ID).map_err(|error| {
            let what = format!("cannot read the id of the host's boot from {BOOT_ID}");
            Failure::caused(ErrorCode::File, what, &error)
        })?;
        let journal = SqlJournal::open(&config.state_path)
            .await
            .map_err(|error| unusable(&error))?;
        end_hooks_left_behind().await;
        let disks = disks(config, images)?;
        let instances = disks.instances_path().clone();
        let files = GuestFiles {
            image_directories: image_directories(config)?,
            kernel_directories: image_directories(config)?,
            ..GuestFiles::below(instances.clone())
        };
        let shared: Arc<dyn GuestJournal> = Arc::new(journal.clone());
        let devices = DeviceManager::open(DeviceManagerParts {
            driver: Arc::clone(driver),
            register: journal.devices(),
            journal: Arc::clone(&shared),
            service: accelerators.clone(),
            options: DeviceOptions {
                scrub: match config.accelerators.scrub {
                    ScrubPolicy::Always => Scrub::Always,
                    ScrubPolicy::Never => Scrub::Never,
                },
                seed: JitterRng::thrown().next(),
                ..DeviceOptions::default()
            },
        })
        .await
        .map_err(|error| unusable(&error))?;
        let trees = KnownTrees::default();
        let devices = devices.with_trees(trees.clone());
        let devices = match &config.accelerators.program_hook {
            None => devices,
            Some(program) => devices.with_program_hook(Hook {
                called: "program hook",
                program: program.clone(),
                deadline: config.accelerators.program_hook_timeout,
            }),
        };
        let devices = match &config.accelerators.health_hook {
            None => devices,
            Some(program) => devices.with_health_check(HealthCheck {
                hook: Hook {
                    called: "health hook",
                    program: program.clone(),
                    deadline: config.accelerators.health_hook_timeout,
                },
                interval: config.accelerators.health_hook_interval,
            }),
        };
        let guests = Guests::new(GuestsParts {
            journal: shared,
            driver: Arc::clone(driver),
            resources: Arc::new(HostResources::new(Arc::clone(driver), files).with_disks(disks)),
            accelerators: Accelerators {
                client: accelerators,
                events: ExternalEvents::default(),
                binding_timeout: config.arq_binding_timeout,
            },
            boot_id: boot_id.trim().to_owned(),
        });
        let known = trees.clone();
        let guests = guests.with_build_context(BuildContext {
            options: BuildOptions {
                instances,
                cpu_model: cpu_model(config)?,
                kernel_directories: image_directories(config)?,
            },
            provider_trees: Arc::new(move |node| known.of(node)),
            device_conditions: Some(Arc::new(devices.clone())),
        });
        let reconciler = Reconciler::new(guests.clone(), Some(devices.clone()), Some(placement));
        Ok(Self {
            journal,
            guests,
            devices,
            reconciler,
            trees,
            interval: config.reconcile_interval,
        })
    }

    /// The guests, for the agent's service.
    #[must_use]
    pub fn guests(&self) -> GuestService {
        GuestService::new(self.reconciler.clone(), self.interval)
    }

    /// The devices, for the agent's service.
    #[must_use]
    pub fn devices(&self) -> DeviceService {
        DeviceService::new(
            self.devices.clone(),
            Some(self.guests.completed_reconciles()),
        )
    }

    /// The reports of this host's state to the scheduler, for the agent's service.
    pub fn host_state(
        &self,
        config: &Config,
        client: HostsClient,
    ) -> Result<HostStateService, Failure> {
        Ok(HostStateService {
            client,
            journal: Arc::new(self.journal.clone()),
            changes: self.guests.changes(),
            options: host_state_options(config)?,
        })
    }

    /// The agent publishes its nodes' provider trees here. They decide which devices a guest gets.
    #[must_use]
    pub fn trees(&self) -> KnownTrees {
        self.trees.clone()
    }

    /// The receiver of external events; `sources` decides which callers are accepted.
    pub fn compute_api(&self, sources: EventSources) -> axum::Router {
        let journal = Arc::new(self.journal.clone());
        compute_api(journal, self.guests.events().clone(), sources)
    }

    /// Serves external events on `[agent] events_listen` until `stop`. Does nothing if it is not set.
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
            AuthStrategy::Noauth2 => EventSources::NoToken,
            AuthStrategy::Keystone => EventSources::WithToken {
                identity: Box::new(identity_client(&config.keystone_authtoken)?),
                // The roles that Nova accepts.
                roles: Arc::new(["service".to_owned(), "admin".to_owned()]),
            },
        };
        let listener = EVENTS.listen_on(config, address, strategy).await?;
        let api = self.compute_api(sources);
        let api = audited_as(api, &audit::open(config)?, "service/agent");
        let stop = stop.clone().cancelled_owned();
        Ok(Some(tokio::spawn(listener.serve(api, stop))))
    }

    /// The receiver of external events in this process.
    pub fn receiver(&self) -> Result<ComputeClient, Failure> {
        let router = self.compute_api(EventSources::NoToken);
        let (http, auth) = in_process(router, "http://agent/v2.1")?;
        Ok(ComputeClient::new(http, auth, &AdapterOptions::default()))
    }

    /// A client of the agent's guests in this process.
    pub fn client(&self) -> Result<GuestClient, Failure> {
        let (http, auth) = in_process(api::routes(&self.guests), "http://agent")?;
        Ok(GuestClient::new(http, auth, &AdapterOptions::default()))
    }

    /// Closes the journal. No task may run any more.
    pub async fn close(&self) {
        self.journal.close().await;
    }
}

/// Ends device hooks that a killed process left: two hooks of one device must not run at once.
async fn end_hooks_left_behind() {
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

fn image_directories(config: &Config) -> Result<Vec<HostPath>, Failure> {
    let directories = config.image_cache.image_directories.iter();
    directories
        .map(|directory| host_path("[image_cache] image_directories", directory))
        .collect()
}

/// The CPU model of guests; only libvirt has a choice.
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

/// Options of the guests' disks.
fn disks(config: &Config, images: Option<ImageClient>) -> Result<Disks, Failure> {
    let folder = config.instances_path();
    let cache = &config.image_cache;
    let mut options = DiskOptions::new(host_path("instances_path", &folder)?)
        .map_err(|error| Failure::caused(ErrorCode::Bug, "a default of disks", &error))?;
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
        None => images,
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

fn unusable(error: &JournalError) -> Failure {
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
