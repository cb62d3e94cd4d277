//! The first pass of a process, and the only one that may reshape: if the driver models the machine differently from the
//! tree Placement has, the allocations of the whole tree are gathered, resolved to their new homes and moved together with
//! the inventory by one POST /reshaper. The offline upgrade is this same function over another transport.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_client::{JitterRng, PlacementError};
use berth_model::{
    Disposition, Held, NodeName, PendingReshape, Plan, ProviderTree, ProviderUuid, ReshapeRefused,
    ReshapeRequest, TreeDiff,
};
use berth_virt::{HostView, Trees, VirtDriver};
use tokio::time::{Instant, sleep};

use crate::complete::Service;
use crate::error_chain::sentence;
use crate::propose::{Proposal, ProposeError, ResourceTracker, ReviewedPlanProgress};
use crate::report_client::ReportError;
use crate::tick::REFRESHES;

/// What a start did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The reshapes that were sent, in order: none in the usual case, more than one where one model builds on another.
    pub reshapes: Vec<ReshapeRequest>,
    /// What was changed by plain updates.
    pub changed: TreeDiff,
    /// Units held without a home.
    pub held: Vec<Held>,
}

/// What a start would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preview {
    InSync {
        /// Units held without a home.
        held: Vec<Held>,
    },
    Update {
        diff: TreeDiff,
        /// Units held without a home.
        held: Vec<Held>,
    },
    Reshape(Box<ReshapeRequest>),
}

/// A plan that was reviewed: a start that is given one does exactly that or refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewedPlan {
    pub text: String,
    /// The generations of the tree it was made on.
    pub generations: BTreeMap<ProviderUuid, i64>,
}

/// The plans that were reviewed, of all nodes of the host.
pub type ReviewedPlans = BTreeMap<NodeName, ReviewedPlan>;

/// The plan of one node; the plans are for exactly the nodes that the host shows, or none of them holds.
fn reviewed_of<'a>(
    plans: &'a ReviewedPlans,
    node: &NodeName,
    view: &HostView,
) -> Result<&'a ReviewedPlan, StartupError> {
    let moved = |reason: String| StartupError::PlanMoved { reason };
    if let Some(gone) = plans.keys().find(|name| !view.nodes.contains_key(*name)) {
        return Err(moved(format!(
            "it is for node {gone}, which this host does not have"
        )));
    }
    if let Some(new) = view.nodes.keys().find(|name| !plans.contains_key(*name)) {
        return Err(moved(format!("it says nothing of node {new}")));
    }
    plans
        .get(node)
        .ok_or_else(|| moved(format!("it says nothing of node {node}")))
}

/// A start that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum StartupError {
    /// No plan could be made.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// Placement did not take a plain change, or did not say who holds what.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// No lawful reshape exists: nothing was sent.
    #[error("ReshapeFailed: the reshape would not be lawful")]
    Refused(#[source] Box<ReshapeRefused>),
    /// Placement refused the reshape: what was made for it is cleared away.
    #[error("ReshapeFailed: Placement refused the reshape")]
    Failed(#[source] Box<ReportError>),
    /// Placement refused the reshape, and will not have what was made for it deleted.
    #[error(
        "ReshapeFailed: Placement refused the reshape, and what was made for it is left ({left}): empty providers, which a \
         reshape that is not refused uses"
    )]
    FailedAndLeft {
        /// What is left, and why.
        left: String,
        /// Why the reshape was refused.
        #[source]
        source: Box<ReportError>,
    },
    /// Placement answered that the reshape is done, and it is not.
    #[error(
        "ReshapeFailed: Placement answered {times} times that the reshape is done, but its tree is as it was; something \
         before it answers in its place, or it reads from a database that does not follow its writes"
    )]
    NotDone {
        /// How often it was sent.
        times: usize,
    },
    /// The facts are not those of the plan that was reviewed: nothing was sent.
    #[error(
        "ReshapeFailed: the plan that was reviewed no longer holds; {reason}; make it again with berth reshape plan --out"
    )]
    PlanMoved { reason: String },
    /// The driver wants to move inventory again and again.
    #[error(
        "ReshapeFailed: after {times} reshapes the driver still wants another one; its model contradicts itself"
    )]
    Endless {
        /// How many were done.
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

    /// What came of a call of Placement, where that is what broke it.
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

    /// Whether this is a reshape that failed by rule (exit code 76).
    #[must_use]
    pub fn is_reshape_failed(&self) -> bool {
        !matches!(self, StartupError::Propose(_) | StartupError::Report(_))
    }
}

