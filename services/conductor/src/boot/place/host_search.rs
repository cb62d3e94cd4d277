//! Searches a host with Placement's candidates, filters and weighers, and claims it.
//!
//! ```text
//! server group -> allocation candidates -> host states -> plugins -> filters, weighers -> claim
//!      ^                                                                              |
//!      +------------------- SearchResult::GroupChanged: next round -------------------+
//! ```

mod choices;
mod explanation;
mod group_placement;
mod headroom;
mod scheduling_query;

use berth_client::placement::{ClaimError, GrantedClaim};
use berth_hosts::{ServerGroupError, ServerGroupPolicy, StoredServerGroup};
use berth_keyed_tasks::FairPermit;
use berth_model::QueryDemand;
use berth_scheduler::Reason;
use berth_scheduler::select::PlacementStage;
use berth_scheduler::select::{
    Alternates, ClaimPolicy, NoValidHost, PendingClaim, SelectionRequest, SelectionStep,
};
use berth_scheduler_explain::{Explanation, diagnose};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use choices::{HostChoices, HostScope, NO_OTHER};
use group_placement::GroupPlacement;
use scheduling_query::SchedulingQuery;
pub(crate) use scheduling_query::claimed_amounts;

use super::RequestedBoot;
use crate::boot::{BootError, NoHostReason, check_cancelled};
use crate::boot_context::BootContext;
use crate::diagnosis;
use crate::filter_scheduler::{CandidateHosts, FilterScheduler, instance_seed};
use crate::journal::ChosenHost;
use crate::metrics::{ClaimResult, SearchOutcome};

/// Maximum number of rounds for a guest in a server group. A round is lost only if another member of
/// the group was placed.
pub(super) const MAX_ROUNDS: usize = 1000;

/// Input of one round of the search.
struct SearchRound<'a> {
    scheduler: &'a FilterScheduler,
    context: &'a BootContext,
    cancel: &'a CancellationToken,
    group: Option<StoredServerGroup>,
    query: SchedulingQuery,
}

/// State of a search while candidates are claimed.
struct HostSearch<'a> {
    scheduler: &'a FilterScheduler,
    context: &'a BootContext,
    cancel: &'a CancellationToken,
    choices: HostChoices,
    place: Option<GroupPlacement<'a>>,
    placement: PlacementStage,
}

/// Result of one round.
pub(super) enum SearchResult {
    /// A host is claimed, and the explanation is recorded.
    Claimed(Box<(ChosenHost, GrantedClaim)>),
    /// The server group was changed concurrently. Nothing is recorded; the next round follows.
    GroupChanged,
    /// No host, for this recorded reason.
    NoHost(SearchOutcome, BootError),
}

/// Result of claiming one candidate.
enum ClaimAttempt {
    Granted(Box<(ChosenHost, GrantedClaim)>),
    /// Another request claimed the resources first.
    Taken,
    /// The server group was changed concurrently.
    GroupChanged,
}

impl RequestedBoot {
    /// Searches until a round has a result, at most [`MAX_ROUNDS`] times.
    ///
    /// A guest holds a search permit from its query to Placement until its claim. Concurrent searches tend to
    /// choose the same devices and conflict.
    pub(super) async fn search_hosts(
        &self,
        context: &BootContext,
        cancel: &CancellationToken,
    ) -> Result<SearchResult, BootError> {
        let scheduler = &context.scheduler;
        let mut scope = self.initial_scope();
        // Before a permit is taken: the accelerator service may be slow.
        let profile = self.profile(context).await?;
        let mut permit = None;
        for _ in 0..MAX_ROUNDS {
            if permit.is_none() {
                let project = self.record.request.project_id().to_owned();
                permit = tokio::select! {
                    permit = context.searches.acquire(project) => Some(permit),
                    () = cancel.cancelled() => return Err(BootError::Cancelled),
                };
            }
            let begun = Instant::now();
            let round = async {
                let group = self.group(scheduler).await?;
                let query = self
                    .scheduling_query(scheduler, context, group.as_ref(), profile.as_ref())
                    .await?;
                let round = SearchRound {
                    scheduler,
                    context,
                    cancel,
                    group,
                    query,
                };
                self.round(&round, scope, &mut permit).await
            };
            let ended = round.await;
            context
                .metrics
                .record_search(search_outcome(&ended), begun.elapsed());
            match ended? {
                SearchResult::GroupChanged => {}
                SearchResult::NoHost(_, BootError::NoValidHost(_))
                    if scope == HostScope::Untried =>
                {
                    scope = HostScope::All;
                }
                ended => return Ok(ended),
            }
        }
        Ok(SearchResult::GroupChanged)
    }

