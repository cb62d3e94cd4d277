//! Validates the body of a build: [`ParsedBuild`]. Pure.

mod guest;
mod ports;
mod resources;

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_images::DiskPlan;
use berth_agent_journal::SchedulingFacts;
use berth_model::{
    ArqUuid, ConsumerUuid, FlavorPlacement, GuestMachine, NodeName, ProviderUuid, ResourceClass,
};
use berth_virt::guest_spec::{GuestSpec, GuestTopology};
use berth_wire::guest::{GuestBuild, LimitsBody};

use crate::create::error::BuildError;
use crate::create::options::BuildOptions;
use crate::fit::Limits;

pub use guest::{
    attached_interface, bound_interfaces, config_drive_change, image as image_of,
    kernel as kernel_of, unbound_port,
};
pub use ports::DirectPort;

/// Maximum number of extra specs of a flavor.
const MOST_EXTRA_SPECS: usize = 256;
/// Maximum bytes of an extra spec's key or value, as in Nova's database.
const LONGEST_EXTRA_SPEC: usize = 255;
/// Maximum number of providers in the allocations.
const MOST_PROVIDERS: usize = 1024;

/// Maximum number of image properties that are stored.
const MOST_PROPERTIES: usize = 128;
/// Maximum bytes of a stored image property.
const LONGEST_PROPERTY: usize = 255;

/// A validated build, without a placement.
pub(super) struct ParsedBuild {
    pub(super) uuid: ConsumerUuid,
    pub(super) node: NodeName,
    pub(super) arqs: Vec<ArqUuid>,
    pub(super) placement: FlavorPlacement,
    pub(super) limits: Limits,
    /// The allocations in Placement.
    pub(super) allocations: BTreeMap<ProviderUuid, BTreeMap<ResourceClass, u64>>,
    /// The flavor's resources by class, except CPUs, memory and disk.
    pub(super) resources: BTreeMap<ResourceClass, u64>,
    /// Number of PCI devices that the flavor requests by alias.
    pub(super) aliased: u64,
    /// The ports that get a network function of the host.
    pub(super) direct_ports: Vec<DirectPort>,
    /// The spec, without CPU placement, devices and the interfaces of direct ports.
    pub(super) spec: GuestSpec,
    pub(super) disks: DiskPlan,
    /// Properties of the instance that schedulers read from the host state.
    pub(super) scheduling_facts: SchedulingFacts,
}

impl ParsedBuild {
    pub(super) fn of(build: &GuestBuild, options: &BuildOptions) -> Result<Self, BuildError> {
        let node = NodeName::new(&build.node).map_err(|error| BuildError::field("node", error))?;
        let flavor = &build.flavor;
        line("flavor.name", &flavor.name)?;
        if let Some(user) = &build.user_id {
            line("user_id", user)?;
        }
        extra_specs(&flavor.extra_specs)?;
        // Check the ranges first: the following code iterates over the virtual CPUs.
        let topology = GuestTopology::plain(flavor.vcpus, flavor.ram_mb)?;
        let no_image = BTreeMap::new();
        let image = build.image.as_ref();
        let properties = image.map_or(&no_image, |image| &image.properties);
        let machine =
            GuestMachine::of(flavor.vcpus, flavor.ram_mb, &flavor.extra_specs, properties)?;
        let placement = machine.placement.clone();
        let (spec, disks) = guest::spec(build, topology, machine, options)?;
        Ok(Self {
            uuid: spec.uuid,
            node,
            arqs: build
                .accelerator_requests
                .iter()
                .map(|uuid| ArqUuid::from(*uuid))
                .collect(),
            placement,
            limits: limits(&build.limits)?,
            allocations: allocations(build)?,
            resources: resources::by_class(&flavor.extra_specs)?,
            aliased: resources::aliased(&flavor.extra_specs)?,
            direct_ports: guest::direct_ports(build)?,
            spec,
            disks,
            scheduling_facts: scheduling_facts(build),
        })
    }
}

