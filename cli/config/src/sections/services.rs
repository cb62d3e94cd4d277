//! The services that `berth up` has in it, and who asks agents.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use berth_compute::{OnQuotaFailure, QuotaOptions};
use berth_http::Prefix;
use berth_identity::EndpointInterface;
use berth_options::text::{check_url, is_host_name};
use berth_options::{OptionKind, TextKind, WEEK, WrongText, choices, options, seconds};
use berth_placement::CandidatesFrom;
use berth_scheduler::plugin::OnFailure;
use berth_store::Isolation;
use berth_store::sql::{Location, OpenError};
use berth_wire::guest::NetworkSource;

use crate::secret::Secret;

const NIL_UUID: &str = "00000000-0000-0000-0000-000000000000";

/// The default address of a service.
const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

options! {
    /// The Placement service built in (`berth up`, `berth placement serve`).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PlacementService in "placement_service" {
        /// The database; the variable BERTH_DATABASE_URL sets it too.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `placement.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/placement.sqlite\"";
        /// What the transactions that write see of others, where the database is on a server: Berth is right at both.
        pub isolation_level: Isolation = Isolation::RepeatableRead;
        /// Address and port of the API.
        pub listen: SocketAddr = loopback(8778);
        /// Who believes tokens: `noauth2` takes the token's own word and listens on loopback only, `keystone` asks by
        /// `[keystone_authtoken]`. Placement's option of this name, from its `[api]`.
        pub auth_strategy: AuthStrategy = AuthStrategy::Noauth2;
        /// Who may do what, where it is other than the default: a YAML file in the language of oslo.policy, as Placement's
        /// policy.yaml; read at start.
        pub policy_file: Option<PathBuf> = None, example: "\"/etc/berth/placement-policy.yaml\"";
        /// Whether only the newer default rules count. With false the role `admin` alone passes every default, a reshape
        /// included: Placement's option of this name, from its `[oslo_policy]`.
        pub enforce_new_defaults: bool = true;
        /// What stands before every path of the API, in links too; where a proxy takes it away, requests are answered
        /// without it as well.
        pub path_prefix: Prefix = Prefix::default(), example: "\"/placement\"";
        /// The project of consumers that were made without one, before microversion 1.8: Placement's option of this name.
        pub incomplete_consumer_project_id: String = NIL_UUID.into();
        /// The user of consumers that were made without one: Placement's option of this name.
        pub incomplete_consumer_user_id: String = NIL_UUID.into();
        /// Whether allocation candidates come in another order each time, and another choice of them where there are more
        /// than the limit: Placement's option of this name.
        pub randomize_allocation_candidates: bool = false;
        /// How many allocation candidates are made for one request at most, whatever its limit says: Placement's option of
        /// this name.
        pub max_allocation_candidates: usize = 100_000, kind: Integer(1, 1_000_000);
        /// Where allocation candidates are searched: in a `snapshot` of all providers in memory, which is true while no
        /// other process writes to the database, or by `sql`, which reads the providers that could serve the request.
        /// `auto` is `snapshot` on SQLite, `sql` on PostgreSQL and MariaDB. Both find the same.
        pub allocation_candidates_from: CandidatesFrom = CandidatesFrom::Auto;
    }
}

/// Where a host's name goes in `[accelerator_service] external_events_endpoint`.
pub const HOST_PART: &str = "{host}";

options! {
    /// The accelerator service built in (`berth up`, `berth accelerator serve`).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AcceleratorService in "accelerator_service" {
        /// The database, not Placement's. Several processes may serve the API on one of a server.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `accelerator.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/accelerator.sqlite\"";
        /// Address and port of the API.
        pub listen: SocketAddr = loopback(6666);
        /// Who believes tokens: `noauth2` takes the token's own word and listens on loopback only, `keystone` asks by
        /// `[keystone_authtoken]` and wants a service token for binds.
        pub auth_strategy: AuthStrategy = AuthStrategy::Noauth2;
        /// Who may do what, where it is other than the default: a YAML file in the language of oslo.policy, as Cyborg's
        /// policy.yaml; read at start.
        pub policy_file: Option<PathBuf> = None, example: "\"/etc/berth/accelerator-policy.yaml\"";
        /// The compute API that is told of binds (POST /os-server-external-events): Nova's, or that of the only agent. With
        /// `{host}` in the place of the host's name (`https://{host}:9178/v2.1`), each host's agent by its `[agent]
        /// listen`, with the certificate of `[agent_client]`. Unset: nobody is told; `berth up` tells the agents that it
        /// knows (`[conductor_service] agents`, and its own).
        pub external_events_endpoint: Option<String> = None, kind: URL, example: "\"http://127.0.0.1:8774/v2.1\"";
        /// Seconds for which a request stays bound for a guest that its host says it does not have; then it is deleted.
        pub orphan_request_grace: Duration = seconds(3600), kind: Integer(60, WEEK);
        /// Seconds after which a request that holds nothing (never bound, unbound, or its bind failed) is deleted; 0:
        /// never.
        pub unbound_request_grace: Duration = seconds(3600), kind: Integer(0, WEEK);
        /// Seconds a bind waits for its devices to be programmed; after that it has failed.
        pub bind_timeout: Duration = seconds(60), kind: Integer(1, 86_400);
    }
}

