//! The configuration as the composition root uses it: one type per section, every value checked.
//!
//! Options are declared here if the composition root reads them or several crates do; otherwise in the crate that reads them.

mod api;
mod consoles;
mod guests;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_audit::AuditOptions;
use berth_client::AuthOptions;
use berth_compute_driver::{ComputeDriver, FakeSection, LibvirtSection, VncSection};
use berth_conductor::PluginOptions;
use berth_http::CorsOptions;
use berth_net::OsVifOvsSection;
use berth_options::{
    CheckedValues, Json, OptionGroup as _, OptionKind, OptionMisfit, OptionType, WEEK, choices,
    options, seconds,
};
use berth_quota::{QuotaLimits, QuotaOptions};
use berth_scheduler::options::SchedulerOptions;
use berth_virt::{CpuSet, ResourceModel};

use super::authtoken::{AuthtokenOptions, KeystoneAuthtoken};
use super::listeners::{ListenerTls, TLS_SECTIONS};
use super::pattern;
use super::secret::Secret;

pub use api::ApiSection;
pub use consoles::{
    ConsoleDefault, ConsoleSection, ConsoleauthSection, NovncproxySection, ProxyAddress,
    SerialConsoleSection,
};
pub(super) use guests::is_mdev_type;
pub use guests::{
    AcceleratorsSection, AgentSection, DevicesSection, FabricSection, ImageCacheSection,
    MdevTypeSection, PciSection, ScrubPolicy,
};
pub use services::{
    AcceleratorService, AgentClient, AuthStrategy, ComputeService, ConductorAuthStrategy,
    ConductorService, HOST_PART, IdentityService, PlacementService, TrustedComputingSection,
    catalog_entry,
};

pub(super) use services::{QuotaSection, SchedulerPlugin};

/// The largest whole number Placement stores in an inventory.
const PLACEMENT_MAX: i64 = 2_147_483_647;

