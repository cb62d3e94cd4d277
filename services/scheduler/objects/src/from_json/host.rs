//! Reads a host from the JSON of a scheduler case: its state, and its allocation candidates from Placement.
//!
//! A scheduler case is a request for servers with the hosts to choose from (`berth scheduler explain`). Its author writes only
//! the keys that matter for the case. Each missing key has a default here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::field::{CaseField, FieldResult};
use crate::host_state::{
    Aggregate, Aggregates, AllocationCandidate, Capability, Cores, CpuBitSet, CpuInfo, HostState,
    Instance, Instances, NumaCell, NumaPages, NumaTopology, PciPool, PciPools, ServiceState,
};
use crate::request::ImageProperties;

/// The default of `host_ip`: an address that is reserved for documentation.
const DEFAULT_HOST_IP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Reads the state of a host. `index` is its position in the list of hosts; the default name is `h<index>`.
pub fn host_state(field: &CaseField<'_>, index: usize) -> FieldResult<HostState> {
    let host = field.optional_or("host", format!("h{index}"), CaseField::string)?;
    let int = |key| field.optional_or(key, 0, CaseField::int);
    let ratio = |key| field.optional_or(key, 1.0, CaseField::float);
    let ip = field.optional_or("host_ip", DEFAULT_HOST_IP, |it| {
        let ip = it.text()?.parse();
        ip.map_err(|_| it.expected("an IP address"))
    })?;
    Ok(HostState {
        nodename: field.optional_or("node", host.clone(), CaseField::string)?,
        host,
        uuid: field.optional_or("uuid", String::new(), CaseField::string)?,
        // The Nova cell. `numa_cell` reads NUMA cells.
        cell: field.optional_or("cell", String::new(), CaseField::string)?,
        host_ip: Some(ip),
        total_usable_ram_mb: int("total_ram_mb")?,
        free_ram_mb: int("free_ram_mb")?,
        total_usable_disk_gb: int("total_disk_gb")?,
        free_disk_mb: int("free_disk_mb")?,
        vcpus_total: int("vcpus_total")?,
        vcpus_used: int("vcpus_used")?,
        num_instances: int("num_instances")?,
        num_io_ops: int("num_io_ops")?,
        failed_builds: int("failed_builds")?,
        ram_allocation_ratio: ratio("ram_ratio")?,
        cpu_allocation_ratio: ratio("cpu_ratio")?,
        disk_allocation_ratio: ratio("disk_ratio")?,
        hypervisor_type: field.optional_or("hv_type", "QEMU".to_owned(), CaseField::string)?,
        hypervisor_version: field.optional("hv_version", CaseField::int)?,
        cpu_info: field
            .optional("cpu_info", CaseField::string)?
            .map(CpuInfo::new),
        supported_instances: field.optional_or("supported_instances", Vec::new(), |all| {
            all.list(supported_instance)
        })?,
        stats: field.optional_or("stats", BTreeMap::new(), |all| {
            all.map(|it| {
                Capability::deserialize(it.value()).map_err(|error| it.error(error.to_string()))
            })
        })?,
        service: field.optional_or("service", ServiceState::reported_now(), service)?,
        aggregates: Aggregates::new(
            field.optional_or("aggregates", Vec::new(), |all| all.list(aggregate))?,
        ),
        instances: Instances::new(field.optional_or("instances", BTreeMap::new(), instances)?),
        metrics: field.optional("metrics", metrics)?,
        pci: pci_pools(field)?,
        numa: field.optional("numa", |numa| {
            let cells = numa.required("cells")?.list(numa_cell)?;
            Ok(NumaTopology { cells })
        })?,
    })
}

/// Reads the allocation candidates of a host. The default is one candidate without resources.
pub fn allocation_candidates(field: &CaseField<'_>) -> FieldResult<Vec<AllocationCandidate>> {
    let default = vec![AllocationCandidate::default()];
    field.optional_or("candidates", default, |all| all.list(candidate))
}

fn candidate(field: &CaseField<'_>) -> FieldResult<AllocationCandidate> {
    Ok(AllocationCandidate {
        allocations: field.optional_or("allocations", BTreeMap::new(), |all| {
            all.map(|provider| provider.required("resources")?.map(CaseField::int))
        })?,
        mappings: field.optional_or("mappings", BTreeMap::new(), |all| {
            all.map(|group| group.list(CaseField::string))
        })?,
    })
}

