//! Splits an image's properties for the host's agent. Pure.
//!
//! The agent reads the properties of [`ImageBody::of_machine`]. Properties that control the placement of the guest
//! within the host are passed as the corresponding extra specs of the flavor, so that the agent places the guest as
//! the scheduler did. All other properties are for the scheduler only.

use berth_wire::guest::{FlavorBody, ImageBody};

const PAGE_SIZE: &str = "hw_mem_page_size";

/// The extra spec that corresponds to a property which controls placement.
fn spec_of(property: &str) -> Option<String> {
    let is_placing = matches!(
        property,
        "hw_cpu_policy"
            | "hw_cpu_thread_policy"
            | "hw_emulator_threads_policy"
            | "hw_numa_nodes"
            | "hw_pci_numa_affinity_policy"
            | PAGE_SIZE
    ) || property.starts_with("hw_numa_cpus.")
        || property.starts_with("hw_numa_mem.");
    let name = property.strip_prefix("hw_").filter(|_| is_placing)?;
    Some(format!("hw:{name}"))
}

/// Returns the image for the agent, and moves placement properties into the flavor.
pub(super) fn for_agent(flavor: &mut FlavorBody, image: ImageBody) -> ImageBody {
    for (property, value) in &image.properties {
        let Some(spec) = spec_of(property) else {
            continue;
        };
        // If both define a value, the scheduler has checked that they agree. Only the image's page size is
        // more specific than the flavor's.
        if property == PAGE_SIZE || !flavor.extra_specs.contains_key(&spec) {
            flavor.extra_specs.insert(spec, value.clone());
        }
    }
    image.of_machine()
}
