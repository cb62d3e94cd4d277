//! Options of the built-in services, and of the clients of agents.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use berth_http::Prefix;
use berth_identity::EndpointInterface;
use berth_model::ResourceClassError;
use berth_options::text::{check_url, is_host_name};
use berth_options::{
    FileRole, ListenAddress, OptionKind, TextKind, WEEK, WrongText, choices, options, seconds,
};
use berth_placement::CandidatesFrom;
use berth_quota::{OnQuotaFailure, QuotaLimit, QuotaLimits, QuotaOptions, QuotaResource};
use berth_scheduler::plugin::OnFailure;
use berth_store::Isolation;
use berth_store::sql::{Location, OpenError};
use berth_wire::guest::NetworkSource;

use crate::secret::Secret;

const NIL_UUID: &str = "00000000-0000-0000-0000-000000000000";

/// The default address of a service.
pub(super) const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

options! {
    /// The built-in Placement service (`berth up`, `berth controller`, `berth placement serve`).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PlacementService in "placement_service" {
        /// The database; the variable BERTH_DATABASE_URL also sets it.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `placement.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/placement.sqlite\"";
        /// The isolation level of write transactions if the database is on a server. Berth is correct at both.
        pub isolation_level: Isolation = Isolation::RepeatableRead;
        /// Address and port of Placement alone. `berth up` and `berth controller` always serve it below `[api] listen`,
        /// and to local commands on `placement.sock` in the folder of `[agent] admin_socket`.
        pub(super) listen: Option<ListenAddress> = None,
            derived: "`127.0.0.1:8778` in `berth placement serve`, otherwise `none`", example: "\"127.0.0.1:8778\"";
        /// How tokens are validated at `listen`: `noauth2` trusts the token as it is, so every user and process of this
        /// host may do everything; it listens on loopback only. `keystone` validates the token by
        /// `[keystone_authtoken]`. Placement's option of this name, from its `[api]`.
        pub auth_strategy: Option<AuthStrategy> = None,
            derived: "`noauth2` in `berth placement serve`; `berth up` and `berth controller` require it with `listen`", example: "\"keystone\"";
        /// Rules that replace the default policy: a YAML file in the language of oslo.policy, like Placement's
        /// policy.yaml; read at start.
        pub policy_file: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/placement-policy.yaml\"";
        /// Whether only the newer default rules apply. With false the role `admin` alone passes every default rule,
        /// also for a reshape. Placement's option of this name, from its `[oslo_policy]`.
        pub enforce_new_defaults: bool = true;
        /// Prefix of every path of the API, also in links. Requests without the prefix are answered as well, for
        /// proxies that remove it.
        pub path_prefix: Prefix = Prefix::default(), example: "\"/placement\"";
        /// The project of consumers that were created without one, before microversion 1.8. Placement's option of this
        /// name.
        pub incomplete_consumer_project_id: String = NIL_UUID.into();
        /// The user of consumers that were created without one. Placement's option of this name.
        pub incomplete_consumer_user_id: String = NIL_UUID.into();
        /// Whether allocation candidates are returned in random order; if there are more than the limit, the selection
        /// is random, too. Placement's option of this name.
        pub randomize_allocation_candidates: bool = false;
        /// The maximum number of allocation candidates that are generated for one request, independent of its limit.
        /// Placement's option of this name.
        pub max_allocation_candidates: usize = 100_000, kind: Integer(1, 1_000_000);
        /// Where allocation candidates are searched: in a `snapshot` of all providers in memory, which is correct as
        /// long as no other process writes to the database, or by `sql`, which reads the providers that could serve the
        /// request. `auto` is `snapshot` on SQLite and `sql` on PostgreSQL and MariaDB. Both return the same
        /// candidates.
        pub allocation_candidates_from: CandidatesFrom = CandidatesFrom::Auto;
    }
}

impl PlacementService {
    /// The address in `berth up` and `berth controller`; `None` without one.
    #[must_use]
    pub fn own_listen(&self) -> Option<SocketAddr> {
        self.listen?.address()
    }

    /// The address of `berth placement serve`; `None` if the option is `none`.
    #[must_use]
    pub fn serve_listen(&self) -> Option<SocketAddr> {
        self.listen
            .map_or(Some(loopback(8778)), ListenAddress::address)
    }
}

/// The placeholder for a host's name in `[accelerator_service] external_events_endpoint`.
pub const HOST_PART: &str = "{host}";

