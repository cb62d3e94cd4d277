//! From a flavor and an image to cells.

use super::source::number;
use super::{
    CpuAllocationPolicy, CpuThreadPolicy, EmulatorThreadsPolicy, InstanceNumaCell,
    InstanceNumaTopology, NumaRequestError, cpus, pages,
};
use crate::host_state::CpuBitSet;
use crate::numbers;
use crate::request::source::FlavorAndImage;
use crate::request::{RequestFlavor, RequestImage};

type TopologyResult<T> = Result<T, NumaRequestError>;

impl InstanceNumaTopology {
    /// The cells that a flavor and an image request; `None` if they request no cells, page size, persistent memory or
    /// dedicated CPUs.
    pub fn derive(
        flavor: &RequestFlavor,
        image: Option<&RequestImage>,
    ) -> TopologyResult<Option<Self>> {
        let source = FlavorAndImage { flavor, image };
        let cpus = CellCpus::derive(source)?;
        let nodes = nodes(source)?;
        let pagesize = pages::page_size(source)?;
        pages::locked_memory(source)?;
        let pmem = source.spec("hw:pmem").unwrap_or_default();
        let has_pmem = pmem.split(',').any(|label| !label.trim().is_empty());
        let is_pinned = matches!(
            cpus.policy,
            Some(CpuAllocationPolicy::Dedicated | CpuAllocationPolicy::Mixed)
        );
        if nodes.is_none() && pagesize.is_none() && !has_pmem && !is_pinned {
            return Ok(None);
        }
        let vcpus = vcpus(flavor)?;
        let memory_mb = flavor.memory_mb;
        if memory_mb < 1 {
            return Err(NumaRequestError::Memory { memory_mb });
        }
        let parts = parts(source, nodes.unwrap_or(1), vcpus)?;
        let all = CpuBitSet::first(vcpus);
        let dedicated = match cpus.policy {
            Some(CpuAllocationPolicy::Dedicated) => all,
            _ => cpus.dedicated,
        };
        let cells = parts.into_iter().map(|(cpus, memory)| InstanceNumaCell {
            pcpuset: cpus.iter().filter(|it| dedicated.contains(*it)).collect(),
            cpuset: cpus.without(&dedicated),
            memory,
        });
        Ok(Some(Self {
            cells: cells.collect(),
            cpu_policy: cpus.policy,
            cpu_thread_policy: cpus.threads,
            emulator_threads_policy: cpus.emulator_threads,
            pagesize,
        }))
    }
}

/// The CPU settings of flavor and image.
struct CellCpus {
    policy: Option<CpuAllocationPolicy>,
    threads: Option<CpuThreadPolicy>,
    emulator_threads: Option<EmulatorThreadsPolicy>,
    dedicated: CpuBitSet,
}

impl CellCpus {
    fn derive(source: FlavorAndImage<'_>) -> TopologyResult<Self> {
        let emulator_threads = cpus::emulator_threads(source)?;
        let policy = by_resources(source, cpus::policy(source)?, emulator_threads)?;
        let threads = by_trait(source, cpus::thread_policy(source)?)?;
        // Masks alone need the number of CPUs, which for others may be any.
        let has_mask = ["hw:cpu_dedicated_mask", "hw:cpu_realtime"]
            .iter()
            .any(|name| source.spec(name).is_some());
        let vcpus = if has_mask { vcpus(source.flavor)? } else { 0 };
        let realtime = cpus::realtime(source, vcpus, emulator_threads)?;
        let mask = cpus::dedicated(source, vcpus)?;
        let needs = |name| Err(NumaRequestError::NeedsDedicatedCpus { name });
        let dedicated = match policy {
            Some(CpuAllocationPolicy::Mixed) => match (mask, realtime) {
                (Some(one), None) | (None, Some(one)) => one,
                _ => return Err(NumaRequestError::MixedNeedsMask),
            },
            _ if mask.is_some() => return Err(NumaRequestError::MaskNeedsMixed),
            Some(CpuAllocationPolicy::Dedicated) => CpuBitSet::default(),
            _ if threads.is_some() => return needs(name_of_threads(source)),
            _ if emulator_threads == Some(EmulatorThreadsPolicy::Isolate) => {
                return needs("hw:emulator_threads_policy");
            }
            _ if realtime.is_some() => return needs("hw:cpu_realtime"),
            _ => CpuBitSet::default(),
        };
        Ok(Self {
            policy,
            threads,
            emulator_threads,
            dedicated,
        })
    }
}