options! {
    /// The compute node. Nova's `[DEFAULT]` options are at the top level, before the first section.
    #[derive(Debug, Clone)]
    pub struct Config in "" {
        /// The driver of this host: `libvirt`, another one that is built in, or `exec:/PATH` for a program that speaks
        /// the protocol of exec-driver.md. The options of a driver are in the section with its name.
        pub compute_driver: ComputeDriver = ComputeDriver::Libvirt;
        /// Name of this compute node. It is also the name of the root resource provider, so a change on a host with
        /// guests is refused at start.
        pub host: Option<String> = None,
            kind: HOST_NAME, derived: "the host name of the machine", example: "\"node-17\"";
        /// The address of this host that the scheduler shows for it, as Nova's option of this name.
        pub my_ip: Option<IpAddr> = None,
            derived: "the address that the default route leaves by, else `127.0.0.1`", example: "\"192.0.2.17\"";
        /// Directory of the data that must survive a restart: `compute_id` and the SQLite files of the built-in
        /// services.
        pub state_path: PathBuf = "/var/lib/berth".into();
        /// Directory of the guests' disks; its file system's size is the DISK_GB inventory.
        instances_path: Option<PathBuf> = None,
            derived: "`instances` below `state_path`", example: "\"/var/lib/berth/instances\"";
        /// Seconds between two periodic passes over the inventory; 0 means 60, -1 switches them off.
        pub update_resources_interval: UpdateInterval = UpdateInterval::Every(Duration::from_mins(1)),
            kind: Integer(-1, WEEK), effect: Live;
        /// The first periodic pass waits up to this many seconds, at random, so that a fleet started at once does not call
        /// Placement at once.
        pub periodic_fuzzy_delay: Duration = seconds(60), kind: Integer(0, 3600);
        /// Seconds between two heartbeats to the scheduler (`[conductor]`). The scheduler treats a host as down after
        /// `service_down_time` seconds without a heartbeat. A change of the host's state is reported immediately.
        pub report_interval: Duration = seconds(10), kind: Integer(1, 3600);
        /// Metrics that are measured once a minute and reported to the scheduler, for `MetricsFilter` and
        /// `MetricsWeigher`. `cpu.virt_driver` is the CPU usage that the driver reports (`cpu.user.percent` and so on,
        /// Nova's names).
        pub compute_monitors: Vec<String> = Vec::new(), kind: Choices(&["cpu.virt_driver"]);
        /// Memory that is kept for the host, in MiB: `reserved` of the MEMORY_MB inventory.
        pub reserved_host_memory_mb: u32 = 512, kind: Integer(0, PLACEMENT_MAX), effect: Live;
        /// CPUs that are kept for the host: `reserved` of the VCPU inventory. Not together with `[compute]
        /// cpu_dedicated_set`.
        pub reserved_host_cpus: u32 = 0, kind: Integer(0, PLACEMENT_MAX), effect: Live;
        /// Disk that is kept for the host, in MiB, rounded up to GiB: `reserved` of the DISK_GB inventory.
        pub reserved_host_disk_mb: u64 = 0, kind: Integer(0, i64::MAX / 1024), effect: Live;
        /// Overcommit ratio of VCPU. If set, it always applies. If unset or 0.0, the ratio in Placement is kept.
        pub cpu_allocation_ratio: Option<f64> = None, kind: Number(0.0, 10_000.0), effect: Live, example: "16.0";
        /// Overcommit ratio of MEMORY_MB. If set, it always applies. If unset or 0.0, the ratio in Placement is kept.
        pub ram_allocation_ratio: Option<f64> = None, kind: Number(0.0, 10_000.0), effect: Live, example: "1.5";
        /// Overcommit ratio of DISK_GB. If set, it always applies. If unset or 0.0, the ratio in Placement is kept.
        pub disk_allocation_ratio: Option<f64> = None, kind: Number(0.0, 10_000.0), effect: Live, example: "1.0";
        /// Overcommit ratio of VCPU for an inventory that Placement does not have yet.
        pub initial_cpu_allocation_ratio: f64 = 4.0, kind: Ratio(10_000.0), effect: Live;
        /// Overcommit ratio of MEMORY_MB for an inventory that Placement does not have yet.
        pub initial_ram_allocation_ratio: f64 = 1.0, kind: Ratio(10_000.0), effect: Live;
        /// Overcommit ratio of DISK_GB for an inventory that Placement does not have yet.
        pub initial_disk_allocation_ratio: f64 = 1.0, kind: Ratio(10_000.0), effect: Live;
        /// Seconds for which running tasks may continue after a stop request; 0: stop at the next safe point.
        pub graceful_shutdown_timeout: Duration = seconds(180), kind: Integer(0, 3600), effect: Live;
        /// Seconds for which a guest's boot waits until its accelerator requests are bound; after that the boot is
        /// rolled back.
        pub arq_binding_timeout: Duration = seconds(300), kind: Integer(1, 86_400);
        /// Seconds for which a guest's boot waits until its Neutron ports work, as the switch's database of the host says; 0: it
        /// does not wait.
        pub vif_plugging_timeout: Duration = seconds(300), kind: Integer(0, 86_400);
        /// Whether the boot fails if a port does not work in time. If not, the guest starts without it.
        pub vif_plugging_is_fatal: bool = true;
        /// The number of guests that are built concurrently: disks, definition, start. The others wait, and projects get their
        /// turns one after the other. Waits for images and accelerator requests do not count.
        pub max_concurrent_builds: usize = 10, kind: Integer(1, 1024);
        /// Seconds between two reconcile runs, which compare the desired state of guests with the hypervisor's. Blocked
        /// guests are retried then.
        pub reconcile_interval: Duration = seconds(60), kind: Integer(1, 86_400);
        /// Directory with noVNC's files, which the proxy of VNC consoles serves. Debian's package `novnc` has them there.
        pub web: PathBuf = "/usr/share/novnc".into();
        /// Layout of config drives: OpenStack's (`config-2`) or cloud-init's NoCloud (`cidata`).
        pub config_drive_layout: ConfigDriveLayout = ConfigDriveLayout::OpenStack;
    }
    extra {
        pub compute: ComputeSection = ComputeSection::default();
        pub libvirt: LibvirtSection = LibvirtSection::default();
        pub os_vif_ovs: OsVifOvsSection = OsVifOvsSection::default();
        pub vnc: VncSection = VncSection::default();
        novncproxy: NovncproxySection = NovncproxySection::default();
        serial_console: SerialConsoleSection = SerialConsoleSection::default();
        pub console: ConsoleSection = ConsoleSection::default();
        pub consoleauth: ConsoleauthSection = ConsoleauthSection::default();
        pub pci: PciSection = PciSection::default();
        pub accelerators: AcceleratorsSection = AcceleratorsSection::default();
        pub devices: DevicesSection = DevicesSection::default();
        pub fabric: FabricSection = FabricSection::default();
        pub trusted_computing: TrustedComputingSection = TrustedComputingSection::default();
        pub mdev: BTreeMap<String, MdevTypeSection> = BTreeMap::default();
        pub model: ModelSection = ModelSection::default();
        pub placement: AuthOptions = AuthOptions::for_service("placement");
        pub cyborg: AuthOptions = AuthOptions::for_service("accelerator");
        pub conductor: AuthOptions = AuthOptions::for_service("conductor");
        pub glance: AuthOptions = AuthOptions::for_service("image");
        pub neutron: AuthOptions = AuthOptions::for_service("network");
        pub image_cache: ImageCacheSection = ImageCacheSection::default();
        pub api: ApiSection = ApiSection::default();
        pub audit: AuditOptions = AuditOptions::default();
        pub placement_service: PlacementService = PlacementService::default();
        pub cors: CorsOptions = CorsOptions::default();
        pub accelerator_service: AcceleratorService = AcceleratorService::default();
        pub conductor_service: ConductorService = ConductorService::default();
        pub compute_service: ComputeService = ComputeService::default();
        pub(super) quota: QuotaSection = QuotaSection::default();
        pub identity_service: IdentityService = IdentityService::default();
        /// The TLS options of services' listeners, by section.
        pub(super) listener_tls: BTreeMap<&'static str, ListenerTls> = BTreeMap::default();
        scheduler: SchedulerOptions = SchedulerOptions::default();
        pub(super) scheduler_plugin: BTreeMap<String, SchedulerPlugin> = BTreeMap::default();
        pub agent_client: AgentClient = AgentClient::default();
        pub keystone_authtoken: KeystoneAuthtoken = KeystoneAuthtoken::default();
        pub agent: AgentSection = AgentSection::default();
        pub fake: FakeSection = FakeSection::default();
        /// The driver reads its own options from these values.
        pub values: CheckedValues = CheckedValues::default();
    }
}