/// The flavor name and image properties for the host state. Unusual properties are left out, because one of them would
/// make the whole host state unacceptable.
fn scheduling_facts(build: &GuestBuild) -> SchedulingFacts {
    let images = build.image.iter();
    let properties = images.flat_map(|image| &image.properties);
    let usual = properties.filter(|(key, value)| {
        (1..=255).contains(&key.len())
            && !key.chars().any(char::is_control)
            && value.len() <= LONGEST_PROPERTY
    });
    let usual = usual.map(|(key, value)| (key.clone(), value.clone()));
    SchedulingFacts {
        flavor: Some(build.flavor.name.clone()),
        image_properties: usual.take(MOST_PROPERTIES).collect(),
    }
}

/// Checks that a text has 1 to 255 printable bytes.
fn line(field: &str, text: &str) -> Result<(), BuildError> {
    let fits = (1..=255).contains(&text.len()) && !text.chars().any(char::is_control);
    match fits {
        true => Ok(()),
        false => Err(BuildError::field(
            field,
            "expected 1 to 255 bytes of printable characters",
        )),
    }
}

fn extra_specs(specs: &BTreeMap<String, String>) -> Result<(), BuildError> {
    let field = "flavor.extra_specs";
    if specs.len() > MOST_EXTRA_SPECS {
        let found = specs.len();
        return Err(BuildError::field(
            field,
            format!("a flavor has at most {MOST_EXTRA_SPECS}, not {found}"),
        ));
    }
    let is_long =
        |text: &String| text.len() > LONGEST_EXTRA_SPEC || text.chars().any(char::is_control);
    if let Some((key, _)) = specs
        .iter()
        .find(|(key, value)| is_long(key) || is_long(value))
    {
        let key: String = key.chars().filter(|c| !c.is_control()).take(80).collect();
        let reason = format!(
            "{key:?} and its value have at most {LONGEST_EXTRA_SPEC} bytes of printable characters each"
        );
        return Err(BuildError::field(field, reason));
    }
    Ok(())
}

fn limits(body: &LimitsBody) -> Result<Limits, BuildError> {
    let ratio = |name: &str, ratio: Option<f64>| match ratio {
        Some(ratio) if !(ratio.is_finite() && ratio > 0.0) => Err(BuildError::field(
            format!("limits.{name}"),
            "expected a number above 0",
        )),
        ratio => Ok(ratio),
    };
    Ok(Limits {
        host_cells: body
            .host_cells
            .as_ref()
            .map(|cells| cells.iter().copied().collect::<BTreeSet<_>>()),
        cpu_ratio: ratio("cpu_allocation_ratio", body.cpu_allocation_ratio)?,
        ram_ratio: ratio("ram_allocation_ratio", body.ram_allocation_ratio)?,
    })
}

fn allocations(
    build: &GuestBuild,
) -> Result<BTreeMap<ProviderUuid, BTreeMap<ResourceClass, u64>>, BuildError> {
    let found = build.allocations.len();
    if found > MOST_PROVIDERS {
        let reason =
            format!("a guest's allocations are on at most {MOST_PROVIDERS} providers, not {found}");
        return Err(BuildError::field("allocations", reason));
    }
    let mut allocations = BTreeMap::new();
    for (provider, resources) in &build.allocations {
        let mut classes = BTreeMap::new();
        for (class, amount) in resources {
            let field = || format!("allocations.{provider}");
            let class =
                ResourceClass::new(class).map_err(|error| BuildError::field(field(), error))?;
            if !(1..=i32::MAX as u64).contains(amount) {
                let field = format!("{}.{class}", field());
                return Err(BuildError::field(
                    field,
                    format!("{amount} is not a valid amount; expected 1 to 2147483647"),
                ));
            }
            classes.insert(class, *amount);
        }
        allocations.insert(ProviderUuid::from(*provider), classes);
    }
    Ok(allocations)
}
