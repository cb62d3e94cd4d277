//! Finds the filters that leave no host. Runs every filter on every host, not only on those that the filters before it
//! let pass.
//!
//! A filter that rejects a host is skipped for it, and the next one runs as if it were absent, so the rejecting filters
//! are the smallest set without which the host would pass. This is exact for independent filters. Two filters remove
//! candidates of a host (`PciPassthroughFilter`, `NUMATopologyFilter`), so each of them is also skipped if it lets a
//! host pass that a later filter rejects.

use std::borrow::Cow;
use std::num::NonZero;

use serde::{Deserialize, Serialize};

use super::masks::{FilterMask, HostsByFilters, LARGEST, PassingHosts, bit, parts, places};
use super::nearness::distance;
use super::recorded_reason::RecordedReason;
use berth_scheduler::filters::{FilterPlan, in_shares};
use berth_scheduler::select::{NoHost, NoValidHost, Scheduler};
use berth_scheduler_objects::host_state::ConsideredHost;
use berth_scheduler_objects::reason::Reason;

/// The maximum number of recorded relaxations.
const RELAXATIONS: usize = 5;

/// The maximum number of filters in a bit set; with more enabled filters there is no diagnosis.
const FILTERS: usize = 64;

/// Which filters prevent a request from having a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Hosts at the request's destination.
    pub hosts: usize,
    /// Hosts that pass all filters but cannot be weighed.
    pub passing: usize,
    /// Filters that reject hosts, in their order.
    pub filters: Vec<FilterVerdicts>,
    /// The smallest sets of filters without which there would be a host: smallest first, then those that free most
    /// hosts; at most five sets of at most three filters.
    pub relaxations: Vec<FilterRelaxation>,
    /// The number of further sets of the same sizes.
    pub more_relaxations: usize,
    /// The host that the fewest filters reject, if no three filters alone are the obstacle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Nearest>,
}

/// The verdicts of one filter on all hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterVerdicts {
    pub filter: Cow<'static, str>,
    /// Hosts that it rejects.
    pub rejects: usize,
    /// Hosts that only this filter rejects.
    pub alone: usize,
}

/// A set of filters without which there would be a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilterRelaxation {
    pub without: Vec<Cow<'static, str>>,
    /// Hosts that would pass.
    pub hosts: usize,
    /// The host closest to passing.
    pub nearest: Nearest,
}

/// A host that is nearest to passing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nearest {
    pub host: String,
    pub node: String,
    /// The filters that reject it.
    pub verdicts: Vec<NearestVerdict>,
}

/// Why a filter rejects a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NearestVerdict {
    pub filter: Cow<'static, str>,
    /// The reason; `None` if it lets the host pass but leaves no candidate that the others accept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RecordedReason>,
}

/// The filters that leave no host for a request. `None` if filters are not the cause: none was enabled, there was no host, or the
/// hosts that pass cannot be claimed. Runs every filter on every host, and so costs a few times what the search did.
#[must_use]
pub fn diagnose(scheduler: &Scheduler, none: &NoValidHost) -> Option<Diagnosis> {
    let unplaced = &none.unplaced;
    if none.why != NoHost::NoneLeft || !unplaced.is_filtered || unplaced.hosts.is_empty() {
        return None;
    }
    let plans = scheduler
        .chain()
        .plans(&unplaced.request, scheduler.options());
    diagnose_plans(scheduler.chain().threads(), &plans, &unplaced.hosts)
}

/// The number of subsets of narrowing filters that are tried for one host: all subsets of four.
const WAYS: usize = 15;

/// Filters with their names, each once.
pub(super) type Plans<'a> = [(&'static str, FilterPlan<'a>)];

pub(super) fn diagnose_plans(
    threads: NonZero<usize>,
    plans: &Plans<'_>,
    hosts: &[ConsideredHost],
) -> Option<Diagnosis> {
    if plans.len() > FILTERS {
        return None;
    }
    let mut asked: Vec<ConsideredHost> = hosts.iter().map(untouched).collect();
    let ways = in_shares(threads, &mut asked, || {
        |host: &mut _| Some(FilterSets::of(plans, host))
    });
    drop(asked);
    let mut sets = HostsByFilters::default();
    let mut verdicts = vec![(0, 0); plans.len()];
    for (place, ways) in &ways {
        for way in std::iter::once(&ways.first).chain(&ways.others) {
            sets.count(way.without, *place, way.distance);
        }
        for filter in places(ways.first.without) {
            let (rejects, alone) = &mut verdicts[filter];
            *rejects += 1;
            *alone += usize::from(ways.first.without.is_power_of_two());
        }
    }
    let smallest = sets.smallest();
    let least = smallest.first().map_or(0, |(it, _)| it.count_ones());
    let as_small = smallest.iter().filter(|(it, _)| it.count_ones() == least);
    let reported = smallest.iter().take(RELAXATIONS);
    let nearest = sets.nearest().filter(|(it, _)| it.count_ones() > LARGEST);
    let nearest_of = |(filters, of): &(FilterMask, PassingHosts)| {
        nearest_of(plans, &hosts[of.nearest], *filters)
    };
    let names = verdicts.iter().zip(plans);
    let names = names.filter(|((rejects, _), _)| *rejects > 0);
    Some(Diagnosis {
        hosts: hosts.len(),
        passing: sets.passing(),
        filters: names
            .map(|((rejects, alone), (name, _))| FilterVerdicts {
                filter: (*name).into(),
                rejects: *rejects,
                alone: *alone,
            })
            .collect(),
        more_relaxations: as_small.count().saturating_sub(RELAXATIONS),
        relaxations: reported
            .map(|one| FilterRelaxation {
                without: named(plans, one.0),
                hosts: one.1.many,
                nearest: nearest_of(one),
            })
            .collect(),
        nearest: nearest.as_ref().map(nearest_of),
    })
}