    /// The current state of the guest's server group.
    async fn group(
        &self,
        scheduler: &FilterScheduler,
    ) -> Result<Option<StoredServerGroup>, BootError> {
        match self.record.request.server_group() {
            None => Ok(None),
            Some(group) => {
                let found = scheduler.hosts.group(group).await?;
                // A group of another project is treated as missing.
                if found.project_id != self.record.request.project_id() {
                    return Err(ServerGroupError::NotFound { group }.into());
                }
                match unenforced_policy_reason(scheduler, &found) {
                    None => Ok(Some(found)),
                    Some(reason) => Err(BootError::NoValidHost(reason)),
                }
            }
        }
    }

    /// One search, and one claim of its result. If there is no candidate, the permit is released before the
    /// diagnosis, which takes many queries.
    async fn round(
        &self,
        round: &SearchRound<'_>,
        scope: HostScope,
        permit: &mut Option<FairPermit<String>>,
    ) -> Result<SearchResult, BootError> {
        let SearchRound {
            scheduler,
            context,
            cancel,
            group,
            query,
        } = round;
        let found = query.candidates(context).await?;
        let considered = self.candidate_hosts(&found, scope);
        let mut ask = self.ask(query);
        if considered.is_empty() {
            *permit = None;
            let error = self.no_candidates(scheduler, context, query, &ask).await?;
            return Ok(SearchResult::NoHost(SearchOutcome::NoCandidates, error));
        }
        let (known, unknown) = self
            .known_hosts(scheduler, context, &considered, query, group.as_ref())
            .await?;
        if known.is_empty() {
            return Ok(self.no_known_host(round, &ask, &considered, unknown).await);
        }
        let states: Vec<_> = known.iter().map(|it| it.considered.clone()).collect();
        ask.request.plugin_answers = tokio::select! {
            answers = scheduler.plugins.ask(&ask.request, &states) => answers,
            () = cancel.cancelled() => return Err(BootError::Cancelled),
        };
        let search = HostSearch {
            scheduler,
            context,
            cancel,
            placement: query.placement_stage(&found),
            choices: HostChoices { considered, known },
            place: group.as_ref().map(|group| {
                let member = context.member(group.uuid, self.record.request.uuid());
                GroupPlacement::new(scheduler.hosts.as_ref(), group, member)
            }),
        };
        self.claim_first(search, scheduler.scheduler.select(ask, states))
            .await
    }

    /// The input of the scheduler, still without the plugins' answers.
    fn ask(&self, query: &SchedulingQuery) -> SelectionRequest {
        SelectionRequest {
            instance_uuids: vec![query.request.instance_uuid.clone()],
            request: query.request.clone(),
            // No alternates: the next attempt searches again with the then current state.
            alternates: Alternates::None,
            claims: ClaimPolicy::Needed,
            seed: instance_seed(*self.record.request.uuid().as_uuid()) as u64,
        }
    }

    /// The result if Placement has candidates, but no state is known for any of their hosts.
    async fn no_known_host(
        &self,
        round: &SearchRound<'_>,
        ask: &SelectionRequest,
        considered: &CandidateHosts,
        unknown: usize,
    ) -> SearchResult {
        let scheduler = round.scheduler;
        let reason = match unknown {
            0 => NO_OTHER.to_owned().into(),
            unknown => unknown_hosts_reason(considered, unknown),
        };
        let sentence = reason.to_string();
        self.record_no_candidates(scheduler, &round.query, ask, &[], &sentence)
            .await;
        match unknown {
            0 => {
                let error = BootError::NoValidHost(reason);
                SearchResult::NoHost(SearchOutcome::NoCandidates, error)
            }
            _ => SearchResult::NoHost(SearchOutcome::Unknown, no_host_yet(scheduler, reason)),
        }
    }

