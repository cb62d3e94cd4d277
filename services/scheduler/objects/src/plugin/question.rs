//! A plugin's input: the request and its hosts, in short.

use std::collections::BTreeMap;

use serde::Serialize;

use super::SCHEMA;
use crate::host_state::{Aggregate, ConsideredHost, HostState};
use crate::request::RequestSpec;

/// The document that a plugin reads from its standard input.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question<'a> {
    schema: &'static str,
    request: RequestQuestion<'a>,
    hosts: Vec<HostQuestion<'a>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RequestQuestion<'a> {
    instance_uuid: &'a str,
    project_id: Option<&'a str>,
    availability_zone: Option<&'a str>,
    flavor: FlavorQuestion<'a>,
    image: Option<ImageQuestion<'a>>,
    hints: BTreeMap<&'a str, &'a [String]>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct FlavorQuestion<'a> {
    name: &'a str,
    vcpus: i64,
    memory_mb: i64,
    root_gb: i64,
    ephemeral_gb: i64,
    swap_mb: i64,
    extra_specs: &'a BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ImageQuestion<'a> {
    id: Option<&'a str>,
    properties: BTreeMap<&'a str, &'a str>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct HostQuestion<'a> {
    uuid: &'a str,
    host: &'a str,
    node: &'a str,
    cell: &'a str,
    vcpus_total: i64,
    vcpus_used: i64,
    memory_mb_total: i64,
    memory_mb_free: i64,
    disk_gb_total: i64,
    disk_mb_free: i64,
    num_instances: i64,
    num_io_ops: i64,
    hypervisor_type: &'a str,
    aggregates: Vec<AggregateQuestion<'a>>,
    metrics: Option<&'a BTreeMap<String, f64>>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct AggregateQuestion<'a> {
    name: &'a str,
    uuid: Option<&'a str>,
    metadata: &'a BTreeMap<String, String>,
}

impl<'a> Question<'a> {
    /// A question about these hosts, in this order.
    #[must_use]
    pub fn new(request: &'a RequestSpec, hosts: &'a [ConsideredHost]) -> Self {
        Self {
            schema: SCHEMA,
            request: RequestQuestion::of(request),
            hosts: hosts.iter().map(|it| HostQuestion::of(&it.state)).collect(),
        }
    }
}

impl<'a> RequestQuestion<'a> {
    fn of(request: &'a RequestSpec) -> Self {
        let flavor = &request.flavor;
        let image = request.image.as_ref().map(|image| ImageQuestion {
            id: image.id.as_deref(),
            properties: image.properties.iter().collect(),
        });
        Self {
            instance_uuid: &request.instance_uuid,
            project_id: request.project_id.as_deref(),
            availability_zone: request.availability_zone.as_deref(),
            flavor: FlavorQuestion {
                name: &flavor.name,
                vcpus: flavor.vcpus,
                memory_mb: flavor.memory_mb,
                root_gb: flavor.root_gb,
                ephemeral_gb: flavor.ephemeral_gb,
                swap_mb: flavor.swap,
                extra_specs: &flavor.extra_specs,
            },
            image,
            hints: request.hints.iter().collect(),
        }
    }
}

impl<'a> HostQuestion<'a> {
    fn of(state: &'a HostState) -> Self {
        Self {
            uuid: &state.uuid,
            host: &state.host,
            node: &state.nodename,
            cell: &state.cell,
            vcpus_total: state.vcpus_total,
            vcpus_used: state.vcpus_used,
            memory_mb_total: state.total_usable_ram_mb,
            memory_mb_free: state.free_ram_mb,
            disk_gb_total: state.total_usable_disk_gb,
            disk_mb_free: state.free_disk_mb,
            num_instances: state.num_instances,
            num_io_ops: state.num_io_ops,
            hypervisor_type: &state.hypervisor_type,
            aggregates: state.aggregates.iter().map(AggregateQuestion::of).collect(),
            metrics: state.metrics.as_ref(),
        }
    }
}

impl<'a> AggregateQuestion<'a> {
    fn of(aggregate: &'a Aggregate) -> Self {
        Self {
            name: &aggregate.name,
            uuid: aggregate.uuid.as_deref(),
            metadata: &aggregate.metadata,
        }
    }
}
