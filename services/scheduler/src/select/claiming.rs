//! The claims of a request, one after another: the next claim, and the effect of its result.

use std::sync::Arc;

use super::Scheduler;
use super::alternates::selections;
use super::ask::{Alternates, ClaimPolicy, SelectionRequest};
use super::consume::consume;
use super::outcome::{NoHost, NoValidHost, Selection, SelectionResult, UnplacedRequest};
use super::record::{CandidateClaim, Detail, Record, RequestSummary, Turnout};
use super::sorted::SortedHosts;
use crate::host_state::{
    AllocationCandidate, ConsideredHost, HostState, SchedulerLimits, SurvivingCandidates,
};
use crate::request::RequestSpec;
use crate::text::shortened;
use berth_model::SeededRng;

#[must_use]
#[derive(Debug)]
pub enum SelectionStep<'a> {
    /// The caller must make the claim and report its result.
    Claim(PendingClaim<'a>),
    Selected(SelectionResult),
    NoValidHost(NoValidHost),
}

/// A claim for the caller to make.
#[must_use]
#[derive(Debug)]
pub struct PendingClaim<'a> {
    run: Box<SelectionRun<'a>>,
    /// The rank of the host; 0 is the best.
    rank: usize,
    /// Candidates of this host that were refused.
    refused: usize,
    host: ConsideredHost,
    /// The candidate's place among the host's.
    candidate: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct HostClaim<'a> {
    pub instance_uuid: &'a str,
    pub host: &'a HostState,
    pub candidate: &'a AllocationCandidate,
    /// Its place among the host's, as they were given.
    pub place: usize,
    /// Upper bounds for the host's agent.
    pub limits: &'a SchedulerLimits,
}

/// A request that is being scheduled.
pub(super) struct SelectionRun<'a> {
    pub(super) scheduler: &'a Scheduler,
    pub(super) ask: SelectionRequest,
    pub(super) rng: SeededRng,
    pub(super) sorted: SortedHosts,
    pub(super) chosen: Vec<SelectedHost>,
    pub(super) record: Record,
}

/// A host that was selected.
pub(super) struct SelectedHost {
    pub(super) selection: Selection,
    /// The host state with this instance.
    pub(super) after: Arc<HostState>,
}

impl std::fmt::Debug for SelectionRun<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut run = f.debug_struct("Run");
        run.field("ask", &self.ask).finish_non_exhaustive()
    }
}

pub(super) fn begin(
    scheduler: &Scheduler,
    mut ask: SelectionRequest,
    hosts: Vec<ConsideredHost>,
) -> SelectionStep<'_> {
    let first = ask.instance_uuids.first().cloned().unwrap_or_default();
    ask.request.instance_uuid.clone_from(&first);
    let mut rng = SeededRng::new(ask.seed);
    let mut turnout = Turnout::new(first, Detail::of(0, scheduler.keeps_record));
    let sorted = SortedHosts::new(scheduler, &ask.request, hosts, &mut rng, &mut turnout);
    let run = SelectionRun {
        rng,
        sorted,
        chosen: Vec::new(),
        record: Record {
            asked: asked(scheduler, &ask),
            turns: vec![turnout],
            alternates: None,
        },
        scheduler,
        ask,
    };
    Box::new(run).turn()
}

pub(super) fn asked(scheduler: &Scheduler, ask: &SelectionRequest) -> RequestSummary {
    let (flavor, options) = (&ask.request.flavor, &scheduler.options.filter_scheduler);
    RequestSummary {
        flavor: flavor.name.clone(),
        vcpus: flavor.vcpus,
        memory_mb: flavor.memory_mb,
        disk_gb: flavor.root_gb.saturating_add(flavor.ephemeral_gb),
        project_id: ask.request.project_id.clone(),
        availability_zone: ask.request.availability_zone.clone(),
        instances: ask.instance_uuids.len(),
        seed: ask.seed,
        by_chance: options.host_subset_size > 1 || options.shuffle_best_same_weighed_hosts,
        unread_hints: unread_hints(scheduler, &ask.request),
        failed_plugins: ask.request.plugin_answers.failed(),
    }
}

