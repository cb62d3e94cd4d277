//! The configuration as the composition root uses it: one type per section, every value checked.
//!
//! Field names are option names; the [table](super::table) documents them. Defaults come from the table, so an
//! option that is not an `Option` here always has a value.

mod api;
mod seconds;
mod services;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use berth_client::AuthOptions;
use berth_compute::QuotaOptions;
use berth_conductor::PluginOptions;
use berth_model::PciAddress;
use berth_scheduler::options::{
    ComputeGroupOptions, DefaultOptions, FilterSchedulerOptions, MetricsOptions, PciOptions,
    SchedulerGroupOptions, SchedulerOptions, WorkaroundsOptions,
};
use berth_scheduler::plugin::OnFailure;
use berth_scheduler::request::PciAlias;
use berth_virt::{CpuSet, NumaModel, PcpuModel, ResourceModel, VgpuModel};
use serde::Deserialize;
use serde::de::Error as _;

use super::authtoken::KeystoneAuthtoken;
use super::secret::Secret;
use seconds::seconds;
use services::QuotaSection;

pub use api::ApiSection;
pub use services::{
    AcceleratorService, AgentClient, AllocationCandidatesFrom, AuthStrategy, ComputeService,
    ConductorService, CorsSection, HOST_PART, IdentityService, PlacementService, catalog_entry,
};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub compute_driver: ComputeDriver,
    pub host: Option<String>,
    pub my_ip: Option<IpAddr>,
    pub state_path: PathBuf,
    instances_path: Option<PathBuf>,
    pub update_resources_interval: UpdateInterval,
    #[serde(deserialize_with = "seconds")]
    pub periodic_fuzzy_delay: Duration,
    #[serde(deserialize_with = "seconds")]
    pub report_interval: Duration,
    pub compute_monitors: Vec<String>,
    pub reserved_host_memory_mb: u32,
    pub reserved_host_cpus: u32,
    pub reserved_host_disk_mb: u64,
    pub cpu_allocation_ratio: Option<f64>,
    pub ram_allocation_ratio: Option<f64>,
    pub disk_allocation_ratio: Option<f64>,
    pub initial_cpu_allocation_ratio: f64,
    pub initial_ram_allocation_ratio: f64,
    pub initial_disk_allocation_ratio: f64,
    #[serde(deserialize_with = "seconds")]
    pub graceful_shutdown_timeout: Duration,
    #[serde(deserialize_with = "seconds")]
    pub arq_binding_timeout: Duration,
    #[serde(deserialize_with = "seconds")]
    pub reconcile_interval: Duration,
    pub config_drive_layout: ConfigDriveLayout,
    pub compute: ComputeSection,
    pub libvirt: LibvirtSection,
    pub pci: PciSection,
    pub accelerators: AcceleratorsSection,
    pub devices: DevicesSection,
    pub trusted_computing: TrustedComputingSection,
    #[serde(default)]
    pub mdev: BTreeMap<String, MdevTypeSection>,
    pub model: ModelSection,
    #[serde(deserialize_with = "super::login::auth_options")]
    pub placement: AuthOptions,
    #[serde(deserialize_with = "super::login::auth_options")]
    pub cyborg: AuthOptions,
    #[serde(deserialize_with = "super::login::auth_options")]
    pub conductor: AuthOptions,
    #[serde(deserialize_with = "super::login::auth_options")]
    pub glance: AuthOptions,
    pub image_cache: ImageCacheSection,
    pub api: ApiSection,
    pub placement_service: PlacementService,
    pub cors: CorsSection,
    pub accelerator_service: AcceleratorService,
    pub conductor_service: ConductorService,
    pub compute_service: ComputeService,
    pub(super) quota: QuotaSection,
    pub identity_service: IdentityService,
    default_availability_zone: String,
    #[serde(deserialize_with = "seconds")]
    pub service_down_time: Duration,
    scheduler: SchedulerGroupOptions,
    filter_scheduler: FilterSchedulerOptions,
    #[serde(default)]
    pub(super) scheduler_plugin: BTreeMap<String, SchedulerPlugin>,
    metrics: MetricsOptions,
    workarounds: WorkaroundsOptions,
    pub agent_client: AgentClient,
    pub keystone_authtoken: KeystoneAuthtoken,
    pub agent: AgentSection,
    pub fake: FakeSection,
}

