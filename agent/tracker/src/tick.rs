//! One periodic pass: what is seen is compared with what Placement has, and only differences are sent. In a steady state
//! nothing is. A reshape is not done here: allocations move only at a start, before guests are asked for.

use berth_model::{Disposition, Held, PendingReshape, Plan, TreeDiff};
use berth_virt::{HostView, VirtDriver};
use tokio::time::Instant;

use crate::complete::Service;
use crate::propose::{ProposeError, ResourceTracker};
use crate::report_client::ReportError;

/// What a tick did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticked {
    /// What was changed in Placement.
    pub changed: TreeDiff,
    /// Units held without a home.
    pub held: Vec<Held>,
}

/// A tick that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum TickError {
    /// The driver models the machine differently now. The service ends and does the reshape at its next start.
    #[error("the provider tree must be reshaped, which only a start may do")]
    ReshapeNeeded(Box<PendingReshape>),
    /// No plan could be made.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// Placement did not take a change.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl TickError {
    /// What the loop should do. A needed reshape is fatal to this process: its next start does it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            TickError::ReshapeNeeded(_) => Disposition::Fatal,
            TickError::Propose(propose) => propose.disposition(),
            TickError::Report(report) => report.disposition(),
        }
    }
}

/// How often a plan is made anew at once after a conflict, before the loop's backoff takes over. A second conflict in a row is
/// no accident, and reading the whole tree for each would be many requests.
pub(crate) const REFRESHES: u32 = 1;

/// Brings Placement's tree in step with what is seen.
pub async fn reconcile<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
) -> Result<Ticked, TickError> {
    let mut refreshes = 0;
    loop {
        match once(tracker, view, service, now).await {
            Err(error) if error.disposition() == Disposition::Refresh && refreshes < REFRESHES => {
                refreshes += 1;
                tracker.forget();
            }
            done => return done,
        }
    }
}

async fn once<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
) -> Result<Ticked, TickError> {
    let proposal = tracker.propose(view, service, now).await?;
    tracker.remember(&proposal).await?;
    match proposal.plan {
        Plan::InSync { held } => Ok(Ticked {
            changed: TreeDiff::default(),
            held,
        }),
        Plan::Update { diff, held } => {
            tracker.write(&diff, &proposal.current).await?;
            Ok(Ticked {
                changed: diff,
                held,
            })
        }
        Plan::ReshapeNeeded(pending) => Err(TickError::ReshapeNeeded(Box::new(pending))),
    }
}
