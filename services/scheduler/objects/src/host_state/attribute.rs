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
    read: Read,
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
    pub fn of(self, host: &ConsideredHost) -> Found<'_> {
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
pub enum Found<'a> {
    Value(CapabilityRef<'a>),
    Made(Box<Capability>),
    /// A text that is JSON.
    CpuInfo(&'a CpuInfo),
    /// `stats`
    Stats(&'a BTreeMap<String, Capability>),
    /// `limits`
    Limits(&'a SchedulerLimits),
    /// `service`
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

impl Found<'_> {
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Found::Value(CapabilityRef::Null))
    }

    /// The value; `None` for opaque ones.
    #[must_use]
    pub fn value(&self) -> Option<CapabilityRef<'_>> {
        match self {
            Found::Value(value) => Some(*value),
            Found::Made(value) => Some(value.view()),
            Found::CpuInfo(info) => Some(CapabilityRef::Text(info.text())),
            Found::Stats(_) | Found::Limits(_) | Found::Service(_) | Found::Opaque(_) => None,
        }
    }
}

impl<'a> Found<'a> {
    /// Null is a value.
    pub fn made(value: Capability) -> Self {
        match value {
            Capability::Null => NULL,
            other => Found::Made(Box::new(other)),
        }
    }

    /// The value of a key. `None` if it has no keys at all; null if the key is missing.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Found<'a>> {
        let or_null = |value: Option<&'a Capability>| {
            Found::Value(value.map_or(CapabilityRef::Null, Capability::view))
        };
        match self {
            Found::Value(CapabilityRef::Dict(dict)) => Some(or_null(dict.get(key))),
            Found::Stats(stats) => Some(or_null(stats.get(key))),
            Found::Made(made) => match made.as_ref() {
                Capability::Dict(dict) => Some(dict.get(key).cloned().map_or(NULL, Found::made)),
                _ => None,
            },
            Found::Limits(limits) => Some(Found::Value(limit(limits, key))),
            Found::Service(host) => Some(Found::Value(of_service(host, key))),
            Found::Value(_) | Found::CpuInfo(_) | Found::Opaque(_) => None,
        }
    }

    /// Converts an opaque value to a real one, if possible.
    #[must_use]
    pub fn whole(self) -> Self {
        let dict =
            |entries: Vec<(String, Capability)>| Found::made(Capability::Dict(Dict::new(entries)));
        match self {
            Found::Stats(stats) => dict(stats.clone().into_iter().collect()),
            Found::Limits(limits) => {
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

type Read = for<'a> fn(&'a ConsideredHost) -> Found<'a>;

const fn attribute(name: &'static str, read: Read) -> Attribute {
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
        Some(ip) => Found::made(Capability::Text(ip.to_string())),
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
        host.state.cpu_info.as_ref().map_or(NULL, Found::CpuInfo)
    }),
    attribute("supported_instances", |host| supported(&host.state)),
    attribute("stats", |host| Found::Stats(&host.state.stats)),
    attribute("service", |host| Found::Service(&host.state)),
    attribute("limits", |host| Found::Limits(&host.limits)),
    attribute("metrics", |host| {
        let metrics = host.state.metrics.as_ref();
        opaque("metrics", metrics.is_none_or(BTreeMap::is_empty))
    }),
    attribute("aggregates", |host| {
        let is_empty = host.state.aggregates.iter().next().is_none();
        match is_empty {
            true => Found::made(Capability::List(List::new(Vec::new()))),
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

const NULL: Found<'static> = Found::Value(CapabilityRef::Null);

const fn int(number: i64) -> Found<'static> {
    Found::Value(CapabilityRef::Int(number))
}

const fn float(number: f64) -> Found<'static> {
    Found::Value(CapabilityRef::Float(number))
}

const fn text(text: &str) -> Found<'_> {
    Found::Value(CapabilityRef::Text(text))
}

const fn opaque(name: &'static str, is_empty: bool) -> Found<'static> {
    Found::Opaque(Opaque { name, is_empty })
}

fn supported(host: &HostState) -> Found<'static> {
    let texts = |one: &[String; 3]| one.iter().cloned().map(Capability::Text).collect();
    let list = |one: &[String; 3]| Capability::List(List::new(texts(one)));
    let all = host.supported_instances.iter().map(list).collect();
    Found::made(Capability::List(List::new(all)))
}
