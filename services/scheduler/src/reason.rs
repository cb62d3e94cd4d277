//! Why a host was rejected: a closed vocabulary. A reason has the values that were compared, so nobody has to read a log.

mod code;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::numa::NumaReason;
use crate::pci::PciReason;
use crate::text::shortened;

/// As JSON an object: `code`, and the values. As a text one sentence about the host, in which what a user wrote at length is short.
///
/// Each rejected host has one, so what may be long and is the same for all of them is shared.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Reason {
    /// Its operator disabled it.
    #[error("its service is disabled{}", because(disabled_reason.as_deref()))]
    ServiceDisabled {
        /// What the operator says; none where nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        disabled_reason: Option<String>,
    },
    /// Its operator said that it is down.
    #[error("its service is forced down")]
    ServiceForcedDown,
    /// Its agent was not heard of for too long.
    #[error("its service was {}; {service_down_time} s are allowed", heard_of(*last_seen_age_s))]
    ServiceDown {
        /// Seconds since; none: never heard of.
        last_seen_age_s: Option<f64>,
        /// Seconds that are allowed.
        service_down_time: f64,
    },
    /// It has as many guests as it may have.
    #[error("it has {num_instances} instances, and {max_instances_per_host} are too many")]
    TooManyInstances {
        num_instances: i64,
        /// The number at which it is full.
        max_instances_per_host: i64,
    },
    /// As many guests as may be at a time are built, moved or snapshotted on it.
    #[error(
        "it has {num_io_ops} builds, moves and snapshots, and {max_io_ops_per_host} are too many"
    )]
    TooManyIoOps {
        /// Such guests on it.
        num_io_ops: i64,
        /// The number at which it is full.
        max_io_ops_per_host: i64,
    },
    /// It does not measure all that `[metrics] weight_setting` names.
    #[error("it does not measure {}", list(missing))]
    MetricsMissing {
        /// The names of what it does not measure.
        missing: BTreeSet<String>,
    },
    /// The request is larger than the host.
    #[error("it has {total} {resource} in all, and {requested} are asked for")]
    TotalTooSmall {
        resource: Resource,
        requested: i64,
        /// In its unit, without the allocation ratio.
        total: i64,
    },
    /// Too little is free.
    #[error("it has {free} {resource} free, and {requested} are asked for")]
    NotEnoughFree {
        resource: Resource,
        requested: i64,
        /// In its unit, with the allocation ratio.
        free: f64,
    },
    /// What is free is not exactly what is asked for.
    #[error("it has {free} {resource} free, and exactly {requested} are asked for")]
    NotExactlyFree {
        resource: Resource,
        requested: i64,
        free: i64,
    },
    /// The flavor demands a capability that the host does not tell of.
    #[error("it tells of no capability {capability}, which should be `{requirement}`")]
    CapabilityMissing {
        /// The path that the extra spec names.
        capability: String,
        /// As the flavor says.
        requirement: String,
    },
    /// A capability is not as the flavor demands.
    #[error("its capability {capability} is `{value}`, and should be `{requirement}`")]
    CapabilityMismatch {
        /// The path that the extra spec names.
        capability: String,
        value: String,
        /// As the flavor says.
        requirement: String,
    },
    /// A capability and what the flavor demands of it cannot be compared.
    #[error(
        "its capability {capability} is `{value}`, and cannot be compared with `{requirement}`: {unreadable}"
    )]
    CapabilityUnreadable {
        /// The path that the extra spec names.
        capability: String,
        value: String,
        /// As the flavor says.
        requirement: String,
        unreadable: String,
    },
    /// The flavor demands something of the host's aggregates, and none of them says anything of it.
    #[error("none of its aggregates has {key}, which should be `{requirement}`")]
    AggregateKeyMissing {
        /// Of the aggregates' metadata.
        key: String,
        /// As the flavor says.
        requirement: String,
    },
    /// No value of the host's aggregates is as the flavor demands.
    #[error(
        "its aggregates have {key} {}, and it should be `{requirement}`",
        list(values)
    )]
    AggregateMismatch {
        /// Of the aggregates' metadata.
        key: String,
        values: BTreeSet<String>,
        /// As the flavor says.
        requirement: String,
    },
    /// No value of the host's aggregates is as the flavor demands, and one of them cannot be compared with it.
    #[error(
        "its aggregates have {key} {}, which cannot be compared with `{requirement}`: {unreadable}",
        list(values)
    )]
    AggregateUnreadable {
        /// Of the aggregates' metadata.
        key: String,
        values: BTreeSet<String>,
        /// As the flavor says.
        requirement: String,
        unreadable: String,
    },
    /// Its aggregates are for other flavors.
    #[error(
        "its aggregates are for the flavors {}, and not for {flavor}",
        list(allowed)
    )]
    FlavorNotAllowed {
        /// The name of the one that is asked for.
        flavor: String,
        allowed: BTreeSet<String>,
    },
    /// Its aggregates are for other projects.
    #[error("its aggregates are for the projects {}, and not for {}", list(allowed), project.as_deref().unwrap_or("a request without one"))]
    ProjectNotAllowed {
        project: Option<String>,
        allowed: BTreeSet<String>,
    },
    /// Its aggregates are for images with another value.
    #[error(
        "its aggregates are for images whose {property} is {}, and it is `{value}`",
        list(allowed)
    )]
    ImagePropertyNotAllowed {
        property: String,
        value: String,
        allowed: BTreeSet<String>,
    },
    /// The host is for images of its own only.
    #[error("it is for isolated images, and {} is none", image.as_deref().unwrap_or("a guest without image"))]
    HostIsolated {
        /// The image's id; none where the guest has no image.
        image: Option<String>,
    },
    /// The image is for hosts of its own only.
    #[error("the image {image} is for isolated hosts, and this is none")]
    ImageIsolated { image: String },
    /// It is in another zone.
    #[error(
        "it is in the zone {}, and {availability_zone} is asked for",
        list(zones)
    )]
    WrongZone {
        /// The one that is asked for.
        availability_zone: String,
        zones: BTreeSet<String>,
    },
    /// It runs no guests that are as the image demands.
    #[error(
        "it runs no guests of {}; it runs {}",
        supported(asked),
        list(supported_instances)
    )]
    ImageNotSupported {
        /// Architecture, hypervisor type and VM mode; none where the image does not care.
        asked: [Option<String>; 3],
        /// As `architecture/hypervisor type/VM mode`; none where the host does not tell.
        supported_instances: Vec<String>,
    },
    /// Its hypervisor is too old or too new for the image.
    #[error(
        "its hypervisor is of version {hypervisor_version}, and the image asks for `{requested_version}`"
    )]
    HypervisorVersion {
        /// `8.2.1`
        hypervisor_version: String,
        /// `img_hv_requested_version`
        requested_version: String,
    },
    /// Its processors have too narrow physical addresses for the image.
    #[error("its processors have {} bits of physical address, and the image asks for {requested}", bits.map_or_else(|| "an unknown number of".to_owned(), |bits| bits.to_string()))]
    MaxphysaddrBits {
        /// `maxphysaddr.bits` of `cpu_info`; none where it was not told, or is not looked at.
        bits: Option<i64>,
        /// `hw_maxphysaddr_bits` of the image.
        requested: i64,
    },
    /// It has as many members of the group as it may have.
    #[error(
        "it has {members} members of the anti-affinity group, and {max_server_per_host} are too many"
    )]
    GroupAntiAffinity {
        /// Members of the group on it.
        members: usize,
        /// The number at which it is full.
        max_server_per_host: i64,
    },
    /// The group is on other hosts.
    #[error("the affinity group is on {}", shortened(&list(&**hosts)))]
    GroupAffinity {
        #[serde(serialize_with = "shared")]
        hosts: Arc<BTreeSet<String>>,
    },
    /// It has an instance that this one shall be apart from.
    #[error("it has the instance {instance_uuid}, from which this one shall be apart")]
    NotDifferentHost {
        /// One of `different_host`.
        instance_uuid: String,
    },
    /// It has none of the instances that this one shall be beside.
    #[error(
        "it has none of the instances {}, beside which this one shall be",
        shortened(&list(&**same_host))
    )]
    NotSameHost {
        /// All of the hint `same_host`.
        #[serde(serialize_with = "shared")]
        same_host: Arc<[String]>,
    },
    /// It is in another network.
    #[error("its address {} is not in {network}", host_ip.map_or_else(|| "(unknown)".to_owned(), |ip| ip.to_string()))]
    OutsideNetwork {
        /// The host's; none where it was not told.
        host_ip: Option<IpAddr>,
        /// Of the hints `build_near_host_ip` and `cidr`.
        network: String,
    },
    /// The hints `build_near_host_ip` and `cidr` are no network.
    #[error(
        "the hints build_near_host_ip and cidr are no network: {}",
        shortened(unreadable)
    )]
    NetworkUnreadable {
        #[serde(serialize_with = "shared")]
        unreadable: Arc<str>,
    },
    /// The query of the hint `query` does not hold for it.
    #[error(
        "the query {} does not hold, where {}",
        shortened(query),
        shortened(&assigned(values))
    )]
    QueryNotSatisfied {
        /// As the user wrote it.
        #[serde(serialize_with = "shared")]
        query: Arc<str>,
        /// What its variables are on this host; of many and of long ones not all.
        #[serde(serialize_with = "shared_names")]
        values: BTreeMap<Arc<str>, String>,
    },
    /// The hint `query` cannot be read, or asks of this host what has no answer.
    #[error(
        "the query {} cannot be answered: {}",
        shortened(query),
        shortened(unreadable)
    )]
    QueryUnreadable {
        /// As the user wrote it.
        #[serde(serialize_with = "shared")]
        query: Arc<str>,
        #[serde(serialize_with = "shared")]
        unreadable: Arc<str>,
    },
    /// A build failed there before.
    #[error("the build failed there before: host {host}, node {node}")]
    AlreadyTried { host: String, node: String },
    /// It has guests of other flavors.
    #[error(
        "it has guests of the flavors {}, and {flavorid} is asked for",
        list(others)
    )]
    OtherFlavors {
        /// The id of the one that is asked for.
        flavorid: String,
        /// Ids; `unknown` for a guest whose flavor the host does not tell.
        others: BTreeSet<String>,
    },
    /// It has not the devices that are asked for.
    #[error("{0}")]
    PciPassthrough(PciReason),
    /// The cells of the instance do not fit on its own.
    #[error("{0}")]
    NumaTopology(NumaReason),
    /// A filter that is not built in rejects it.
    #[error("{plugin} rejects it: {text}")]
    Plugin {
        #[serde(serialize_with = "shared")]
        plugin: Arc<str>,
        /// Which kind of reason it is, by the plugin's own words; none where it does not say.
        #[serde(skip_serializing_if = "Option::is_none")]
        plugin_code: Option<String>,
        /// Why, in the plugin's words.
        text: String,
    },
    /// A plugin that must be heard did not answer.
    #[error("{plugin} was not heard, and on_failure is reject: {failure}")]
    PluginFailed {
        #[serde(serialize_with = "shared")]
        plugin: Arc<str>,
        /// What became of it.
        #[serde(serialize_with = "shared")]
        failure: Arc<str>,
    },
    /// Its attested trust level is another.
    #[error("its trust level is {trust_level}, and the flavor asks for {requested}")]
    NotTrusted {
        /// The node's; `unknown` where it was never attested.
        trust_level: String,
        /// `trust:trusted_host`
        requested: String,
    },
    /// Its trust level was attested too long ago.
    #[error(
        "that it is {trust_level} was attested {age_s:.0} s ago, and that holds for {holds_s:.0} s"
    )]
    AttestationExpired {
        trust_level: String,
        age_s: f64,
        /// For so many it holds.
        holds_s: f64,
    },
    /// Nothing is known of any node.
    #[error("what was attested of the nodes is not known: {why}")]
    NoAttestations { why: String },
}