options! {
    /// The built-in accelerator service (`berth up`, `berth controller`, `berth accelerator serve`).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AcceleratorService in "accelerator_service" {
        /// The database; not the one of Placement. On a database server, several processes may serve the API from it.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `accelerator.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/accelerator.sqlite\"";
        /// Address and port of the accelerator service alone. `berth up` and `berth controller` always serve it below
        /// `[api] listen`, and to local commands on `accelerator.sock` in the folder of `[agent] admin_socket`.
        pub(super) listen: Option<ListenAddress> = None,
            derived: "`127.0.0.1:6666` in `berth accelerator serve`, otherwise `none`", example: "\"127.0.0.1:6666\"";
        /// How tokens are validated at `listen`: `noauth2` trusts the token as it is, so every user and process of this
        /// host may do everything; it listens on loopback only. `keystone` validates the token by
        /// `[keystone_authtoken]` and requires a service token for binds.
        pub auth_strategy: Option<AuthStrategy> = None,
            derived: "`noauth2` in `berth accelerator serve`; `berth up` and `berth controller` require it with `listen`", example: "\"keystone\"";
        /// Rules that replace the default policy: a YAML file in the language of oslo.policy, like Cyborg's
        /// policy.yaml; read at start.
        pub policy_file: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/accelerator-policy.yaml\"";
        /// The compute API that receives external events for binds (POST /os-server-external-events): Nova's, or the
        /// one of the only agent. With `{host}` for the host's name (`https://{host}:9178/v2.1`), the agent of each
        /// host gets the events of that host at its `[agent] listen`, with the certificate of `[agent_client]`. Unset:
        /// no events are sent; `berth up` sends them to its own agent and to those of `[conductor_service] agents`.
        pub external_events_endpoint: Option<String> = None, kind: URL, example: "\"http://127.0.0.1:8774/v2.1\"";
        /// Seconds for which a request stays bound to a guest that its host reports as unknown. The request is deleted
        /// after that.
        pub orphan_request_grace: Duration = seconds(3600), kind: Integer(60, WEEK);
        /// Seconds after which a request without a device (never bound, unbound, or with a failed bind) is deleted; 0:
        /// never.
        pub unbound_request_grace: Duration = seconds(3600), kind: Integer(0, WEEK);
        /// The largest number of accelerator requests of a project that no instance has; further ones are refused with
        /// 403. Services and operators have no limit.
        pub max_unbound_requests: u64 = 1_000, kind: Integer(0, 0x7FFF_FFFF);
        /// Seconds for which a bind waits until its devices are programmed; the bind fails after that.
        pub bind_timeout: Duration = seconds(60), kind: Integer(1, 86_400);
    }
}

impl AcceleratorService {
    /// The address in `berth up` and `berth controller`; `None` without one.
    #[must_use]
    pub fn own_listen(&self) -> Option<SocketAddr> {
        self.listen?.address()
    }

    /// The address of `berth accelerator serve`; `None` if the option is `none`.
    #[must_use]
    pub fn serve_listen(&self) -> Option<SocketAddr> {
        self.listen
            .map_or(Some(loopback(6666)), ListenAddress::address)
    }
}

choices! {
    /// `auth_strategy`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum AuthStrategy {
        /// Tokens are trusted as they are.
        #[default]
        Noauth2 = "noauth2",
        /// Keystone validates tokens (`[keystone_authtoken]`).
        Keystone = "keystone",
    }
}

