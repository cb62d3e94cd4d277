//! A compute node of a report, field by field.

use berth_wire::BodyError;
use berth_wire::host_state::{NodeInstanceBody, NodeStateBody};

use super::bounds::{FREE, LARGE, amount, between, count, few, name, ratio, short, text};
use super::{devices, numa};

/// The longest `cpu_info`, in characters.
const CPU_INFO: usize = 64 << 10;
/// A node has so many guests at most.
const GUESTS: usize = 100_000;
/// A guest has so many image properties at most.
const PROPERTIES: usize = 512;
/// So many kinds of guests, metrics, stats.
const KINDS: usize = 1_024;

type Checked = Result<(), BodyError>;

pub(super) fn check(node: &NodeStateBody) -> Checked {
    if node.uuid.is_nil() {
        let reason = "it is nil, and should be the node's own, as Placement has it";
        return Err(BodyError::field("uuid", reason));
    }
    name("hypervisor_hostname", &node.hypervisor_hostname)?;
    name("hypervisor_type", &node.hypervisor_type)?;
    if let Some(version) = node.hypervisor_version {
        amount("hypervisor_version", version)?;
    }
    resources(node)?;
    text_of_cpus(node.cpu_info.as_deref())?;
    few("supported_instances", node.supported_instances.len(), KINDS)?;
    for (place, kinds) in node.supported_instances.iter().enumerate() {
        for kind in kinds {
            short(&format!("supported_instances[{place}]"), kind)?;
        }
    }
    few("instances", node.instances.len(), GUESTS)?;
    for (uuid, instance) in &node.instances {
        guest(instance).map_err(|error| error.under(format!("instances.{uuid}")))?;
    }
    few("stats", node.stats.len(), KINDS)?;
    for key in node.stats.keys() {
        name("stats", key)?;
    }
    metrics(node)?;
    devices::check(node.pci_device_pools.as_deref().unwrap_or_default())?;
    numa::check(node.numa_topology.as_deref().unwrap_or_default())
}

fn resources(node: &NodeStateBody) -> Checked {
    count("vcpus", node.vcpus)?;
    count("vcpus_used", node.vcpus_used)?;
    amount("memory_mb", node.memory_mb)?;
    amount("memory_mb_used", node.memory_mb_used)?;
    amount("local_gb", node.local_gb)?;
    amount("local_gb_used", node.local_gb_used)?;
    if let Some(least) = node.disk_available_least {
        // Less than nothing where guests were promised more than there is.
        between("disk_available_least", least, -LARGE, LARGE)?;
    }
    ratio("cpu_allocation_ratio", node.cpu_allocation_ratio)?;
    ratio("ram_allocation_ratio", node.ram_allocation_ratio)?;
    ratio("disk_allocation_ratio", node.disk_allocation_ratio)?;
    count("num_io_ops", node.num_io_ops)?;
    count("failed_builds", node.failed_builds)
}

/// What it says is looked at by those who ask for it: a text that is no JSON has no fields.
fn text_of_cpus(cpu_info: Option<&str>) -> Checked {
    let length = cpu_info.map_or(0, |text| text.chars().count());
    match length <= CPU_INFO {
        true => Ok(()),
        false => {
            let reason = format!("it has {length} characters, and {CPU_INFO} are the most");
            Err(BodyError::field("cpu_info", reason))
        }
    }
}

fn guest(instance: &NodeInstanceBody) -> Checked {
    if let Some(flavorid) = &instance.flavorid {
        name("flavorid", flavorid)?;
    }
    few(
        "image_properties",
        instance.image_properties.len(),
        PROPERTIES,
    )?;
    for (key, value) in &instance.image_properties {
        name("image_properties", key)?;
        if value.chars().count() > FREE {
            let reason = format!("its value is longer than {FREE} characters");
            return Err(BodyError::field(format!("image_properties.{key}"), reason));
        }
    }
    Ok(())
}

fn metrics(node: &NodeStateBody) -> Checked {
    let Some(metrics) = &node.metrics else {
        return Ok(());
    };
    few("metrics", metrics.len(), KINDS)?;
    for (key, value) in metrics {
        text("metrics", key, FREE)?;
        if !value.is_finite() {
            let reason = "it is no finite number";
            return Err(BodyError::field(format!("metrics.{key}"), reason));
        }
    }
    Ok(())
}
