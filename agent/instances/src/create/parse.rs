//! A build's body, checked: every text a name, every number in its range. Pure.

mod firmware;
mod guest;
mod resources;

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_images::DiskPlan;
use berth_agent_journal::SchedulingFacts;
use berth_model::{ArqUuid, ConsumerUuid, NodeName, ProviderUuid, ResourceClass};
use berth_virt::guest_spec::{GuestSpec, GuestTopology};
use berth_wire::guest::{GuestBuild, LimitsBody};

use crate::create::error::BuildError;
use crate::create::options::BuildOptions;
use crate::fit::{FlavorPlacement, Limits};

pub use guest::{image as image_of, kernel as kernel_of};

/// The most extra specs of a flavor.
const MOST_EXTRA_SPECS: usize = 256;
/// The longest key or value of one, in bytes: Nova's columns.
const LONGEST_EXTRA_SPEC: usize = 255;
/// The most providers of a guest's allocations.
const MOST_PROVIDERS: usize = 1024;

/// The most properties of an image that are kept with a guest.
const MOST_PROPERTIES: usize = 128;
/// The longest value of one, in bytes.
const LONGEST_PROPERTY: usize = 255;

/// What was asked for.
pub(super) struct Asked {
    pub(super) uuid: ConsumerUuid,
    pub(super) node: NodeName,
    pub(super) arqs: Vec<ArqUuid>,
    pub(super) placement: FlavorPlacement,
    pub(super) limits: Limits,
    /// What it holds in Placement.
    pub(super) allocations: BTreeMap<ProviderUuid, BTreeMap<ResourceClass, u64>>,
    /// What its flavor asks for by class, beside CPUs, memory and disk.
    pub(super) resources: BTreeMap<ResourceClass, u64>,
    /// How many PCI devices its flavor asks for by alias.
    pub(super) aliased: u64,
    /// The guest, its place and devices left open.
    pub(super) spec: GuestSpec,
    pub(super) disks: DiskPlan,
    /// What schedulers will ask of it.
    pub(super) described: SchedulingFacts,
}

impl Asked {
    pub(super) fn of(build: &GuestBuild, options: &BuildOptions) -> Result<Self, BuildError> {
        let node = NodeName::new(&build.node).map_err(|error| BuildError::field("node", error))?;
        let flavor = &build.flavor;
        line("flavor.name", &flavor.name)?;
        if let Some(user) = &build.user_id {
            line("user_id", user)?;
        }
        extra_specs(&flavor.extra_specs)?;
        // Ranges first: what follows counts virtual CPUs one by one.
        let topology = GuestTopology::plain(flavor.vcpus, flavor.ram_mb)?;
        let placement = FlavorPlacement::of(flavor.vcpus, flavor.ram_mb, &flavor.extra_specs)?;
        let (spec, disks) = guest::spec(build, topology, options)?;
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
            spec,
            disks,
            described: described(build),
        })
    }
}

/// What is told of the guest together with all others of the host: one image's odd properties must not make that unacceptable, so
/// those that no image service would have are left out.
fn described(build: &GuestBuild) -> SchedulingFacts {
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

/// A printable line of 1 to 255 bytes.
fn line(field: &str, text: &str) -> Result<(), BuildError> {
    let fits = (1..=255).contains(&text.len()) && !text.chars().any(char::is_control);
    match fits {
        true => Ok(()),
        false => Err(BuildError::field(
            field,
            "1 to 255 bytes of printable characters are expected",
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
            "a number above 0 is expected",
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
                    format!("{amount} is no amount; 1 to 2147483647 is"),
                ));
            }
            classes.insert(class, *amount);
        }
        allocations.insert(ProviderUuid::from(*provider), classes);
    }
    Ok(allocations)
}
