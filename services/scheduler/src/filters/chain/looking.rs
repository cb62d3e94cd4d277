//! The filters of a request, as they look at one host after another.

use crate::filters::Plan;
use crate::host_state::{Aggregates, ByAggregates, ConsideredHost};
use crate::reason::Reason;

/// What each filter makes of the request, and what those said that look at aggregates alone: hosts share these.
pub(super) struct Looking<'p, 'a> {
    steps: Vec<Step<'p, 'a>>,
    /// Of the filters that look at aggregates alone, those that let a host of these pass.
    pass: ByAggregates<u64>,
}

/// One filter that does not let every host pass.
struct Step<'p, 'a> {
    /// Its place among all.
    filter: usize,
    plan: &'p Plan<'a>,
    /// Its bit among those that look at aggregates alone. None for others, and for the few that there is no bit for.
    bit: u64,
}

impl<'p, 'a> Looking<'p, 'a> {
    /// With these plans, in their order.
    pub(super) fn new(plans: impl Iterator<Item = &'p Plan<'a>>) -> Self
    where
        'a: 'p,
    {
        let mut bits = (0..u64::BITS).map(|at| 1 << at);
        let mut bit = |plan: &Plan<'_>| match plan {
            Plan::ByAggregates(_) => bits.next().unwrap_or(0),
            _ => 0,
        };
        let looking = plans
            .enumerate()
            .filter(|(_, plan)| !matches!(plan, Plan::PassAll));
        Self {
            steps: looking
                .map(|(filter, plan)| Step {
                    filter,
                    plan,
                    bit: bit(plan),
                })
                .collect(),
            pass: ByAggregates::new(),
        }
    }

    /// The place of the filter that is the first to reject a host, and why.
    pub(super) fn first_rejection(&mut self, host: &mut ConsideredHost) -> Option<(usize, Reason)> {
        let steps = &self.steps;
        let pass = match steps.iter().any(|step| step.bit != 0) {
            true => *self
                .pass
                .get(&host.state.aggregates, |all| passing(steps, all)),
            false => 0,
        };
        let left = steps.iter().filter(|step| step.bit & pass == 0);
        left.into_iter().find_map(|step| {
            let reason = step.plan.check(host).err()?;
            Some((step.filter, reason))
        })
    }
}

/// The bits of those that let hosts of these aggregates pass.
fn passing(steps: &[Step<'_, '_>], aggregates: &Aggregates) -> u64 {
    let passing = steps.iter().filter(|step| match step.plan {
        Plan::ByAggregates(check) => check.check(aggregates).is_ok(),
        _ => false,
    });
    passing.fold(0, |bits, step| bits | step.bit)
}