/// CPUs that are requested by resource class also set the policy.
fn by_resources(
    source: FlavorAndImage<'_>,
    policy: Option<CpuAllocationPolicy>,
    emulator_threads: Option<EmulatorThreadsPolicy>,
) -> TopologyResult<Option<CpuAllocationPolicy>> {
    let sum = |class: &str| -> i64 {
        let specs = source.flavor.extra_specs.iter();
        specs
            .filter(|(key, _)| is_of_group(key, "resources", class))
            .filter_map(|(_, value)| numbers::int(value))
            .fold(0, i64::saturating_add)
    };
    let (vcpus, pcpus) = (sum("VCPU"), sum("PCPU"));
    if vcpus == 0 && pcpus == 0 {
        return Ok(policy);
    }
    if policy.is_some() {
        return Err(NumaRequestError::PolicyAndResources);
    }
    if vcpus != 0 && pcpus != 0 {
        return Err(NumaRequestError::VcpuAndPcpu);
    }
    if vcpus != 0 {
        return Ok(Some(CpuAllocationPolicy::Shared));
    }
    let is_isolated = emulator_threads == Some(EmulatorThreadsPolicy::Isolate);
    let wanted = source.flavor.vcpus.saturating_add(is_isolated.into());
    match pcpus == wanted {
        true => Ok(Some(CpuAllocationPolicy::Dedicated)),
        false => Err(NumaRequestError::PcpuCount { wanted, pcpus }),
    }
}

/// A trait that requires threads also sets the thread policy.
fn by_trait(
    source: FlavorAndImage<'_>,
    policy: Option<CpuThreadPolicy>,
) -> TopologyResult<Option<CpuThreadPolicy>> {
    const TRAIT: &str = "HW_CPU_HYPERTHREADING";
    let mut specs = source.flavor.extra_specs.iter();
    let of_flavor = specs.find(|(key, _)| is_of_group(key, "trait", TRAIT));
    let of_image = source.property(&format!("trait:{TRAIT}"));
    let wanted = match of_flavor {
        Some((_, value)) => Some(value.as_str()),
        None => of_image.filter(|it| *it == "required"),
    };
    match wanted {
        Some(text) if policy.is_some() && !text.is_empty() => {
            Err(NumaRequestError::TraitAndThreadPolicy)
        }
        Some("forbidden") => Ok(Some(CpuThreadPolicy::Isolate)),
        Some("required") => Ok(Some(CpuThreadPolicy::Require)),
        _ => Ok(policy),
    }
}