choices! {
    /// `auth_strategy`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AuthStrategy {
        /// The token's own word is taken.
        Noauth2 = "noauth2",
        /// Keystone is asked (`[keystone_authtoken]`).
        Keystone = "keystone",
    }
}

options! {
    /// The conductor built in (`berth up`).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ConductorService in "conductor_service" {
        /// The database of what the scheduler knows of compute hosts: their states, services, host aggregates and server
        /// groups. Conductors of one cloud share it.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `hosts.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/hosts.sqlite\"";
        /// A loopback address for the API beside the socket `conductor.sock` in the folder of `[agent] admin_socket`:
        /// whoever reaches it is believed, every user of this host. Unset: the socket alone, for root and `[agent]
        /// admin_group`.
        pub listen: Option<SocketAddr> = None, kind: LOOPBACK_LISTEN, example: "\"127.0.0.1:8774\"";
        /// Seconds for which a boot that cannot go on now is tried again before it is taken back: a service is away, or the
        /// devices that it is given are still being cleaned after their last guest.
        pub retry_timeout: Duration = seconds(120), kind: Integer(0, 86_400);
        /// How many guests the scheduler looks for a host for at once; the others wait. Guests that are looked for together
        /// are offered the same devices, and all but one look again.
        pub scheduler_workers: usize = 4, kind: Integer(1, 64), example: "1";
        /// Seconds for which the headroom on the page of metrics is left as it is. A read of an older one asks Placement
        /// and the filters once for each of the last 32 flavors; 0: it is never made.
        headroom_interval: Duration = seconds(60), kind: Integer(0, 86_400);
        /// The agents of other hosts, each by its node and its `[agent] listen`, asked with the certificate of
        /// `[agent_client]`. Nodes that are not named are this host's.
        pub agents: Vec<String> = Vec::new(), kind: AGENTS, example: "[\"compute2=https://192.0.2.11:9178\"]";
    }
}

impl ConductorService {
    /// How old a headroom may be; none: none is made.
    #[must_use]
    pub fn headroom_interval(&self) -> Option<Duration> {
        (!self.headroom_interval.is_zero()).then_some(self.headroom_interval)
    }
}

options! {
    /// The compute API built in (`berth up`, `berth compute serve`), and what the scheduler takes from agents of other
    /// hosts.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ComputeService in "compute_service" {
        /// The database of the compute API: flavors, key pairs, and what of servers nobody else keeps.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `compute.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/compute.sqlite\"";
        /// Address and port of the compute API (`/v2.1`), where agents of other hosts tell the scheduler their host's
        /// state, too (`[conductor] endpoint_override` there). Unset: `berth up` serves no compute API, and this host's
        /// agent alone tells it.
        pub listen: Option<SocketAddr> = None, example: "\"127.0.0.1:8774\"";
        /// The images that servers are made of, where `[glance]` names no image service, and that the image service built
        /// in shows: a TOML file with an `[[image]]` for each (`name`, `disk_format`, `file`, or `path` or `url` with
        /// `checksum`, and where wanted `id`, `size`, `min_ram` in MiB, `min_disk` in GiB, `tags`, `properties`,
        /// `os_hidden`). It is read at the start.
        pub images_file: Option<PathBuf> = None, example: "\"/etc/berth/images.toml\"";
        /// What a server is plugged into that asks for networks `auto`: `network:NAME` of a libvirt network or
        /// `bridge:NAME` of a Linux bridge, on whichever host it is. Unset: it has no interface.
        pub auto_network: Option<String> = None, example: "\"network:default\"";
        /// Who believes tokens: `noauth2` takes the token's own word and listens on loopback only, `keystone` asks by
        /// `[keystone_authtoken]`; an agent's account needs the role `service`.
        pub auth_strategy: AuthStrategy = AuthStrategy::Noauth2;
        /// Who may do what, where it is other than the default: a YAML file in the language of oslo.policy, as Nova's
        /// policy.yaml; read at start.
        pub policy_file: Option<PathBuf> = None, example: "\"/etc/berth/compute-policy.yaml\"";
    }
}

