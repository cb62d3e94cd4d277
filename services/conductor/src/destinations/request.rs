//! What the scheduler is asked for a guest. Pure.

use std::collections::BTreeMap;

use berth_scheduler::request::{
    Destination, Flavor, Hints, Image, ImageProperties, ImagePropertyError, InstanceNumaTopology,
    NumaRequestError, PciAliasError, PciRequest, ServerGroup,
};
use berth_scheduler::{Options, RequestSpec};
use berth_wire::guest::{FlavorBody, ImageBody, ImageLocation};
use uuid::Uuid;

use crate::BootRequest;
use crate::journal::BootRecord;
use crate::request::Filters;

/// Flavor and image that nobody can schedule by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestSpecError {
    /// The image has a property that no image may have.
    #[error(transparent)]
    Image(#[from] ImagePropertyError),
    /// Its flavor asks for devices that cannot be asked for.
    #[error(transparent)]
    Pci(#[from] PciAliasError),
    /// Its NUMA cells contradict themselves.
    #[error(transparent)]
    Numa(#[from] NumaRequestError),
}

/// The request of a guest, after what became of its attempts so far.
pub(crate) fn request_spec(
    record: &BootRecord,
    group: Option<ServerGroup>,
    options: &Options,
) -> Result<RequestSpec, RequestSpecError> {
    // A guest that starts from a kernel of its host has an image that says nothing.
    let image = match &record.request.body().image {
        Some(asked) => image(asked)?,
        None => Image::default(),
    };
    let plain = plain_spec(record);
    Ok(RequestSpec {
        pci_requests: pci_requests(&record.request, &plain.flavor, Some(&image), options)?,
        numa_topology: InstanceNumaTopology::derive(&plain.flavor, Some(&image))?,
        image: Some(image),
        group,
        requested_destination: destination(record),
        tried: tried(record),
        ..plain
    })
}

/// The devices that a flavor asks for by alias; their requests have the same names each time.
fn pci_requests(
    request: &BootRequest,
    flavor: &Flavor,
    image: Option<&Image>,
    options: &Options,
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

/// Whether the devices that a flavor asks for can be asked for, whatever its image says.
pub(crate) fn check_devices(request: &BootRequest, options: &Options) -> Result<(), PciAliasError> {
    let flavor = flavor(&request.body().flavor);
    pci_requests(request, &flavor, None, options).map(|_| ())
}

/// What needs no look at what flavor and image say: every request has as much.
pub(crate) fn plain_spec(record: &BootRecord) -> RequestSpec {
    let request = &record.request;
    let body = request.body();
    let target = request.target();
    let forced = (target.filters == Filters::Skipped).then_some(target);
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

/// Host and node of each attempt before, by the names that its state has. An attempt of an older release has no host's name: on most
/// hosts it is the node's.
fn tried(record: &BootRecord) -> Vec<(String, String)> {
    let failures = record.failures.iter();
    let tried = failures.filter_map(|failed| {
        let node = failed.node.clone()?;
        let host = failed.host.clone().unwrap_or_else(|| node.clone());
        Some((host, node))
    });
    tried.collect()
}

/// The host or node that is requested, and the cell of the attempts before: alternates are in the cell of the first host.
fn destination(record: &BootRecord) -> Option<Destination> {
    let target = record.request.target();
    let target = (target.filters == Filters::Asked).then_some(target);
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

fn flavor(body: &FlavorBody) -> Flavor {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Flavor {
        name: body.name.clone(),
        // Flavors of this API have no other id.
        flavorid: body.name.clone(),
        vcpus: i64::from(body.vcpus),
        memory_mb: number(body.ram_mb),
        root_gb: number(body.disk_gb),
        ephemeral_gb: number(body.ephemeral_gb),
        swap: 0,
        extra_specs: body.extra_specs.clone(),
    }
}

fn image(body: &ImageBody) -> Result<Image, ImagePropertyError> {
    let id = match &body.location {
        ImageLocation::Glance(id) => Some(id.to_string()),
        ImageLocation::Path(_) | ImageLocation::Url(_) => None,
    };
    let properties: BTreeMap<String, String> = body.properties.clone();
    Ok(Image {
        id,
        disk_format: Some(body.format.clone()),
        properties: ImageProperties::new(properties)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::journal::{Course, FailedAttempt};

    #[test]
    fn where_it_failed_before_is_told_as_the_hosts_state_names_it() {
        let body = json!({"name": "vm", "flavor": {"name": "f", "vcpus": 1, "ram_mb": 64}});
        let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
        let failed = |node: Option<&str>, host: Option<&str>| FailedAttempt {
            node: node.map(str::to_owned),
            host: host.map(str::to_owned),
            cell: None,
            reason: String::new(),
            told: None,
            avoid: Vec::new(),
            passes: false,
        };
        let record = BootRecord {
            request: BootRequest::new(body, uuid::Uuid::from_u128(1)).unwrap(),
            course: Course::Boot,
            attempt: 4,
            failures: vec![
                failed(Some("node1"), Some("host1")),
                failed(None, None),
                failed(Some("node2"), None),
            ],
            steps: BTreeMap::new(),
        };
        let asked = request_spec(&record, None, &Options::default()).unwrap();
        let pair = |host: &str, node: &str| (host.to_owned(), node.to_owned());
        assert_eq!(
            asked.tried,
            [pair("host1", "node1"), pair("node2", "node2")]
        );
    }
}
