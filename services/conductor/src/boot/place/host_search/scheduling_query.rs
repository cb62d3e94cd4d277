//! Builds the request spec and the allocation candidates query of a guest, and runs the query.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::placement::Candidates;
use berth_hosts::{HostError, StoredServerGroup};
use berth_model::{
    CandidatesQuery, DeviceProfileGroups, ProviderUuid, RequestGroups, ResourceClass,
};
use berth_scheduler::placement_query::{
    Cloud, ComputeNodeRef, ResourceGroup, claimed_resources, placement_query,
};
use berth_scheduler::select::PlacementStage;
use berth_scheduler::{RequestSpec, SchedulerOptions};

use crate::BootRequest;
use crate::boot::{BootError, RequestedBoot};
use crate::boot_context::BootContext;
use crate::diagnosis;
use crate::filter_scheduler::{FilterScheduler, request_spec, sized_spec};
use crate::function_demand::FunctionDemand;

pub(super) struct SchedulingQuery {
    pub(super) request: RequestSpec,
    pub(super) query: CandidatesQuery,
    /// Fallback that requests dedicated CPUs as shared ones, for hosts that do not report them separately.
    fallback: Option<CandidatesQuery>,
    /// Text of `query`.
    pub(super) text: String,
}

impl RequestedBoot {
    /// Builds the request spec and the queries of the guest and its device profile.
    pub(super) async fn scheduling_query(
        &self,
        scheduler: &FilterScheduler,
        context: &BootContext,
        group: Option<&StoredServerGroup>,
        profile: Option<&DeviceProfileGroups>,
    ) -> Result<SchedulingQuery, BootError> {
        let guest = *self.record.request.uuid().as_uuid();
        let group = group.map(|group| group.for_instance(guest));
        let options = scheduler.scheduler.options();
        let mut request = request_spec(&self.record, group, options)?;
        request.attestations = scheduler.attestations(&request.flavor).await;
        let of_profile = match profile {
            Some(profile) => RequestGroups::default().with_device_profile(profile)?,
            None => RequestGroups::default(),
        };
        let mut groups = scheduler_groups(&of_profile);
        groups.extend(port_groups(&self.record.request));
        let link_groups = of_profile.link_groups().iter();
        let link_groups = link_groups.map(|set| set.iter().map(ToString::to_string).collect());
        let link_groups: Vec<BTreeSet<String>> = link_groups.collect();
        let destination = request.requested_destination.as_ref();
        let cell = destination.and_then(|to| to.cell.clone());
        let computes = self.target_nodes(scheduler, context, cell).await?;
        let aggregates = scheduler.hosts.placement_aggregates().await?;
        let cloud = Cloud {
            aggregates: &aggregates,
            default_availability_zone: Some(&options.default.default_availability_zone),
            computes: &computes,
            groups: &groups,
            link_groups: &link_groups,
            ..Cloud::default()
        };
        let query = placement_query(&request, options, &cloud)
            .map_err(|error| BootError::NoValidHost(error.to_string().into()))?;
        let read = |text: &str| {
            CandidatesQuery::read(text)
                .map_err(|error| BootError::NoValidHost(error.to_string().into()))
        };
        Ok(SchedulingQuery {
            request,
            query: read(&query.query)?,
            fallback: query.fallback_query.as_deref().map(read).transpose()?,
            text: query.query,
        })
    }
}

impl RequestedBoot {
    /// The compute nodes to which the guest is restricted; empty if there is no restriction.
    async fn target_nodes(
        &self,
        scheduler: &FilterScheduler,
        context: &BootContext,
        cell: Option<String>,
    ) -> Result<Vec<ComputeNodeRef>, BootError> {
        let Some(host) = self.record.request.target().host.as_deref() else {
            let target = self.node_provider(context).await?;
            let computes = target.into_iter().map(|(node, provider)| ComputeNodeRef {
                nodename: node.to_string(),
                uuid: provider.to_string(),
                // This is the only allowed node, whatever its cell; its reported state is checked
                // later.
                cell: cell.clone().unwrap_or_default(),
                ..ComputeNodeRef::default()
            });
            return Ok(computes.collect());
        };
        let found = match scheduler.hosts.host(host).await {
            Ok(found) => found,
            Err(HostError::Table(error)) => return Err(error.into()),
            Err(error) => return Err(BootError::NoValidHost(error.to_string().into())),
        };
        let nodes = found.nodes.into_iter().map(|node| ComputeNodeRef {
            host: found.host.clone(),
            nodename: node.hypervisor_hostname,
            uuid: node.uuid.to_string(),
            cell: found.cell.clone(),
        });
        Ok(nodes.collect())
    }
}

impl SchedulingQuery {
    /// Placement's part of the explanation.
    pub(super) fn placement_stage(&self, found: &Candidates) -> PlacementStage {
        let limit = self.query.limit().and_then(|it| usize::try_from(it).ok());
        PlacementStage::found(&self.text, found.candidates.len()).with_limit(limit.unwrap_or(0))
    }

    /// The candidates of the query, followed by those of the fallback.
    pub(super) async fn candidates(&self, context: &BootContext) -> Result<Candidates, BootError> {
        let ask = async |query| {
            let found = context.placement.candidates_of(query).await;
            found.map_err(diagnosis::from_placement)
        };
        let mut found = ask(&self.query).await?;
        if let Some(fallback) = &self.fallback {
            add_fallback_candidates(&mut found, ask(fallback).await?);
        }
        Ok(found)
    }
}