/// The architecture, hypervisor type and VM mode of guests that the host can run.
fn supported_instance(field: &CaseField<'_>) -> FieldResult<[String; 3]> {
    let parts: Vec<String> = field.list(CaseField::string)?;
    parts
        .try_into()
        .map_err(|_| field.expected("architecture, hypervisor type and VM mode"))
}

fn service(field: &CaseField<'_>) -> FieldResult<ServiceState> {
    let last_seen_age_s = match field.get("last_seen_age_s")? {
        None => ServiceState::reported_now().last_seen_age_s,
        // The service has never sent a heartbeat.
        Some(age) if age.value().is_null() => None,
        Some(age) => Some(age.float()?),
    };
    Ok(ServiceState {
        disabled: field.optional_or("disabled", false, CaseField::flag)?,
        disabled_reason: field.optional("disabled_reason", CaseField::string)?,
        forced_down: field.optional_or("forced_down", false, CaseField::flag)?,
        last_seen_age_s,
        created_age_s: field.optional("created_age_s", CaseField::float)?,
    })
}

fn aggregate(field: &CaseField<'_>) -> FieldResult<Arc<Aggregate>> {
    Ok(Arc::new(Aggregate {
        uuid: field.optional("uuid", CaseField::string)?,
        name: field.optional_or("name", String::new(), CaseField::string)?,
        metadata: field.optional_or("metadata", BTreeMap::new(), |all| {
            all.map(CaseField::string)
        })?,
    }))
}

/// The instances on the host: a list of UUIDs, or an object of image properties by UUID.
fn instances(field: &CaseField<'_>) -> FieldResult<BTreeMap<String, Instance>> {
    let with_image = |image: &CaseField<'_>| {
        Ok(Instance {
            flavorid: None,
            image: ImageProperties::new(image.map(CaseField::string)?)
                .map_err(|error| image.error(error.to_string()))?,
        })
    };
    match field.value() {
        Value::Array(_) => field.list(|uuid| Ok((uuid.string()?, Instance::default()))),
        _ => field.map(with_image),
    }
}

fn metrics(field: &CaseField<'_>) -> FieldResult<BTreeMap<String, f64>> {
    field.list(|metric| {
        let value = metric.required("value")?.float()?;
        Ok((metric.required("name")?.string()?, value))
    })
}

/// The PCI devices of a host; `None` if the host reports no information on PCI devices.
fn pci_pools(field: &CaseField<'_>) -> FieldResult<Option<PciPools>> {
    match field.get("pci_pools")? {
        // The host reports that it has no devices.
        None => Ok(Some(PciPools::default())),
        Some(pools) if pools.value().is_null() => Ok(None),
        Some(pools) => Ok(Some(PciPools::new(pools.list(pci_pool)?))),
    }
}

fn pci_pool(field: &CaseField<'_>) -> FieldResult<PciPool> {
    Ok(PciPool {
        vendor_id: field.required("vendor_id")?.string()?,
        product_id: field.required("product_id")?.string()?,
        numa_node: field.optional("numa_node", CaseField::int)?,
        count: field.optional_or("count", 0, CaseField::int)?,
        tags: field.optional_or("tags", BTreeMap::new(), |all| all.map(CaseField::string))?,
    })
}

fn numa_cell(field: &CaseField<'_>) -> FieldResult<NumaCell> {
    let cpus = |key| field.optional_or(key, CpuBitSet::default(), |all| all.list(CaseField::count));
    let int = |key| field.optional_or(key, 0, CaseField::int);
    Ok(NumaCell {
        id: field.required("id")?.int()?,
        cpuset: cpus("cpuset")?,
        pcpuset: cpus("pcpuset")?,
        memory: int("memory")?,
        memory_usage: int("memory_usage")?,
        cpu_usage: int("cpu_usage")?,
        pinned_cpus: cpus("pinned_cpus")?,
        siblings: field.optional_or("siblings", Cores::default(), |all| {
            all.list(|core| core.list(CaseField::count))
        })?,
        mempages: field.optional_or("mempages", Vec::new(), |all| all.list(numa_pages))?,
        socket: field.optional("socket", CaseField::int)?,
        physnets: field.optional_or("physnets", BTreeSet::new(), |all| {
            all.list(CaseField::string)
        })?,
        tunneled: field.optional_or("tunneled", false, CaseField::flag)?,
    })
}

fn numa_pages(field: &CaseField<'_>) -> FieldResult<NumaPages> {
    let int = |key| field.optional_or(key, 0, CaseField::int);
    Ok(NumaPages {
        size_kb: field.required("size_kb")?.int()?,
        total: int("total")?,
        used: int("used")?,
        reserved: int("reserved")?,
    })
}
