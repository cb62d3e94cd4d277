//! Builds the scheduler's [`RequestSpec`] from a guest's boot record. Pure.

use std::collections::BTreeMap;

use berth_scheduler::request::{
    Destination, Hints, ImageProperties, ImagePropertyError, InstanceNumaTopology,
    NumaRequestError, PciAliasError, PciRequest, RequestFlavor, RequestImage, ServerGroup,
};
use berth_scheduler::{RequestSpec, SchedulerOptions};
use berth_wire::guest::{FlavorBody, ImageBody, ImageLocation};
use uuid::Uuid;

use crate::BootRequest;
use crate::journal::BootRecord;
use crate::request::{BootTarget, HostFiltering};

/// The flavor or image is invalid for scheduling.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestSpecError {
    /// An image property is invalid.
    #[error(transparent)]
    RequestImage(#[from] ImagePropertyError),
    /// The PCI aliases are invalid.
    #[error(transparent)]
    Pci(#[from] PciAliasError),
    /// The NUMA topology is inconsistent.
    #[error(transparent)]
    Numa(#[from] NumaRequestError),
}

/// The request spec of a guest, including the results of earlier attempts.
pub(crate) fn request_spec(
    record: &BootRecord,
    group: Option<ServerGroup>,
    options: &SchedulerOptions,
) -> Result<RequestSpec, RequestSpecError> {
    Ok(RequestSpec {
        group,
        requested_destination: destination(record),
        tried: tried(record),
        ..sized_spec(&record.request, options)?
    })
}

/// The request spec without server group, destination and earlier attempts: what the guest needs on any host.
pub(crate) fn sized_spec(
    request: &BootRequest,
    options: &SchedulerOptions,
) -> Result<RequestSpec, RequestSpecError> {
    // A guest that boots a kernel of its host has no image.
    let image = match &request.body().image {
        Some(body) => image(body)?,
        None => RequestImage::default(),
    };
    let plain = plain_spec(request);
    Ok(RequestSpec {
        pci_requests: pci_requests(request, &plain.flavor, Some(&image), options)?,
        numa_topology: InstanceNumaTopology::derive(&plain.flavor, Some(&image))?,
        image: Some(image),
        availability_zone: zone(request.target(), options),
        ..plain
    })
}

/// The requested zone, or `default_schedule_zone`. Unlike in Nova, a guest for a host or node has no default zone,
/// because the host may be in another one.
fn zone(target: &BootTarget, options: &SchedulerOptions) -> Option<String> {
    let is_for_any_host = target.host.is_none() && target.node.is_none();
    let default = options.default.default_schedule_zone.as_ref();
    let default = default.filter(|_| is_for_any_host);
    target.zone.as_ref().or(default).cloned()
}

/// The PCI requests of the flavor's aliases, with reproducible IDs.
fn pci_requests(
    request: &BootRequest,
    flavor: &RequestFlavor,
    image: Option<&RequestImage>,
    options: &SchedulerOptions,
) -> Result<Vec<PciRequest>, PciAliasError> {
    let guest = request.uuid();
    let id = |at: usize| {
        let name = format!("pci-request-{at}");
        Uuid::new_v5(guest.as_uuid(), name.as_bytes()).to_string()
    };
    let requests = PciRequest::of_flavor(flavor, image, &options.pci.alias, id)?;
    match requests.is_empty() || options.filter_scheduler.pci_in_placement {
        true => Ok(requests),
        false => Err(PciAliasError::NotInPlacement),
    }
}

/// Checks flavor and image: PCI aliases, NUMA cells, image properties.
pub(crate) fn check_spec(
    request: &BootRequest,
    options: &SchedulerOptions,
) -> Result<(), RequestSpecError> {
    let flavor = flavor(&request.body().flavor);
    let image = request.body().image.as_ref().map(image).transpose()?;
    pci_requests(request, &flavor, image.as_ref(), options)?;
    InstanceNumaTopology::derive(&flavor, image.as_ref())?;
    Ok(())
}

/// The part of the request spec that cannot fail.
pub(crate) fn plain_spec(request: &BootRequest) -> RequestSpec {
    let body = request.body();
    let target = request.target();
    let forced = (target.filters == HostFiltering::Skipped).then_some(target);
    let host = forced.and_then(|target| target.host.clone());
    let node = forced.and_then(|target| target.node.as_ref());
    RequestSpec {
        instance_uuid: request.uuid().to_string(),
        force_hosts: host.into_iter().collect(),
        force_nodes: node.into_iter().map(ToString::to_string).collect(),
        ignore_hosts: body.ignore_hosts.clone(),
        flavor: flavor(&body.flavor),
        hints: Hints::new(body.scheduler_hints.clone()),
        project_id: Some(request.project_id().to_owned()),
        availability_zone: target.zone.clone(),
        ..RequestSpec::default()
    }
}

/// Host and node of each earlier attempt. Attempts of older releases have no host name; on most hosts
/// it equals the node's.
fn tried(record: &BootRecord) -> Vec<(String, String)> {
    let failures = record.failures.iter();
    let tried = failures.filter_map(|failed| {
        let node = failed.node.clone()?;
        let host = failed.host.clone().unwrap_or_else(|| node.clone());
        Some((host, node))
    });
    tried.collect()
}

/// The requested host or node, and the cell of earlier attempts: as in Nova, alternates are in the cell
/// of the first host.
fn destination(record: &BootRecord) -> Option<Destination> {
    let target = record.request.target();
    let target = (target.filters == HostFiltering::Applied).then_some(target);
    let host = target.and_then(|target| target.host.clone());
    let node = target.and_then(|target| target.node.as_ref());
    let node = node.map(ToString::to_string);
    let cell = record.failures.iter().find_map(|it| it.cell.clone());
    (host.is_some() || node.is_some() || cell.is_some()).then(|| Destination {
        host,
        node,
        cell,
        ..Destination::default()
    })
}

fn flavor(body: &FlavorBody) -> RequestFlavor {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    RequestFlavor {
        name: body.name.clone(),
        // The API's flavors have no other ID.
        flavorid: body.name.clone(),
        vcpus: i64::from(body.vcpus),
        memory_mb: number(body.ram_mb),
        root_gb: number(body.disk_gb),
        ephemeral_gb: number(body.ephemeral_gb),
        swap: number(body.swap_mb),
        extra_specs: body.extra_specs.clone(),
    }
}

fn image(body: &ImageBody) -> Result<RequestImage, ImagePropertyError> {
    let id = match &body.location {
        ImageLocation::Glance(id) => Some(id.to_string()),
        ImageLocation::Path(_) | ImageLocation::Url(_) => None,
    };
    let properties: BTreeMap<String, String> = body.properties.clone();
    Ok(RequestImage {
        id,
        disk_format: Some(body.format.clone()),
        properties: ImageProperties::new(properties)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::journal::{BootGoal, FailedAttempt};

    #[test]
    fn failed_attempts_are_listed_with_the_names_of_the_host_state() {
        let body = json!({"name": "vm", "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}});
        let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
        let failed = |node: Option<&str>, host: Option<&str>| FailedAttempt {
            node: node.map(str::to_owned),
            host: host.map(str::to_owned),
            cell: None,
            reason: String::new(),
            user_message: None,
            avoid: Vec::new(),
            passes: false,
        };
        let record = BootRecord {
            request: BootRequest::new(body, uuid::Uuid::from_u128(1)).unwrap(),
            goal: BootGoal::Boot,
            attempt: 4,
            failures: vec![
                failed(Some("node1"), Some("host1")),
                failed(None, None),
                failed(Some("node2"), None),
            ],
            steps: BTreeMap::new(),
        };
        let spec = request_spec(&record, None, &SchedulerOptions::default()).unwrap();
        let pair = |host: &str, node: &str| (host.to_owned(), node.to_owned());
        assert_eq!(spec.tried, [pair("host1", "node1"), pair("node2", "node2")]);
    }
}