/// How many reshapes one start may send: models that build on each other need one each, and there are three models.
const RESHAPES: usize = 6;

/// The longest pause before a plan is made anew after a reshape that met another writer, where it is not made anew at once.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether a plain update gave children their names.
fn gives_names(changed: &TreeDiff) -> bool {
    changed
        .changed
        .iter()
        .any(|change| change.renamed.is_some())
}

/// Whether somebody else wrote before the reshape arrived: where guests come and go all the time, whoever reads again soon
/// meets a gap, while the loop's backoff would only let the next one in.
fn is_lost_race(error: &StartupError) -> bool {
    matches!(
        error.placement(),
        Some(PlacementError::Conflict(refusal)) if refusal.request.route == "/reshaper"
    )
}

/// Told how far the gathering of allocations is: consumers read, of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Send + Sync);

/// Brings Placement's tree in step with what is seen, reshaping it where that is needed.
pub async fn reconcile<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
    reviewed: Option<&ReviewedPlans>,
    progress: Progress<'_>,
) -> Result<Started, StartupError> {
    let mut reshapes = Vec::new();
    let mut reviewed = reviewed
        .map(|plans| reviewed_of(plans, &tracker.node, view))
        .transpose()?;
    let mut renamed = Vec::new();
    let mut refreshes = 0;
    let (dice, _) = tracker.report.root().as_uuid().as_u64_pair();
    let dice = JitterRng::seeded(dice);
    loop {
        match step(tracker, view, service, now, reviewed, &reshapes, progress).await {
            Ok(Step::Reshaped(request)) => {
                reshapes.push(*request);
                // The reviewed plan was this one; what follows it follows from it.
                reviewed = None;
            }
            // What a child of another name has is only known once it has its own.
            Ok(Step::Settled { changed, .. }) if renamed.is_empty() && gives_names(&changed) => {
                renamed = changed.changed;
            }
            Ok(Step::Settled { mut changed, held }) => {
                changed.changed.extend(renamed);
                return Ok(Started {
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
                    if !is_lost_race(&error) || tracker.races == 0 {
                        return Err(error);
                    }
                    tracker.races -= 1;
                    sleep(PAUSE.mul_f64(dice.fraction())).await;
                }
                refreshes += 1;
                tracker.forget();
            }
        }
    }
}

enum Step {
    Reshaped(Box<ReshapeRequest>),
    Settled { changed: TreeDiff, held: Vec<Held> },
}

async fn step<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
    reviewed: Option<&ReviewedPlan>,
    sent: &[ReshapeRequest],
    progress: Progress<'_>,
) -> Result<Step, StartupError> {
    let held = match sent {
        [] => Homeless::MayHaveHomes,
        _ => Homeless::HaveNone,
    };
    let proposal = tracker.propose(view, service, now).await?;
    if let Some(request) = resolve(tracker, view, &proposal, held, progress).await? {
        if sent.len() >= RESHAPES {
            tracker.report.clear_half_made(&request, now).await?;
            return Err(endless(sent, &request));
        }
        review_reshape(tracker, reviewed, &request, &proposal, now).await?;
        tracker.remember(&proposal).await?;
        send(tracker, &request, now).await?;
        if reviewed.is_some() {
            tracker.begun = Some(ReviewedPlanProgress::Reshaped);
        }
        return Ok(Step::Reshaped(Box::new(request)));
    }
    if reviewed.is_some() && tracker.begun.is_none() {
        check_reviewed(reviewed, &proposal.plan.to_string(), &proposal)?;
        tracker.begun = Some(ReviewedPlanProgress::Update);
    }
    tracker.remember(&proposal).await?;
    match proposal.plan {
        Plan::Update { diff, held } => {
            tracker.write(&diff, &proposal.current).await?;
            Ok(Step::Settled {
                changed: diff,
                held,
            })
        }
        Plan::InSync { held } => Ok(Step::Settled {
            changed: TreeDiff::default(),
            held,
        }),
        Plan::ReshapeNeeded(_) => Ok(Step::Settled {
            changed: TreeDiff::default(),
            held: vec![],
        }),
    }
}

