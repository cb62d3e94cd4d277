//! A host of a case.

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

/// The address of a host that does not report one.
const DOCUMENTATION_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Reads the host at this index of the list. A host without a name is called `hINDEX`.
pub fn host_state(field: &CaseField<'_>, place: usize) -> FieldResult<HostState> {
    let host = field.or("host", format!("h{place}"), CaseField::string)?;
    let int = |key| field.or(key, 0, CaseField::int);
    let ratio = |key| field.or(key, 1.0, CaseField::float);
    let ip = field.or("host_ip", DOCUMENTATION_ADDRESS, |it| {
        let ip = it.text()?.parse();
        ip.map_err(|_| it.should_be("an IP address"))
    })?;
    Ok(HostState {
        nodename: field.or("node", host.clone(), CaseField::string)?,
        host,
        uuid: field.or("uuid", String::new(), CaseField::string)?,
        cell: field.or("cell", String::new(), CaseField::string)?,
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
        hypervisor_type: field.or("hv_type", "QEMU".to_owned(), CaseField::string)?,
        hypervisor_version: field.maybe("hv_version", CaseField::int)?,
        cpu_info: field
            .maybe("cpu_info", CaseField::string)?
            .map(CpuInfo::new),
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

/// The allocation candidates of a host; one by default.
pub fn allocation_candidates(field: &CaseField<'_>) -> FieldResult<Vec<AllocationCandidate>> {
    let one = vec![AllocationCandidate::default()];
    field.or("candidates", one, |all| all.list(candidate))
}

fn candidate(field: &CaseField<'_>) -> FieldResult<AllocationCandidate> {
    Ok(AllocationCandidate {
        allocations: field.or("allocations", BTreeMap::new(), |all| {
            all.map(|provider| provider.needed("resources")?.map(CaseField::int))
        })?,
        mappings: field.or("mappings", BTreeMap::new(), |all| {
            all.map(|group| group.list(CaseField::string))
        })?,
    })
}

fn supported(field: &CaseField<'_>) -> FieldResult<[String; 3]> {
    let parts: Vec<String> = field.list(CaseField::string)?;
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

fn service(field: &CaseField<'_>) -> FieldResult<ServiceState> {
    // Null means "never seen"; the default is "seen now".
    let last_seen_age_s = match field.given("last_seen_age_s")? {
        None => Some(0.0),
        Some(age) if age.value().is_null() => None,
        Some(age) => Some(age.float()?),
    };
    Ok(ServiceState {
        disabled: field.or("disabled", false, CaseField::flag)?,
        disabled_reason: field.maybe("disabled_reason", CaseField::string)?,
        forced_down: field.or("forced_down", false, CaseField::flag)?,
        last_seen_age_s,
        created_age_s: field.maybe("created_age_s", CaseField::float)?,
    })
}

fn aggregate(field: &CaseField<'_>) -> FieldResult<Arc<Aggregate>> {
    Ok(Arc::new(Aggregate {
        uuid: field.maybe("uuid", CaseField::string)?,
        name: field.or("name", String::new(), CaseField::string)?,
        metadata: field.or("metadata", BTreeMap::new(), |all| {
            all.map(CaseField::string)
        })?,
    }))
}

/// Either uuids, or image properties by uuid.
fn instances(field: &CaseField<'_>) -> FieldResult<BTreeMap<String, Instance>> {
    let with_image = |image: &CaseField<'_>| {
        Ok(Instance {
            flavorid: None,
            image: ImageProperties::new(image.map(CaseField::string)?)
                .map_err(|error| image.wrong(error.to_string()))?,
        })
    };
    match field.value() {
        Value::Array(_) => field.list(|uuid| Ok((uuid.string()?, Instance::default()))),
        _ => field.map(with_image),
    }
}

fn metrics(field: &CaseField<'_>) -> FieldResult<BTreeMap<String, f64>> {
    field.list(|metric| {
        let value = metric.needed("value")?.float()?;
        Ok((metric.needed("name")?.string()?, value))
    })
}

/// Null is a host that does not report devices; the default is a host that reports none.
fn pools(field: &CaseField<'_>) -> FieldResult<Option<PciPools>> {
    match field.given("pci_pools")? {
        None => Ok(Some(PciPools::default())),
        Some(pools) if pools.value().is_null() => Ok(None),
        Some(pools) => Ok(Some(PciPools::new(pools.list(pool)?))),
    }
}

fn pool(field: &CaseField<'_>) -> FieldResult<PciPool> {
    Ok(PciPool {
        vendor_id: field.needed("vendor_id")?.string()?,
        product_id: field.needed("product_id")?.string()?,
        numa_node: field.maybe("numa_node", CaseField::int)?,
        count: field.or("count", 0, CaseField::int)?,
        tags: field.or("tags", BTreeMap::new(), |all| all.map(CaseField::string))?,
    })
}

fn cell(field: &CaseField<'_>) -> FieldResult<NumaCell> {
    let cpus = |key| field.or(key, CpuBitSet::default(), |all| all.list(CaseField::count));
    let int = |key| field.or(key, 0, CaseField::int);
    Ok(NumaCell {
        id: field.needed("id")?.int()?,
        cpuset: cpus("cpuset")?,
        pcpuset: cpus("pcpuset")?,
        memory: int("memory")?,
        memory_usage: int("memory_usage")?,
        cpu_usage: int("cpu_usage")?,
        pinned_cpus: cpus("pinned_cpus")?,
        siblings: field.or("siblings", Cores::default(), |all| {
            all.list(|core| core.list(CaseField::count))
        })?,
        mempages: field.or("mempages", Vec::new(), |all| all.list(pages))?,
        socket: field.maybe("socket", CaseField::int)?,
        physnets: field.or("physnets", BTreeSet::new(), |all| {
            all.list(CaseField::string)
        })?,
        tunneled: field.or("tunneled", false, CaseField::flag)?,
    })
}

fn pages(field: &CaseField<'_>) -> FieldResult<NumaPages> {
    let int = |key| field.or(key, 0, CaseField::int);
    Ok(NumaPages {
        size_kb: field.needed("size_kb")?.int()?,
        total: int("total")?,
        used: int("used")?,
        reserved: int("reserved")?,
    })
}
