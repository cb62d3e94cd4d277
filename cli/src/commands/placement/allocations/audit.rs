//! `berth placement audit`: finds allocations on this host's providers that are orphaned or differ from what its guests
//! use.

use std::io::Write;
use std::time::Duration;

use berth_agent_instances::reconcile::FINDING_GRACE;
use berth_agent_tracker::allocation_audit::{
    AllocationProblem, AuditFinding, heal_allocations, on_tree,
};
use berth_client::PlacementClient;
use berth_compose::nodes::Intent;
use berth_config::Config;
use berth_model::ConsumerUuid;
use berth_output::progress::waiting;
use berth_output::{Failure, ListFormat, Listing};
use berth_virt::Resources;
use serde_json::{Value, json};

use super::host_allocations::{HostAllocations, NodeAllocations, PlacementChoice};
use super::outcome::{RepairOutcome, RepairOutcomes, not_done, resources_by_name};

/// The arguments of `berth placement audit`.
#[derive(Debug, clap::Args)]
pub(in crate::commands::placement) struct Audit {
    /// Delete orphaned allocations on this host. An allocation must look orphaned in two checks, --settle seconds
    /// apart. Allocations of the same consumer on other hosts are kept, and so are doubtful ones unless --consumer
    /// names them. Allocations of other consumer types than INSTANCE and unknown, such as Blazar's reservations, are kept too. A guest
    /// that arrives by cold migration holds its resources here while its disks are copied: check
    /// for running migrations first.
    #[arg(long)]
    delete: bool,
    /// Seconds between the two checks: a guest that is being built holds its resources before this host knows it.
    #[arg(long, value_name = "SECONDS", requires = "delete", default_value_t = FINDING_GRACE.as_secs())]
    settle: u64,
    /// Audit only this consumer.
    #[arg(long, value_name = "UUID")]
    consumer: Option<ConsumerUuid>,
    #[command(flatten)]
    which: PlacementChoice,
    #[command(flatten)]
    format: ListFormat,
}

/// Runs the audit and prints its findings.
///
/// Errors: this host, Placement or the database does not answer, a node must be reshaped first, or a deletion failed.
pub(in crate::commands::placement) async fn audit(
    asked: &Audit,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let intent = match asked.delete {
        true => Intent::Act,
        false => Intent::Observe,
    };
    let placement = asked.which.ask(config, intent).await?;
    let done = asked.audit(&placement.placement, config, out).await;
    placement.close().await;
    done
}

impl Audit {
    async fn audit(
        &self,
        placement: &PlacementClient,
        config: &Config,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let allocations = HostAllocations::at(placement, config).await?;
        let found = self.findings(&allocations);
        let is_due = |it: &&(&NodeAllocations, AuditFinding)| self.is_due(&it.1.problem);
        if !self.delete || !found.iter().any(|it| is_due(&it)) {
            return self.print(&allocations, &found, &RepairOutcomes::new(), out);
        }
        if self.format.is_for_people() {
            self.print(&allocations, &found, &RepairOutcomes::new(), out)?;
            out.flush()?;
        }
        let settle = Duration::from_secs(self.settle);
        waiting("checking again before anything is deleted", settle).await;
        let again = HostAllocations::at(placement, config).await?;
        let now = self.findings(&again);
        let mut outcomes = RepairOutcomes::new();
        for (node, before) in found.iter().filter(is_due) {
            let is_same = |(other, found): &&(&NodeAllocations, AuditFinding)| {
                let generation = |node: &NodeAllocations| {
                    let held = node.held.of(&before.consumer);
                    held.and_then(|held| held.generation)
                };
                other.name == node.name && found == before && generation(other) == generation(node)
            };
            let outcome = match now.iter().find(is_same) {
                Some((node, found)) => self.taken_away(placement, node, found).await,
                None => RepairOutcome::Not("it changed between the two checks".to_owned()),
            };
            outcomes.insert((node.name.clone(), before.consumer), outcome);
        }
        if self.format.is_for_people() {
            for ((node, consumer), outcome) in &outcomes {
                let outcome = outcome.as_value();
                let text = outcome.as_str().unwrap_or_default();
                writeln!(out, "{node}: {consumer}: {text}")?;
            }
        } else {
            self.print(&allocations, &found, &outcomes, out)?;
        }
        not_done(&outcomes, "deleted")
    }

