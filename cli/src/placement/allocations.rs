//! `berth placement audit` and `berth placement heal-allocations`: what this host's guests should hold in Placement, beside
//! what is held there, over its API or on a database that no service has open.

mod audit;
mod heal;
mod healing;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use berth_agent_journal::{GuestRecord, SqlJournal};
use berth_agent_tracker::allocation_audit::{self, Audited, Finding};
use berth_agent_tracker::options::Rename;
use berth_agent_tracker::startup::{self, Preview};
use berth_client::PlacementClient;
use berth_model::{Allocations, ConsumerUuid, NodeName, ProviderTree};
use berth_store::SqlStore;
use berth_virt::{NodeView, Resources};
use serde_json::{Value, json};

use super::migrate::BARE_METAL;
use super::open_elsewhere::{refuse_beside_a_service, refuse_beside_services};
use super::placement_conf;
use crate::compose::{placement_for_commands, placement_in_process};
use crate::config::{Config, Secret};
use crate::database;
use crate::failure::{ErrorCode, Failure};
use crate::nodes::{Host, Intent};
use crate::progress::consumers;
use crate::reshape::failed;

pub(super) use audit::{Audit, audit};
pub(super) use heal::{Heal, heal};

/// Which Placement.
#[derive(Debug, clap::Args)]
struct Which {
    /// A database that no service has open, else the Placement of [placement] is asked, or that of `berth up`. file:PATH is the URL
    /// that stands in a file.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The configuration of OpenStack's Placement: its [placement_database] connection is the database.
    #[arg(long, value_name = "FILE", conflicts_with = "database")]
    placement_config: Option<PathBuf>,
}

/// A Placement that is asked, and the database behind it where it is this process's own.
struct Asked {
    placement: PlacementClient,
    store: Option<SqlStore>,
}

impl Which {
    /// Opens it; a database is looked at alone where nothing is to be changed.
    async fn ask(&self, config: &Config, intent: Intent) -> Result<Asked, Failure> {
        let url = match (&self.placement_config, &self.database) {
            (Some(file), _) => placement_conf::connection(file)?,
            (None, Some(url)) => Secret::from(url.clone()),
            (None, None) => {
                let placement = placement_for_commands(config)?;
                return Ok(Asked {
                    placement,
                    store: None,
                });
            }
        };
        refuse_beside_a_service(&url)?;
        let looking = database::look(&url).await?;
        refuse_beside_services(&looking).await?;
        let store = match intent {
            Intent::Look => looking,
            Intent::Act => {
                looking.close().await;
                database::open_existing(&url).await?
            }
        };
        Ok(Asked {
            placement: placement_in_process(store.clone(), None)?,
            store: Some(store),
        })
    }
}

impl Asked {
    async fn close(self) {
        if let Some(store) = self.store {
            store.close().await;
        }
    }
}

/// One node of this host, as it is seen and as Placement has it.
struct Node {
    name: NodeName,
    seen: NodeView,
    tree: ProviderTree,
    held: Allocations,
}

/// This host.
struct Looked {
    nodes: Vec<Node>,
    journal: Vec<GuestRecord>,
}