    /// Claims the selected candidates in their order until one is granted.
    async fn claim_first(
        &self,
        mut search: HostSearch<'_>,
        mut step: SelectionStep<'_>,
    ) -> Result<SearchResult, BootError> {
        let context = search.context;
        let mut granted = None;
        let mut taken = 0;
        loop {
            step = match step {
                SelectionStep::Claim(claiming) => {
                    check_cancelled(search.cancel)?;
                    let claiming = self
                        .order_candidates(context, claiming, &search.choices)
                        .await;
                    match self.try_claim(&mut search, &claiming).await {
                        Ok(ClaimAttempt::Granted(it)) => {
                            granted = Some(it);
                            claiming.granted()
                        }
                        Ok(ClaimAttempt::Taken) => {
                            taken += 1;
                            claiming.refused()
                        }
                        Ok(ClaimAttempt::GroupChanged) => return Ok(SearchResult::GroupChanged),
                        Err(error) => {
                            return self
                                .record_aborted_search(search, claiming.give_up(), error)
                                .await;
                        }
                    }
                }
                SelectionStep::Selected(selected) => {
                    context.metrics.record_rejections(&selected.record);
                    let explanation = Explanation::of_selected(&selected);
                    self.record_explanation(
                        search.scheduler,
                        explanation.with_placement(search.placement),
                    )
                    .await;
                    return Ok(granted.map_or(SearchResult::GroupChanged, SearchResult::Claimed));
                }
                SelectionStep::NoValidHost(why) => {
                    let why = why.after(&search.placement);
                    context.metrics.record_rejections(&why.record);
                    let diagnosis = diagnose(&search.scheduler.scheduler, &why);
                    let explanation = Explanation::of_no_valid_host(&why, diagnosis);
                    self.record_explanation(
                        search.scheduler,
                        explanation.with_placement(search.placement),
                    )
                    .await;
                    if taken > 0 {
                        self.record_no_claim(context).await?;
                        let error = BootError::AllTaken(taken);
                        return Ok(SearchResult::NoHost(SearchOutcome::AllTaken, error));
                    }
                    let error = no_host(search.scheduler, &why);
                    return Ok(SearchResult::NoHost(SearchOutcome::NoValidHost, error));
                }
            };
        }
    }

    /// Claims one candidate, after the guest was placed in its server group.
    async fn try_claim(
        &self,
        search: &mut HostSearch<'_>,
        claiming: &PendingClaim<'_>,
    ) -> Result<ClaimAttempt, BootError> {
        let context = search.context;
        let options = context.scheduler.scheduler.options();
        let default_zone = &options.default.default_availability_zone;
        let chosen = search.choices.chosen(claiming, default_zone)?;
        // Record the claim before the group placement: undo removes a group member only if a claim is
        // recorded.
        self.record_claim_begun(context, &chosen).await?;
        if let Some(place) = &mut search.place
            && !place.set_host(&claiming.claim().host.host).await?
        {
            self.record_no_claim(context).await?;
            return Ok(ClaimAttempt::GroupChanged);
        }
        match self.claim_chosen(context, &chosen).await {
            Ok(claimed) => {
                context.metrics.record_claim(ClaimResult::Granted);
                Ok(ClaimAttempt::Granted(Box::new((chosen, claimed))))
            }
            Err(BootError::Claim(ClaimError::Taken(_))) => {
                context.metrics.record_claim(ClaimResult::Refused);
                Ok(ClaimAttempt::Taken)
            }
            Err(error) => Err(error),
        }
    }

