//! Reads what this host's guests use and what Placement holds for them, once for `audit` and `heal-allocations`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use berth_agent_journal::{GuestRecord, SqlJournal};
use berth_agent_tracker::allocation_audit::{self, AuditFinding, AuditInput};
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
    refuse_if_open_elsewhere, refuse_service_sessions,
};
use crate::commands::placement::migrate::BARE_METAL;
use crate::commands::placement::placement_conf;

/// Which Placement the command works on.
#[derive(Debug, clap::Args)]
pub(super) struct PlacementChoice {
    /// Work directly on this database, which no service may have open; default: the Placement of [placement], or that
    /// of `berth up`. file:PATH reads the URL from a file.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Read [placement_database] connection from this configuration file of OpenStack's Placement.
    #[arg(long, value_name = "FILE", conflicts_with = "database")]
    placement_config: Option<PathBuf>,
}

/// A client of a Placement, and the database behind it if that runs in this process.
pub(super) struct OpenPlacement {
    pub(super) placement: PlacementClient,
    store: Option<SqlStore>,
}

impl PlacementChoice {
    /// Opens the Placement; a database is opened read-only if nothing is to be changed.
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
        refuse_if_open_elsewhere(&url)?;
        let read_only = database::open_read_only(&url).await?;
        refuse_service_sessions(&read_only).await?;
        let store = match intent {
            Intent::Observe => read_only,
            Intent::Act => {
                read_only.close().await;
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

/// One node of this host, as observed and as Placement has it.
pub(super) struct NodeAllocations {
    pub(super) name: NodeName,
    pub(super) seen: NodeView,
    pub(super) tree: ProviderTree,
    pub(super) held: Allocations,
}

/// All nodes of this host.
pub(super) struct HostAllocations {
    pub(super) nodes: Vec<NodeAllocations>,
    pub(super) journal: Vec<GuestRecord>,
}

impl HostAllocations {
    /// Reads everything, the journal first and last: a guest that is in neither was never requested here.
    pub(super) async fn at(placement: &PlacementClient, config: &Config) -> Result<Self, Failure> {
        let mut host =
            HostNodes::observe(config, placement, Rename::Refuse, Intent::Observe).await?;
        if host.view.hypervisor.kind == BARE_METAL {
            let what = "bare metal nodes are managed by their own service";
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
                    "node {name} must be reshaped first: its guests' allocations are on providers that this version does not use"
                );
                return Err(Failure::new(ErrorCode::Refused, what).hint(
                    "start its agent, or run berth placement migrate-compute-inventory, then repeat",
                ));
            }
            let tree = tracker.report().known_tree();
            let known = tree.filter(|tree| tree.root().generation.is_some());
            let Some(tree) = known.cloned() else {
                let what = format!("Placement does not know node {name}");
                return Err(Failure::new(ErrorCode::Refused, what)
                    .hint("start its agent, which reports the node, then repeat"));
            };
            let mut held = tracker
                .report()
                .allocations(&tree, &*bar)
                .await
                .map_err(|error| {
                    Failure::caused(
                        ErrorCode::Unavailable,
                        "cannot read the allocations",
                        &error,
                    )
                })?;
            let Some(seen) = host.view.nodes.remove(&name) else {
                continue;
            };
            // A guest without allocations in this tree may have some elsewhere.
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
        // Guests that were created meanwhile are known, too.
        let known: BTreeSet<_> = journal.iter().map(|it| it.request.uuid()).collect();
        let later = self::journal(config).await?;
        journal.extend(
            later
                .into_iter()
                .filter(|it| !known.contains(&it.request.uuid())),
        );
        Ok(Self { nodes, journal })
    }

    pub(super) fn findings(&self) -> Vec<(&NodeAllocations, AuditFinding)> {
        let of_node = |node: &'_ NodeAllocations| {
            allocation_audit::audit(&AuditInput {
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

/// The agent's record of its guests.
async fn journal(config: &Config) -> Result<Vec<GuestRecord>, Failure> {
    let journal = SqlJournal::observe_guests(&config.state_path).await;
    journal.map_err(|error| {
        Failure::caused(
            ErrorCode::State,
            "cannot read the agent's record of guests",
            &error,
        )
    })
}