options! {
    /// The built-in conductor (`berth up`, `berth controller`).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ConductorService in "conductor_service" {
        /// The database of the scheduler's data about compute hosts: states, services, host aggregates and server
        /// groups. The conductors of one cloud share it.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `hosts.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/hosts.sqlite\"";
        /// A loopback address for Prometheus: `/metrics` of the conductor. Its API for guests is on the socket
        /// `conductor.sock` in the folder of `[agent] admin_socket`, for root and `[agent] admin_group`.
        pub listen: ListenAddress = ListenAddress::NONE, kind: LOOPBACK_LISTEN, example: "\"127.0.0.1:8776\"";
        /// `noauth2`: `listen` offers the API for guests, too. It has no authentication, so every user and process of
        /// this host may then create and delete guests. Unset: `listen` offers only the metrics.
        pub auth_strategy: Option<ConductorAuthStrategy> = None, example: "\"noauth2\"";
        /// Seconds for which a blocked boot is retried before it is rolled back. A boot is blocked while a service is
        /// not reachable, or while its devices are still being cleaned.
        pub retry_timeout: Duration = seconds(120), kind: Integer(0, 86_400);
        /// The number of guests that are booted concurrently, each until its host's agent builds it; the others wait.
        /// Projects get their turns one after the other, so that one with many guests does not delay the others.
        pub workers: usize = 16, kind: Integer(1, 1024);
        /// The number of guests for which the scheduler searches a host concurrently; the others wait. Concurrent
        /// searches may select the same devices; all but one of them search again.
        pub scheduler_workers: usize = 4, kind: Integer(1, 64), example: "1";
        /// Seconds for which the headroom metrics are cached. A read of older metrics queries Placement and the filters
        /// once for each of the last 32 flavors; 0: no headroom metrics.
        headroom_interval: Duration = seconds(60), kind: Integer(0, 86_400);
        /// The agents of other hosts, each by the name of its host and its `[agent] listen`. They are called with the
        /// certificate of `[agent_client]`. The agent of a host builds on all nodes that this host reports.
        pub agents: Vec<String> = Vec::new(), kind: AGENTS, example: "[\"compute2=https://192.0.2.11:9178\"]";
    }
}

choices! {
    /// `[conductor_service] auth_strategy`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ConductorAuthStrategy {
        /// Every caller may do everything.
        Noauth2 = "noauth2",
    }
}

impl ConductorService {
    /// The maximum age of the headroom metrics; `None`: no such metrics.
    #[must_use]
    pub fn headroom_interval(&self) -> Option<Duration> {
        (!self.headroom_interval.is_zero()).then_some(self.headroom_interval)
    }
}

options! {
    /// The built-in compute API (`berth up`, `berth controller`, `berth compute serve`), and the listener for the reports of agents of
    /// other hosts.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ComputeService in "compute_service" {
        /// The database of the compute API: flavors, key pairs, and the servers' names, owners and metadata.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `compute.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/compute.sqlite\"";
        /// Address and port of the compute API (`/v2.1`). Agents of other hosts also report their host state to it
        /// (`[conductor] endpoint_override` there). Unset: the compute API is served below `[api] listen` only.
        pub listen: ListenAddress = ListenAddress::NONE, example: "\"127.0.0.1:8774\"";
        /// The images for servers if `[glance]` names no image service; the built-in image service shows them, too. A
        /// TOML file with an `[[image]]` for each (`name`, `disk_format`, `file`, or `path` or `url` with `checksum`,
        /// and optionally `id`, `size`, `min_ram` in MiB, `min_disk` in GiB, `tags`, `properties`, `os_hidden`). It is
        /// read at the start.
        pub images_file: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/images.toml\"";
        /// The network of servers that are created with networks `auto`: `network:NAME` of a libvirt network or
        /// `bridge:NAME` of a Linux bridge, on every host. Unset: such servers have no interface. Without effect with
        /// `[neutron]`.
        pub auto_network: Option<String> = None, example: "\"network:default\"";
        /// Seconds between two reads of interfaces from Neutron. Each reads a sixtieth of the servers, but at least 10. It
        /// finds changed addresses and floating addresses whose event was lost. 0: only events are used.
        heal_instance_info_cache_interval: Duration = seconds(60), kind: Integer(0, 86_400);
        /// How tokens are validated at `listen`: `noauth2` trusts the token as it is, so every user and process of this
        /// host may do everything; it listens on loopback only. `keystone` validates the token by
        /// `[keystone_authtoken]`. An agent needs the account of its host (`host/NAME`) with the role `service`.
        pub auth_strategy: Option<AuthStrategy> = None,
            derived: "`noauth2` in `berth compute serve`; `berth up` and `berth controller` require it with `listen`", example: "\"keystone\"";
        /// Rules that replace the default policy: a YAML file in the language of oslo.policy, like Nova's policy.yaml;
        /// read at start.
        pub policy_file: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/compute-policy.yaml\"";
    }
}

impl ComputeService {
    /// Replaces the database of the configuration.
    pub fn set_connection(&mut self, url: Secret) {
        self.connection = Some(url);
    }

    /// The interval at which interfaces are read again; `None`: only after events.
    #[must_use]
    pub fn heal_interval(&self) -> Option<Duration> {
        let interval = self.heal_instance_info_cache_interval;
        (!interval.is_zero()).then_some(interval)
    }

    /// The network of servers with networks `auto`; `None` without one, or if the text is invalid (`config check`
    /// reports that).
    #[must_use]
    pub fn auto_network(&self) -> Option<NetworkSource> {
        network_source(self.auto_network.as_deref()?)
    }
}