impl Config {
    /// Directory of the guests' disks: `instances_path`, else `instances` below `state_path`.
    #[must_use]
    pub fn instances_path(&self) -> PathBuf {
        self.instances_path
            .clone()
            .unwrap_or_else(|| self.state_path.join("instances"))
    }

    /// The database of the built-in Placement: `[placement_service] connection`, else a file below `state_path`.
    #[must_use]
    pub fn placement_database(&self) -> Secret {
        self.placement_service
            .connection
            .clone()
            .unwrap_or_else(|| {
                Secret::from(format!(
                    "sqlite:{}",
                    self.state_path.join("placement.sqlite").display()
                ))
            })
    }
}

impl Config {
    /// The database of the built-in accelerator service: `[accelerator_service] connection`, else a file below `state_path`.
    #[must_use]
    pub fn accelerator_database(&self) -> Secret {
        self.accelerator_service
            .connection
            .clone()
            .unwrap_or_else(|| {
                let file = self.state_path.join("accelerator.sqlite");
                Secret::from(format!("sqlite:{}", file.display()))
            })
    }
}

impl Config {
    /// What the scheduler goes by.
    #[must_use]
    pub fn scheduler_options(&self) -> SchedulerOptions {
        let compute = &self.compute;
        SchedulerOptions {
            default: DefaultOptions {
                default_availability_zone: self.default_availability_zone.clone(),
                service_down_time: self.service_down_time.as_secs_f64(),
                report_interval: self.report_interval.as_secs_f64(),
            },
            scheduler: self.scheduler.clone(),
            filter_scheduler: self.filter_scheduler.clone(),
            metrics: self.metrics.clone(),
            compute: ComputeGroupOptions {
                packing_host_numa_cells_allocation_strategy: compute
                    .packing_host_numa_cells_allocation_strategy,
                consecutive_build_service_disable_threshold: compute
                    .consecutive_build_service_disable_threshold,
            },
            pci: PciOptions {
                // Each was read when the configuration was checked.
                alias: (self.pci.alias.iter())
                    .filter_map(|it| PciAlias::read(it).ok())
                    .collect(),
            },
            workarounds: self.workarounds.clone(),
        }
    }

    /// `[scheduler] max_attempts`.
    #[must_use]
    pub fn scheduler_attempts(&self) -> u32 {
        u32::try_from(self.scheduler.max_attempts).unwrap_or(u32::MAX)
    }

    /// The database of what the scheduler knows of hosts: `[conductor_service] connection`, else a file below `state_path`.
    #[must_use]
    pub fn hosts_database(&self) -> Secret {
        self.conductor_service
            .connection
            .clone()
            .unwrap_or_else(|| {
                let file = self.state_path.join("hosts.sqlite");
                Secret::from(format!("sqlite:{}", file.display()))
            })
    }
}

impl Config {
    /// The database of the built-in identity service: `[identity_service] connection`, else a file below `state_path`.
    #[must_use]
    pub fn identity_database(&self) -> Secret {
        self.identity_service.connection.clone().unwrap_or_else(|| {
            let file = self.state_path.join("identity.sqlite");
            Secret::from(format!("sqlite:{}", file.display()))
        })
    }
}

impl Config {
    /// The database of the compute API: `[compute_service] connection`, else a file below `state_path`.
    #[must_use]
    pub fn compute_database(&self) -> Secret {
        self.compute_service.connection.clone().unwrap_or_else(|| {
            let file = self.state_path.join("compute.sqlite");
            Secret::from(format!("sqlite:{}", file.display()))
        })
    }
}

impl Config {
    /// The program that is asked before servers are made; none: nobody is.
    #[must_use]
    pub fn quota_hook(&self) -> Option<QuotaOptions> {
        self.quota.options()
    }
}

