//! `berth placement heal-allocations`: creates the allocations that this host's guests lack, on the providers that they
//! use.

use std::collections::BTreeMap;
use std::io::Write;

use berth_agent_journal::GuestRecord;
use berth_agent_tracker::allocation_audit::{AllocationProblem, AuditFinding, heal_allocations};
use berth_client::PlacementClient;
use berth_compose::nodes::Intent;
use berth_config::Config;
use berth_model::{ConsumerAllocations, ConsumerUuid};
use berth_output::{Failure, ListFormat, Listing};
use serde_json::json;

use super::host_allocations::{HostAllocations, NodeAllocations, PlacementChoice};
use super::outcome::{RepairOutcome, RepairOutcomes, not_done, resources_by_name};
use super::pending_repairs::PendingRepairs;

/// The arguments of `berth placement heal-allocations`.
#[derive(Debug, clap::Args)]
pub(in crate::commands::placement) struct Heal {
    /// Print what would be written, without writing it.
    #[arg(long)]
    dry_run: bool,
    /// Heal only this guest.
    #[arg(long, value_name = "UUID")]
    guest: Option<ConsumerUuid>,
    /// The project of guests that Placement does not know and that this host's agent did not
    /// create; default: [placement_service] incomplete_consumer_project_id.
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// The user of guests that Placement does not know; default: [placement_service] incomplete_consumer_user_id.
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    #[command(flatten)]
    which: PlacementChoice,
    #[command(flatten)]
    format: ListFormat,
}

/// Creates the missing allocations and prints them.
///
/// Errors: this host, Placement or the database does not answer, a node must be reshaped first, or a
/// guest was not healed.
pub(in crate::commands::placement) async fn heal(
    asked: &Heal,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let intent = match asked.dry_run {
        true => Intent::Observe,
        false => Intent::Act,
    };
    let placement = asked.which.ask(config, intent).await?;
    let done = asked.heal(&placement.placement, config, out).await;
    placement.close().await;
    done
}

impl Heal {
    async fn heal(
        &self,
        placement: &PlacementClient,
        config: &Config,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let host = HostAllocations::at(placement, config).await?;
        let mut found = host.findings();
        found.retain(|(_, found)| {
            matches!(found.problem, AllocationProblem::Guest { .. })
                && self.guest.is_none_or(|it| it == found.consumer)
        });
        let is_for_people = self.format.is_for_people();
        if is_for_people {
            self.print(&found, &RepairOutcomes::new(), out)?;
            out.flush()?;
        }
        // A guest may have been deleted while everything was read.
        let again = match self.dry_run || found.is_empty() {
            true => None,
            false => Some(HostAllocations::at(placement, config).await?),
        };
        let still = again
            .as_ref()
            .map(HostAllocations::findings)
            .unwrap_or_default();
        let mut outcomes = RepairOutcomes::new();
        let mut healing = PendingRepairs::default();
        for (node, found) in &found {
            let AllocationProblem::Guest { wanted, .. } = &found.problem else {
                continue;
            };
            let is_same = |(other, again): &(&NodeAllocations, AuditFinding)| {
                other.name == node.name && again == found
            };
            let key = (node.name.clone(), found.consumer);
            if self.dry_run {
                outcomes.insert(key, RepairOutcome::Left);
            } else if !still.iter().any(is_same) {
                let why = "it changed during the check".to_owned();
                outcomes.insert(key, RepairOutcome::Not(why));
            } else {
                let held = node.held.of(&found.consumer).cloned();
                let held =
                    held.unwrap_or_else(|| self.nothing(found.consumer, &host.journal, config));
                let allocations = heal_allocations(&held, &node.tree, wanted);
                healing.wait(key, allocations);
            }
        }
        outcomes.append(&mut healing.put(placement).await);
        if is_for_people {
            for ((_, consumer), outcome) in &outcomes {
                if let Some(text) = outcome.as_value().as_str() {
                    writeln!(out, "{consumer}: {text}")?;
                }
            }
        }
        if !is_for_people {
            self.print(&found, &outcomes, out)?;
        }
        not_done(&outcomes, "healed")
    }

    /// The allocations of a consumer that Placement does not know. The owner comes from the agent that created the
    /// guest, else from the caller.
    fn nothing(
        &self,
        consumer: ConsumerUuid,
        journal: &[GuestRecord],
        config: &Config,
    ) -> ConsumerAllocations {
        let owners = journal.iter().map(|record| &record.request.spec().owner);
        let owner = owners.clone().find(|owner| owner.consumer == consumer);
        let service = &config.placement_service;
        let project = owner.map(|owner| owner.project.as_str().to_owned());
        let project = project.or_else(|| self.project.clone());
        let user = self.user.clone();
        ConsumerAllocations {
            project_id: project.unwrap_or_else(|| service.incomplete_consumer_project_id.clone()),
            user_id: user.unwrap_or_else(|| service.incomplete_consumer_user_id.clone()),
            generation: None,
            resources: BTreeMap::new(),
        }
    }

    fn print(
        &self,
        found: &[(&NodeAllocations, AuditFinding)],
        outcomes: &RepairOutcomes,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let is_for_people = self.format.is_for_people();
        if is_for_people && found.is_empty() {
            writeln!(out, "nothing to heal: each guest holds what it uses")?;
            return Ok(());
        }
        let mut listing =
            Listing::new(&["node", "consumer", "guest", "holds", "will_hold", "result"]);
        for (node, found) in found {
            let AllocationProblem::Guest { guest, wanted } = &found.problem else {
                continue;
            };
            let here = &found.here;
            let outcome = outcomes.get(&(node.name.clone(), found.consumer));
            let outcome = outcome.unwrap_or(&RepairOutcome::Left);
            listing.push([
                json!(node.name.as_str()),
                json!(found.consumer.to_string()),
                json!(guest),
                resources_by_name(&node.tree, here, is_for_people),
                resources_by_name(&node.tree, wanted, is_for_people),
                outcome.as_value(),
            ]);
        }
        listing.print(&self.format, out)
    }
}