impl Looked {
    /// Reads everything, the journal first and last: a guest that it does not know was neither there nor asked for.
    async fn at(placement: &PlacementClient, config: &Config) -> Result<Self, Failure> {
        let mut host = Host::observe(config, placement, Rename::Refuse, Intent::Look).await?;
        if host.view.hypervisor.kind == BARE_METAL {
            let what = "bare metal is left to the service that manages it";
            return Err(Failure::new(ErrorCode::Refused, what));
        }
        let mut journal = self::journal(config).await?;
        let owners: Vec<_> = journal
            .iter()
            .map(|record| record.request.spec().owner.consumer)
            .collect();
        let mut nodes = Vec::new();
        for (identity, tracker) in &mut host.nodes {
            let name = identity.node.clone();
            let bar = consumers(name.as_str());
            let now = tokio::time::Instant::now();
            let previewed = startup::preview(tracker, &host.view, host.service, now, &*bar).await;
            let (preview, _) = previewed.map_err(|error| failed(&error))?;
            if matches!(preview, Preview::Reshape(_)) {
                let what = format!(
                    "node {name} is to be reshaped: what its guests hold is not where this version looks for it"
                );
                return Err(Failure::new(ErrorCode::Refused, what).mend(
                    "start its agent, or run berth placement migrate-compute-inventory, then repeat",
                ));
            }
            let tree = tracker.report().known_tree();
            let known = tree.filter(|tree| tree.root().generation.is_some());
            let Some(tree) = known.cloned() else {
                let what = format!("Placement does not know node {name}");
                return Err(Failure::new(ErrorCode::Refused, what)
                    .mend("start its agent, which reports it, then repeat"));
            };
            let mut held = tracker
                .report()
                .allocations(&tree, &*bar)
                .await
                .map_err(|error| {
                    Failure::caused(ErrorCode::Unavailable, "who holds what", &error)
                })?;
            let Some(seen) = host.view.nodes.remove(&name) else {
                continue;
            };
            // A guest that holds nothing of the tree may hold something elsewhere.
            for guest in seen.guests.keys().chain(&owners) {
                if held.of(guest).is_none()
                    && let Some(elsewhere) = placement.allocations(*guest).await?
                {
                    held.insert(*guest, elsewhere);
                }
            }
            nodes.push(Node {
                name,
                seen,
                tree,
                held,
            });
        }
        // Those that have come since are known, too.
        let known: BTreeSet<_> = journal.iter().map(|it| it.request.uuid()).collect();
        let later = self::journal(config).await?;
        journal.extend(
            later
                .into_iter()
                .filter(|it| !known.contains(&it.request.uuid())),
        );
        Ok(Self { nodes, journal })
    }

    fn findings(&self) -> Vec<(&Node, Finding)> {
        let of_node = |node: &'_ Node| {
            allocation_audit::audit(&Audited {
                node: &node.name,
                seen: &node.seen,
                tree: &node.tree,
                held: &node.held,
                journal: &self.journal,
            })
        };
        let nodes = self.nodes.iter();
        nodes
            .flat_map(|node| of_node(node).into_iter().map(move |found| (node, found)))
            .collect()
    }

    fn consumers(&self) -> usize {
        self.nodes.iter().map(|node| node.held.len()).sum()
    }
}

/// The guests that the agent knows.
async fn journal(config: &Config) -> Result<Vec<GuestRecord>, Failure> {
    let journal = SqlJournal::look_at_guests(&config.state_path).await;
    journal
        .map_err(|error| Failure::caused(ErrorCode::State, "which guests the agent knows", &error))
}

/// Resources by the provider's name, as an API shows them; for people `NAME: 1 PGPU, 2 VCPU; …`.
fn told(tree: &ProviderTree, resources: &Resources, is_for_people: bool) -> Value {
    let mut by_name: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for ((provider, class), amount) in resources {
        let name = tree.get(*provider).map_or_else(
            || provider.to_string(),
            |provider| provider.name.to_string(),
        );
        let classes = by_name.entry(name).or_default();
        classes.insert(class.to_string(), *amount);
    }
    if !is_for_people {
        return json!(by_name);
    }
    let providers = by_name.into_iter().map(|(name, classes)| {
        let classes: Vec<_> = classes
            .into_iter()
            .map(|(class, amount)| format!("{amount} {class}"))
            .collect();
        format!("{name}: {}", classes.join(", "))
    });
    Value::String(providers.collect::<Vec<_>>().join("; "))
}

/// What became of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Done(&'static str),
    /// It was not to be done.
    Left,
    Not(String),
}

impl Outcome {
    fn as_value(&self) -> Value {
        match self {
            Self::Done(what) => json!(what),
            Self::Left => Value::Null,
            Self::Not(why) => json!(format!("not done: {why}")),
        }
    }
}

/// What became of each, by its node and consumer.
type Outcomes = BTreeMap<(NodeName, ConsumerUuid), Outcome>;

/// One failure for all that was not done.
fn not_done(outcomes: &Outcomes, what: &str) -> Result<(), Failure> {
    let mut not = outcomes
        .iter()
        .filter_map(|((_, consumer), outcome)| match outcome {
            Outcome::Not(why) => Some(format!("{consumer}: {why}")),
            Outcome::Done(_) | Outcome::Left => None,
        });
    let Some(first) = not.next() else {
        return Ok(());
    };
    let more = match not.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Err(Failure::new(
        ErrorCode::Refused,
        format!("not all was {what}: {first}{more}"),
    )
    .mend(
        "run it again; what others hold may be in the way: berth placement audit shows them, and --delete --consumer UUID takes \
         one away; a device that was disabled has no room until it is enabled",
    ))
}