impl Reason {
    /// Of a filter that is not built in: why it rejects a host, in its own words. Of a longer text the beginning is kept.
    #[must_use]
    pub fn plugin(plugin: &str, code: Option<&str>, text: &str) -> Self {
        Self::Plugin {
            plugin: plugin.into(),
            plugin_code: code.map(|code| shortened(code).into_owned()),
            text: shortened(text).into_owned(),
        }
    }
}

/// What there is so much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    Vcpu,
    MemoryMb,
    DiskMb,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Vcpu => "CPUs",
            Self::MemoryMb => "MiB of memory",
            Self::DiskMb => "MiB of disk",
        })
    }
}

fn shared<T: Serialize + ?Sized, S: Serializer>(it: &Arc<T>, to: S) -> Result<S::Ok, S::Error> {
    it.as_ref().serialize(to)
}

fn shared_names<S: Serializer>(
    values: &BTreeMap<Arc<str>, String>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_map(values.iter().map(|(name, value)| (name.as_ref(), value)))
}

fn assigned(values: &BTreeMap<Arc<str>, String>) -> String {
    let texts = values
        .iter()
        .map(|(name, value)| format!("{name} is {value}"));
    texts.collect::<Vec<_>>().join(", ")
}

fn because(why: Option<&str>) -> String {
    why.map_or_else(String::new, |why| format!(": {why}"))
}

fn heard_of(age: Option<f64>) -> String {
    age.map_or_else(
        || "never heard of".to_owned(),
        |age| format!("last heard of {age} s ago"),
    )
}

fn list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<&str> = texts.into_iter().map(String::as_str).collect();
    match texts.is_empty() {
        true => "none".to_owned(),
        false => texts.join(", "),
    }
}

fn supported(asked: &[Option<String>; 3]) -> String {
    asked
        .each_ref()
        .map(|it| it.as_deref().unwrap_or("any"))
        .join("/")
}
