//! Runs the prepared filters of a request on hosts.

use crate::filters::FilterPlan;
use crate::host_state::{Aggregates, ByAggregates, ConsideredHost};
use crate::reason::Reason;

/// The prepared filters, with cached results of those that only depend on aggregates.
pub(super) struct PlanRunner<'p, 'a> {
    steps: Vec<PlanStep<'p, 'a>>,
    /// The aggregate-only filters that accept hosts with these aggregates, as bits.
    pass: ByAggregates<u64>,
}

/// One filter that does not let every host pass.
struct PlanStep<'p, 'a> {
    /// Its place among all.
    filter: usize,
    plan: &'p FilterPlan<'a>,
    /// Its bit if it only depends on aggregates. 0 for other filters, and if the bits are used up.
    bit: u64,
}

impl<'p, 'a> PlanRunner<'p, 'a> {
    /// With these plans, in their order.
    pub(super) fn new(plans: impl Iterator<Item = &'p FilterPlan<'a>>) -> Self
    where
        'a: 'p,
    {
        let mut bits = (0..u64::BITS).map(|at| 1 << at);
        let mut bit = |plan: &FilterPlan<'_>| match plan {
            FilterPlan::ByAggregates(_) => bits.next().unwrap_or(0),
            _ => 0,
        };
        let looking = plans
            .enumerate()
            .filter(|(_, plan)| !matches!(plan, FilterPlan::PassAll));
        Self {
            steps: looking
                .map(|(filter, plan)| PlanStep {
                    filter,
                    plan,
                    bit: bit(plan),
                })
                .collect(),
            pass: ByAggregates::default(),
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

/// The bits of the filters that accept hosts with these aggregates.
fn passing(steps: &[PlanStep<'_, '_>], aggregates: &Aggregates) -> u64 {
    let passing = steps.iter().filter(|step| match step.plan {
        FilterPlan::ByAggregates(check) => check.check(aggregates).is_ok(),
        _ => false,
    });
    passing.fold(0, |bits, step| bits | step.bit)
}