impl ComputeService {
    /// Another database than the configuration's.
    pub fn set_connection(&mut self, url: Secret) {
        self.connection = Some(url);
    }

    /// What a guest is plugged into that asks for networks `auto`; none: nothing, or a text that names neither (`config check`
    /// refuses that).
    #[must_use]
    pub fn auto_network(&self) -> Option<NetworkSource> {
        network_source(self.auto_network.as_deref()?)
    }
}

options! {
    /// Whether a project may have more servers of the compute API built in. Without an entry each may.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct QuotaSection in "quota" {
        /// A program that is asked before servers are made: it reads project, user, count and flavor as JSON and answers
        /// yes, or no with a sentence (the guide's page on servers has the form). As root, one that others can change is
        /// not run.
        hook: Option<PathBuf> = None, example: "\"/usr/libexec/berth/quota\"";
        /// Seconds that it may take for one request; then it is ended with all that it started, and was not heard.
        time_budget: Duration = seconds(2), kind: Seconds(0.1, 60.0);
        /// What becomes of a request that it was not heard about: `refuse` answers 503.
        on_failure: OnQuotaFailure = OnQuotaFailure::Refuse;
    }
}

impl QuotaSection {
    /// The program that is asked before servers are made; none: nobody is.
    pub(crate) fn options(&self) -> Option<QuotaOptions> {
        Some(QuotaOptions {
            program: self.hook.clone()?,
            time_budget: self.time_budget,
            on_failure: self.on_failure,
        })
    }
}

options! {
    /// One program of one's own that filters hosts, weighs them, or both; the section is named after it, as
    /// `[scheduler_plugin_rack_power]`, and it is enabled by that name in `enabled_filters` and `weight_classes`.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct SchedulerPlugin in "scheduler_plugin_NAME" {
        /// The program. Asked with `--manifest` it says what it is; for each guest it reads the request and its hosts as
        /// JSON and answers with its verdicts and weights (the guide's page on plugins has both forms).
        pub(crate) program: Option<PathBuf> = None, example: "\"/usr/libexec/berth/rack_power\"";
        /// Seconds that it may take for one guest; then it is ended with all that it started, and was not heard.
        pub(crate) time_budget: Duration = seconds(2), kind: Seconds(0.1, 60.0);
        /// What becomes of hosts where it was not heard: each of them passes, or none.
        pub(crate) on_failure: Option<OnFailure> = None,
            derived: "`reject` for one that is enabled as a filter, `pass` for one that is enabled as a weigher alone", example: "\"pass\"";
        /// Of its weights; aggregates override it by the key `NAME_weight_multiplier`.
        pub(crate) weight_multiplier: f64 = 1.0, kind: Number(-1e12, 1e12);
    }
}

options! {
    /// What was attested of hosts, for flavors that ask for trust.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TrustedComputingSection in "trusted_computing" {
        /// Where the conductor is: a JSON file of what was attested of the nodes, as OpenAttestation answers
        /// (`TrustedFilter`). It is read for each guest whose flavor asks for `trust:trusted_host`; unset, no node is
        /// trusted.
        pub attestation_file: Option<PathBuf> = None, example: "\"/var/lib/attestation/hosts.json\"";
        /// Seconds for which an attestation holds after its `vtime`.
        pub attestation_auth_timeout: Duration = seconds(60), kind: Integer(1, WEEK);
    }
}