options! {
    /// The limits of projects in the built-in compute API that have none of their own (`openstack quota set`); -1:
    /// unlimited. Names and defaults are those of Nova's `[quota]`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct QuotaSection in "quota" {
        /// Servers of a project.
        instances: i64 = 10, kind: LIMIT;
        /// Processors of all servers of a project, by their flavors.
        cores: i64 = 20, kind: LIMIT;
        /// Memory of all servers of a project in MiB, by their flavors.
        ram: i64 = 51_200, kind: LIMIT;
        /// Metadata items of a server. A config drive has no room for more than 128.
        metadata_items: i64 = 128, kind: Integer(0, 128);
        /// Key pairs of a user.
        key_pairs: i64 = 100, kind: LIMIT;
        /// Server groups of a project.
        server_groups: i64 = 10, kind: LIMIT;
        /// Servers of a server group.
        server_group_members: i64 = 10, kind: LIMIT;
        /// What all servers of a project may claim of a resource class, as `CLASS=AMOUNT`. The classes are those of
        /// Placement; a class that is not listed is unlimited. Nova's unified limits have the same names:
        /// `class:VGPU`.
        resource_classes: Vec<String> = Vec::new(), kind: CLASS_LIMITS, example: "[\"VGPU=4\", \"DISK_GB=1000\"]";
        /// A program that is called before servers are created that these limits allow. It reads project, user, count
        /// and flavor as JSON and answers yes, or no with a sentence (the guide's page on the quota hook describes the
        /// format).
        hook: Option<PathBuf> = None, kind: PROGRAM, example: "\"/usr/libexec/berth/quota\"";
        /// Seconds that the program may run for one request. After that it is killed with its child processes, and
        /// counts as failed.
        time_budget: Duration = seconds(2), kind: Seconds(0.1, 60.0);
        /// What happens to a request if the program fails: `refuse` answers 503.
        on_failure: OnQuotaFailure = OnQuotaFailure::Refuse;
    }
}

impl QuotaSection {
    /// The limits of projects without limits of their own.
    pub(crate) fn limits(&self) -> QuotaLimits {
        let named = [
            (QuotaResource::Instances, self.instances),
            (QuotaResource::Cores, self.cores),
            (QuotaResource::Ram, self.ram),
            (QuotaResource::MetadataItems, self.metadata_items),
            (QuotaResource::KeyPairs, self.key_pairs),
            (QuotaResource::ServerGroups, self.server_groups),
            (QuotaResource::ServerGroupMembers, self.server_group_members),
        ];
        // The texts are checked.
        let classes = self.resource_classes.iter();
        let classes = classes.filter_map(|text| class_limit(text).ok());
        let all = named.into_iter().chain(classes);
        all.fold(QuotaLimits::unlimited(), |limits, (resource, number)| {
            limits.with(resource, QuotaLimit::from_number(number))
        })
    }

    /// The program that limits new servers; `None` without one.
    pub(crate) fn options(&self) -> Option<QuotaOptions> {
        Some(QuotaOptions {
            program: self.hook.clone()?,
            time_budget: self.time_budget,
            on_failure: self.on_failure,
        })
    }
}

options! {
    /// A custom scheduler plugin: a program that filters hosts, weighs them, or both. The section is named after the
    /// plugin, for example `[scheduler_plugin_rack_power]`; the plugin is enabled by that name in `enabled_filters` and
    /// `weight_classes`.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct SchedulerPlugin in "scheduler_plugin_NAME" {
        /// The program. With `--manifest` it prints its description. For each guest it reads the request and its hosts
        /// as JSON and answers with verdicts and weights (the guide's page on plugins describes both formats).
        pub(crate) program: Option<PathBuf> = None, kind: PROGRAM, example: "\"/usr/libexec/berth/rack_power\"";
        /// Seconds that the program may run for one guest. After that it is killed with its child processes, and counts
        /// as failed.
        pub(crate) time_budget: Duration = seconds(2), kind: Seconds(0.1, 60.0);
        /// What happens to hosts if the plugin fails: all of them pass, or none.
        pub(crate) on_failure: Option<OnFailure> = None,
            derived: "`reject` for a plugin that is enabled as a filter, `pass` for one that is enabled only as a weigher", example: "\"pass\"";
        /// Multiplier of the plugin's weights. Aggregates override it by the key `NAME_weight_multiplier`.
        pub(crate) weight_multiplier: f64 = 1.0, kind: Number(-1e12, 1e12);
    }
}

