//! The first pass of a process, and the only one that may reshape. If the driver models the machine differently from
//! Placement's tree, it reads all allocations of the tree, assigns them to their new providers, and moves them together
//! with the inventory by one POST /reshaper. The offline upgrade uses the same function with another transport.
//!
//! ```text
//! propose ─► update needed ───────────────► write ─► done
//!    ▲    └► reshape needed ─► resolve ─► send ─┐
//!    └─────────────────────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use berth_client::{JitterRng, PlacementError};
use berth_model::{
    Disposition, HeldUnits, NodeName, PendingReshape, Plan, ProviderTree, ProviderUuid,
    ReshapeRefused, ReshapeRequest, TreeDiff, error_chain,
};
use berth_virt::{HostView, TreePair, VirtDriver};
use tokio::time::{Instant, sleep};

use crate::complete::Service;
use crate::propose::{Proposal, ProposeError, ResourceTracker, ReviewedPlanProgress};
use crate::report_client::ReportError;
use crate::tick::REFRESHES;

/// Result of a startup pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartupOutcome {
    /// Sent reshapes in order. Usually none; several if one model builds on another.
    pub reshapes: Vec<ReshapeRequest>,
    /// Changes by plain updates.
    pub changed: TreeDiff,
    /// Units that are held on their old provider.
    pub held: Vec<HeldUnits>,
}

/// What a startup pass would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preview {
    InSync {
        /// Units that are held on their old provider.
        held: Vec<HeldUnits>,
    },
    Update {
        diff: TreeDiff,
        /// Units that are held on their old provider.
        held: Vec<HeldUnits>,
    },
    Reshape(Box<ReshapeRequest>),
}

/// A plan that an operator has reviewed. A start with such a plan executes exactly this plan, or fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewedPlan {
    pub text: String,
    /// Generations of the tree on which it is based.
    pub generations: BTreeMap<ProviderUuid, i64>,
}

/// Reviewed plans of all nodes of the host.
pub type ReviewedPlans = BTreeMap<NodeName, ReviewedPlan>;

/// The plan of one node. The plans must be for exactly the nodes of the host.
fn reviewed_of<'a>(
    plans: &'a ReviewedPlans,
    node: &NodeName,
    view: &HostView,
) -> Result<&'a ReviewedPlan, StartupError> {
    let moved = |reason: String| StartupError::PlanMoved { reason };
    if let Some(gone) = plans.keys().find(|name| !view.nodes.contains_key(*name)) {
        return Err(moved(format!(
            "it has a plan for node {gone}, which this host does not have"
        )));
    }
    if let Some(new) = view.nodes.keys().find(|name| !plans.contains_key(*name)) {
        return Err(moved(format!("it has no plan for node {new}")));
    }
    plans
        .get(node)
        .ok_or_else(|| moved(format!("it has no plan for node {node}")))
}

/// A failed startup pass.
#[derive(Debug, thiserror::Error)]
pub enum StartupError {
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// A plain update failed, or the allocations could not be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// No valid reshape exists; nothing was sent.
    #[error("ReshapeFailed: no valid reshape exists")]
    Refused(#[source] Box<ReshapeRefused>),
    /// Placement refused the reshape; its new providers were deleted.
    #[error("ReshapeFailed: Placement refused the reshape")]
    Failed(#[source] Box<ReportError>),
    /// Placement refused the reshape, and also refuses to delete its new providers.
    #[error(
        "ReshapeFailed: Placement refused the reshape, and its new providers could not be deleted ({left}); they are empty, \
         and a later reshape uses them"
    )]
    FailedAndLeft {
        /// The remaining providers and the error.
        left: String,
        #[source]
        source: Box<ReportError>,
    },
    /// Placement confirmed the reshape without performing it.
    #[error(
        "ReshapeFailed: Placement confirmed the reshape {times} times, but its tree is unchanged; a proxy may answer in its \
         place, or it reads from a database replica that does not receive its writes"
    )]
    NotDone {
        /// Number of attempts.
        times: usize,
    },
    /// The facts differ from the reviewed plan; nothing was sent.
    #[error(
        "ReshapeFailed: the reviewed plan is no longer valid; {reason}; make a new one with berth reshape plan --out"
    )]
    PlanMoved { reason: String },
    /// The driver wants another reshape each time.
    #[error(
        "ReshapeFailed: after {times} reshapes, the driver still requires another one; its model contradicts itself"
    )]
    Endless {
        /// Number of completed reshapes.
        times: usize,
    },
}

