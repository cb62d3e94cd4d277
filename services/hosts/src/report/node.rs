//! Checks the fields of one compute node of a report.

use berth_wire::BodyError;
use berth_wire::host_state::{NodeInstanceBody, NodeStateBody};

use super::bounds::{
    FREE, FieldCheck, LARGE, amount, between, count, few, name, ratio, short, text,
};
use super::{devices, numa};

/// Maximum length of `cpu_info`, in characters.
const CPU_INFO: usize = 64 << 10;
/// Maximum number of guests of a node.
const GUESTS: usize = 100_000;
/// Maximum number of image properties of a guest.
const PROPERTIES: usize = 512;
/// Maximum number of supported instance types, metrics and stats.
const KINDS: usize = 1_024;

pub(super) fn check(node: &NodeStateBody) -> FieldCheck {
    if node.uuid.is_nil() {
        let reason = "it is nil; it must be the UUID of the node's resource provider";
        return Err(BodyError::field("uuid", reason));
    }
    name("hypervisor_hostname", &node.hypervisor_hostname)?;
    name("hypervisor_type", &node.hypervisor_type)?;
    if let Some(version) = node.hypervisor_version {
        amount("hypervisor_version", version)?;
    }
    resources(node)?;
    check_cpu_info(node.cpu_info.as_deref())?;
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

fn resources(node: &NodeStateBody) -> FieldCheck {
    count("vcpus", node.vcpus)?;
    count("vcpus_used", node.vcpus_used)?;
    amount("memory_mb", node.memory_mb)?;
    amount("memory_mb_used", node.memory_mb_used)?;
    amount("local_gb", node.local_gb)?;
    amount("local_gb_used", node.local_gb_used)?;
    if let Some(least) = node.disk_available_least {
        // Negative if the disks are overcommitted.
        between("disk_available_least", least, -LARGE, LARGE)?;
    }
    ratio("cpu_allocation_ratio", node.cpu_allocation_ratio)?;
    ratio("ram_allocation_ratio", node.ram_allocation_ratio)?;
    ratio("disk_allocation_ratio", node.disk_allocation_ratio)?;
    count("num_io_ops", node.num_io_ops)?;
    count("failed_builds", node.failed_builds)
}

/// Checks only the length: filters parse the content, and treat text that is not JSON as without fields.
fn check_cpu_info(cpu_info: Option<&str>) -> FieldCheck {
    let length = cpu_info.map_or(0, |text| text.chars().count());
    match length <= CPU_INFO {
        true => Ok(()),
        false => {
            let reason = format!("it has {length} characters; at most {CPU_INFO} are allowed");
            Err(BodyError::field("cpu_info", reason))
        }
    }
}

fn guest(instance: &NodeInstanceBody) -> FieldCheck {
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

fn metrics(node: &NodeStateBody) -> FieldCheck {
    let Some(metrics) = &node.metrics else {
        return Ok(());
    };
    few("metrics", metrics.len(), KINDS)?;
    for (key, value) in metrics {
        text("metrics", key, FREE)?;
        if !value.is_finite() {
            let reason = "it is not a finite number";
            return Err(BodyError::field(format!("metrics.{key}"), reason));
        }
    }
    Ok(())
}