/// The hints that no enabled filter reads. Empty if a plugin is enabled, because it may read any hint.
fn unread_hints(scheduler: &Scheduler, request: &RequestSpec) -> Vec<String> {
    let is_own = |name: &str| crate::filters::named(name).is_none();
    if request.hints.iter().next().is_none() || scheduler.filters().any(is_own) {
        return Vec::new();
    }
    let enabled: Vec<&str> = scheduler.filters().collect();
    let hints = request.hints.unread(&enabled);
    hints.map(|it| shortened(it).into_owned()).collect()
}

impl<'a> SelectionRun<'a> {
    /// Sorts the hosts for the next instance, if there is one.
    fn turn(self: Box<Self>) -> SelectionStep<'a> {
        if self.chosen.len() >= self.ask.instance_uuids.len() {
            return SelectionStep::Selected(self.selected());
        }
        if self.sorted.is_empty() {
            return SelectionStep::NoValidHost(self.no_valid_host(NoHost::NoneLeft));
        }
        self.next(0, 0)
    }

    /// The next claim: on the host of this rank, after this number of refused candidates.
    fn next(mut self: Box<Self>, mut rank: usize, mut refused: usize) -> SelectionStep<'a> {
        let options = &self.scheduler.options.filter_scheduler;
        while let Some(place) = self.sorted.place(rank) {
            let Some(host) = self.sorted.host(place) else {
                break;
            };
            if self.ask.claims == ClaimPolicy::Kept {
                self.choose(place, None);
                return self.turn_after(place);
            }
            let most = match options.candidates_per_host {
                0 => usize::MAX,
                most => most,
            };
            let candidate = host.surviving().map(|(at, _)| at).take(most).nth(refused);
            if let Some(candidate) = candidate {
                let host = host.clone();
                return SelectionStep::Claim(PendingClaim {
                    run: self,
                    rank,
                    refused,
                    host,
                    candidate,
                });
            }
            (rank, refused) = (rank + 1, 0);
        }
        SelectionStep::NoValidHost(self.no_valid_host(NoHost::NoneClaimed))
    }

    /// Counts the instance on the host at this place.
    fn choose(&mut self, place: usize, candidate: Option<usize>) {
        let Some(host) = self.sorted.host_mut(place) else {
            return;
        };
        let candidate = candidate.and_then(|at| host.candidates.get(at)).cloned();
        let selection = Selection {
            host: Arc::clone(&host.state),
            candidate,
            limits: host.limits.clone(),
        };
        let state = Arc::make_mut(&mut host.state);
        let counted = consume(
            state,
            &self.ask.request,
            selection.candidate.as_ref(),
            &selection.limits,
            &self.scheduler.options,
        );
        if let (Err(reason), Some(turn)) = (counted, self.record.turns.last_mut()) {
            turn.not_counted = Some(reason);
        }
        let after = Arc::clone(&host.state);
        if let Some(group) = &mut self.ask.request.group {
            group.hosts.insert(after.host.clone());
        }
        self.chosen.push(SelectedHost { selection, after });
    }

    /// The next instance's turn, after the host at this place took one.
    fn turn_after(mut self: Box<Self>, changed: usize) -> SelectionStep<'a> {
        let next = self.ask.instance_uuids.get(self.chosen.len()).cloned();
        if let Some(uuid) = next {
            self.ask.request.instance_uuid.clone_from(&uuid);
            let detail = Detail::of(self.chosen.len(), self.scheduler.keeps_record);
            let turnout = self.sort_again(changed, uuid, detail);
            self.record.turns.push(turnout);
        } else if self.ask.instance_uuids.len() > 1 && self.alternates() > 0 {
            // What the last instance took counts for alternates too.
            let uuid = self.ask.request.instance_uuid.clone();
            let detail = Detail::of(usize::MAX, self.scheduler.keeps_record);
            self.record.alternates = Some(self.sort_again(changed, uuid, detail));
        }
        self.turn()
    }

    fn sort_again(&mut self, changed: usize, uuid: String, detail: Detail) -> Turnout {
        let mut turnout = Turnout::new(uuid, detail);
        let (request, rng) = (&self.ask.request, &mut self.rng);
        self.sorted
            .again(self.scheduler, request, changed, rng, &mut turnout);
        turnout
    }

    /// The number of alternates for each instance.
    pub(super) fn alternates(&self) -> usize {
        let attempts = self.scheduler.options.scheduler.max_attempts;
        match self.ask.alternates {
            Alternates::Wanted => attempts.saturating_sub(1),
            Alternates::None => 0,
        }
    }

    fn selected(self: Box<Self>) -> SelectionResult {
        let selections = selections(&self);
        let mut after: Vec<Arc<HostState>> = Vec::new();
        for one in self.chosen {
            let is_it = |it: &&mut Arc<HostState>| is_same(it, &one.after);
            match after.iter_mut().find(is_it) {
                Some(before) => *before = one.after,
                None => after.push(one.after),
            }
        }
        SelectionResult {
            selections,
            after,
            record: self.record,
        }
    }

    fn no_valid_host(self: Box<Self>, why: NoHost) -> NoValidHost {
        let at = self.chosen.len();
        let claimed = match self.ask.claims {
            ClaimPolicy::Needed => self.ask.instance_uuids.into_iter().take(at).collect(),
            ClaimPolicy::Kept => Vec::new(),
        };
        let (hosts, is_filtered) = self.sorted.into_all();
        let unplaced = UnplacedRequest {
            request: self.ask.request,
            hosts,
            is_filtered,
        };
        NoValidHost {
            cut: None,
            unplaced: Box::new(unplaced),
            why,
            at,
            claimed,
            record: self.record,
        }
    }
}