impl StartupError {
    /// What the startup loop should do.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            StartupError::Propose(propose) => propose.disposition(),
            StartupError::Report(report) => report.disposition(),
            StartupError::Refused(_)
            | StartupError::Failed(_)
            | StartupError::FailedAndLeft { .. }
            | StartupError::NotDone { .. }
            | StartupError::PlanMoved { .. }
            | StartupError::Endless { .. } => Disposition::Fatal,
        }
    }

    /// The error of the plan, if it could not be made.
    #[must_use]
    pub fn propose(&self) -> Option<&ProposeError> {
        match self {
            StartupError::Propose(error) => Some(error),
            _ => None,
        }
    }

    /// The error of the Placement request, if one failed.
    #[must_use]
    pub fn placement(&self) -> Option<&PlacementError> {
        match self {
            StartupError::Report(report) | StartupError::Propose(ProposeError::Report(report)) => {
                report.placement()
            }
            StartupError::Failed(report) | StartupError::FailedAndLeft { source: report, .. } => {
                report.placement()
            }
            _ => None,
        }
    }

    /// Whether this is a failed reshape (exit code 76).
    #[must_use]
    pub fn is_reshape_failed(&self) -> bool {
        !matches!(self, StartupError::Propose(_) | StartupError::Report(_))
    }
}

/// Maximum number of reshapes of one start. Models that build on each other need one each, and there are three models.
const RESHAPES: usize = 6;

/// Longest pause before a new plan after a conflict, if it is not made at once.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether the update renamed providers.
fn gives_names(changed: &TreeDiff) -> bool {
    changed
        .changed
        .iter()
        .any(|change| change.renamed.is_some())
}

/// Whether another writer changed the tree before the reshape arrived. Where guests start and stop all the time, an
/// early retry is likely to succeed; the loop's longer backoff is not.
fn is_lost_race(error: &StartupError) -> bool {
    matches!(
        error.placement(),
        Some(PlacementError::Conflict(refusal)) if refusal.request.route == "/reshaper"
    )
}

/// Callback for the progress of reading allocations: consumers read, and their total number.
pub type GatherProgress<'a> = &'a (dyn Fn(usize, usize) + Send + Sync);

/// Makes Placement's tree equal to the observed host, with reshapes if necessary.
pub async fn reconcile<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
    reviewed: Option<&ReviewedPlans>,
    progress: GatherProgress<'_>,
) -> Result<StartupOutcome, StartupError> {
    let mut reshapes = Vec::new();
    let mut reviewed = reviewed
        .map(|plans| reviewed_of(plans, &tracker.node, view))
        .transpose()?;
    let mut renamed = Vec::new();
    let mut refreshes = 0;
    let (rng, _) = tracker.report.root().as_uuid().as_u64_pair();
    let rng = JitterRng::seeded(rng);
    loop {
        match step(tracker, view, service, now, reviewed, &reshapes, progress).await {
            Ok(StartupStep::Reshaped(request)) => {
                reshapes.push(*request);
                // The reviewed plan is done; further changes follow from it.
                reviewed = None;
            }
            // What a renamed child has is only known after it has its new name.
            Ok(StartupStep::Settled { changed, .. })
                if renamed.is_empty() && gives_names(&changed) =>
            {
                renamed = changed.changed;
            }
            Ok(StartupStep::Settled { mut changed, held }) => {
                changed.changed.extend(renamed);
                return Ok(StartupOutcome {
                    reshapes,
                    changed,
                    held,
                });
            }
            Err(error) => {
                if error.disposition() != Disposition::Refresh {
                    return Err(error);
                }
                if refreshes >= REFRESHES {
                    if !is_lost_race(&error) || tracker.race_retries == 0 {
                        return Err(error);
                    }
                    tracker.race_retries -= 1;
                    sleep(PAUSE.mul_f64(rng.fraction())).await;
                }
                refreshes += 1;
                tracker.forget();
            }
        }
    }
}

enum StartupStep {
    Reshaped(Box<ReshapeRequest>),
    Settled {
        changed: TreeDiff,
        held: Vec<HeldUnits>,
    },
}