impl Config {
    /// Creates the configuration from checked values. For a section pattern it has one entry for each of `named`.
    pub(super) fn read(
        values: CheckedValues,
        named: &BTreeSet<String>,
    ) -> Result<Self, OptionMisfit> {
        let client = |section: &str, service_type| {
            values.read_onto(section, AuthOptions::for_service(service_type))
        };
        let listener_tls = TLS_SECTIONS.map(|section| {
            let tls = values.read_onto(section, ListenerTls::default());
            tls.map(|tls| (section, tls))
        });
        let mut scheduler = SchedulerOptions::read(&values)?;
        let own: Self = values.read()?;
        scheduler.default.report_interval = own.report_interval.as_secs_f64();
        Ok(Self {
            compute: values.read()?,
            libvirt: values.read()?,
            os_vif_ovs: values.read()?,
            vnc: values.read()?,
            novncproxy: values.read()?,
            serial_console: values.read()?,
            console: values.read()?,
            consoleauth: values.read()?,
            pci: values.read()?,
            accelerators: values.read()?,
            devices: values.read()?,
            fabric: values.read()?,
            trusted_computing: values.read()?,
            mdev: pattern::MDEV.read(&values, named)?,
            model: ModelSection(values.read()?),
            placement: client("placement", "placement")?,
            cyborg: client("cyborg", "accelerator")?,
            conductor: client("conductor", "conductor")?,
            glance: client("glance", "image")?,
            neutron: client("neutron", "network")?,
            image_cache: values.read()?,
            api: values.read()?,
            audit: values.read()?,
            placement_service: values.read()?,
            cors: values.read()?,
            accelerator_service: values.read()?,
            conductor_service: values.read()?,
            compute_service: values.read()?,
            quota: values.read()?,
            identity_service: values.read()?,
            listener_tls: listener_tls.into_iter().collect::<Result<_, _>>()?,
            scheduler,
            scheduler_plugin: pattern::PLUGIN.read(&values, named)?,
            agent_client: values.read()?,
            keystone_authtoken: KeystoneAuthtoken::from(values.read::<AuthtokenOptions>()?),
            agent: values.read()?,
            fake: values.read()?,
            values,
            ..own
        })
    }
}

impl Config {
    /// Directory of the guests' disks: `instances_path`, else `instances` below `state_path`.
    #[must_use]
    pub fn instances_path(&self) -> PathBuf {
        self.instances_path
            .clone()
            .unwrap_or_else(|| self.state_path.join("instances"))
    }

    /// The configuration with the fake driver, and its machine in this file.
    #[must_use]
    pub fn with_machine(mut self, file: &Path) -> Self {
        self.compute_driver = ComputeDriver::Fake;
        self.fake.machine = Some(file.to_owned());
        let written = Json::from(file.display().to_string());
        self.values.set(FakeSection::SECTION, "machine", written);
        self
    }