/// Whether both are one compute node.
pub(super) fn is_same(one: &HostState, other: &HostState) -> bool {
    one.host == other.host && one.nodename == other.nodename
}

impl<'a> PendingClaim<'a> {
    #[must_use]
    pub fn claim(&self) -> HostClaim<'_> {
        HostClaim {
            instance_uuid: &self.run.ask.request.instance_uuid,
            host: &self.host.state,
            candidate: &self.host.candidates[self.candidate],
            place: self.candidate,
            limits: &self.host.limits,
        }
    }

    /// Whether it is the first candidate of its host: then the host's candidates may be reordered.
    #[must_use]
    pub fn is_first_of_host(&self) -> bool {
        self.refused == 0
    }

    /// Tries the host's candidates in this order, by index. Candidates that are not listed follow; candidates that
    /// filters removed are not tried. No effect after a refused claim.
    pub fn in_order(mut self, places: &[usize]) -> Self {
        let surviving: Vec<usize> = self.host.surviving().map(|(place, _)| place).collect();
        let named = places.iter().filter(|place| surviving.contains(place));
        let others = surviving.iter().filter(|place| !places.contains(place));
        let order: Vec<usize> = named.chain(others).copied().collect();
        let (true, Some(first)) = (self.is_first_of_host(), order.first().copied()) else {
            return self;
        };
        self.candidate = first;
        self.host.surviving = SurvivingCandidates::These(order);
        let place = self.run.sorted.place(self.rank);
        if let Some(host) = place.and_then(|place| self.run.sorted.host_mut(place)) {
            host.surviving.clone_from(&self.host.surviving);
        }
        self
    }

    pub fn granted(mut self) -> SelectionStep<'a> {
        self.note(true);
        match self.run.sorted.place(self.rank) {
            Some(place) => {
                self.run.choose(place, Some(self.candidate));
                self.run.turn_after(place)
            }
            None => self.run.turn(),
        }
    }

    /// It cannot be claimed: someone else was there first. The next candidate of the host is tried, or the next host.
    pub fn refused(mut self) -> SelectionStep<'a> {
        self.note(false);
        self.run.next(self.rank, self.refused + 1)
    }

    /// Nothing more is to be tried: someone else writes this instance's allocations, or the caller has no more time.
    #[must_use]
    pub fn give_up(mut self) -> NoValidHost {
        self.note(false);
        self.run.no_valid_host(NoHost::GivenUp)
    }

    fn note(&mut self, is_granted: bool) {
        if let Some(turn) = self.run.record.turns.last_mut() {
            turn.note(CandidateClaim {
                host: Arc::clone(&self.host.state),
                candidate: self.candidate,
                is_granted,
            });
        }
    }
}