/// Adds the fallback's candidates on hosts that do not report dedicated CPUs. On other hosts, the guest would take
/// shared CPUs in Placement and dedicated ones on the host.
fn add_fallback_candidates(found: &mut Candidates, more: Candidates) {
    let answering = found.candidates.iter().filter_map(|it| found.host(it));
    let with_pcpu = more.providers.iter().filter_map(|(provider, summary)| {
        let class = ResourceClass::PCPU;
        let reports_pcpu = summary.resources.contains_key(class.as_str());
        let root = summary.root_provider_uuid.map(ProviderUuid::from);
        reports_pcpu.then(|| root.unwrap_or(*provider))
    });
    let others: BTreeSet<ProviderUuid> = answering.chain(with_pcpu).collect();
    let fallen = more.candidates.iter();
    let fallen = fallen.filter(|it| more.host(it).is_some_and(|host| !others.contains(&host)));
    let fallen: Vec<_> = fallen.cloned().collect();
    found.candidates.extend(fallen);
    found.providers.extend(more.providers);
}

/// What a guest will claim by resource class; nothing if its flavor and image contradict each other, because its boot
/// fails before the claim.
pub(crate) fn claimed_amounts(
    request: &BootRequest,
    profile: Option<&DeviceProfileGroups>,
    options: &SchedulerOptions,
) -> BTreeMap<String, u64> {
    let groups = profile.map(|profile| RequestGroups::default().with_device_profile(profile));
    let Ok(groups) = groups.transpose() else {
        return BTreeMap::new();
    };
    let mut groups = groups.map_or_else(Vec::new, |groups| scheduler_groups(&groups));
    groups.extend(port_groups(request));
    let cloud = Cloud {
        groups: &groups,
        ..Cloud::default()
    };
    let claimed = sized_spec(request, options)
        .ok()
        .and_then(|spec| claimed_resources(&spec, options, &cloud).ok());
    let claimed = claimed.into_iter().flatten();
    let amount = |(class, amount)| (class, u64::try_from(amount).unwrap_or_default());
    claimed.map(amount).collect()
}

/// The groups of ports that need a network function, by the ports' UUIDs.
fn port_groups(request: &BootRequest) -> Vec<(String, ResourceGroup)> {
    let requested = request.body().requested_networks.iter();
    let groups = requested.filter_map(|wanted| {
        let demand = FunctionDemand::of(wanted)?;
        let group = ResourceGroup {
            resources: [(demand.class.to_string(), 1)].into(),
            required_traits: demand.traits.iter().map(ToString::to_string).collect(),
            ..ResourceGroup::default()
        };
        Some((wanted.port?.to_string(), group))
    });
    groups.collect()
}

/// Converts request groups into the scheduler's type.
fn scheduler_groups(groups: &RequestGroups) -> Vec<(String, ResourceGroup)> {
    let text = |one: &dyn ToString| one.to_string();
    let groups = groups.suffixed().map(|(suffix, group)| {
        let amounts = group.resources.iter();
        let amounts = amounts.map(|(class, amount)| {
            (
                class.to_string(),
                i64::try_from(*amount).unwrap_or(i64::MAX),
            )
        });
        let group = ResourceGroup {
            resources: amounts.collect(),
            required_traits: group.required.iter().map(|it| text(it)).collect(),
            forbidden_traits: group.forbidden.iter().map(|it| text(it)).collect(),
            ..ResourceGroup::default()
        };
        (suffix.to_string(), group)
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use berth_client::placement::Candidate;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    fn answer(hosts: &[(u128, &str, &[&str])]) -> Candidates {
        let uuid = |host: u128| Uuid::from_u128(host).to_string();
        let candidates = hosts.iter().map(|(host, class, _)| {
            let body = json!({"allocations": {uuid(*host): {"resources": {*class: 2}}}, "mappings": {"": [uuid(*host)]}});
            let body = berth_wire::decode(body.to_string().as_bytes()).unwrap();
            Candidate::of_body(&body).unwrap()
        });
        let providers = hosts.iter().map(|(host, _, classes)| {
            let amounts = classes.iter().map(|class| ((*class).to_owned(), json!({"capacity": 8, "used": 0})));
            let amounts: serde_json::Map<String, Value> = amounts.collect();
            let summary = json!({"resources": amounts, "traits": [], "root_provider_uuid": uuid(*host), "parent_provider_uuid": null});
            let summary = berth_wire::decode(summary.to_string().as_bytes()).unwrap();
            (Uuid::from_u128(*host).into(), summary)
        });
        Candidates {
            candidates: candidates.collect(),
            providers: providers.collect(),
        }
    }

    #[test]
    fn dedicated_cpus_are_shared_ones_only_where_a_host_does_not_distinguish_them() {
        let mut found = answer(&[(1, "PCPU", &["PCPU", "VCPU"])]);
        // The second host has no PCPU left, the third reports none.
        let more = answer(&[
            (1, "VCPU", &["PCPU", "VCPU"]),
            (2, "VCPU", &["PCPU", "VCPU"]),
            (3, "VCPU", &["VCPU"]),
        ]);
        add_fallback_candidates(&mut found, more);
        let hosts = found.candidates.iter().filter_map(|it| found.host(it));
        let hosts: Vec<Uuid> = hosts.map(|host| *host.as_uuid()).collect();
        assert_eq!(hosts, [1, 3].map(Uuid::from_u128));
    }
}
