//! What an instance takes from the host it was placed on.

use crate::host_state::{AllocationCandidate, HostState, Instance, SchedulerLimits};
use crate::numa::CellStrategy;
use crate::options::SchedulerOptions;
use crate::pci::Mappings;
use crate::reason::Reason;
use crate::request::{ImageProperties, RequestSpec};

/// Charges a host with an instance, as its agent will report it: memory, disk (without swap, and without the root disk
/// if it is a volume), CPUs, the number of instances and of I/O operations, NUMA cells, and devices.
///
/// Errors: the host lacks cells or devices, because their filter was not enabled. Everything else is charged.
pub fn consume(
    host: &mut HostState,
    request: &RequestSpec,
    candidate: Option<&AllocationCandidate>,
    limits: &SchedulerLimits,
    options: &SchedulerOptions,
) -> Result<(), Reason> {
    let flavor = &request.flavor;
    let root_gb = if request.is_bfv { 0 } else { flavor.root_gb };
    let disk_mb = root_gb
        .saturating_add(flavor.ephemeral_gb)
        .saturating_mul(1024);
    host.free_ram_mb = host.free_ram_mb.saturating_sub(flavor.memory_mb);
    host.free_disk_mb = host.free_disk_mb.saturating_sub(disk_mb);
    host.vcpus_used = host.vcpus_used.saturating_add(flavor.vcpus);
    host.num_instances = host.num_instances.saturating_add(1);
    host.num_io_ops = host.num_io_ops.saturating_add(1);
    let image = request.image.as_ref();
    let instance = Instance {
        flavorid: Some(flavor.flavorid.clone()),
        image: image.map_or_else(ImageProperties::default, |it| it.properties.clone()),
    };
    host.instances
        .insert(request.instance_uuid.clone(), instance);
    let none = Mappings::new();
    let mappings = candidate.map_or(&none, |candidate| &candidate.mappings);
    let packing = match options.compute.packing_host_numa_cells_allocation_strategy {
        true => CellStrategy::Pack,
        false => CellStrategy::Spread,
    };
    host.consume_numa_and_pci(request, mappings, limits.numa, packing)
}
