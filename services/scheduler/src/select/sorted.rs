//! The hosts that are left for an instance, the best first.

use std::sync::Arc;

use super::Scheduler;
use super::destination::{HostsAtDestination, narrow};
use super::record::{CARDS, Detail, Turnout};
use crate::filters::{InstancePosition, RejectedCandidateHost};
use crate::host_state::ConsideredHost;
use crate::reason::Reason;
use crate::request::RequestSpec;
use crate::weighers::{HostRanking, Unweighable, order};
use berth_model::SeededRng;

/// Hosts with their weights and their order. After a claim only what the claim changed is looked at again.
#[derive(Debug)]
pub struct SortedHosts {
    hosts: Vec<ConsideredHost>,
    ranking: HostRanking,
    /// Indices of `hosts` in their order.
    order: Vec<usize>,
    out: Vec<ConsideredHost>,
    is_filtered: bool,
}

impl SortedHosts {
    pub(super) fn new(
        scheduler: &Scheduler,
        request: &RequestSpec,
        hosts: Vec<ConsideredHost>,
        rng: &mut SeededRng,
        turnout: &mut Turnout,
    ) -> Self {
        turnout.hosts = hosts.len();
        let HostsAtDestination {
            mut hosts,
            is_filtered,
            left_out,
        } = narrow(hosts, request);
        turnout.at_destination = hosts.len();
        turnout.left_out = left_out;
        let options = &scheduler.options;
        let mut out = Vec::new();
        if is_filtered {
            let on_rejected = |one: RejectedCandidateHost| {
                turnout.reject(one.filter, &one.host.state, one.reason);
                out.push(one.host);
            };
            let chain = &scheduler.chain;
            turnout.passed = chain.filter(
                &mut hosts,
                request,
                options,
                InstancePosition::First,
                on_rejected,
            );
        }
        let ranking = weigh(scheduler, request, &mut hosts, &mut out, turnout);
        let mut sorted = Self {
            order: (0..hosts.len()).collect(),
            hosts,
            ranking,
            out,
            is_filtered,
        };
        sorted.sort(scheduler, rng, turnout);
        sorted
    }

    /// For the next instance of the same request, after the host at a place took one.
    pub(super) fn again(
        &mut self,
        scheduler: &Scheduler,
        request: &RequestSpec,
        changed: usize,
        rng: &mut SeededRng,
        turnout: &mut Turnout,
    ) {
        let options = &scheduler.options;
        turnout.hosts = self.hosts.len();
        turnout.at_destination = self.hosts.len();
        let mut out = Vec::new();
        if self.is_filtered {
            let hosts = &mut self.hosts;
            (turnout.passed, out) = scheduler
                .chain
                .filter_again(hosts, changed, request, options);
        }
        let rejected = out.into_iter().map(|it| (it.place, (it.filter, it.reason)));
        let mut rejected: Vec<_> = rejected.collect();
        if let Some(host) = self.hosts.get(changed) {
            let again = self
                .ranking
                .again(&scheduler.weighers, changed, host, request, options);
            if let Err(unweighable) = again {
                rejected.push((unweighable.place, rejected_by_weigher(unweighable)));
            }
        }
        self.remove(rejected, turnout);
        self.sort(scheduler, rng, turnout);
    }

    /// The hosts, the best first.
    pub fn best_first(&self) -> impl Iterator<Item = &ConsideredHost> {
        self.order.iter().filter_map(|place| self.hosts.get(*place))
    }

    /// The hosts as they came.
    #[must_use]
    pub fn as_they_came(&self) -> &[ConsideredHost] {
        &self.hosts
    }

    /// The weights, the best first.
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        let weights = self.ranking.weights();
        let in_order = self.order.iter().filter_map(|place| weights.get(*place));
        in_order.copied().collect()
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The place of the host with this rank, 0 the best.
    pub(super) fn place(&self, rank: usize) -> Option<usize> {
        self.order.get(rank).copied()
    }

    pub(super) fn host(&self, place: usize) -> Option<&ConsideredHost> {
        self.hosts.get(place)
    }

    pub(super) fn host_mut(&mut self, place: usize) -> Option<&mut ConsideredHost> {
        self.hosts.get_mut(place)
    }

    fn sort(&mut self, scheduler: &Scheduler, rng: &mut SeededRng, turnout: &mut Turnout) {
        let weights = self.ranking.weights();
        let options = &scheduler.options.filter_scheduler;
        order(&mut self.order, &weights, options, rng);
        turnout.left = self.order.len();
        if turnout.detail() != Detail::Cards {
            return;
        }
        let state = |place: usize| Some(Arc::clone(&self.hosts.get(place)?.state));
        let best = || self.order.iter().copied().take(CARDS);
        let cards = self.ranking.cards(best()).into_iter();
        turnout.cards = best().filter_map(state).zip(cards).collect();
        let pivotal = self.ranking.pivotal().into_iter();
        let pivotal = pivotal.filter_map(|(weigher, place)| Some((weigher, state(place)?)));
        turnout.pivotal = pivotal.collect();
    }

    /// Takes hosts out; the others move up, in their order.
    fn remove(&mut self, rejected: Vec<(usize, Exclusion)>, turnout: &mut Turnout) {
        if rejected.is_empty() {
            return;
        }
        let mut is_kept = vec![true; self.hosts.len()];
        for (place, (filter, reason)) in rejected {
            let Some(kept) = is_kept.get_mut(place).filter(|kept| **kept) else {
                continue;
            };
            *kept = false;
            let state = &self.hosts[place].state;
            turnout.reject(filter, state, reason);
        }
        let mut next = 0;
        let new_places: Vec<Option<usize>> = is_kept
            .iter()
            .map(|kept| {
                kept.then(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        self.order = self
            .order
            .iter()
            .filter_map(|place| new_places[*place])
            .collect();
        self.ranking.retain(|place| is_kept[place]);
        let mut kept = is_kept.into_iter();
        let is_out = |_: &mut ConsideredHost| kept.next() == Some(false);
        self.out.extend(self.hosts.extract_if(.., is_out));
    }

    /// All hosts at the request's destination, with their changes, and whether filters ran.
    pub(super) fn into_all(self) -> (Vec<ConsideredHost>, bool) {
        let mut all = self.hosts;
        all.extend(self.out);
        (all, self.is_filtered)
    }
}

/// The filter or the weigher by which a host is out, and why.
type Exclusion = (&'static str, Reason);

/// Weighs the hosts. A host that cannot be weighed is rejected; Nova fails the request.
fn weigh(
    scheduler: &Scheduler,
    request: &RequestSpec,
    hosts: &mut Vec<ConsideredHost>,
    out: &mut Vec<ConsideredHost>,
    turnout: &mut Turnout,
) -> HostRanking {
    loop {
        let ranking = HostRanking::new(&scheduler.weighers, hosts, request, &scheduler.options);
        let unweighable = match ranking {
            Ok(ranking) => return ranking,
            Err(unweighable) => unweighable,
        };
        let mut unweighable = unweighable.into_iter().peekable();
        let mut kept = Vec::with_capacity(hosts.len());
        for (place, host) in hosts.drain(..).enumerate() {
            let Some(one) = unweighable.next_if(|one| one.place == place) else {
                kept.push(host);
                continue;
            };
            let (weigher, reason) = rejected_by_weigher(one);
            turnout.reject(weigher, &host.state, reason);
            out.push(host);
        }
        *hosts = kept;
    }
}

fn rejected_by_weigher(one: Unweighable) -> Exclusion {
    let missing = [one.why.metric].into();
    (one.weigher, Reason::MetricsMissing { missing })
}