impl Config {
    /// The scheduler's plugins, in the order of their names.
    pub fn scheduler_plugins(&self) -> impl Iterator<Item = PluginOptions> {
        let plugins = self.scheduler_plugin.iter();
        plugins.filter_map(|(name, plugin)| {
            Some(PluginOptions {
                name: name.clone(),
                program: plugin.program.clone()?,
                time_budget: plugin.time_budget,
                on_failure: plugin.on_failure,
                weight_multiplier: plugin.weight_multiplier,
            })
        })
    }
}

/// `config_drive_layout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigDriveLayout {
    OpenStack,
    NoCloud,
}

/// `compute_driver`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ComputeDriver {
    /// Guests and devices of this host, through libvirt and sysfs.
    Libvirt,
    /// A machine described by a file.
    Fake,
    /// A program that speaks the driver protocol (`exec:PATH`).
    Exec(PathBuf),
}

impl TryFrom<String> for ComputeDriver {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), text.strip_prefix("exec:")) {
            ("libvirt", _) => Ok(ComputeDriver::Libvirt),
            ("fake", _) => Ok(ComputeDriver::Fake),
            (_, Some(program)) => Ok(ComputeDriver::Exec(program.into())),
            _ => Err(format!("{text:?} is no driver")),
        }
    }
}

/// `update_resources_interval`: Nova's number, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "i64")]
pub enum UpdateInterval {
    /// No periodic pass; events still cause one.
    Off,
    /// A pass this often.
    Every(Duration),
}

impl From<i64> for UpdateInterval {
    fn from(seconds: i64) -> Self {
        match u64::try_from(seconds) {
            Err(_) => UpdateInterval::Off,
            Ok(0) => UpdateInterval::Every(Duration::from_mins(1)),
            Ok(seconds) => UpdateInterval::Every(Duration::from_secs(seconds)),
        }
    }
}

/// `[compute]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeSection {
    #[serde(default, deserialize_with = "cpu_set")]
    pub cpu_shared_set: Option<CpuSet>,
    #[serde(default, deserialize_with = "cpu_set")]
    pub cpu_dedicated_set: Option<CpuSet>,
    resource_provider_association_refresh: u64,
    pub sharing_providers_max_uuids_per_request: usize,
    pub owner_nova: bool,
    pub provider_config_location: PathBuf,
    packing_host_numa_cells_allocation_strategy: bool,
    consecutive_build_service_disable_threshold: i64,
}

impl ComputeSection {
    /// How long what was read from Placement is trusted; `None`: for ever.
    #[must_use]
    pub fn resource_provider_association_refresh(&self) -> Option<Duration> {
        let seconds = self.resource_provider_association_refresh;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

/// `[libvirt]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibvirtSection {
    connection_uri: Option<String>,
    pub virt_type: VirtType,
    cpu_mode: Option<CpuMode>,
    pub cpu_models: Vec<String>,
    disk_cachemodes: Vec<CacheMode>,
    pub emulator: Option<PathBuf>,
}

impl LibvirtSection {
    /// The connection, `qemu:///system` unless set.
    #[must_use]
    pub fn connection_uri(&self) -> &str {
        self.connection_uri.as_deref().unwrap_or("qemu:///system")
    }

    /// The processor that guests see: as set, else by how they run.
    #[must_use]
    pub fn cpu_mode(&self) -> CpuMode {
        self.cpu_mode.unwrap_or(match self.virt_type {
            VirtType::Kvm => CpuMode::HostModel,
            VirtType::Qemu => CpuMode::None,
        })
    }

    /// How guests' disks are cached; where several are named, which is refused, the first.
    #[must_use]
    pub fn disk_cache(&self) -> CacheMode {
        let first = self.disk_cachemodes.first().copied();
        first.unwrap_or(CacheMode::None)
    }

    /// How many cache modes are named.
    pub(super) fn cache_modes(&self) -> usize {
        self.disk_cachemodes.len()
    }
}

/// `[libvirt] cpu_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuMode {
    None,
    /// The nearest named model to the host's.
    HostModel,
    HostPassthrough,
    /// All that the hypervisor can show.
    Maximum,
    /// The model that `cpu_models` names.
    Custom,
}

/// One of `[libvirt] disk_cachemodes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum CacheMode {
    /// Past the host's page cache.
    #[serde(rename = "file=none")]
    None,
    #[serde(rename = "file=writeback")]
    Writeback,
}