async fn step<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
    reviewed: Option<&ReviewedPlan>,
    sent: &[ReshapeRequest],
    progress: GatherProgress<'_>,
) -> Result<StartupStep, StartupError> {
    let held = match sent {
        [] => HeldUnitsState::MayHaveHomes,
        _ => HeldUnitsState::HaveNone,
    };
    let proposal = tracker.propose(view, service, now).await?;
    if let Some(request) = resolve(tracker, view, &proposal, held, progress).await? {
        if sent.len() >= RESHAPES {
            tracker
                .report
                .delete_unused_providers(&request, now)
                .await?;
            return Err(too_many_reshapes(sent, &request));
        }
        review_reshape(tracker, reviewed, &request, &proposal, now).await?;
        tracker.record_applied(&proposal).await?;
        send(tracker, &request, now).await?;
        if reviewed.is_some() {
            tracker.review_progress = Some(ReviewedPlanProgress::Reshaped);
        }
        return Ok(StartupStep::Reshaped(Box::new(request)));
    }
    if reviewed.is_some() && tracker.review_progress.is_none() {
        check_reviewed(reviewed, &proposal.plan.to_string(), &proposal)?;
        tracker.review_progress = Some(ReviewedPlanProgress::Update);
    }
    tracker.record_applied(&proposal).await?;
    match proposal.plan {
        Plan::Update { diff, held } => {
            tracker.write(&diff, &proposal.current).await?;
            Ok(StartupStep::Settled {
                changed: diff,
                held,
            })
        }
        Plan::InSync { held } => Ok(StartupStep::Settled {
            changed: TreeDiff::default(),
            held,
        }),
        Plan::ReshapeNeeded(_) => Ok(StartupStep::Settled {
            changed: TreeDiff::default(),
            held: vec![],
        }),
    }
}

/// The error for too many reshapes.
fn too_many_reshapes(sent: &[ReshapeRequest], next: &ReshapeRequest) -> StartupError {
    let times = sent.len();
    match sent.iter().all(|sent| sends_same_request(sent, next)) {
        true => StartupError::NotDone { times },
        false => StartupError::Endless { times },
    }
}

/// What a startup pass would do. Changes nothing.
pub async fn preview<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
    progress: GatherProgress<'_>,
) -> Result<(Preview, ReviewedPlan), StartupError> {
    let proposal = tracker.propose(view, service, now).await?;
    let held = HeldUnitsState::MayHaveHomes;
    let request = resolve(tracker, view, &proposal, held, progress).await?;
    let text = request
        .as_ref()
        .map_or_else(|| proposal.plan.to_string(), ToString::to_string);
    let reviewed = ReviewedPlan {
        text,
        generations: generations(&proposal),
    };
    let preview = match (request, proposal.plan) {
        (Some(request), _) => Preview::Reshape(Box::new(request)),
        (None, Plan::Update { diff, held }) => Preview::Update { diff, held },
        (None, Plan::InSync { held }) => Preview::InSync { held },
        (None, Plan::ReshapeNeeded(_)) => Preview::InSync { held: Vec::new() },
    };
    Ok((preview, reviewed))
}

/// Whether held units may have a new provider now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldUnitsState {
    /// They were held before this start: a device may be back, a guest may be known again.
    MayHaveHomes,
    /// This start has already searched for a new provider.
    HaveNone,
}

/// The reshape to send, if one is needed: for inventory that moves, or for held units that have a new provider. It
/// always changes inventory.
async fn resolve<D: VirtDriver>(
    tracker: &ResourceTracker<D>,
    view: &HostView,
    proposal: &Proposal,
    held_units: HeldUnitsState,
    progress: GatherProgress<'_>,
) -> Result<Option<ReshapeRequest>, StartupError> {
    let pending = match &proposal.plan {
        Plan::ReshapeNeeded(pending) => Some(pending.clone()),
        Plan::InSync { held } | Plan::Update { held, .. }
            if !held.is_empty() && held_units == HeldUnitsState::MayHaveHomes =>
        {
            PendingReshape::rehoming(&proposal.current, &proposal.desired)
        }
        Plan::InSync { .. } | Plan::Update { .. } => None,
    };
    let Some(pending) = pending else {
        return Ok(None);
    };
    let allocations = tracker
        .report
        .allocations(&proposal.current, progress)
        .await?;
    let trees = TreePair {
        current: &proposal.current,
        desired: &proposal.desired.tree,
    };
    let request = pending
        .resolve(&allocations, |allocation, all| {
            tracker
                .driver
                .homes(view, &tracker.node, trees, allocation, all)
        })
        .map_err(|refused| StartupError::Refused(Box::new(refused)))?;
    // Units that leave a provider change its inventory. If nothing changes, they no longer exist.
    if request.inventories().is_empty() && !request.allocations().is_empty() {
        let doing = format!(
            "reading the allocations on the providers of {}",
            tracker.node
        );
        return Err(StartupError::Report(ReportError::changed_meanwhile(doing)));
    }
    let needed = matches!(proposal.plan, Plan::ReshapeNeeded(_)) || !request.moved().is_empty();
    Ok(Some(request).filter(|_| needed))
}