options! {
    /// Attestations of hosts, for flavors that require trusted hosts.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TrustedComputingSection in "trusted_computing" {
        /// On the conductor's host: a JSON file with the attestations of the nodes, in the format of OpenAttestation
        /// (`TrustedFilter`). It is read for each guest whose flavor has `trust:trusted_host`. Unset: no node is
        /// trusted.
        pub attestation_file: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/var/lib/attestation/hosts.json\"";
        /// Seconds for which an attestation is valid after its `vtime`.
        pub attestation_auth_timeout: Duration = seconds(60), kind: Integer(1, WEEK);
    }
}

/// Parses `network:NAME` or `bridge:NAME`; `None` for other texts.
fn network_source(text: &str) -> Option<NetworkSource> {
    let (kind, name) = text.split_once(':')?;
    let name = name.to_owned();
    match kind {
        _ if name.is_empty() => None,
        "network" => Some(NetworkSource::Network(name)),
        "bridge" => Some(NetworkSource::Bridge(name)),
        _ => None,
    }
}

options! {
    /// The built-in Identity service (`berth up`, `berth controller`, `berth identity serve`): a minimal Keystone v3,
    /// for one machine and small clouds.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct IdentityService in "identity_service" {
        /// The database of tokens. On a database server, several processes may serve the API from it, each with the
        /// same users.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `identity.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/identity.sqlite\"";
        /// Address and port of the API.
        pub listen: ListenAddress = ListenAddress::at(loopback(5000));
        /// The file of users, projects, roles and role assignments. It is read again when it changes. Only its owner
        /// may write to it. If this option is not set and the file does not exist, `berth up` and `berth controller`
        /// create `identity.toml` below `state_path`, with one user.
        pub users_file: PathBuf = "/etc/berth/identity.toml".into(), kind: RIGHTS_FILE;
        /// The URL of the service for callers, without `/v3`, as in the catalog and in links. Keystone's option of this
        /// name, from its `[DEFAULT]`.
        pub public_endpoint: Option<String> = None,
            kind: URL, derived: "the address of `listen`", example: "\"https://cloud.example.org/identity\"";
        /// Prefix of every path of the API. Requests without the prefix are answered as well, for proxies that remove
        /// it.
        pub path_prefix: Prefix = Prefix::default(), example: "\"/identity\"";
        /// Seconds for which a token is valid: Keystone's `expiration`, from its `[token]`.
        pub token_expiration: Duration = seconds(3600), kind: Integer(60, 604_800);
        /// The largest number of valid tokens of a user. A further one ends the oldest token of the login that has the
        /// most.
        pub max_tokens_per_user: u64 = 5_000, kind: Integer(10, 1_000_000);
        /// The region of every endpoint in the catalog.
        pub region: String = "RegionOne".into();
        /// The endpoints of the other services: `TYPE=URL` for all interfaces, `TYPE:public=URL`, `TYPE:internal=URL`
        /// or `TYPE:admin=URL` for one. The Identity service itself is in the catalog without an entry.
        pub catalog: Vec<String> = Vec::new(),
            kind: ENDPOINTS, example: "[\"placement=http://127.0.0.1:8778\", \"accelerator=http://127.0.0.1:6666/v2\"]";
    }
}

/// Splits an entry of `[identity_service] catalog` into type, optional interface, and URL.
#[must_use]
pub fn catalog_entry(text: &str) -> Option<(&str, Option<EndpointInterface>, &str)> {
    let (service, url) = text.split_once('=')?;
    let (service, interface) = match service.split_once(':') {
        None => (service, None),
        Some((service, interface)) => (service, Some(interface.parse().ok()?)),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_type = !service.is_empty() && service.chars().all(plain);
    is_type.then_some((service, interface, url))
}

options! {
    /// How agents of other hosts are called: by the conductor (`[conductor_service] agents`), and by commands with
    /// `--agent`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AgentClient in "agent_client" {
        /// PEM file of the authorities that sign agents' certificates; unset: the system's.
        pub cafile: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/tls/nodes.pem\"";
        /// PEM file with the certificate that is shown to agents; their `client_ca` must have signed it.
        pub certfile: Option<PathBuf> = None, kind: RIGHTS_FILE, example: "\"/etc/berth/tls/conductor.pem\"";
        /// PEM file with the key of `certfile`, without a password; unset: the key is in `certfile`.
        pub keyfile: Option<PathBuf> = None, kind: SECRET_FILE, example: "\"/etc/berth/tls/conductor.key\"";
    }
}