/// `[pci]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciSection {
    /// As written; `AllowList::read` makes a list of it.
    pub device_spec: Vec<serde_json::Value>,
    pub report_in_placement: bool,
    /// As written; `PciAlias::read` makes one of each.
    pub alias: Vec<serde_json::Value>,
}

/// `[trusted_computing]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedComputingSection {
    pub attestation_file: Option<PathBuf>,
    #[serde(deserialize_with = "seconds")]
    pub attestation_auth_timeout: Duration,
}

/// `[accelerators]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorsSection {
    /// As written; `AllowList::read` makes a list of it.
    pub device_spec: Vec<serde_json::Value>,
    pub scrub: ScrubPolicy,
    pub reset_hook: Option<PathBuf>,
    #[serde(deserialize_with = "seconds")]
    pub reset_hook_timeout: Duration,
    pub program_hook: Option<PathBuf>,
    #[serde(deserialize_with = "seconds")]
    pub program_hook_timeout: Duration,
    pub health_hook: Option<PathBuf>,
    #[serde(deserialize_with = "seconds")]
    pub health_hook_timeout: Duration,
    #[serde(deserialize_with = "seconds")]
    pub health_hook_interval: Duration,
}

/// `[image_cache]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageCacheSection {
    pub image_directories: Vec<PathBuf>,
    pub largest_image_gb: u64,
    pub remove_unused_base_images: bool,
    #[serde(
        rename = "remove_unused_original_minimum_age_seconds",
        deserialize_with = "seconds"
    )]
    pub unused_age: Duration,
}

/// `[libvirt] virt_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VirtType {
    Kvm,
    Qemu,
}

/// `[devices]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicesSection {
    pub enabled_mdev_types: Vec<String>,
}

/// `[mdev_TYPE]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MdevTypeSection {
    #[serde(deserialize_with = "addresses")]
    pub device_addresses: Vec<PciAddress>,
    pub mdev_class: String,
    pub max_instances: Option<u32>,
}

/// `[scheduler_plugin_NAME]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SchedulerPlugin {
    pub(super) program: Option<PathBuf>,
    #[serde(deserialize_with = "fractional_seconds")]
    time_budget: Duration,
    #[serde(default)]
    on_failure: Option<OnFailure>,
    weight_multiplier: f64,
}

/// `[model]`: where resources stand in the provider tree, as the driver contract's own type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ModelWords")]
pub struct ModelSection(pub ResourceModel);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelWords {
    vgpu: String,
    numa: String,
    pcpu: String,
}

/// A word that the table lets through and no model has.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no model")]
struct UnknownModel(String);

impl TryFrom<ModelWords> for ModelSection {
    type Error = UnknownModel;

    fn try_from(words: ModelWords) -> Result<Self, UnknownModel> {
        let vgpu = match words.vgpu.as_str() {
            "root" => VgpuModel::Root,
            "per-gpu" => VgpuModel::PerGpu,
            _ => return Err(UnknownModel(words.vgpu)),
        };
        let numa = match words.numa.as_str() {
            "flat" => NumaModel::Flat,
            "cells" => NumaModel::Cells,
            _ => return Err(UnknownModel(words.numa)),
        };
        let pcpu = match words.pcpu.as_str() {
            "vcpu" => PcpuModel::Vcpu,
            "pcpu" => PcpuModel::Pcpu,
            _ => return Err(UnknownModel(words.pcpu)),
        };
        Ok(ModelSection(ResourceModel { vgpu, numa, pcpu }))
    }
}

/// `scrub`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScrubPolicy {
    /// A device is reset between two guests.
    Always,
    Never,
}

/// `[agent]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentSection {
    pub admin_socket: PathBuf,
    pub admin_group: String,
    pub metrics_listen: Option<SocketAddr>,
    pub events_listen: Option<SocketAddr>,
    pub listen: Option<SocketAddr>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
}

/// `[fake]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FakeSection {
    pub machine: Option<PathBuf>,
}

fn fractional_seconds<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)
}

fn addresses<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<PciAddress>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom))
        .collect()
}

fn cpu_set<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<CpuSet>, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map(Some)
        .map_err(D::Error::custom)
}