/// The name of the extra spec or property that sets the thread policy.
fn name_of_threads(source: FlavorAndImage<'_>) -> &'static str {
    match source.both("cpu_thread_policy") {
        (Some(_), _) => "hw:cpu_thread_policy",
        (None, Some(_)) => "hw_cpu_thread_policy",
        (None, None) => "trait:HW_CPU_HYPERTHREADING",
    }
}

/// Whether the key is `resources:CLASS` or `resourcesN:CLASS`.
fn is_of_group(key: &str, kind: &str, name: &str) -> bool {
    let parts = key.strip_prefix(kind).and_then(|it| it.split_once(':'));
    parts.is_some_and(|(number, rest)| {
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        rest == name && is_number && !number.starts_with('0')
    })
}

/// Reads the number of NUMA cells from `hw:numa_nodes`.
fn nodes(source: FlavorAndImage<'_>) -> TopologyResult<Option<i64>> {
    let (name, text) = match source.both("numa_nodes") {
        (None, None) => return Ok(None),
        (Some(text), None) => ("hw:numa_nodes", text),
        (None, Some(text)) => ("hw_numa_nodes", text),
        (Some(_), Some(_)) => return Err(source.conflict("numa_nodes")),
    };
    match numbers::int(text) {
        Some(nodes) if nodes > 0 => Ok(Some(nodes)),
        _ => Err(NumaRequestError::Malformed {
            name: name.to_owned(),
            value: text.to_owned(),
            wanted: "a whole number from 1 on",
        }),
    }
}

/// The number of CPUs; it must be positive and fit the CPU numbers.
pub(super) fn vcpus(flavor: &RequestFlavor) -> TopologyResult<u16> {
    let vcpus = flavor.vcpus;
    let count = u16::try_from(vcpus).ok().filter(|count| *count > 0);
    count.ok_or(NumaRequestError::Vcpus { vcpus })
}

/// CPUs and memory by cell.
fn parts(
    source: FlavorAndImage<'_>,
    nodes: i64,
    vcpus: u16,
) -> TopologyResult<Vec<(CpuBitSet, i64)>> {
    let (cpus, mem) = (source.numbered("numa_cpus")?, source.numbered("numa_mem")?);
    if cpus.is_none() && mem.is_none() {
        return even(source.flavor, nodes, vcpus);
    }
    let (cpu_list, mem_list) = (cpus.unwrap_or_default(), mem.unwrap_or_default());
    let (cpus, mem) = (cpu_list.len(), mem_list.len());
    if cpus != mem || i64::try_from(cpus) != Ok(nodes) {
        return Err(NumaRequestError::Incomplete { nodes, cpus, mem });
    }
    let mut left = CpuBitSet::first(vcpus);
    let mut parts = Vec::with_capacity(cpus);
    for ((name, text), (mem_name, mem)) in cpu_list.into_iter().zip(mem_list) {
        let cpus = cpus::cpus(&name, text)?;
        if let Some(cpu) = cpus.iter().find(|cpu| *cpu >= vcpus) {
            return Err(NumaRequestError::CpuOutOfRange { name, cpu, vcpus });
        }
        if let Some(cpu) = cpus.iter().find(|cpu| !left.contains(*cpu)) {
            return Err(NumaRequestError::CpuTwice { name, cpu });
        }
        left = left.without(&cpus);
        parts.push((cpus, mib(mem_name, mem)?));
    }
    if !left.is_empty() {
        let cpus = left.to_string();
        return Err(NumaRequestError::CpusUnassigned { cpus });
    }
    let (sum, memory_mb) = (
        parts
            .iter()
            .map(|(_, mem)| *mem)
            .fold(0, i64::saturating_add),
        source.flavor.memory_mb,
    );
    match sum == memory_mb {
        true => Ok(parts),
        false => Err(NumaRequestError::MemorySum { sum, memory_mb }),
    }
}

/// The memory of a cell: a cell without any, or with less than that, would make room for the others.
fn mib(name: String, text: &str) -> TopologyResult<i64> {
    const WANTED: &str = "a number of MiB from 1 on";
    match number(&name, text, WANTED)? {
        mib if mib > 0 => Ok(mib),
        _ => Err(NumaRequestError::Malformed {
            name,
            value: text.to_owned(),
            wanted: WANTED,
        }),
    }
}

/// As many CPUs and as much memory for each cell.
fn even(flavor: &RequestFlavor, nodes: i64, vcpus: u16) -> TopologyResult<Vec<(CpuBitSet, i64)>> {
    let asymmetric = NumaRequestError::Asymmetric {
        nodes,
        vcpus: flavor.vcpus,
        memory_mb: flavor.memory_mb,
    };
    // `vcpus` is positive, so a divisor of it is not larger than a `u16`.
    let parts = u16::try_from(nodes)
        .ok()
        .filter(|parts| vcpus.is_multiple_of(*parts));
    let Some(parts) = parts.filter(|_| flavor.memory_mb % nodes == 0) else {
        return Err(asymmetric);
    };
    let share = vcpus / parts;
    let cells = (0..parts).map(|cell| {
        let cpus = (cell * share..(cell + 1) * share).collect();
        (cpus, flavor.memory_mb / nodes)
    });
    Ok(cells.collect())
}
