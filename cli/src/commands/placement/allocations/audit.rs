//! `berth placement audit`: which allocations on this host's providers are nobody's, or not what its guests use.

use std::io::Write;
use std::time::Duration;

use berth_agent_instances::reconcile::GRACE;
use berth_agent_tracker::allocation_audit::{Amiss, Finding, healed, on_tree};
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

/// The audit.
#[derive(Debug, clap::Args)]
pub(in crate::commands::placement) struct Audit {
    /// Take away what nobody's guest holds on this host, after it was seen twice and did not change. What such a consumer holds
    /// on other hosts stays, and so does what may be a guest's after all, unless --consumer names it. A guest that comes by a cold
    /// migration holds its resources here for as long as its disks are copied: look at the moves that are under way first.
    #[arg(long)]
    delete: bool,
    /// How many seconds lie between the two looks: a guest that is being built holds its resources before this host knows it.
    #[arg(long, value_name = "SECONDS", requires = "delete", default_value_t = GRACE.as_secs())]
    settle: u64,
    /// This consumer alone.
    #[arg(long, value_name = "UUID")]
    consumer: Option<ConsumerUuid>,
    #[command(flatten)]
    which: PlacementChoice,
    #[command(flatten)]
    format: ListFormat,
}

/// Audits.
///
/// # Errors
/// This host, Placement or the database does not answer, a node is to be reshaped first, or something was not deleted.
pub(in crate::commands::placement) async fn audit(
    asked: &Audit,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let intent = match asked.delete {
        true => Intent::Act,
        false => Intent::Look,
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
        let looked = HostAllocations::at(placement, config).await?;
        let found = self.findings(&looked);
        let is_due = |it: &&(&NodeAllocations, Finding)| self.is_due(&it.1.amiss);
        if !self.delete || !found.iter().any(|it| is_due(&it)) {
            return self.tell(&looked, &found, &RepairOutcomes::new(), out);
        }
        if self.format.is_for_people() {
            self.tell(&looked, &found, &RepairOutcomes::new(), out)?;
            out.flush()?;
        }
        let settle = Duration::from_secs(self.settle);
        waiting("looking again before anything is deleted", settle).await;
        let again = HostAllocations::at(placement, config).await?;
        let now = self.findings(&again);
        let mut outcomes = RepairOutcomes::new();
        for (node, before) in found.iter().filter(is_due) {
            let is_same = |(other, found): &&(&NodeAllocations, Finding)| {
                let generation = |node: &NodeAllocations| {
                    let held = node.held.of(&before.consumer);
                    held.and_then(|held| held.generation)
                };
                other.name == node.name && found == before && generation(other) == generation(node)
            };
            let outcome = match now.iter().find(is_same) {
                Some((node, found)) => self.taken_away(placement, node, found).await,
                None => RepairOutcome::Not("it changed between the two looks".to_owned()),
            };
            outcomes.insert((node.name.clone(), before.consumer), outcome);
        }
        if self.format.is_for_people() {
            for ((node, consumer), outcome) in &outcomes {
                let outcome = outcome.as_value();
                let said = outcome.as_str().unwrap_or_default();
                writeln!(out, "{node}: {consumer}: {said}")?;
            }
        } else {
            self.tell(&looked, &found, &outcomes, out)?;
        }
        not_done(&outcomes, "deleted")
    }

    /// Whether it is to be taken away. What is unclear is, where it was named.
    fn is_due(&self, amiss: &Amiss) -> bool {
        match amiss {
            Amiss::Orphan => true,
            Amiss::Unclear { .. } => self.consumer.is_some(),
            Amiss::Guest { .. } | Amiss::GuestUnclear { .. } => false,
        }
    }

    /// By the consumer's generation: what was not seen is not taken away.
    async fn taken_away(
        &self,
        placement: &PlacementClient,
        node: &NodeAllocations,
        found: &Finding,
    ) -> RepairOutcome {
        let consumer = found.consumer;
        let now = match placement.allocations(consumer).await {
            Ok(Some(now)) => now,
            Ok(None) => return RepairOutcome::Done("it was gone"),
            Err(error) => return RepairOutcome::Not(error.to_string()),
        };
        if on_tree(&node.tree, &now) != found.here {
            return RepairOutcome::Not("it changed between the two looks".to_owned());
        }
        // One that is there alone may be too old to tell types.
        let kind = placement.typed_allocations(consumer).await;
        if let Ok(Some(typed)) = kind
            && typed.consumer_type == MIGRATION
            && self.consumer.is_none()
        {
            return RepairOutcome::Not("it is a migration".to_owned());
        }
        let rest = healed(&now, &node.tree, &Resources::new());
        match placement.put_allocations(consumer, &rest).await {
            Ok(()) if rest.resources.is_empty() => RepairOutcome::Done("deleted"),
            Ok(()) => RepairOutcome::Done("deleted here; what it holds elsewhere stays"),
            Err(error) => RepairOutcome::Not(error.to_string()),
        }
    }

    fn findings<'a>(&self, looked: &'a HostAllocations) -> Vec<(&'a NodeAllocations, Finding)> {
        let mut found = looked.findings();
        found.retain(|(_, found)| self.consumer.is_none_or(|it| it == found.consumer));
        found
    }

    fn tell(
        &self,
        looked: &HostAllocations,
        found: &[(&NodeAllocations, Finding)],
        outcomes: &RepairOutcomes,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let is_for_people = self.format.is_for_people();
        if is_for_people && found.is_empty() {
            let consumers = looked.consumers();
            let nodes: Vec<_> = looked.nodes.iter().map(|it| it.name.as_str()).collect();
            writeln!(
                out,
                "nothing is amiss with the {consumers} consumers of {}",
                nodes.join(", ")
            )?;
            return Ok(());
        }
        let mut listing = Listing::new(&[
            "node", "consumer", "amiss", "guest", "holds", "uses", "remedy", "result",
        ]);
        for (node, found) in found {
            let (guest, uses, why) = match &found.amiss {
                Amiss::Orphan => (None, None, None),
                Amiss::Unclear { why } => (None, None, Some(why)),
                Amiss::Guest { guest, wanted } => (Some(guest), Some(wanted), None),
                Amiss::GuestUnclear { guest, why } => (Some(guest), None, Some(why)),
            };
            let remedy = why.map_or_else(
                || remedy(&found.amiss).to_owned(),
                |why| format!("look: {why}"),
            );
            let holds = &found.here;
            let outcome = outcomes.get(&(node.name.clone(), found.consumer));
            listing.push([
                json!(node.name.as_str()),
                json!(found.consumer.to_string()),
                json!(found.amiss.as_str()),
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

/// What a migration's consumer is to Placement.
const MIGRATION: &str = "MIGRATION";

const fn remedy(amiss: &Amiss) -> &'static str {
    match amiss {
        Amiss::Orphan => "berth placement audit --delete",
        Amiss::Guest { .. } => "berth placement heal-allocations",
        Amiss::Unclear { .. } | Amiss::GuestUnclear { .. } => "",
    }
}
