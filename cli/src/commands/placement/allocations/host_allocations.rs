//! What this host's guests use, next to what Placement holds for them: read once for `audit` and `heal-allocations`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use berth_agent_journal::{GuestRecord, SqlJournal};
use berth_agent_tracker::allocation_audit::{self, Audited, Finding};
use berth_agent_tracker::options::Rename;
use berth_agent_tracker::startup::{self, Preview};
use berth_client::PlacementClient;
use berth_compose::nodes::{HostNodes, Intent};
use berth_compose::placement_failure::{placement_failure, startup_failure};
use berth_compose::{database, placement_for_commands, placement_in_process};
use berth_config::{Config, Secret};
use berth_model::{Allocations, NodeName, ProviderTree};
use berth_output::progress::consumers;
use berth_output::{ErrorCode, Failure};
use berth_store::SqlStore;
use berth_virt::NodeView;

use crate::commands::placement::database_in_use::{
    refuse_beside_a_service, refuse_beside_services,
};
use crate::commands::placement::migrate::BARE_METAL;
use crate::commands::placement::placement_conf;

/// PlacementChoice Placement.
#[derive(Debug, clap::Args)]
pub(super) struct PlacementChoice {
    /// A database that no service has open, else the Placement of [placement] is asked, or that of `berth up`. file:PATH is the URL
    /// that stands in a file.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The configuration of OpenStack's Placement: its [placement_database] connection is the database.
    #[arg(long, value_name = "FILE", conflicts_with = "database")]
    placement_config: Option<PathBuf>,
}

/// A Placement that is asked, and the database behind it where it is this process's own.
pub(super) struct OpenPlacement {
    pub(super) placement: PlacementClient,
    store: Option<SqlStore>,
}

impl PlacementChoice {
    /// Opens it; a database is looked at alone where nothing is to be changed.
    pub(super) async fn ask(
        &self,
        config: &Config,
        intent: Intent,
    ) -> Result<OpenPlacement, Failure> {
        let url = match (&self.placement_config, &self.database) {
            (Some(file), _) => placement_conf::connection(file)?,
            (None, Some(url)) => Secret::from(url.clone()),
            (None, None) => {
                let placement = placement_for_commands(config)?;
                return Ok(OpenPlacement {
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
        Ok(OpenPlacement {
            placement: placement_in_process(store.clone(), None)?,
            store: Some(store),
        })
    }
}

impl OpenPlacement {
    pub(super) async fn close(self) {
        if let Some(store) = self.store {
            store.close().await;
        }
    }
}

/// One node of this host, as it is seen and as Placement has it.
pub(super) struct NodeAllocations {
    pub(super) name: NodeName,
    pub(super) seen: NodeView,
    pub(super) tree: ProviderTree,
    pub(super) held: Allocations,
}

/// This host.
pub(super) struct HostAllocations {
    pub(super) nodes: Vec<NodeAllocations>,
    pub(super) journal: Vec<GuestRecord>,
}

impl HostAllocations {
    /// Reads everything, the journal first and last: a guest that it does not know was neither there nor asked for.
    pub(super) async fn at(placement: &PlacementClient, config: &Config) -> Result<Self, Failure> {
        let mut host = HostNodes::observe(config, placement, Rename::Refuse, Intent::Look).await?;
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
            let (preview, _) = previewed.map_err(|error| startup_failure(&error))?;
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
                    && let Some(elsewhere) = placement
                        .allocations(*guest)
                        .await
                        .map_err(placement_failure)?
                {
                    held.insert(*guest, elsewhere);
                }
            }
            nodes.push(NodeAllocations {
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

    pub(super) fn findings(&self) -> Vec<(&NodeAllocations, Finding)> {
        let of_node = |node: &'_ NodeAllocations| {
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

    pub(super) fn consumers(&self) -> usize {
        self.nodes.iter().map(|node| node.held.len()).sum()
    }
}

/// The guests that the agent knows.
async fn journal(config: &Config) -> Result<Vec<GuestRecord>, Failure> {
    let journal = SqlJournal::observe_guests(&config.state_path).await;
    journal
        .map_err(|error| Failure::caused(ErrorCode::State, "which guests the agent knows", &error))
}