/// As before any filter.
fn untouched(host: &ConsideredHost) -> ConsideredHost {
    ConsideredHost::new(host.state.clone(), host.candidates.clone())
}

fn named(plans: &Plans<'_>, filters: FilterMask) -> Vec<Cow<'static, str>> {
    let names = places(filters).into_iter();
    names
        .filter_map(|it| Some(plans.get(it)?.0.into()))
        .collect()
}

/// Sets of filters without which a host passes.
struct FilterSets {
    first: FilterSet,
    /// Sets that also omit a filter that would let the host pass.
    others: Vec<FilterSet>,
}

struct FilterSet {
    without: FilterMask,
    distance: f64,
}

impl FilterSets {
    fn of(plans: &Plans<'_>, host: &ConsideredHost) -> Self {
        let mut distance_of = 0.0;
        let first = walk(plans, host, 0, |_, reason| distance_of += distance(&reason));
        let way = |without: FilterMask, distance| FilterSet { without, distance };
        // Filters after the last rejection cannot be the cause.
        let before_the_last = first.narrowing & up_to_the_last(first.rejecting);
        let left_out = std::iter::once(before_the_last)
            .filter(|it| *it != 0)
            .chain(parts(before_the_last))
            .take(WAYS);
        let others = left_out.map(|left_out| {
            let mut distance_of = 0.0;
            let rest = walk(plans, host, left_out, |_, reason| {
                distance_of += distance(&reason)
            });
            let taken = f64::from(left_out.count_ones());
            way(rest.rejecting | left_out, distance_of + taken)
        });
        Self {
            others: others.collect(),
            first: way(first.rejecting, distance_of),
        }
    }
}

/// All filters up to the last one of a set; none for the empty one.
fn up_to_the_last(filters: FilterMask) -> FilterMask {
    FilterMask::MAX
        .checked_shr(filters.leading_zeros())
        .unwrap_or(0)
}

#[derive(Default)]
struct Walk {
    rejecting: FilterMask,
    /// Filters that accept the host but remove candidates.
    narrowing: FilterMask,
}

/// Runs all filters on a host except the omitted ones.
fn walk(
    plans: &Plans<'_>,
    host: &ConsideredHost,
    left_out: FilterMask,
    mut on_rejected: impl FnMut(usize, Reason),
) -> Walk {
    let mut host = untouched(host);
    let mut walk = Walk::default();
    for (place, (_, plan)) in plans.iter().enumerate() {
        let is_asked = left_out & bit(place) == 0 && !matches!(plan, FilterPlan::PassAll);
        if !is_asked {
            continue;
        }
        let before = host.surviving.clone();
        match plan.check(&mut host) {
            Ok(()) if host.surviving != before => walk.narrowing |= bit(place),
            Ok(()) => {}
            Err(reason) => {
                walk.rejecting |= bit(place);
                host.surviving = before;
                on_rejected(place, reason);
            }
        }
    }
    walk
}

/// A host with the set of filters that rejects it.
fn nearest_of(plans: &Plans<'_>, host: &ConsideredHost, filters: FilterMask) -> Nearest {
    // Without the whole set the host passes. The reasons are those of the filters that remain when part of the set is
    // omitted.
    let mut reasons: Vec<(usize, Reason)> = Vec::new();
    let whole = walk(plans, host, 0, |_, _| {});
    walk(plans, host, filters & !whole.rejecting, |place, reason| {
        reasons.push((place, reason));
    });
    let verdict = |place: usize| {
        let reason = reasons.iter().find(|(at, _)| *at == place);
        NearestVerdict {
            filter: plans.get(place).map_or(Cow::Borrowed(""), |it| it.0.into()),
            reason: reason.map(|(_, reason)| RecordedReason::of(reason)),
        }
    };
    Nearest {
        host: host.state.host.clone(),
        node: host.state.nodename.clone(),
        verdicts: places(filters).into_iter().map(verdict).collect(),
    }
}