    #[must_use]
    pub fn scheduler_options(&self) -> SchedulerOptions {
        self.scheduler.clone()
    }

    /// `[scheduler] max_attempts`.
    #[must_use]
    pub fn scheduler_attempts(&self) -> u32 {
        u32::try_from(self.scheduler.scheduler.max_attempts).unwrap_or(u32::MAX)
    }

    /// The program that limits new servers; `None` without one.
    #[must_use]
    pub fn quota_hook(&self) -> Option<QuotaOptions> {
        self.quota.options()
    }

    /// The limits of projects without limits of their own.
    #[must_use]
    pub fn quota_limits(&self) -> QuotaLimits {
        self.quota.limits()
    }

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

    /// The database of the built-in Placement: `[placement_service] connection`, else a file below `state_path`.
    #[must_use]
    pub fn placement_database(&self) -> Secret {
        self.database(&self.placement_service.connection, "placement.sqlite")
    }

    /// The database of the built-in accelerator service.
    #[must_use]
    pub fn accelerator_database(&self) -> Secret {
        self.database(&self.accelerator_service.connection, "accelerator.sqlite")
    }

    /// The database of the hosts service.
    #[must_use]
    pub fn hosts_database(&self) -> Secret {
        self.database(&self.conductor_service.connection, "hosts.sqlite")
    }

    /// The database of the built-in identity service.
    #[must_use]
    pub fn identity_database(&self) -> Secret {
        self.database(&self.identity_service.connection, "identity.sqlite")
    }

    /// The database of the compute API.
    #[must_use]
    pub fn compute_database(&self) -> Secret {
        self.database(&self.compute_service.connection, "compute.sqlite")
    }

    fn database(&self, connection: &Option<Secret>, file: &str) -> Secret {
        connection.clone().unwrap_or_else(|| {
            let file = self.state_path.join(file);
            Secret::from(format!("sqlite:{}", file.display()))
        })
    }
}

choices! {
    /// `config_drive_layout`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ConfigDriveLayout {
        OpenStack = "openstack",
        NoCloud = "nocloud",
    }
}

/// `update_resources_interval`: Nova's number, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

impl OptionType for UpdateInterval {
    const KIND: OptionKind = OptionKind::Integer(-1, WEEK);

    fn read(value: &Json) -> Option<Self> {
        value.as_i64().map(Self::from)
    }

    fn write(&self) -> Json {
        match self {
            UpdateInterval::Off => Json::from(-1),
            UpdateInterval::Every(period) => match period.as_secs() {
                60 => Json::from(0),
                seconds => Json::from(seconds),
            },
        }
    }
}

options! {
    /// Which CPUs are offered, and how often Placement is checked.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ComputeSection in "compute" {
        /// Host CPUs that back VCPU. Unset: all online CPUs, or none if only `cpu_dedicated_set` is set.
        pub cpu_shared_set: Option<CpuSet> = None, example: "\"0-3,^2,8\"";
        /// Host CPUs that back PCPU, one guest CPU each. Must not overlap with `cpu_shared_set`.
        pub cpu_dedicated_set: Option<CpuSet> = None, example: "\"4-7\"";
        /// Seconds for which inventories, traits and aggregates that were read from Placement are cached; 0: without
        /// limit.
        resource_provider_association_refresh: u64 = 300, kind: Integer(0, WEEK), effect: Live;
        /// The maximum number of aggregates in one request for sharing providers.
        pub sharing_providers_max_uuids_per_request: usize = 200, kind: Integer(1, 10_000), effect: Live;
        /// Whether the root provider carries the trait OWNER_NOVA, as Nova's own compute nodes do.
        pub owner_nova: bool = true, effect: Live;
        /// The directory with files `*.yaml` that add custom inventories and traits (`CUSTOM_…`) to providers: Nova's
        /// provider.yaml, schema 1.x. The files are read at start and at SIGHUP. What is removed from them is removed
        /// from Placement.
        pub provider_config_location: PathBuf = "/etc/berth/provider_config".into(), kind: RIGHTS_FILE, effect: Live;
    }
}

impl ComputeSection {
    /// How long data from Placement is cached; `None`: without limit.
    #[must_use]
    pub fn resource_provider_association_refresh(&self) -> Option<Duration> {
        let seconds = self.resource_provider_association_refresh;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

/// `[model]`: the resource model, as the driver contract's own type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelSection(pub ResourceModel);
