//! One pass over one node, as a task that owns the node's tracker and returns it at the end. So no trigger and no stop
//! can cancel a pass halfway, and nodes do not wait for each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_agent_tracker::node_identity::{PlacementRecord, UuidSource, identify};
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::propose::ResourceTracker;
use berth_agent_tracker::report_client::ReportClient;
use berth_agent_tracker::startup::{self, ReviewedPlans};
use berth_agent_tracker::{complete, rename, tick};
use berth_client::PlacementClient;
use berth_model::{HeldUnits, NodeName, ProviderTree, ProviderUuid, TreeDiff};
use berth_store::state_dir::StateFiles;
use berth_virt::{HostView, VirtDriver};
use tokio::time::Instant;

use crate::service::error::PassError;
use crate::service::progress_watchdog::ProgressWatchdog;

/// What all passes share.
pub(super) struct PassContext<D> {
    pub(super) driver: Arc<D>,
    pub(super) placement: PlacementClient,
    pub(super) files: Arc<dyn StateFiles>,
}

/// The tracker of a node; `None` until the node is identified.
pub(super) type TrackerSlot<D> = Option<Box<TrackedNode<D>>>;

/// An identified node with its tracker.
pub(super) struct TrackedNode<D> {
    tracker: ResourceTracker<D>,
    root: ProviderUuid,
    known: PlacementRecord,
    options: Arc<TrackerOptions>,
}

/// Kind of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassKind {
    /// The first pass of a node that exists when the process starts; it may reshape.
    Startup,
    Tick,
}

/// Input of a pass.
pub(super) struct PassRequest {
    pub(super) node: NodeName,
    pub(super) uuid: UuidSource,
    pub(super) view: Arc<HostView>,
    /// Number of the observation that `view` comes from.
    pub(super) sequence: u64,
    pub(super) kind: PassKind,
    pub(super) service: complete::Service,
    pub(super) options: Arc<TrackerOptions>,
    pub(super) reviewed: Option<Arc<ReviewedPlans>>,
    /// The last published tree.
    pub(super) shown: Option<Arc<ProviderTree>>,
    pub(super) watchdog: Arc<ProgressWatchdog>,
    /// Providers that Placement no longer has.
    pub(super) missing: BTreeSet<ProviderUuid>,
}

/// What a pass changed.
pub(super) struct PassChanges {
    /// The sent reshapes and changes as text; empty without changes.
    pub(super) text: String,
    pub(super) reshapes: usize,
    pub(super) changed: TreeDiff,
    pub(super) held: Vec<HeldUnits>,
}

pub(super) struct FinishedPass<D> {
    pub(super) node: NodeName,
    pub(super) sequence: u64,
    pub(super) kind: PassKind,
    pub(super) tracker_slot: TrackerSlot<D>,
    pub(super) outcome: Result<PassChanges, PassError>,
    pub(super) root: Option<ProviderUuid>,
    pub(super) tree: Option<Arc<ProviderTree>>,
    pub(super) took: Duration,
}

pub(super) async fn run<D: VirtDriver>(
    context: Arc<PassContext<D>>,
    mut tracker_slot: TrackerSlot<D>,
    request: PassRequest,
) -> FinishedPass<D> {
    let start = Instant::now();
    let outcome = run_pass(&context, &mut tracker_slot, &request).await;
    let root = tracker_slot.as_ref().map(|node| node.root);
    let known = tracker_slot
        .as_ref()
        .and_then(|node| node.tracker.report().known_tree());
    let tree = shown(known, &request);
    let PassRequest {
        node,
        sequence,
        kind,
        ..
    } = request;
    FinishedPass {
        node,
        sequence,
        kind,
        tracker_slot,
        outcome,
        root,
        tree,
        took: start.elapsed(),
    }
}

/// The tree to publish: the same value as before if it is unchanged.
fn shown(known: Option<&ProviderTree>, request: &PassRequest) -> Option<Arc<ProviderTree>> {
    match (known, &request.shown) {
        // After an error the cache is empty; the published tree is still the last known one.
        (None, before) => before.clone(),
        (Some(known), Some(before)) if *known == **before => Some(Arc::clone(before)),
        (Some(known), _) => Some(Arc::new(known.clone())),
    }
}

async fn run_pass<D: VirtDriver>(
    context: &PassContext<D>,
    tracker_slot: &mut TrackerSlot<D>,
    request: &PassRequest,
) -> Result<PassChanges, PassError> {
    let node = ensure_tracked_node(context, tracker_slot, request).await?;
    node.tracker.forget_if_missing(&request.missing);
    if !Arc::ptr_eq(&node.options, &request.options) {
        node.options = Arc::clone(&request.options);
        node.tracker.set_options((*request.options).clone());
    }
    if let PlacementRecord::Renamed { from } = &node.known {
        rename::reconcile(&mut node.tracker, from, Instant::now())
            .await
            .map_err(PassError::Rename)?;
        node.known = PlacementRecord::SameName;
    }
    match request.kind {
        PassKind::Startup => start(node, request).await,
        PassKind::Tick => tick(node, request).await,
    }
}

async fn ensure_tracked_node<'a, D: VirtDriver>(
    context: &PassContext<D>,
    tracker_slot: &'a mut TrackerSlot<D>,
    request: &PassRequest,
) -> Result<&'a mut TrackedNode<D>, PassError> {
    let node = match tracker_slot.take() {
        Some(node) => node,
        None => Box::new(identify_new(context, request).await?),
    };
    Ok(tracker_slot.insert(node))
}

async fn identify_new<D: VirtDriver>(
    context: &PassContext<D>,
    request: &PassRequest,
) -> Result<TrackedNode<D>, PassError> {
    let files = context.files.as_ref();
    let placement = &context
        .placement
        .clone()
        .with_observer(Arc::clone(&request.watchdog) as _);
    let identity = identify(
        &request.node,
        &request.uuid,
        files,
        placement,
        request.options.rename,
    )
    .await?;
    let (root, options) = (identity.root, Arc::clone(&request.options));
    let report = ReportClient::new(placement.clone(), request.node.clone(), root, &options);
    let driver = Arc::clone(&context.driver);
    let tracker = ResourceTracker::new(driver, request.node.clone(), report, (*options).clone())
        .with_state_files(Arc::clone(&context.files));
    Ok(TrackedNode {
        tracker,
        root,
        known: identity.in_placement,
        options,
    })
}

async fn start<D: VirtDriver>(
    node: &mut TrackedNode<D>,
    request: &PassRequest,
) -> Result<PassChanges, PassError> {
    let watchdog = Arc::clone(&request.watchdog);
    let progress = move |read: usize, all: usize| watchdog.read(read, all, Instant::now());
    let reviewed = request.reviewed.as_deref();
    let started = startup::reconcile(
        &mut node.tracker,
        &request.view,
        request.service,
        Instant::now(),
        reviewed,
        &progress,
    )
    .await?;
    let mut text: String = started.reshapes.iter().map(ToString::to_string).collect();
    text.push_str(&started.changed.to_string());
    Ok(PassChanges {
        text,
        reshapes: started.reshapes.len(),
        changed: started.changed,
        held: started.held,
    })
}

async fn tick<D: VirtDriver>(
    node: &mut TrackedNode<D>,
    request: &PassRequest,
) -> Result<PassChanges, PassError> {
    let ticked = tick::reconcile(
        &mut node.tracker,
        &request.view,
        request.service,
        Instant::now(),
    )
    .await?;
    Ok(PassChanges {
        text: ticked.changed.to_string(),
        reshapes: 0,
        changed: ticked.changed,
        held: ticked.held,
    })
}
