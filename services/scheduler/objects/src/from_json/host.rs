//! A host of a case.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::field::{Field, FieldError};
use crate::host_state::{
    Aggregate, Aggregates, AllocationCandidate, Capability, Cores, CpuInfo, CpuSet, HostState,
    Instance, Instances, MemoryPages, NumaCell, NumaTopology, PciPool, PciPools, ServiceState,
};
use crate::request::ImageProperties;

/// Where a host is that does not tell.
const DOCUMENTATION_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

type Read<T> = Result<T, FieldError>;

/// The host at this place of the list: without a name it is `hPLACE`.
pub fn host_state(field: &Field<'_>, place: usize) -> Read<HostState> {
    let host = field.or("host", format!("h{place}"), Field::string)?;
    let int = |key| field.or(key, 0, Field::int);
    let ratio = |key| field.or(key, 1.0, Field::float);
    let ip = field.or("host_ip", DOCUMENTATION_ADDRESS, |it| {
        let ip = it.text()?.parse();
        ip.map_err(|_| it.should_be("an IP address"))
    })?;
    Ok(HostState {
        nodename: field.or("node", host.clone(), Field::string)?,
        host,
        uuid: field.or("uuid", String::new(), Field::string)?,
        cell: field.or("cell", String::new(), Field::string)?,
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
        hypervisor_type: field.or("hv_type", "QEMU".to_owned(), Field::string)?,
        hypervisor_version: field.maybe("hv_version", Field::int)?,
        cpu_info: field.maybe("cpu_info", Field::string)?.map(CpuInfo::new),
        supported_instances: field
            .or("supported_instances", Vec::new(), |all| all.list(supported))?,
        stats: field.or("stats", BTreeMap::new(), |all| {
            all.map(|it| {
                Capability::deserialize(it.value()).map_err(|error| it.wrong(error.to_string()))
            })
        })?,
        service: field.or("service", seen_now(), service)?,
        aggregates: Aggregates::new(field.or("aggregates", Vec::new(), |all| all.list(aggregate))?),
        instances: Instances::new(field.or("instances", BTreeMap::new(), instances)?),
        metrics: field.maybe("metrics", metrics)?,
        pci: pools(field)?,
        numa: field.maybe("numa", |numa| {
            let cells = numa.needed("cells")?.list(cell)?;
            Ok(NumaTopology { cells })
        })?,
    })
}

/// The host's candidates; a host of which nothing is said has one.
pub fn allocation_candidates(field: &Field<'_>) -> Read<Vec<AllocationCandidate>> {
    let one = vec![AllocationCandidate::default()];
    field.or("candidates", one, |all| all.list(candidate))
}

fn candidate(field: &Field<'_>) -> Read<AllocationCandidate> {
    Ok(AllocationCandidate {
        allocations: field.or("allocations", BTreeMap::new(), |all| {
            all.map(|provider| provider.needed("resources")?.map(Field::int))
        })?,
        mappings: field.or("mappings", BTreeMap::new(), |all| {
            all.map(|group| group.list(Field::string))
        })?,
    })
}

fn supported(field: &Field<'_>) -> Read<[String; 3]> {
    let parts: Vec<String> = field.list(Field::string)?;
    parts
        .try_into()
        .map_err(|_| field.should_be("architecture, hypervisor type and VM mode"))
}

fn seen_now() -> ServiceState {
    ServiceState {
        last_seen_age_s: Some(0.0),
        ..ServiceState::default()
    }
}

fn service(field: &Field<'_>) -> Read<ServiceState> {
    // Null is "never seen", and not what is the default.
    let last_seen_age_s = match field.given("last_seen_age_s")? {
        None => Some(0.0),
        Some(age) if age.value().is_null() => None,
        Some(age) => Some(age.float()?),
    };
    Ok(ServiceState {
        disabled: field.or("disabled", false, Field::flag)?,
        disabled_reason: field.maybe("disabled_reason", Field::string)?,
        forced_down: field.or("forced_down", false, Field::flag)?,
        last_seen_age_s,
        created_age_s: field.maybe("created_age_s", Field::float)?,
    })
}

fn aggregate(field: &Field<'_>) -> Read<Arc<Aggregate>> {
    Ok(Arc::new(Aggregate {
        uuid: field.maybe("uuid", Field::string)?,
        name: field.or("name", String::new(), Field::string)?,
        metadata: field.or("metadata", BTreeMap::new(), |all| all.map(Field::string))?,
    }))
}

/// Either uuids, or image properties by uuid.
fn instances(field: &Field<'_>) -> Read<BTreeMap<String, Instance>> {
    let with_image = |image: &Field<'_>| {
        Ok(Instance {
            flavorid: None,
            image: ImageProperties::new(image.map(Field::string)?)
                .map_err(|error| image.wrong(error.to_string()))?,
        })
    };
    match field.value() {
        Value::Array(_) => field.list(|uuid| Ok((uuid.string()?, Instance::default()))),
        _ => field.map(with_image),
    }
}

fn metrics(field: &Field<'_>) -> Read<BTreeMap<String, f64>> {
    field.list(|metric| {
        let value = metric.needed("value")?.float()?;
        Ok((metric.needed("name")?.string()?, value))
    })
}

/// Null is a host that tells of no devices, and not what is the default: one that tells that it has none.
fn pools(field: &Field<'_>) -> Read<Option<PciPools>> {
    match field.given("pci_pools")? {
        None => Ok(Some(PciPools::default())),
        Some(pools) if pools.value().is_null() => Ok(None),
        Some(pools) => Ok(Some(PciPools::new(pools.list(pool)?))),
    }
}

fn pool(field: &Field<'_>) -> Read<PciPool> {
    Ok(PciPool {
        vendor_id: field.needed("vendor_id")?.string()?,
        product_id: field.needed("product_id")?.string()?,
        numa_node: field.maybe("numa_node", Field::int)?,
        count: field.or("count", 0, Field::int)?,
        tags: field.or("tags", BTreeMap::new(), |all| all.map(Field::string))?,
    })
}

fn cell(field: &Field<'_>) -> Read<NumaCell> {
    let cpus = |key| field.or(key, CpuSet::default(), |all| all.list(Field::count));
    let int = |key| field.or(key, 0, Field::int);
    Ok(NumaCell {
        id: field.needed("id")?.int()?,
        cpuset: cpus("cpuset")?,
        pcpuset: cpus("pcpuset")?,
        memory: int("memory")?,
        memory_usage: int("memory_usage")?,
        cpu_usage: int("cpu_usage")?,
        pinned_cpus: cpus("pinned_cpus")?,
        siblings: field.or("siblings", Cores::default(), |all| {
            all.list(|core| core.list(Field::count))
        })?,
        mempages: field.or("mempages", Vec::new(), |all| all.list(pages))?,
        socket: field.maybe("socket", Field::int)?,
        physnets: field.or("physnets", BTreeSet::new(), |all| all.list(Field::string))?,
        tunneled: field.or("tunneled", false, Field::flag)?,
    })
}

fn pages(field: &Field<'_>) -> Read<MemoryPages> {
    let int = |key| field.or(key, 0, Field::int);
    Ok(MemoryPages {
        size_kb: field.needed("size_kb")?.int()?,
        total: int("total")?,
        used: int("used")?,
        reserved: int("reserved")?,
    })
}