async fn send<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    request: &ReshapeRequest,
    now: Instant,
) -> Result<(), StartupError> {
    let Err(error) = tracker.report.reshape(request).await else {
        return Ok(());
    };
    if error.disposition() != Disposition::Fatal {
        return Err(StartupError::Report(error));
    }
    let source = Box::new(error);
    match tracker.report.delete_unused_providers(request, now).await {
        Ok(_) => Err(StartupError::Failed(source)),
        Err(left) if left.disposition() == Disposition::Fatal => {
            let left = error_chain(&left);
            Err(StartupError::FailedAndLeft { left, source })
        }
        Err(away) => Err(StartupError::Report(away)),
    }
}

fn generations(proposal: &Proposal) -> BTreeMap<ProviderUuid, i64> {
    let generation = |provider: &berth_model::Provider| {
        provider
            .generation
            .map(|generation| (provider.uuid(), generation.as_i64()))
    };
    proposal
        .current
        .all()
        .into_iter()
        .filter_map(generation)
        .collect()
}

/// Compares a reshape with the reviewed plan, or with the part of it that was started; after that, only this process's
/// own writes may differ. If the reshape is no longer the planned one, deletes the providers that were created for it.
async fn review_reshape<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    reviewed: Option<&ReviewedPlan>,
    request: &ReshapeRequest,
    proposal: &Proposal,
    now: Instant,
) -> Result<(), StartupError> {
    if reviewed.is_none() {
        return Ok(());
    }
    let started = match &tracker.review_progress {
        None => {
            check_reviewed(reviewed, &request.to_string(), proposal)?;
            tracker.review_progress =
                Some(ReviewedPlanProgress::Reshape(Box::new(request.clone())));
            return Ok(());
        }
        Some(ReviewedPlanProgress::Reshape(started)) if sends_same_request(started, request) => {
            return Ok(());
        }
        Some(ReviewedPlanProgress::Reshaped) => return Ok(()),
        Some(ReviewedPlanProgress::Reshape(started)) if is_done(started, &proposal.current) => {
            tracker.review_progress = Some(ReviewedPlanProgress::Reshaped);
            return Ok(());
        }
        Some(ReviewedPlanProgress::Reshape(started)) => Some(started.clone()),
        Some(ReviewedPlanProgress::Update) => None,
    };
    if let Some(started) = started {
        tracker
            .report
            .delete_unused_providers(&started, now)
            .await?;
    }
    let reason = "what it moves changed during its execution".to_owned();
    Err(StartupError::PlanMoved { reason })
}

/// Whether the tree already has the inventories of the reshape: it was done, but its response was lost.
fn is_done(started: &ReshapeRequest, current: &ProviderTree) -> bool {
    started.inventories().iter().all(|(uuid, wanted)| {
        current
            .get(*uuid)
            .map_or(wanted.is_empty(), |known| known.inventories == *wanted)
    })
}

fn sends_same_request(started: &ReshapeRequest, request: &ReshapeRequest) -> bool {
    started.inventories() == request.inventories() && started.allocations() == request.allocations()
}

fn check_reviewed(
    reviewed: Option<&ReviewedPlan>,
    text: &str,
    proposal: &Proposal,
) -> Result<(), StartupError> {
    let Some(reviewed) = reviewed else {
        return Ok(());
    };
    if reviewed.generations != generations(proposal) {
        let reason = "providers changed in Placement after it was made".to_owned();
        return Err(StartupError::PlanMoved { reason });
    }
    if reviewed.text != text {
        let reason = "the plan for this host is different now".to_owned();
        return Err(StartupError::PlanMoved { reason });
    }
    Ok(())
}
