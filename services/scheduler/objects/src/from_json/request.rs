//! Reads the request of a scheduler case.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::field::FieldResult;
use super::{CaseField, CaseRequestError};
use crate::plugin::PluginAnswers;
use crate::request::{
    Attestations, Destination, Hints, ImageProperties, ImagePropertyError, InstanceNumaTopology,
    NetworkMetadata, NumaAffinityPolicy, PciRequest, PciRequestOrigin, RequestFlavor, RequestImage,
    RequestSpec, ServerGroup,
};

/// Reads a request as Nova's API would build it. A request that the API would refuse is [`CaseRequestError::Refused`].
pub fn request_spec(field: &CaseField<'_>) -> Result<RequestSpec, CaseRequestError> {
    let texts = |key| field.optional_or(key, Vec::new(), |all| all.list(CaseField::string));
    // Null means "no image"; the default is an image without properties.
    let image = match field.get("image")? {
        None => Some(RequestImage::default()),
        Some(image) if image.value().is_null() => None,
        Some(given) => Some(image(&given)?),
    };
    let flavor = field.optional_or("flavor", RequestFlavor::default(), flavor)?;
    let numa_topology = match field.optional_or("numa_from_flavor", false, CaseField::flag)? {
        false => None,
        true => InstanceNumaTopology::derive(&flavor, image.as_ref())
            .map_err(|error| CaseRequestError::Refused(error.to_string()))?,
    };
    Ok(RequestSpec {
        instance_uuid: field.optional_or("instance_uuid", String::new(), CaseField::string)?,
        flavor,
        image,
        numa_topology,
        hints: field.optional_or("hints", Hints::default(), hints)?,
        group: field.optional("group", group)?,
        project_id: project(field)?,
        availability_zone: field.optional("availability_zone", CaseField::string)?,
        pci_requests: field.optional_or("pci_requests", Vec::new(), |all| all.list(pci_request))?,
        network_metadata: field.optional("network_metadata", network_metadata)?,
        ignore_hosts: texts("ignore_hosts")?,
        force_hosts: texts("force_hosts")?,
        force_nodes: texts("force_nodes")?,
        requested_destination: field.optional("requested_destination", destination)?,
        tried: field.optional_or("retry", Vec::new(), |retry| {
            retry.optional_or("hosts", Vec::new(), |all| all.list(host_and_node))
        })?,
        is_bfv: field.optional_or("is_bfv", false, CaseField::flag)?,
        attestations: Attestations::default(),
        plugin_answers: PluginAnswers::default(),
    })
}

/// The default is `p1`; null is a request without a project.
fn project(field: &CaseField<'_>) -> FieldResult<Option<String>> {
    match field.get("project_id")? {
        None => Ok(Some("p1".to_owned())),
        Some(it) if it.value().is_null() => Ok(None),
        Some(it) => it.string().map(Some),
    }
}

fn flavor(field: &CaseField<'_>) -> FieldResult<RequestFlavor> {
    let default = RequestFlavor::default();
    Ok(RequestFlavor {
        name: field.optional_or("name", default.name, CaseField::string)?,
        flavorid: field.optional_or("flavorid", default.flavorid, CaseField::string)?,
        vcpus: field.optional_or("vcpus", default.vcpus, CaseField::int)?,
        memory_mb: field.optional_or("memory_mb", default.memory_mb, CaseField::int)?,
        root_gb: field.optional_or("root_gb", default.root_gb, CaseField::int)?,
        ephemeral_gb: field.optional_or("ephemeral_gb", default.ephemeral_gb, CaseField::int)?,
        swap: field.optional_or("swap", default.swap, CaseField::int)?,
        extra_specs: field.optional_or("extra_specs", BTreeMap::new(), |all| {
            all.map(CaseField::string)
        })?,
    })
}

fn image(field: &CaseField<'_>) -> Result<RequestImage, CaseRequestError> {
    let kept = field.optional_or("properties", BTreeMap::new(), |all| {
        all.map(CaseField::string)
    })?;
    let refused = |error: ImagePropertyError| CaseRequestError::Refused(error.to_string());
    Ok(RequestImage {
        id: field.optional("id", CaseField::string)?,
        disk_format: field.optional("disk_format", CaseField::string)?,
        properties: ImageProperties::new(kept).map_err(refused)?,
    })
}

/// A text is a list of one.
fn hints(field: &CaseField<'_>) -> FieldResult<Hints> {
    let texts = field.map(|hint| match hint.value() {
        Value::Array(_) => hint.list(CaseField::string),
        _ => hint.string().map(|one| vec![one]),
    });
    texts.map(Hints::new)
}

fn group(field: &CaseField<'_>) -> FieldResult<ServerGroup> {
    let set = |key| field.optional_or(key, BTreeSet::new(), |all| all.list(CaseField::string));
    Ok(ServerGroup {
        policy: field.required("policy")?.string()?,
        members: set("members")?,
        hosts: set("hosts")?,
        max_server_per_host: field
            .optional("rules", |rules| {
                rules.optional("max_server_per_host", CaseField::int)
            })?
            .flatten(),
    })
}

fn pci_request(field: &CaseField<'_>) -> FieldResult<PciRequest> {
    let alias = field.optional("alias_name", CaseField::string)?;
    Ok(PciRequest {
        count: field.required("count")?.int()?,
        spec: field.optional_or("spec", Vec::new(), |all| {
            all.list(|one| one.map(CaseField::string))
        })?,
        request_id: field.optional("request_id", CaseField::string)?,
        origin: alias.map_or(PciRequestOrigin::Port, PciRequestOrigin::Flavor),
        numa_policy: field.optional_or(
            "numa_policy",
            NumaAffinityPolicy::default(),
            numa_policy,
        )?,
    })
}

fn numa_policy(field: &CaseField<'_>) -> FieldResult<NumaAffinityPolicy> {
    let text = field.text()?;
    let policies = NumaAffinityPolicy::ALL;
    let found = policies.iter().find(|(word, _)| *word == text);
    found.map(|(_, policy)| *policy).ok_or_else(|| {
        let words = policies.map(|(word, _)| word);
        field.expected(format!("one of {}", words.join(", ")))
    })
}

fn network_metadata(field: &CaseField<'_>) -> FieldResult<NetworkMetadata> {
    Ok(NetworkMetadata {
        physnets: field.optional_or("physnets", BTreeSet::new(), |all| {
            all.list(CaseField::string)
        })?,
        tunneled: field.optional_or("tunneled", false, CaseField::flag)?,
    })
}

fn destination(field: &CaseField<'_>) -> FieldResult<Destination> {
    Ok(Destination {
        host: field.optional("host", CaseField::string)?,
        node: field.optional("node", CaseField::string)?,
        cell: field.optional("cell", CaseField::string)?,
        allow_cross_cell_move: field.optional_or(
            "allow_cross_cell_move",
            false,
            CaseField::flag,
        )?,
    })
}

fn host_and_node(field: &CaseField<'_>) -> FieldResult<(String, String)> {
    let parts: Vec<String> = field.list(CaseField::string)?;
    <[String; 2]>::try_from(parts)
        .map(|[host, node]| (host, node))
        .map_err(|_| field.expected("a host and a node"))
}