    /// Whether it is to be deleted. A doubtful allocation is deleted only if its consumer was named.
    fn is_due(&self, amiss: &AllocationProblem) -> bool {
        match amiss {
            AllocationProblem::Orphan => true,
            AllocationProblem::Unclear { .. } => self.consumer.is_some(),
            AllocationProblem::Guest { .. } | AllocationProblem::GuestUnclear { .. } => false,
        }
    }

    /// Deletes by the consumer's generation, so that an allocation which changed meanwhile is kept.
    async fn taken_away(
        &self,
        placement: &PlacementClient,
        node: &NodeAllocations,
        found: &AuditFinding,
    ) -> RepairOutcome {
        let consumer = found.consumer;
        let now = match placement.allocations(consumer).await {
            Ok(Some(now)) => now,
            Ok(None) => return RepairOutcome::Done("it was already deleted"),
            Err(error) => return RepairOutcome::Not(error.to_string()),
        };
        if on_tree(&node.tree, &now) != found.here {
            return RepairOutcome::Not("it changed between the two checks".to_owned());
        }
        // A lone allocation may come from a version without consumer types.
        let kind = placement.typed_allocations(consumer).await;
        if let Ok(Some(typed)) = kind
            && !DELETABLE_TYPES.contains(&typed.consumer_type.as_str())
            && self.consumer.is_none()
        {
            let kind = &typed.consumer_type;
            let reason =
                format!("its consumer type is {kind}; delete it with --consumer {consumer}");
            return RepairOutcome::Not(reason);
        }
        let rest = heal_allocations(&now, &node.tree, &Resources::new());
        match placement.put_allocations(consumer, &rest).await {
            Ok(()) if rest.resources.is_empty() => RepairOutcome::Done("deleted"),
            Ok(()) => RepairOutcome::Done("deleted here; its allocations on other hosts are kept"),
            Err(error) => RepairOutcome::Not(error.to_string()),
        }
    }

    fn findings<'a>(
        &self,
        allocations: &'a HostAllocations,
    ) -> Vec<(&'a NodeAllocations, AuditFinding)> {
        let mut found = allocations.findings();
        found.retain(|(_, found)| self.consumer.is_none_or(|it| it == found.consumer));
        found
    }

    fn print(
        &self,
        allocations: &HostAllocations,
        found: &[(&NodeAllocations, AuditFinding)],
        outcomes: &RepairOutcomes,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let is_for_people = self.format.is_for_people();
        if is_for_people && found.is_empty() {
            let consumers = allocations.consumers();
            let nodes: Vec<_> = allocations
                .nodes
                .iter()
                .map(|it| it.name.as_str())
                .collect();
            writeln!(
                out,
                "no problems with the {consumers} consumers of {}",
                nodes.join(", ")
            )?;
            return Ok(());
        }
        let mut listing = Listing::new(&[
            "node", "consumer", "amiss", "guest", "holds", "uses", "remedy", "result",
        ]);
        for (node, found) in found {
            let (guest, uses, why) = match &found.problem {
                AllocationProblem::Orphan => (None, None, None),
                AllocationProblem::Unclear { why } => (None, None, Some(why)),
                AllocationProblem::Guest { guest, wanted } => (Some(guest), Some(wanted), None),
                AllocationProblem::GuestUnclear { guest, why } => (Some(guest), None, Some(why)),
            };
            let remedy = why.map_or_else(
                || remedy(&found.problem).to_owned(),
                |why| format!("look: {why}"),
            );
            let holds = &found.here;
            let outcome = outcomes.get(&(node.name.clone(), found.consumer));
            listing.push([
                json!(node.name.as_str()),
                json!(found.consumer.to_string()),
                json!(found.problem.as_str()),
                json!(guest),
                resources_by_name(&node.tree, holds, is_for_people),
                uses.map_or(Value::Null, |uses| {
                    resources_by_name(&node.tree, uses, is_for_people)
                }),
                json!(remedy),
                outcome.map_or(Value::Null, RepairOutcome::as_value),
            ]);
        }
        listing.print(&self.format, out)
    }
}

/// Orphans of these consumer types are deleted: instances of Nova, and consumers from before consumer types. An allocation of
/// another type, such as MIGRATION, may still be in use by another service.
const DELETABLE_TYPES: [&str; 2] = ["INSTANCE", "unknown"];

const fn remedy(amiss: &AllocationProblem) -> &'static str {
    match amiss {
        AllocationProblem::Orphan => "berth placement audit --delete",
        AllocationProblem::Guest { .. } => "berth placement heal-allocations",
        AllocationProblem::Unclear { .. } | AllocationProblem::GuestUnclear { .. } => "",
    }
}