/// A database URL: a SQLite file of this process, or a server. It may contain a password.
const DATABASE: OptionKind = OptionKind::Text(&TextKind {
    is_secret: true,
    file: |text| Some((FileRole::Secret, url_file(text)?)),
    ..TextKind::new(
        "database URL (sqlite:PATH, postgresql://, mysql://, or file:PATH of a file with it), secret",
        "write sqlite:PATH with an absolute path, postgresql://USER:PASSWORD@HOST/DATABASE, \
         mysql://USER:PASSWORD@HOST/DATABASE, or file:PATH of a file with that in it",
        |text| match text.parse::<Location>() {
            Ok(Location::Server(_)) => Ok(()),
            _ if is_database(text) => Ok(()),
            // The error does not repeat the text, which may contain a password.
            Err(error @ OpenError::Url(_)) => Err(error.to_string().into()),
            _ => Err("this is not a database URL".to_owned().into()),
        },
    )
});

/// The path in `file:PATH` or `file://PATH`.
fn url_file(text: &str) -> Option<&str> {
    let file = text.strip_prefix("file:")?;
    Some(file.strip_prefix("//").unwrap_or(file))
}

/// A SQLite file of this machine, or a file with the URL.
fn is_database(text: &str) -> bool {
    if let Some(path) = url_file(text) {
        return path.starts_with('/') && path.len() > 1;
    }
    let absolute = text
        .strip_prefix("sqlite:")
        .is_some_and(|path| path.starts_with('/') && path.len() > 1);
    absolute && text.parse::<Location>().is_ok()
}

/// A limit of projects.
const LIMIT: OptionKind = OptionKind::Integer(-1, 0x7FFF_FFFF);

/// A list of limits of resource classes: `CLASS=AMOUNT`.
const CLASS_LIMITS: OptionKind = OptionKind::Texts(&TextKind::new(
    "list of CLASS=AMOUNT",
    "write limits such as [\"VGPU=4\", \"CUSTOM_GPU=2\"]",
    |text| class_limit(text).map(drop),
));

/// The resource class and its limit.
fn class_limit(text: &str) -> Result<(QuotaResource, i64), WrongText> {
    let Some((class, amount)) = text.split_once('=') else {
        return Err(format!("{text:?} has no = between a resource class and an amount").into());
    };
    let class = class.trim();
    let resource = class.strip_prefix("class:").unwrap_or(class).parse();
    let resource =
        resource.map_err(|error: ResourceClassError| WrongText::from(error.to_string()))?;
    match amount.trim().parse() {
        Ok(amount @ -1..=0x7FFF_FFFF) => Ok((QuotaResource::Class(resource), amount)),
        _ => Err(format!("{amount:?} is not a whole number from -1 to 2147483647").into()),
    }
}

/// A list of agents: `HOST=https://ADDRESS:PORT`.
const AGENTS: OptionKind = OptionKind::Texts(&TextKind::new(
    "list of HOST=https://ADDRESS:PORT",
    "write agents such as [\"compute2=https://192.0.2.11:9178\"]",
    check_agent,
));

/// The name of a host and the root URL of its agent's API.
fn check_agent(text: &str) -> Result<(), WrongText> {
    let Some((host, url)) = text.split_once('=') else {
        return Err(format!("{text:?} names no host before a =").into());
    };
    if host.is_empty() || !is_host_name(host) {
        return Err(format!("{host:?} is not a host's name").into());
    }
    check_url(url, &["https"])?;
    match url.trim_start_matches("https://").contains('/') {
        true => Err(format!("{url:?} has a path, and an agent's API has none").into()),
        false => Ok(()),
    }
}

/// A list of endpoints: `TYPE=URL` or `TYPE:INTERFACE=URL`.
const ENDPOINTS: OptionKind = OptionKind::Texts(&TextKind::new(
    "list of TYPE=URL or TYPE:INTERFACE=URL",
    "write services such as [\"placement=http://127.0.0.1:8778\", \"compute:public=https://cloud.example.org/v2.1\"]",
    |text| match catalog_entry(text) {
        Some((_, _, url)) => check_url(url, &["http", "https"]),
        None => {
            let before = text.split('=').next().unwrap_or_default();
            Err(format!("{before:?} names no service's type before a =").into())
        }
    },
));