    /// The error if Placement has no candidate, or only avoided ones; includes a diagnosis.
    async fn no_candidates(
        &self,
        scheduler: &FilterScheduler,
        context: &BootContext,
        query: &SchedulingQuery,
        ask: &SelectionRequest,
    ) -> Result<BootError, BootError> {
        let (causes, reason) = match self.avoided(false).is_empty() {
            false => (Vec::new(), NO_OTHER.to_owned().into()),
            true => {
                let causes = diagnosis::find_causes(&context.placement, &query.query).await?;
                // With the amounts that are free, the user sees what would fit.
                let is_of_amounts = causes
                    .iter()
                    .all(|cause| matches!(cause, QueryDemand::Resource(None, ..)));
                let beyond = match is_of_amounts {
                    true => diagnosis::find_shortages(&context.placement, &query.query).await?,
                    false => Vec::new(),
                };
                let reason = diagnosis::shortage_reason(&beyond)
                    .unwrap_or_else(|| diagnosis::causes_reason(&causes));
                (causes, reason)
            }
        };
        self.record_no_candidates(scheduler, query, ask, &causes, &reason.to_string())
            .await;
        Ok(BootError::NoValidHost(reason))
    }
}

/// The metrics label of a result.
fn search_outcome(ended: &Result<SearchResult, BootError>) -> SearchOutcome {
    match ended {
        Ok(SearchResult::Claimed(_)) => SearchOutcome::Selected,
        Ok(SearchResult::NoHost(outcome, _)) => *outcome,
        // The query itself is unsatisfiable, so Placement has no candidates.
        Err(BootError::NoValidHost(_)) => SearchOutcome::NoCandidates,
        Ok(SearchResult::GroupChanged) | Err(_) => SearchOutcome::Undecided,
    }
}

/// The error if no host passed the filters. If a host was rejected because its agent has not reported, and the
/// conductor started recently, the search may succeed later.
fn no_host(scheduler: &FilterScheduler, why: &NoValidHost) -> BootError {
    let mut named = why
        .record
        .turns
        .iter()
        .flat_map(|turn| turn.rejected.named());
    match named.any(|(_, one)| matches!(one.reason, Reason::ServiceDown { .. })) {
        true => no_host_yet(scheduler, no_host_reason(why)),
        false => BootError::NoValidHost(no_host_reason(why)),
    }
}

/// Why the group's policy would not be enforced: its filter or weigher is not enabled. Then the boot fails rather
/// than violate the policy.
fn unenforced_policy_reason(
    scheduler: &FilterScheduler,
    group: &StoredServerGroup,
) -> Option<NoHostReason> {
    let (name, option) = match group.policy {
        ServerGroupPolicy::Affinity => ("ServerGroupAffinityFilter", "enabled_filters"),
        ServerGroupPolicy::AntiAffinity => ("ServerGroupAntiAffinityFilter", "enabled_filters"),
        ServerGroupPolicy::SoftAffinity => ("ServerGroupSoftAffinityWeigher", "weight_classes"),
        ServerGroupPolicy::SoftAntiAffinity => {
            ("ServerGroupSoftAntiAffinityWeigher", "weight_classes")
        }
    };
    let scheduler = &scheduler.scheduler;
    let is_there = scheduler
        .filters()
        .chain(scheduler.weighers())
        .any(|it| it == name);
    (!is_there).then(|| {
        let (group, policy) = (group.uuid, group.policy.as_str());
        let user = format!("the policy {policy} of its server group {group} is not enforced");
        NoHostReason::new(format!("{user}: {option} does not include {name}"), user)
    })
}

/// Reason if the states of all candidate hosts are unknown.
fn unknown_hosts_reason(considered: &CandidateHosts, unknown: usize) -> NoHostReason {
    let many = considered.hosts().count();
    let operator = format!(
        "of {many} hosts with room, {unknown} have not reported their state or have no known agent: check [conductor] on the \
         hosts, and [conductor_service] agents here"
    );
    NoHostReason::new(operator, "hosts have not reported their state".to_owned())
}

fn no_host_yet(scheduler: &FilterScheduler, why: NoHostReason) -> BootError {
    match scheduler.may_have_missed_agents() {
        true => BootError::HostsNotReported(why),
        false => BootError::NoValidHost(why),
    }
}

/// The scheduler's reason without its fixed prefix.
fn no_host_reason(why: &NoValidHost) -> NoHostReason {
    let text = why.to_string();
    let rest = text.strip_prefix("no valid host was found: ");
    let user = "no host with room fits the request".to_owned();
    NoHostReason::new(rest.unwrap_or(&text).to_owned(), user)
}
