//! One pass over one node, as an owned task: it has the node's tracker while it runs and gives it back at its end, so no
//! trigger and no stop can cancel it half-way, and nodes wait for each other nowhere.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_agent_tracker::node_identity::{Known, UuidSource, identify};
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::propose::ResourceTracker;
use berth_agent_tracker::report_client::ReportClient;
use berth_agent_tracker::startup::{self, ReviewedPlans};
use berth_agent_tracker::{complete, rename, tick};
use berth_client::PlacementClient;
use berth_model::{Held, NodeName, ProviderTree, ProviderUuid, TreeDiff};
use berth_store::state_dir::StateFiles;
use berth_virt::{HostView, VirtDriver};
use tokio::time::Instant;

use crate::service::error::PassError;
use crate::service::progress_watchdog::ProgressWatchdog;

/// What every pass needs of the world.
pub(super) struct PassContext<D> {
    pub(super) driver: Arc<D>,
    pub(super) placement: PlacementClient,
    pub(super) files: Arc<dyn StateFiles>,
}

/// A node whose identity is clear, with its tracker; none until somebody asked who it is.
pub(super) type TrackerSlot<D> = Option<Box<Identified<D>>>;

/// A node with its tracker.
pub(super) struct Identified<D> {
    tracker: ResourceTracker<D>,
    root: ProviderUuid,
    known: Known,
    options: Arc<TrackerOptions>,
}

/// Which of the two journeys a pass is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Journey {
    /// The first pass of a node known at the process's start: it may reshape.
    Startup,
    Tick,
}

/// What a pass is to do.
pub(super) struct Order {
    pub(super) node: NodeName,
    pub(super) uuid: UuidSource,
    pub(super) view: Arc<HostView>,
    /// The number of the observation that `view` came from.
    pub(super) sequence: u64,
    pub(super) journey: Journey,
    pub(super) service: complete::Service,
    pub(super) options: Arc<TrackerOptions>,
    pub(super) reviewed: Option<Arc<ReviewedPlans>>,
    /// The tree as it was shown last.
    pub(super) shown: Option<Arc<ProviderTree>>,
    pub(super) pulse: Arc<ProgressWatchdog>,
    /// Providers that Placement was seen without.
    pub(super) missing: BTreeSet<ProviderUuid>,
}

/// What a pass did.
pub(super) struct Passed {
    /// The reshapes it sent and the changes it wrote, for a reader; empty where there was nothing to do.
    pub(super) text: String,
    pub(super) reshapes: usize,
    pub(super) changed: TreeDiff,
    pub(super) held: Vec<Held>,
}

/// A pass that came back.
pub(super) struct Returned<D> {
    pub(super) node: NodeName,
    pub(super) sequence: u64,
    pub(super) journey: Journey,
    pub(super) progressed: TrackerSlot<D>,
    pub(super) outcome: Result<Passed, PassError>,
    pub(super) root: Option<ProviderUuid>,
    pub(super) tree: Option<Arc<ProviderTree>>,
    pub(super) took: Duration,
}

pub(super) async fn run<D: VirtDriver>(
    surroundings: Arc<PassContext<D>>,
    mut progressed: TrackerSlot<D>,
    order: Order,
) -> Returned<D> {
    let start = Instant::now();
    let outcome = work(&surroundings, &mut progressed, &order).await;
    let root = progressed.as_ref().map(|node| node.root);
    let known = progressed
        .as_ref()
        .and_then(|node| node.tracker.report().known_tree());
    let tree = shown(known, &order);
    let Order {
        node,
        sequence,
        journey,
        ..
    } = order;
    Returned {
        node,
        sequence,
        journey,
        progressed,
        outcome,
        root,
        tree,
        took: start.elapsed(),
    }
}

/// The tree to show: the same value as before where nothing changed.
fn shown(known: Option<&ProviderTree>, order: &Order) -> Option<Arc<ProviderTree>> {
    match (known, &order.shown) {
        // After an error the cache is empty; what was shown is still the last that was known.
        (None, before) => before.clone(),
        (Some(known), Some(before)) if *known == **before => Some(Arc::clone(before)),
        (Some(known), _) => Some(Arc::new(known.clone())),
    }
}

async fn work<D: VirtDriver>(
    surroundings: &PassContext<D>,
    progressed: &mut TrackerSlot<D>,
    order: &Order,
) -> Result<Passed, PassError> {
    let node = identified(surroundings, progressed, order).await?;
    node.tracker.doubt(&order.missing);
    if !Arc::ptr_eq(&node.options, &order.options) {
        node.options = Arc::clone(&order.options);
        node.tracker.set_options((*order.options).clone());
    }
    if let Known::Renamed { from } = &node.known {
        rename::reconcile(&mut node.tracker, from, Instant::now())
            .await
            .map_err(PassError::Rename)?;
        node.known = Known::ByName;
    }
    match order.journey {
        Journey::Startup => start(node, order).await,
        Journey::Tick => tick(node, order).await,
    }
}

async fn identified<'a, D: VirtDriver>(
    surroundings: &PassContext<D>,
    progressed: &'a mut TrackerSlot<D>,
    order: &Order,
) -> Result<&'a mut Identified<D>, PassError> {
    let node = match progressed.take() {
        Some(node) => node,
        None => Box::new(identify_new(surroundings, order).await?),
    };
    Ok(progressed.insert(node))
}

async fn identify_new<D: VirtDriver>(
    surroundings: &PassContext<D>,
    order: &Order,
) -> Result<Identified<D>, PassError> {
    let files = surroundings.files.as_ref();
    let placement = &surroundings
        .placement
        .clone()
        .with_observer(Arc::clone(&order.pulse) as _);
    let identity = identify(
        &order.node,
        &order.uuid,
        files,
        placement,
        order.options.rename,
    )
    .await?;
    let (root, options) = (identity.root, Arc::clone(&order.options));
    let report = ReportClient::new(placement.clone(), order.node.clone(), root, &options);
    let driver = Arc::clone(&surroundings.driver);
    let tracker = ResourceTracker::new(driver, order.node.clone(), report, (*options).clone())
        .remembering_in(Arc::clone(&surroundings.files));
    Ok(Identified {
        tracker,
        root,
        known: identity.known,
        options,
    })
}

async fn start<D: VirtDriver>(
    node: &mut Identified<D>,
    order: &Order,
) -> Result<Passed, PassError> {
    let pulse = Arc::clone(&order.pulse);
    let progress = move |read: usize, all: usize| pulse.read(read, all, Instant::now());
    let reviewed = order.reviewed.as_deref();
    let started = startup::reconcile(
        &mut node.tracker,
        &order.view,
        order.service,
        Instant::now(),
        reviewed,
        &progress,
    )
    .await?;
    let mut text: String = started.reshapes.iter().map(ToString::to_string).collect();
    text.push_str(&started.changed.to_string());
    Ok(Passed {
        text,
        reshapes: started.reshapes.len(),
        changed: started.changed,
        held: started.held,
    })
}

async fn tick<D: VirtDriver>(node: &mut Identified<D>, order: &Order) -> Result<Passed, PassError> {
    let ticked = tick::reconcile(
        &mut node.tracker,
        &order.view,
        order.service,
        Instant::now(),
    )
    .await?;
    Ok(Passed {
        text: ticked.changed.to_string(),
        reshapes: 0,
        changed: ticked.changed,
        held: ticked.held,
    })
}
