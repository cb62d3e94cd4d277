//! What a host is told of an image's properties. Pure.
//!
//! Its agent reads those of [`ImageBody::of_machine`]. Those by which guests are placed go there with the flavor, under the names
//! that flavors have for them: the agent places a guest as the scheduler did. The others are for the scheduler alone.

use berth_wire::guest::{FlavorBody, ImageBody};

const PAGE_SIZE: &str = "hw_mem_page_size";

/// The flavor's name for a property by which guests are placed.
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

/// The image as an agent is told of it; what it says of the guest's place is in the flavor then.
pub(super) fn for_agent(flavor: &mut FlavorBody, image: ImageBody) -> ImageBody {
    for (property, value) in &image.properties {
        let Some(spec) = spec_of(property) else {
            continue;
        };
        // Where both say something, the scheduler has seen that they agree; but of page sizes the image picks one that its flavor
        // leaves open.
        if property == PAGE_SIZE || !flavor.extra_specs.contains_key(&spec) {
            flavor.extra_specs.insert(spec, value.clone());
        }
    }
    image.of_machine()
}
