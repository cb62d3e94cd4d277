//! The nodes of this host for commands that read or act once: observed, identified, each with its resource tracker.

use std::sync::Arc;

use berth_agent_devices::overlay_all;
use berth_agent_journal::SqlJournal;
use berth_agent_tracker::complete::Service;
use berth_agent_tracker::disabled;
use berth_agent_tracker::node_identity::{
    NodeIdentity, NodeIdentityError, PlacementRecord, UuidSource, identify, identify_read_only,
};
use berth_agent_tracker::options::{Rename, TrackerOptions};
use berth_agent_tracker::propose::ResourceTracker;
use berth_agent_tracker::report_client::ReportClient;
use berth_client::PlacementClient;
use berth_config::Config;
use berth_model::{Disposition, NodeName};
use berth_output::{ErrorCode, Failure};
use berth_store::state_dir::StateDir;
use berth_virt::{HostView, VirtDriver};

use crate::placement_failure::placement_error_code;
use crate::tracker::tracker_options;
use crate::{Driver, open_driver};

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
        let mut view = driver.observe().await.map_err(|error| {
            let code = match error.disposition() {
                Disposition::Fatal => ErrorCode::Driver,
                Disposition::Retry | Disposition::Refresh => ErrorCode::Unavailable,
            };
            Failure::caused(code, "cannot observe this host", &error)
        })?;
        let devices = SqlJournal::observe_devices(&config.state_path).await;
        let devices = devices.map_err(|error| {
            let what = "cannot read which devices are set aside";
            Failure::caused(ErrorCode::State, what, &error)
        })?;
        overlay_all(&mut view, &devices);
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
            let identity = identity.map_err(|error| {
                let code = match &error {
                    NodeIdentityError::Placement { source, .. } => placement_error_code(source),
                    NodeIdentityError::File { .. } => ErrorCode::State,
                    _ => ErrorCode::Identity,
                };
                Failure::caused(code, format!("cannot identify node {node}"), &error)
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