/// What `network:NAME` or `bridge:NAME` names; none where a text is neither.
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
    /// The Identity service built in (`berth up`, `berth controller`, `berth identity serve`): a minimal Keystone v3, for
    /// one machine and small clouds.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct IdentityService in "identity_service" {
        /// The database of tokens. Several processes may serve the API on one of a server, each with the same users.
        pub(super) connection: Option<Secret> = None,
            kind: DATABASE, derived: "`sqlite:` and `identity.sqlite` below `state_path`", example: "\"sqlite:/var/lib/berth/identity.sqlite\"";
        /// Address and port of the API. It speaks HTTP: for callers of other hosts put a proxy with TLS before it.
        pub listen: SocketAddr = loopback(5000);
        /// The file of users, projects, roles and who has which where; read again when it has changed. Only its owner may
        /// write to it. Where nobody named one and this is not there, `berth up` and `berth controller` make
        /// `identity.toml` below `state_path`, with one user.
        pub users_file: PathBuf = "/etc/berth/identity.toml".into();
        /// Where callers find the service, without `/v3`: what the catalog and links say. Keystone's option of this name,
        /// from its `[DEFAULT]`.
        pub public_endpoint: Option<String> = None,
            kind: URL, derived: "the address that is listened on", example: "\"https://cloud.example.org/identity\"";
        /// What stands before every path of the API; where a proxy takes it away, requests are answered without it as well.
        pub path_prefix: Prefix = Prefix::default(), example: "\"/identity\"";
        /// Seconds for which a token is good: Keystone's `expiration`, from its `[token]`.
        pub token_expiration: Duration = seconds(3600), kind: Integer(60, 604_800);
        /// The region of every endpoint in the catalog.
        pub region: String = "RegionOne".into();
        /// The other services and where they are: `TYPE=URL` for all callers, `TYPE:public=URL`, `TYPE:internal=URL` or
        /// `TYPE:admin=URL` for some. The Identity service itself is in the catalog without an entry.
        pub catalog: Vec<String> = Vec::new(),
            kind: ENDPOINTS, example: "[\"placement=http://127.0.0.1:8778\", \"accelerator=http://127.0.0.1:6666/v2\"]";
    }
}

/// One entry of `[identity_service] catalog`, in its parts: type, interface where one is named, and URL.
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
    /// How agents of other hosts are asked: by the conductor (`[conductor_service] agents`), and by commands with
    /// `--agent`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AgentClient in "agent_client" {
        /// PEM file of the authorities that sign agents' certificates; unset: the system's.
        pub cafile: Option<PathBuf> = None, example: "\"/etc/berth/tls/nodes.pem\"";
        /// PEM file with the certificate that is shown to agents; their `client_ca` must have signed it.
        pub certfile: Option<PathBuf> = None, example: "\"/etc/berth/tls/conductor.pem\"";
        /// PEM file with the key of `certfile`, without a password; unset: it is looked for in `certfile`.
        pub keyfile: Option<PathBuf> = None, example: "\"/etc/berth/tls/conductor.key\"";
    }
}

/// A database of this process alone or on a server, as a URL; which may hold a password.
const DATABASE: OptionKind = OptionKind::Text(&TextKind {
    is_secret: true,
    ..TextKind::new(
        "database URL (sqlite:PATH, postgresql://, mysql://, or file:PATH of a file with it), secret",
        "write sqlite:PATH with an absolute path, postgresql://USER:PASSWORD@HOST/DATABASE, \
         mysql://USER:PASSWORD@HOST/DATABASE, or file:PATH of a file with that in it",
        |text| match text.parse::<Location>() {
            Ok(Location::Server(_)) => Ok(()),
            _ if is_database(text) => Ok(()),
            // It does not repeat what may be a password.
            Err(error @ OpenError::Url(_)) => Err(error.to_string().into()),
            _ => Err("this is no database URL".to_owned().into()),
        },
    )
});

/// A file of this machine, or one that holds the URL.
fn is_database(text: &str) -> bool {
    if let Some(file) = text.strip_prefix("file:") {
        let path = file.strip_prefix("//").unwrap_or(file);
        return path.starts_with('/') && path.len() > 1;
    }
    let absolute = text
        .strip_prefix("sqlite:")
        .is_some_and(|path| path.starts_with('/') && path.len() > 1);
    absolute && text.parse::<Location>().is_ok()
}

/// A list of agents: `NODE=https://HOST:PORT`.
const AGENTS: OptionKind = OptionKind::Texts(&TextKind::new(
    "list of NODE=https://HOST:PORT",
    "write agents such as [\"compute2=https://192.0.2.11:9178\"]",
    check_agent,
));

/// A node's name and the root of its agent's API.
fn check_agent(text: &str) -> Result<(), WrongText> {
    let Some((node, url)) = text.split_once('=') else {
        return Err(format!("{text:?} names no node before a =").into());
    };
    if node.is_empty() || !is_host_name(node) {
        return Err(format!("{node:?} is no node's name").into());
    }
    check_url(url, &["https"])?;
    match url.trim_start_matches("https://").contains('/') {
        true => Err(format!("{url:?} has a path, and an agent's API has none").into()),
        false => Ok(()),
    }
}

/// A list of services and where they are: `TYPE=URL` or `TYPE:INTERFACE=URL`.
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
