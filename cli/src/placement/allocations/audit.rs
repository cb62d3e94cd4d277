//! `berth placement audit`: which allocations on this host's providers are nobody's, or not what its guests use.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use berth_agent::allocation_audit::{Amiss, Finding, healed};
use berth_agent::guest::reconcile::GRACE;
use berth_client::PlacementClient;
use berth_model::ConsumerUuid;
use berth_virt::Resources;
use serde_json::{Value, json};

use super::{Looked, Node, Outcome, Which, not_done, told};
use crate::config::Config;
use crate::failure::Failure;
use crate::listing::{Format, Listing};
use crate::nodes::Intent;
use crate::progress::waiting;

/// The audit.
#[derive(Debug, clap::Args)]
pub(in crate::placement) struct Audit {
    /// Take away what nobody's guest holds on this host, after it was seen twice and did not change. What such a consumer holds
    /// on other hosts stays.
    #[arg(long)]
    delete: bool,
    /// How many seconds lie between the two looks: a guest that is being built holds its resources before this host knows it.
    /// 0 where nothing can be under way; with --database nothing is.
    #[arg(long, value_name = "SECONDS", requires = "delete")]
    settle: Option<u64>,
    /// This consumer alone.
    #[arg(long, value_name = "UUID")]
    consumer: Option<ConsumerUuid>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    format: Format,
}

/// Audits.
///
/// # Errors
/// This host, Placement or the database does not answer, a node is to be reshaped first, or something was not deleted.
pub(in crate::placement) async fn audit(
    asked: &Audit,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let intent = match asked.delete {
        true => Intent::Act,
        false => Intent::Look,
    };
    let placement = asked.which.ask(config, intent).await?;
    let settle = match asked.settle {
        Some(seconds) => Duration::from_secs(seconds),
        None if placement.is_alone() => Duration::ZERO,
        None => GRACE,
    };
    let done = asked.audit(&placement.placement, config, settle, out).await;
    placement.close().await;
    done
}

/// What of a consumer is on a node, and by which generation.
type Orphans = BTreeMap<ConsumerUuid, (Option<berth_model::Generation>, Resources)>;

impl Audit {
    async fn audit(
        &self,
        placement: &PlacementClient,
        config: &Config,
        settle: Duration,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let looked = Looked::at(placement, config).await?;
        let found = self.findings(&looked);
        let orphans = orphans(&found);
        if !self.delete || orphans.is_empty() {
            return self.tell(&looked, &found, &BTreeMap::new(), out);
        }
        if self.format.is_for_people() {
            self.tell(&looked, &found, &BTreeMap::new(), out)?;
            out.flush()?;
        }
        waiting("looking again before anything is deleted", settle).await;
        let again = Looked::at(placement, config).await?;
        let now = self.findings(&again);
        let mut outcomes = BTreeMap::new();
        for (consumer, before) in &orphans {
            let orphan = now.iter().find(|(_, found)| found.consumer == *consumer);
            let outcome = match orphan {
                Some((node, found)) if orphans_one(node, found).as_ref() == Some(before) => {
                    delete(placement, node, *consumer).await
                }
                _ => Outcome::Not("it changed between the two looks".to_owned()),
            };
            outcomes.insert(*consumer, outcome);
        }
        if self.format.is_for_people() {
            for (consumer, outcome) in &outcomes {
                let outcome = outcome.as_value();
                writeln!(out, "{consumer}: {}", outcome.as_str().unwrap_or_default())?;
            }
        } else {
            self.tell(&looked, &found, &outcomes, out)?;
        }
        not_done(&outcomes, "deleted")
    }

    fn findings<'a>(&self, looked: &'a Looked) -> Vec<(&'a Node, Finding)> {
        let mut found = looked.findings();
        found.retain(|(_, found)| self.consumer.is_none_or(|it| it == found.consumer));
        found
    }

    fn tell(
        &self,
        looked: &Looked,
        found: &[(&Node, Finding)],
        outcomes: &BTreeMap<ConsumerUuid, Outcome>,
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
            let (guest, holds, uses) = match &found.amiss {
                Amiss::Orphan { here } => (None, here, None),
                Amiss::Behind { here, guest } => (Some(guest), here, None),
                Amiss::Guest {
                    guest,
                    here,
                    wanted,
                } => (Some(guest), here, Some(wanted)),
            };
            let outcome = outcomes.get(&found.consumer);
            listing.push([
                json!(node.name.as_str()),
                json!(found.consumer.to_string()),
                json!(found.amiss.as_str()),
                json!(guest),
                told(&node.tree, holds, is_for_people),
                uses.map_or(Value::Null, |uses| told(&node.tree, uses, is_for_people)),
                json!(remedy(&found.amiss)),
                outcome.map_or(Value::Null, Outcome::as_value),
            ]);
        }
        listing.print(&self.format, out)
    }
}

const fn remedy(amiss: &Amiss) -> &'static str {
    match amiss {
        Amiss::Orphan { .. } => "berth placement audit --delete",
        Amiss::Behind { .. } => "end or revert the move of that guest",
        Amiss::Guest { .. } => "berth placement heal-allocations",
    }
}

fn orphans(found: &[(&Node, Finding)]) -> Orphans {
    let orphans = found.iter().filter_map(|(node, found)| {
        let orphan = orphans_one(node, found)?;
        Some((found.consumer, orphan))
    });
    orphans.collect()
}

fn orphans_one(
    node: &Node,
    found: &Finding,
) -> Option<(Option<berth_model::Generation>, Resources)> {
    let Amiss::Orphan { here } = &found.amiss else {
        return None;
    };
    let held = node.held.of(&found.consumer)?;
    Some((held.generation, here.clone()))
}

/// By the consumer's generation: what was not seen is not taken away.
async fn delete(placement: &PlacementClient, node: &Node, consumer: ConsumerUuid) -> Outcome {
    let Some(held) = node.held.of(&consumer) else {
        return Outcome::Left;
    };
    let rest = healed(held, &node.tree, &Resources::new());
    match placement.put_allocations(consumer, &rest).await {
        Ok(()) if rest.resources.is_empty() => Outcome::Done("deleted"),
        Ok(()) => Outcome::Done("deleted here; what it holds elsewhere stays"),
        Err(error) => Outcome::Not(error.to_string()),
    }
}