/// Why there is no end of reshapes.
fn endless(sent: &[ReshapeRequest], next: &ReshapeRequest) -> StartupError {
    let times = sent.len();
    match sent.iter().all(|sent| sends_the_same(sent, next)) {
        true => StartupError::NotDone { times },
        false => StartupError::Endless { times },
    }
}

/// What a start would do, without doing it.
pub async fn preview<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
    progress: Progress<'_>,
) -> Result<(Preview, ReviewedPlan), StartupError> {
    let proposal = tracker.propose(view, service, now).await?;
    let held = Homeless::MayHaveHomes;
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

/// What is known of units that are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Homeless {
    /// They were held before this start: a device may be back, a guest known again.
    MayHaveHomes,
    /// This start has just looked for their homes.
    HaveNone,
}

/// The lawful reshape, if one is needed: for inventory that moved, or for held units that have found a home since. It always
/// changes inventory.
async fn resolve<D: VirtDriver>(
    tracker: &ResourceTracker<D>,
    view: &HostView,
    proposal: &Proposal,
    homeless: Homeless,
    progress: Progress<'_>,
) -> Result<Option<ReshapeRequest>, StartupError> {
    let pending = match &proposal.plan {
        Plan::ReshapeNeeded(pending) => Some(pending.clone()),
        Plan::InSync { held } | Plan::Update { held, .. }
            if !held.is_empty() && homeless == Homeless::MayHaveHomes =>
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
    let trees = Trees {
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
    // Units that leave change the inventory they leave; if nothing does, they were not there any more.
    if request.inventories().is_empty() && !request.allocations().is_empty() {
        let doing = format!("reading who holds what of {}", tracker.node);
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
    match tracker.report.clear_half_made(request, now).await {
        Ok(_) => Err(StartupError::Failed(source)),
        Err(left) if left.disposition() == Disposition::Fatal => {
            let left = sentence(&left);
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

/// Compares a reshape with the plan that was reviewed, or with what was begun of it: after that only this process's own
/// writes may differ. What was made for a reshape that is no longer the one to make is cleared away.
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
    let begun = match &tracker.begun {
        None => {
            check_reviewed(reviewed, &request.to_string(), proposal)?;
            tracker.begun = Some(ReviewedPlanProgress::Reshape(Box::new(request.clone())));
            return Ok(());
        }
        Some(ReviewedPlanProgress::Reshape(begun)) if sends_the_same(begun, request) => {
            return Ok(());
        }
        Some(ReviewedPlanProgress::Reshaped) => return Ok(()),
        Some(ReviewedPlanProgress::Reshape(begun)) if is_done(begun, &proposal.current) => {
            tracker.begun = Some(ReviewedPlanProgress::Reshaped);
            return Ok(());
        }
        Some(ReviewedPlanProgress::Reshape(begun)) => Some(begun.clone()),
        Some(ReviewedPlanProgress::Update) => None,
    };
    if let Some(begun) = begun {
        tracker.report.clear_half_made(&begun, now).await?;
    }
    let reason = "what it moves changed while it was carried out".to_owned();
    Err(StartupError::PlanMoved { reason })
}

/// Whether the tree has the inventories that a reshape gives it: it was carried out, though its answer was lost.
fn is_done(begun: &ReshapeRequest, current: &ProviderTree) -> bool {
    begun.inventories().iter().all(|(uuid, wanted)| {
        current
            .get(*uuid)
            .map_or(wanted.is_empty(), |known| known.inventories == *wanted)
    })
}

fn sends_the_same(begun: &ReshapeRequest, request: &ReshapeRequest) -> bool {
    begun.inventories() == request.inventories() && begun.allocations() == request.allocations()
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
        let reason = "providers were changed in Placement since it was made".to_owned();
        return Err(StartupError::PlanMoved { reason });
    }
    if reviewed.text != text {
        let reason = "this host would now be planned differently".to_owned();
        return Err(StartupError::PlanMoved { reason });
    }
    Ok(())
}
