//! One periodic pass: compares the observed host with Placement and sends the differences; without differences, it
//! sends nothing. It never reshapes: allocations move only at startup, before guests are requested.

use berth_model::{Disposition, HeldUnits, PendingReshape, Plan, TreeDiff};
use berth_virt::{HostView, VirtDriver};
use tokio::time::Instant;

use crate::complete::Service;
use crate::propose::{ProposeError, ResourceTracker};
use crate::report_client::ReportError;

/// Result of a tick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickReport {
    pub changed: TreeDiff,
    /// Units that are held on their old provider.
    pub held: Vec<HeldUnits>,
}

#[derive(Debug, thiserror::Error)]
pub enum TickError {
    /// The driver models the machine differently now. The service exits, and its next start reshapes.
    #[error("the provider tree must be reshaped, which is only possible at startup")]
    ReshapeNeeded(Box<PendingReshape>),
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// A request to Placement failed.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl TickError {
    /// What the loop should do. A needed reshape is fatal: the next start performs it.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            TickError::ReshapeNeeded(_) => Disposition::Fatal,
            TickError::Propose(propose) => propose.disposition(),
            TickError::Report(report) => report.disposition(),
        }
    }
}

/// Number of immediate new plans after a conflict, before the loop's backoff applies. A second conflict in a row is not
/// accidental, and each plan reads the whole tree.
pub(crate) const REFRESHES: u32 = 1;

/// Makes Placement's tree equal to the observed host.
pub async fn reconcile<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
) -> Result<TickReport, TickError> {
    let mut refreshes = 0;
    loop {
        match run_once(tracker, view, service, now).await {
            Err(error) if error.disposition() == Disposition::Refresh && refreshes < REFRESHES => {
                refreshes += 1;
                tracker.forget();
            }
            done => return done,
        }
    }
}

async fn run_once<D: VirtDriver>(
    tracker: &mut ResourceTracker<D>,
    view: &HostView,
    service: Service,
    now: Instant,
) -> Result<TickReport, TickError> {
    let proposal = tracker.propose(view, service, now).await?;
    tracker.record_applied(&proposal).await?;
    match proposal.plan {
        Plan::InSync { held } => Ok(TickReport {
            changed: TreeDiff::default(),
            held,
        }),
        Plan::Update { diff, held } => {
            tracker.write(&diff, &proposal.current).await?;
            Ok(TickReport {
                changed: diff,
                held,
            })
        }
        Plan::ReshapeNeeded(pending) => Err(TickError::ReshapeNeeded(Box::new(pending))),
    }
}
