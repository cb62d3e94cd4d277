//! The reasons for which a filter or weigher rejects a host: a closed vocabulary that carries the compared values.

mod code;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::numa::NumaReason;
use crate::pci::PciReason;
use crate::text::shortened;

/// The reason for a rejection. Serialised as an object with `code` and the values; displayed as one sentence about the
/// host, with long user texts truncated.
///
/// Every rejected host has a reason, so long values that are the same for all hosts are shared.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Reason {
    /// An operator disabled the compute service.
    #[error("its service is disabled{}", because(disabled_reason.as_deref()))]
    ServiceDisabled {
        /// The operator's explanation, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        disabled_reason: Option<String>,
    },
    /// An operator forced the service down.
    #[error("its service is forced down")]
    ServiceForcedDown,
    /// The service has not reported for longer than `service_down_time`.
    #[error("its service was {}; {service_down_time} s are allowed", report_age(*last_seen_age_s))]
    ServiceDown {
        /// Seconds since the last report; `None`: it never reported.
        last_seen_age_s: Option<f64>,
        /// The allowed number of seconds.
        service_down_time: f64,
    },
    /// The host has reached its maximum number of guests.
    #[error("it has {num_instances} instances, and {max_instances_per_host} are too many")]
    TooManyInstances {
        num_instances: i64,
        /// The number at which the host is full.
        max_instances_per_host: i64,
    },
    /// The host has reached its maximum number of concurrent builds, moves and snapshots.
    #[error(
        "it has {num_io_ops} builds, moves and snapshots, and {max_io_ops_per_host} are too many"
    )]
    TooManyIoOps {
        /// The current number of these operations.
        num_io_ops: i64,
        /// The number at which the host is full.
        max_io_ops_per_host: i64,
    },
    /// The host does not report every metric of `[metrics] weight_setting`.
    #[error("it does not measure {}", list(missing))]
    MetricsMissing {
        /// The names of the missing metrics.
        missing: BTreeSet<String>,
    },
    /// The request exceeds the host's total capacity.
    #[error("it has {total} {resource} in all, and {requested} are asked for")]
    TotalTooSmall {
        resource: Resource,
        requested: i64,
        /// In the resource's unit, without the allocation ratio.
        total: i64,
    },
    /// Too little is free.
    #[error("it has {free} {resource} free, and {requested} are asked for")]
    NotEnoughFree {
        resource: Resource,
        requested: i64,
        /// In the resource's unit, with the allocation ratio.
        free: f64,
    },
    /// The free amount is not exactly the requested one.
    #[error("it has {free} {resource} free, and exactly {requested} are asked for")]
    NotExactlyFree {
        resource: Resource,
        requested: i64,
        free: i64,
    },
    /// The host does not report a capability that the flavor requires.
    #[error("it reports no capability {capability}, which should be `{requirement}`")]
    CapabilityMissing {
        /// The path in the extra spec.
        capability: String,
        requirement: String,
    },
    /// A capability does not satisfy the flavor's requirement.
    #[error("its capability {capability} is `{value}`, and should be `{requirement}`")]
    CapabilityMismatch {
        /// The path in the extra spec.
        capability: String,
        value: String,
        requirement: String,
    },
    /// A capability cannot be compared with the flavor's requirement.
    #[error(
        "its capability {capability} is `{value}`, and cannot be compared with `{requirement}`: {unreadable}"
    )]
    CapabilityUnreadable {
        /// The path in the extra spec.
        capability: String,
        value: String,
        requirement: String,
        unreadable: String,
    },
    /// None of the host's aggregates has a key that the flavor requires.
    #[error("none of its aggregates has {key}, which should be `{requirement}`")]
    AggregateKeyMissing { key: String, requirement: String },
    /// No value of the host's aggregates satisfies the flavor's requirement.
    #[error(
        "its aggregates have {key} {}, and it should be `{requirement}`",
        list(values)
    )]
    AggregateMismatch {
        key: String,
        values: BTreeSet<String>,
        requirement: String,
    },
    /// No value of the host's aggregates satisfies the flavor's requirement, and one cannot be compared with it.
    #[error(
        "its aggregates have {key} {}, which cannot be compared with `{requirement}`: {unreadable}",
        list(values)
    )]
    AggregateUnreadable {
        key: String,
        values: BTreeSet<String>,
        requirement: String,
        unreadable: String,
    },
    /// The host's aggregates are reserved for other flavors.
    #[error(
        "its aggregates are for the flavors {}, and not for {flavor}",
        list(allowed)
    )]
    FlavorNotAllowed {
        /// The name of the requested flavor.
        flavor: String,
        allowed: BTreeSet<String>,
    },
    /// The host's aggregates are reserved for other projects.
    #[error("its aggregates are for the projects {}, and not for {}", list(allowed), project.as_deref().unwrap_or("a request without one"))]
    ProjectNotAllowed {
        project: Option<String>,
        allowed: BTreeSet<String>,
    },
    /// The host's aggregates are reserved for images with another value of a property.
    #[error(
        "its aggregates are for images whose {property} is {}, and it is `{value}`",
        list(allowed)
    )]
    ImagePropertyNotAllowed {
        property: String,
        value: String,
        allowed: BTreeSet<String>,
    },
    /// The host is reserved for isolated images.
    #[error("it is for isolated images, and {} is not one of them", image.as_deref().unwrap_or("a guest without image"))]
    HostIsolated {
        /// The image's id; `None` if the guest has no image.
        image: Option<String>,
    },
    /// The image may only use isolated hosts.
    #[error("the image {image} is for isolated hosts, and this host is not one of them")]
    ImageIsolated { image: String },
    /// The host is in another zone.
    #[error(
        "it is in the zone {}, and {availability_zone} is asked for",
        list(zones)
    )]
    WrongZone {
        availability_zone: String,
        zones: BTreeSet<String>,
    },
    /// The host cannot run guests of the image's kind.
    #[error(
        "it runs no guests of {}; it runs {}",
        supported(asked),
        list(supported_instances)
    )]
    ImageNotSupported {
        /// Architecture, hypervisor type and VM mode; `None` where the image accepts any.
        asked: [Option<String>; 3],
        /// As `architecture/hypervisor type/VM mode`; empty if the host reports none.
        supported_instances: Vec<String>,
    },
    /// The hypervisor's version does not satisfy the image's requirement.
    #[error(
        "its hypervisor is of version {hypervisor_version}, and the image asks for `{requested_version}`"
    )]
    HypervisorVersion {
        /// The version of the host, for example `8.2.1`.
        hypervisor_version: String,
        /// The value of the image property `img_hv_requested_version`.
        requested_version: String,
    },
    /// The physical addresses of the host's CPUs are too narrow for the image.
    #[error("its processors have {} bits of physical address, and the image asks for {requested}", bits.map_or_else(|| "an unknown number of".to_owned(), |bits| bits.to_string()))]
    MaxphysaddrBits {
        /// `maxphysaddr.bits` of `cpu_info`; `None` if it is not reported or not checked.
        bits: Option<i64>,
        /// `hw_maxphysaddr_bits` of the image.
        requested: i64,
    },
    /// The host has reached its maximum number of members of the group.
    #[error(
        "it has {members} members of the anti-affinity group, and {max_server_per_host} are too many"
    )]
    GroupAntiAffinity {
        /// Members of the group on the host.
        members: usize,
        /// The number at which the host is full.
        max_server_per_host: i64,
    },
    /// The affinity group is on other hosts.
    #[error("the affinity group is on {}", shortened(&list(&**hosts)))]
    GroupAffinity {
        #[serde(serialize_with = "shared")]
        hosts: Arc<BTreeSet<String>>,
    },
    /// The host has an instance from which the new one must be separate.
    #[error("it has the instance {instance_uuid}, from which this one shall be apart")]
    NotDifferentHost {
        /// An instance of the hint `different_host`.
        instance_uuid: String,
    },
    /// The host has none of the instances with which the new one must share a host.
    #[error(
        "it has none of the instances {}, with which this one must share its host",
        shortened(&list(&**same_host))
    )]
    NotSameHost {
        /// All instances of the hint `same_host`.
        #[serde(serialize_with = "shared")]
        same_host: Arc<[String]>,
    },
    /// The host is in another network.
    #[error("its address {} is not in {network}", host_ip.map_or_else(|| "(unknown)".to_owned(), |ip| ip.to_string()))]
    OutsideNetwork {
        /// The host's address; `None` if it is not reported.
        host_ip: Option<IpAddr>,
        /// From the hints `build_near_host_ip` and `cidr`.
        network: String,
    },
    /// The hints `build_near_host_ip` and `cidr` do not form a network.
    #[error(
        "the hints build_near_host_ip and cidr are no network: {}",
        shortened(unreadable)
    )]
    NetworkUnreadable {
        #[serde(serialize_with = "shared")]
        unreadable: Arc<str>,
    },
    /// The query of the hint `query` does not hold.
    #[error(
        "the query {} does not hold, where {}",
        shortened(query),
        shortened(&assigned(values))
    )]
    QueryNotSatisfied {
        #[serde(serialize_with = "shared")]
        query: Arc<str>,
        /// The values of its variables on this host, limited in number and length.
        #[serde(serialize_with = "shared_names")]
        values: BTreeMap<Arc<str>, String>,
    },
    /// The hint `query` is invalid, or cannot be evaluated on this host.
    #[error(
        "the query {} cannot be answered: {}",
        shortened(query),
        shortened(unreadable)
    )]
    QueryUnreadable {
        #[serde(serialize_with = "shared")]
        query: Arc<str>,
        #[serde(serialize_with = "shared")]
        unreadable: Arc<str>,
    },
    /// A build of this request failed on the host before.
    #[error("the build failed there before: host {host}, node {node}")]
    AlreadyTried { host: String, node: String },
    /// The host has guests of other flavors.
    #[error(
        "it has guests of the flavors {}, and {flavorid} is asked for",
        list(others)
    )]
    OtherFlavors {
        /// The id of the requested flavor.
        flavorid: String,
        /// Flavor ids; `unknown` for a guest whose flavor is not reported.
        others: BTreeSet<String>,
    },
    /// The host lacks the requested PCI devices.
    #[error("{0}")]
    PciPassthrough(PciReason),
    /// The instance's NUMA cells do not fit on the host's.
    #[error("{0}")]
    NumaTopology(NumaReason),
    /// A custom filter or plugin rejects the host.
    #[error("{plugin} rejects it: {text}")]
    Plugin {
        #[serde(serialize_with = "shared")]
        plugin: Arc<str>,
        /// The plugin's code for the kind of reason, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        plugin_code: Option<String>,
        text: String,
    },
    /// A plugin that fails closed did not answer.
    #[error("{plugin} was not heard, and on_failure is reject: {failure}")]
    PluginFailed {
        #[serde(serialize_with = "shared")]
        plugin: Arc<str>,
        /// The cause of the failure.
        #[serde(serialize_with = "shared")]
        failure: Arc<str>,
    },
    /// The node's attested trust level is not the required one.
    #[error("its trust level is {trust_level}, and the flavor asks for {requested}")]
    NotTrusted {
        /// The node's level; `unknown` if it was never attested.
        trust_level: String,
        /// The value of the extra spec `trust:trusted_host`.
        requested: String,
    },
    /// The attestation of the node's trust level has expired.
    #[error(
        "that it is {trust_level} was attested {age_s:.0} s ago, and that holds for {holds_s:.0} s"
    )]
    AttestationExpired {
        trust_level: String,
        age_s: f64,
        /// The validity period in seconds.
        holds_s: f64,
    },
    /// No attestations are available.
    #[error("what was attested of the nodes is not known: {why}")]
    NoAttestations { why: String },
}

impl Reason {
    /// The rejection by a custom filter. A long text is truncated.
    #[must_use]
    pub fn plugin(plugin: &str, code: Option<&str>, text: &str) -> Self {
        Self::Plugin {
            plugin: plugin.into(),
            plugin_code: code.map(|code| shortened(code).into_owned()),
            text: shortened(text).into_owned(),
        }
    }
}

/// The resource of which an amount is compared.
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

fn report_age(age: Option<f64>) -> String {
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
