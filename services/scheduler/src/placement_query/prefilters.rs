//! The pre-filters: they express what the scheduler knows, and Placement does not, as aggregates and as traits of the
//! root provider.

mod zone;

use std::collections::BTreeSet;

use super::constraints::Constraints;
use super::groups::ResourceGroup;
use super::translate::{self, CpuClass};
use super::{Cloud, PlacementQueryError, pci, standard};
use crate::options::SchedulerOptions;
use crate::request::{FlavorAndImage, RequestImage, RequestSpec};

/// The constraints that the pre-filters add to a query.
#[derive(Debug, Clone, Default)]
pub(super) struct PrefilterDemands {
    /// The provider must be in at least one aggregate of each list.
    pub(super) aggregates: Vec<Vec<String>>,
    pub(super) forbidden_aggregates: BTreeSet<String>,
    pub(super) root_required: BTreeSet<String>,
    pub(super) root_forbidden: BTreeSet<String>,
}

const OWNER: &str = "OWNER_NOVA";

pub(super) fn demands(
    request: &RequestSpec,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
    outside: &[(String, ResourceGroup)],
) -> Result<PrefilterDemands, PlacementQueryError> {
    let mut demands = PrefilterDemands::default();
    demands
        .root_forbidden
        .insert("COMPUTE_STATUS_DISABLED".to_owned());
    demands.aggregates.extend(tenant(request, options, cloud)?);
    let zone = zone::constraint(request, cloud)?;
    demands.aggregates.extend(zone.aggregates);
    let image = request.image.as_ref().ok_or(PlacementQueryError::NoImage)?;
    let root = &mut demands.root_required;
    if options.scheduler.query_placement_for_image_type_support && !request.is_bfv {
        let format = image.disk_format.as_deref();
        root.extend(format.and_then(|it| standard::made("COMPUTE_IMAGE_TYPE", it)));
    }
    if options.scheduler.enable_isolated_aggregate_filtering {
        demands.forbidden_aggregates = isolated(request, cloud, outside)?;
    }
    demands.forbidden_aggregates.extend(zone.forbidden);
    if options.scheduler.image_metadata_prefilter {
        root.extend(image_traits(image).unwrap_or_default());
    }
    if options
        .scheduler
        .query_placement_for_routed_network_aggregates
    {
        let networks = cloud.network_aggregates.iter().filter(|it| !it.is_empty());
        demands.aggregates.extend(networks.cloned());
    }
    if cloud.has_remote_managed_ports {
        root.insert("COMPUTE_REMOTE_MANAGED_PORTS".to_owned());
    }
    features(root, request)?;
    if cloud.all_computes_report_owner_trait {
        root.insert(OWNER.to_owned());
    }
    Ok(demands)
}

/// Requires Nova as owner of the host and of its devices.
pub(super) fn owned(
    mut outside: Vec<(String, ResourceGroup)>,
    request: &RequestSpec,
    cloud: &Cloud<'_>,
) -> Vec<(String, ResourceGroup)> {
    for (suffix, group) in &mut outside {
        if cloud.all_computes_report_owner_trait && pci::is_of(suffix, &request.pci_requests) {
            group.require(OWNER);
        }
    }
    outside
}

/// `limit_tenants_to_placement_aggregate`: the aggregates whose metadata names the project under a key with the prefix
/// `filter_tenant_id`.
fn tenant(
    request: &RequestSpec,
    options: &SchedulerOptions,
    cloud: &Cloud<'_>,
) -> Result<Option<Vec<String>>, PlacementQueryError> {
    if !options.scheduler.limit_tenants_to_placement_aggregate {
        return Ok(None);
    }
    let project = request.project_id.as_ref();
    let found = aggregates(cloud, |key, value| {
        key.starts_with("filter_tenant_id") && Some(value) == project
    });
    let is_required = options.scheduler.placement_aggregate_required_for_tenants;
    match found.is_empty() {
        true if is_required => Err(PlacementQueryError::NoTenantAggregate {
            project_id: request.project_id.clone(),
        }),
        true => Ok(None),
        false => Ok(Some(found)),
    }
}

