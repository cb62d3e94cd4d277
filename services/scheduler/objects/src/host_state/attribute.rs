//! Attributes of a host by Nova's names, for extra specs (`capabilities:free_ram_mb`) and JSON queries
//! (`$free_ram_mb`).

use std::collections::BTreeMap;

use super::{
    Capability, CapabilityRef, ConsideredHost, CpuInfo, Dict, HostState, List, SchedulerLimits,
};

/// An attribute of hosts, which may be null.
#[derive(Clone, Copy)]
pub struct Attribute {
    name: &'static str,
    read: ReadAttribute,
}

impl Attribute {
    /// The attribute of this name; `None` if hosts have no such attribute.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = ATTRIBUTES.iter().find(|one| one.name == name);
        found.copied()
    }

    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ATTRIBUTES.iter().map(|one| one.name)
    }

    #[must_use]
    pub fn of(self, host: &ConsideredHost) -> AttributeValue<'_> {
        (self.read)(host)
    }
}

impl std::fmt::Debug for Attribute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Attribute").field(&self.name).finish()
    }
}

/// The value at a path.
#[derive(Debug, Clone)]
pub enum AttributeValue<'a> {
    Value(CapabilityRef<'a>),
    Made(Box<Capability>),
    /// A text that is JSON.
    CpuInfo(&'a CpuInfo),
    Stats(&'a BTreeMap<String, Capability>),
    Limits(&'a SchedulerLimits),
    Service(&'a HostState),
    /// Something that has neither fields nor a text.
    Opaque(Opaque),
}

/// A value of which only emptiness is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opaque {
    pub name: &'static str,
    pub is_empty: bool,
}

impl AttributeValue<'_> {
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, AttributeValue::Value(CapabilityRef::Null))
    }

    /// The value; `None` for opaque ones.
    #[must_use]
    pub fn value(&self) -> Option<CapabilityRef<'_>> {
        match self {
            AttributeValue::Value(value) => Some(*value),
            AttributeValue::Made(value) => Some(value.view()),
            AttributeValue::CpuInfo(info) => Some(CapabilityRef::Text(info.text())),
            AttributeValue::Stats(_)
            | AttributeValue::Limits(_)
            | AttributeValue::Service(_)
            | AttributeValue::Opaque(_) => None,
        }
    }
}

impl<'a> AttributeValue<'a> {
    /// Null is a value.
    pub fn made(value: Capability) -> Self {
        match value {
            Capability::Null => NULL,
            other => AttributeValue::Made(Box::new(other)),
        }
    }

    /// The value of a key. `None` if it has no keys at all; null if the key is missing.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<AttributeValue<'a>> {
        let or_null = |value: Option<&'a Capability>| {
            AttributeValue::Value(value.map_or(CapabilityRef::Null, Capability::view))
        };
        match self {
            AttributeValue::Value(CapabilityRef::Dict(dict)) => Some(or_null(dict.get(key))),
            AttributeValue::Stats(stats) => Some(or_null(stats.get(key))),
            AttributeValue::Made(made) => match made.as_ref() {
                Capability::Dict(dict) => {
                    Some(dict.get(key).cloned().map_or(NULL, AttributeValue::made))
                }
                _ => None,
            },
            AttributeValue::Limits(limits) => Some(AttributeValue::Value(limit(limits, key))),
            AttributeValue::Service(host) => Some(AttributeValue::Value(of_service(host, key))),
            AttributeValue::Value(_) | AttributeValue::CpuInfo(_) | AttributeValue::Opaque(_) => {
                None
            }
        }
    }

    /// Converts `stats` and `limits` to the dict that Nova has there, so that the whole attribute can be compared. Other
    /// values are unchanged.
    #[must_use]
    pub fn into_plain(self) -> Self {
        let dict = |entries: Vec<(String, Capability)>| {
            AttributeValue::made(Capability::Dict(Dict::new(entries)))
        };
        match self {
            AttributeValue::Stats(stats) => dict(stats.clone().into_iter().collect()),
            AttributeValue::Limits(limits) => {
                let set = ["vcpu", "memory_mb", "disk_gb"].map(|key| (key, limit(limits, key)));
                let owned = set.into_iter().filter_map(|(key, value)| match value {
                    CapabilityRef::Float(it) => Some((key.to_owned(), Capability::Float(it))),
                    _ => None,
                });
                dict(owned.collect())
            }
            other => other,
        }
    }
}

fn limit(limits: &SchedulerLimits, key: &str) -> CapabilityRef<'static> {
    let limit = match key {
        "vcpu" => limits.vcpu,
        "memory_mb" => limits.memory_mb,
        "disk_gb" => limits.disk_gb,
        _ => None,
    };
    limit.map_or(CapabilityRef::Null, CapabilityRef::Float)
}

