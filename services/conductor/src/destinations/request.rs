//! What the scheduler is asked for a guest. Pure.

use std::collections::BTreeMap;

use berth_scheduler::RequestSpec;
use berth_scheduler::request::{
    Destination, Flavor, Hints, Image, ImageProperties, ImagePropertyError, InstanceNumaTopology,
    NumaRequestError, ServerGroup,
};
use berth_wire::guest::{FlavorBody, ImageBody, ImageLocation};

use crate::journal::BootRecord;

/// Flavor and image that nobody can schedule by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestSpecError {
    /// The image has a property that no image may have.
    #[error(transparent)]
    Image(#[from] ImagePropertyError),
    /// Its NUMA cells contradict themselves.
    #[error(transparent)]
    Numa(#[from] NumaRequestError),
}

/// The request of a guest, after what became of its attempts so far.
pub(crate) fn request_spec(
    record: &BootRecord,
    group: Option<ServerGroup>,
) -> Result<RequestSpec, RequestSpecError> {
    let request = &record.request;
    let body = request.body();
    let flavor = flavor(&body.flavor);
    // A guest that starts from a kernel of its host has an image that says nothing.
    let image = match &body.image {
        Some(asked) => image(asked)?,
        None => Image::default(),
    };
    Ok(RequestSpec {
        instance_uuid: request.uuid().to_string(),
        numa_topology: InstanceNumaTopology::derive(&flavor, Some(&image))?,
        flavor,
        image: Some(image),
        hints: Hints::new(body.scheduler_hints.clone()),
        group,
        project_id: Some(request.project_id().to_owned()),
        availability_zone: body.availability_zone.clone(),
        requested_destination: destination(record),
        tried: tried(record),
        ..RequestSpec::default()
    })
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

/// The node that is asked for, and the cell of the attempts before: alternates are in the cell of the first host.
fn destination(record: &BootRecord) -> Option<Destination> {
    let node = record.request.node().map(ToString::to_string);
    let cell = record.failures.iter().find_map(|it| it.cell.clone());
    (node.is_some() || cell.is_some()).then(|| Destination {
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
    use crate::BootRequest;
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
        let asked = request_spec(&record, None).unwrap();
        let pair = |host: &str, node: &str| (host.to_owned(), node.to_owned());
        assert_eq!(
            asked.tried,
            [pair("host1", "node1"), pair("node2", "node2")]
        );
    }
}