/// The aggregates that require a trait which the request does not have.
fn isolated(
    request: &RequestSpec,
    cloud: &Cloud<'_>,
    outside: &[(String, ResourceGroup)],
) -> Result<BTreeSet<String>, PlacementQueryError> {
    let translated = translate::groups(request, outside, CpuClass::Pcpu)?;
    let groups = translated.groups.by_suffix.values();
    let wanted: BTreeSet<&String> = groups.flat_map(|it| &it.required_traits).collect();
    let found = aggregates(cloud, |key, value| {
        let name = key.strip_prefix("trait:").map(str::to_owned);
        value == "required" && name.is_some_and(|name| !wanted.contains(&name))
    });
    Ok(found.into_iter().collect())
}

/// The aggregates with matching metadata that have a UUID in Placement.
fn aggregates(cloud: &Cloud<'_>, is_it: impl Fn(&str, &String) -> bool) -> Vec<String> {
    let aggregates = cloud.aggregates.iter();
    let found = aggregates.filter(|one| one.metadata.iter().any(|(key, value)| is_it(key, value)));
    found.filter_map(|one| one.uuid.clone()).collect()
}

/// `image_metadata_prefilter`. As in Nova, `None` if one of the values has no trait.
fn image_traits(image: &RequestImage) -> Option<Vec<String>> {
    const PREFIXES: [(&str, &str); 7] = [
        ("hw_cdrom_bus", "COMPUTE_STORAGE_BUS"),
        ("hw_disk_bus", "COMPUTE_STORAGE_BUS"),
        ("hw_video_model", "COMPUTE_GRAPHICS_MODEL"),
        ("hw_vif_model", "COMPUTE_NET_VIF_MODEL"),
        ("hw_architecture", "HW_ARCH"),
        ("hw_emulation_architecture", "COMPUTE_ARCH"),
        // os-traits has COMPUTE_VIOMMU_MODEL_INTEL and others, which Nova does not request.
        ("hw_viommu_model", "COMPUTE_VIOMMU"),
    ];
    let traits = PREFIXES.iter().filter_map(|(property, prefix)| {
        let value = image.properties.get(property)?;
        Some(standard::made(prefix, value))
    });
    traits.collect()
}

/// The hypervisor features that flavor and image require.
fn features(root: &mut BTreeSet<String>, request: &RequestSpec) -> Result<(), PlacementQueryError> {
    let source = Constraints(FlavorAndImage {
        flavor: &request.flavor,
        image: request.image.as_ref(),
    });
    let mut require = |name: &str| root.insert(name.to_owned());
    if source.spec("accel:device_profile").is_some() {
        require("COMPUTE_ACCELERATORS");
    }
    if source.flag("virtio_packed_ring")? {
        require("COMPUTE_NET_VIRTIO_PACKED");
    }
    if source.flag("ephemeral_encryption")? {
        require("COMPUTE_EPHEMERAL_ENCRYPTION");
        let formats = ["plain", "luks", "luksv2"];
        if let Some(format) = source.word("hw", "ephemeral_encryption_format", &formats)? {
            let format = format.to_uppercase();
            require(&format!("COMPUTE_EPHEMERAL_ENCRYPTION_{format}"));
        }
    }
    let sounds = [
        "sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio",
    ];
    if source.word("hw", "sound_model", &sounds)? == Some("virtio") {
        require("COMPUTE_SOUND_MODEL_VIRTIO");
    }
    if source.tpm()?.is_some() {
        let secrets = ["user", "host", "deployment"];
        let spec = Constraints(FlavorAndImage {
            image: None,
            ..*source
        });
        let secret = spec.word("hw", "tpm_secret_security", &secrets)?;
        let secret = secret.unwrap_or("user").to_uppercase();
        require(&format!("COMPUTE_SECURITY_TPM_SECRET_SECURITY_{secret}"));
    }
    Ok(())
}
