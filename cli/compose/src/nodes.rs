//! The nodes of this host for commands that read or act once: observed, identified, each with its resource tracker.

use std::sync::Arc;
use std::time::Duration;

use berth_agent_api::body::{NodeBody, StateBody};
use berth_agent_api::client::{AdminClient, AdminClientError};
use berth_agent_devices::overlay_all;
use berth_agent_journal::SqlJournal;
use berth_agent_tracker::complete::Service;
use berth_agent_tracker::disabled;
use berth_agent_tracker::node_identity::{
    NodeIdentity, NodeIdentityError, PlacementRecord, UuidSource, identify, identify_read_only,
};
use berth_agent_tracker::options::{Rename, TrackerOptions};
use berth_agent_tracker::propose::ResourceTracker;
use berth_agent_tracker::report_client::{ReportClient, ReportError};
use berth_client::{PlacementClient, TransportError};
use berth_config::Config;
use berth_model::{NodeName, ProviderTree, ProviderUuid, Usages};
use berth_output::{ErrorCode, Failure};
use berth_store::state_dir::StateDir;
use berth_virt::{HostView, VirtDriver};
use tokio::time::Instant;

use crate::guests::fabric_partitions;
use crate::placement_failure::{failure_of_placement, observe_failure, placement_error_code};
use crate::tracker::tracker_options;
use crate::{Driver, open_driver, socket_denied};

/// Whether the UUID of a node without one is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Nothing is stored.
    Observe,
    /// The UUID is stored before anything is sent.
    Act,
}

/// This host, observed once.
pub struct HostNodes {
    pub view: HostView,
    /// Whether an operator has disabled the host.
    pub service: Service,
    /// Each node with its identity and its tracker.
    pub nodes: Vec<(NodeIdentity, ResourceTracker<Driver>)>,
}

impl HostNodes {
    /// Observes this host and identifies its nodes. Device states that only the agent knows (quarantined, disabled,
    /// failed health checks) are applied to the observation, so the result is the same as an agent's.
    pub async fn observe(
        config: &Config,
        placement: &PlacementClient,
        rename: Rename,
        intent: Intent,
    ) -> Result<Self, Failure> {
        let driver = Arc::new(open_driver(config)?);
        let mut view = match driver.observe().await {
            Ok(view) => view,
            Err(error) => {
                let failure = observe_failure(&error);
                return Err(match running_agent(config).await? {
                    Some(agent) if agent.driver != driver.name() => {
                        failure.hint(format!(
                            "the running agent uses the driver {}: give this command its options, such as --machine FILE",
                            agent.driver
                        ))
                    }
                    _ => failure,
                });
            }
        };
        let devices = SqlJournal::observe_devices(&config.state_path).await;
        let devices = devices.map_err(|error| {
            let what = "cannot read which devices are set aside";
            Failure::caused(ErrorCode::State, what, &error)
        })?;
        // The agent warns of partitions that the host cannot offer.
        let _ = overlay_all(&mut view, &devices, &fabric_partitions(config)?);
        let options = tracker_options(config, rename)?;
        let files = match intent {
            // A running agent may be writing there.
            Intent::Observe => StateDir::read_only(&config.state_path),
            Intent::Act => StateDir::open(&config.state_path)
                .map_err(|error| Failure::caused(ErrorCode::State, "the state folder", &error))?,
        };
        let disabled = disabled::load(&files).await.map_err(|error| {
            Failure::caused(
                ErrorCode::State,
                "cannot read whether this host is disabled",
                &error,
            )
        })?;
        let mut nodes = Vec::new();
        for node in view.nodes.keys() {
            let from = UuidSource::of(&view, node);
            let identity = match intent {
                Intent::Observe => identify_read_only(node, &from, &files, placement).await,
                Intent::Act => identify(node, &from, &files, placement, rename).await,
            };
            let identity = identity.map_err(|error| match &error {
                NodeIdentityError::Placement { source, .. } => {
                    failure_of_placement(placement_error_code(source), source)
                }
                NodeIdentityError::File { .. } => Failure::from_error(ErrorCode::State, &error),
                _ => Failure::from_error(ErrorCode::Identity, &error),
            })?;
            let tracker = tracker(&driver, placement, node, &identity, &options)
                .with_state_files(Arc::new(files.clone()));
            nodes.push((identity, tracker));
        }
        Ok(Self {
            view,
            service: disabled.service(),
            nodes,
        })
    }

    /// The nodes whose rename was accepted.
    #[must_use]
    pub fn renamed(&self) -> Vec<&NodeName> {
        let renamed = |(identity, _): &&(NodeIdentity, _)| {
            matches!(identity.in_placement, PlacementRecord::Renamed { .. })
        };
        self.nodes
            .iter()
            .filter(renamed)
            .map(|(identity, _)| &identity.node)
            .collect()
    }
}

/// The state of this host's agent; `None` if it does not run.
///
/// Errors: This user may not use the agent's socket.
async fn running_agent(config: &Config) -> Result<Option<StateBody>, Failure> {
    let Ok(client) = AdminClient::new(&config.agent.admin_socket) else {
        return Ok(None);
    };
    match client.with_timeout(AGENT_TIMEOUT).state().await {
        Ok(state) => Ok(Some(state)),
        Err(AdminClientError::Unreachable { source, .. })
            if matches!(source, TransportError::Denied { .. }) =>
        {
            Err(socket_denied(&source))
        }
        Err(_) => Ok(None),
    }
}

/// The provider trees of this host's nodes, with their usages, from Placement. The nodes are those of the running agent;
/// without one, this host is observed.
pub async fn trees_of_host(
    config: &Config,
    placement: &PlacementClient,
) -> Result<Vec<(ProviderTree, Usages)>, Failure> {
    let known = match running_agent(config).await? {
        Some(agent) => agent.nodes.into_iter().filter_map(identified).collect(),
        None => Vec::new(),
    };
    let options = tracker_options(config, Rename::Refuse)?;
    let mut reports = Vec::new();
    if known.is_empty() {
        // If a node's provider has another name than the node, observing fails: the tree may belong to another host.
        let host = HostNodes::observe(config, placement, Rename::Refuse, Intent::Observe).await?;
        let nodes = host.nodes.into_iter().map(|(identity, _)| identity);
        reports.extend(nodes.map(|it| (it.node, it.root)));
    } else {
        reports.extend(known);
    }
    let mut trees = Vec::new();
    for (node, root) in reports {
        let mut report = ReportClient::new(placement.clone(), node, root, &options);
        let tree = report.tree_with_usages(Instant::now()).await;
        trees.push(tree.map_err(|error| report_failure(&error))?);
    }
    Ok(trees)
}

/// A node of the agent's with its root provider.
fn identified(node: NodeBody) -> Option<(NodeName, ProviderUuid)> {
    let root = node.root?.parse().ok()?;
    Some((NodeName::new(&node.name).ok()?, root))
}

fn report_failure(error: &ReportError) -> Failure {
    match error.placement() {
        Some(placement) => failure_of_placement(placement_error_code(placement), placement),
        None => Failure::from_error(ErrorCode::Unavailable, error),
    }
}

/// How long the agent may take to answer a question that has another source, too.
const AGENT_TIMEOUT: Duration = Duration::from_secs(3);

fn tracker(
    driver: &Arc<Driver>,
    placement: &PlacementClient,
    node: &NodeName,
    identity: &NodeIdentity,
    options: &TrackerOptions,
) -> ResourceTracker<Driver> {
    let report = ReportClient::new(placement.clone(), node.clone(), identity.root, options);
    ResourceTracker::new(Arc::clone(driver), node.clone(), report, options.clone())
}