fn of_service<'a>(host: &'a HostState, key: &str) -> CapabilityRef<'a> {
    let service = &host.service;
    match key {
        "host" => CapabilityRef::Text(&host.host),
        "binary" => CapabilityRef::Text("nova-compute"),
        "topic" => CapabilityRef::Text("compute"),
        "disabled" => CapabilityRef::Bool(service.disabled),
        "disabled_reason" => text_or_null(service.disabled_reason.as_deref()),
        "forced_down" => CapabilityRef::Bool(service.forced_down),
        _ => CapabilityRef::Null,
    }
}

fn text_or_null(text: Option<&str>) -> CapabilityRef<'_> {
    text.map_or(CapabilityRef::Null, CapabilityRef::Text)
}

type ReadAttribute = for<'a> fn(&'a ConsideredHost) -> AttributeValue<'a>;

const fn attribute(name: &'static str, read: ReadAttribute) -> Attribute {
    Attribute { name, read }
}

/// Nova's `HostState` attributes. Those that hosts do not report here are null.
const ATTRIBUTES: &[Attribute] = &[
    attribute("host", |host| text(&host.state.host)),
    attribute("nodename", |host| text(&host.state.nodename)),
    attribute("hypervisor_hostname", |host| text(&host.state.nodename)),
    attribute("uuid", |host| text(&host.state.uuid)),
    attribute("cell_uuid", |host| text(&host.state.cell)),
    attribute("host_ip", |host| match host.state.host_ip {
        Some(ip) => AttributeValue::made(Capability::Text(ip.to_string())),
        None => NULL,
    }),
    attribute("total_usable_ram_mb", |host| {
        int(host.state.total_usable_ram_mb)
    }),
    attribute("free_ram_mb", |host| int(host.state.free_ram_mb)),
    attribute("total_usable_disk_gb", |host| {
        int(host.state.total_usable_disk_gb)
    }),
    attribute("free_disk_mb", |host| int(host.state.free_disk_mb)),
    attribute("disk_mb_used", |_| NULL),
    attribute("vcpus_total", |host| int(host.state.vcpus_total)),
    attribute("vcpus_used", |host| int(host.state.vcpus_used)),
    attribute("num_instances", |host| int(host.state.num_instances)),
    attribute("num_io_ops", |host| int(host.state.num_io_ops)),
    attribute("failed_builds", |host| int(host.state.failed_builds)),
    attribute("ram_allocation_ratio", |host| {
        float(host.state.ram_allocation_ratio)
    }),
    attribute("cpu_allocation_ratio", |host| {
        float(host.state.cpu_allocation_ratio)
    }),
    attribute("disk_allocation_ratio", |host| {
        float(host.state.disk_allocation_ratio)
    }),
    attribute("hypervisor_type", |host| text(&host.state.hypervisor_type)),
    attribute("hypervisor_version", |host| {
        host.state.hypervisor_version.map_or(NULL, int)
    }),
    attribute("cpu_info", |host| {
        host.state
            .cpu_info
            .as_ref()
            .map_or(NULL, AttributeValue::CpuInfo)
    }),
    attribute("supported_instances", |host| supported(&host.state)),
    attribute("stats", |host| AttributeValue::Stats(&host.state.stats)),
    attribute("service", |host| AttributeValue::Service(&host.state)),
    attribute("limits", |host| AttributeValue::Limits(&host.limits)),
    attribute("metrics", |host| {
        let metrics = host.state.metrics.as_ref();
        opaque("metrics", metrics.is_none_or(BTreeMap::is_empty))
    }),
    attribute("aggregates", |host| {
        let is_empty = host.state.aggregates.iter().next().is_none();
        match is_empty {
            true => AttributeValue::made(Capability::List(List::new(Vec::new()))),
            false => opaque("aggregates", false),
        }
    }),
    attribute("instances", |host| {
        opaque("instances", host.state.instances.is_empty())
    }),
    attribute("allocation_candidates", |host| {
        opaque("allocation_candidates", host.surviving().next().is_none())
    }),
    attribute("pci_stats", |host| match host.state.pci {
        Some(_) => opaque("pci_stats", false),
        None => NULL,
    }),
    attribute("numa_topology", |host| match host.state.numa {
        Some(_) => opaque("numa_topology", false),
        None => NULL,
    }),
    attribute("updated", |_| NULL),
];

const NULL: AttributeValue<'static> = AttributeValue::Value(CapabilityRef::Null);

const fn int(number: i64) -> AttributeValue<'static> {
    AttributeValue::Value(CapabilityRef::Int(number))
}

const fn float(number: f64) -> AttributeValue<'static> {
    AttributeValue::Value(CapabilityRef::Float(number))
}

const fn text(text: &str) -> AttributeValue<'_> {
    AttributeValue::Value(CapabilityRef::Text(text))
}

const fn opaque(name: &'static str, is_empty: bool) -> AttributeValue<'static> {
    AttributeValue::Opaque(Opaque { name, is_empty })
}

fn supported(host: &HostState) -> AttributeValue<'static> {
    let texts = |one: &[String; 3]| one.iter().cloned().map(Capability::Text).collect();
    let list = |one: &[String; 3]| Capability::List(List::new(texts(one)));
    let all = host.supported_instances.iter().map(list).collect();
    AttributeValue::made(Capability::List(List::new(all)))
}
