//! A claim by filters and weighers: Placement's candidates on hosts whose agents told their state.

mod choices;
mod group_place;
mod headroom;
mod kept;
mod question;

use berth_client::placement::{ClaimError, Claimed};
use berth_hosts::{GroupPolicy, KeptServerGroup, ServerGroupError};
use berth_scheduler::Reason;
use berth_scheduler::explain::{Explanation, PlacementStage};
use berth_scheduler::select::{Alternates, Ask, Claiming, Claims, NoValidHost, Step};
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use choices::{Choices, Hosts};
use group_place::GroupPlace;
use question::Asked;

use super::{NO_OTHER, Requested};
use crate::boot::{BootError, NoHostWhy, called_off};
use crate::destinations::{Considered, FilterScheduler, throw};
use crate::diagnosis;
use crate::journal::Chosen;
use crate::metrics::{ClaimResult, SearchOutcome};
use crate::way::Way;

/// So often a guest of a server group is placed anew because others of the group were quicker; each time one of them was placed.
pub(super) const MOST_ROUNDS: usize = 1000;

/// One question to Placement and the scheduler, and by whom it is asked.
struct Round<'a> {
    scheduler: &'a FilterScheduler,
    way: &'a Way,
    cancel: &'a CancellationToken,
    group: Option<KeptServerGroup>,
    asked: Asked,
}

/// A search that is under way, and with what.
struct Search<'a> {
    scheduler: &'a FilterScheduler,
    way: &'a Way,
    cancel: &'a CancellationToken,
    choices: Choices,
    place: Option<GroupPlace<'a>>,
    placement: PlacementStage,
}

/// How a search ended.
pub(super) enum Ended {
    /// By a claim; why is kept.
    Placed(Box<(Chosen, Claimed)>),
    /// The server group was changed meanwhile. Nothing is kept of it: another one follows.
    Overtaken,
    /// Without a host, for this reason, which is kept.
    Without(SearchOutcome, BootError),
}

/// What became of a claim.
enum Tried {
    Granted(Box<(Chosen, Claimed)>),
    /// Somebody else was there first.
    Taken,
    /// The server group was changed meanwhile.
    Overtaken,
}

impl Requested {
    /// Searches until one is decided, or [`MOST_ROUNDS`] were overtaken. A guest has its turn among others from the question to Placement
    /// up to its claim: those who choose at the same time choose the same devices, and refuse each other.
    pub(super) async fn place_filtered(
        &self,
        way: &Way,
        cancel: &CancellationToken,
    ) -> Result<Ended, BootError> {
        let scheduler = &way.scheduler;
        let mut among = self.hosts_first();
        // Before its turn: the accelerator service may take long to answer.
        let profile = self.profile(way).await?;
        let mut turn = None;
        for _ in 0..MOST_ROUNDS {
            if turn.is_none() {
                turn = tokio::select! {
                    turn = way.searches.acquire() => turn.ok(),
                    () = cancel.cancelled() => return Err(BootError::Cancelled),
                };
            }
            let begun = Instant::now();
            let round = async {
                let group = self.group(scheduler).await?;
                let asked = self
                    .asked(scheduler, way, group.as_ref(), profile.as_ref())
                    .await?;
                let round = Round {
                    scheduler,
                    way,
                    cancel,
                    group,
                    asked,
                };
                self.round(&round, among, &mut turn).await
            };
            let ended = round.await;
            way.metrics.searched(outcome(&ended), begun.elapsed());
            match ended? {
                Ended::Overtaken => {}
                Ended::Without(_, BootError::NoValidHost(_)) if among == Hosts::Others => {
                    among = Hosts::Any;
                }
                ended => return Ok(ended),
            }
        }
        Ok(Ended::Overtaken)
    }

    /// The server group that the guest is in, as it is now.
    async fn group(
        &self,
        scheduler: &FilterScheduler,
    ) -> Result<Option<KeptServerGroup>, BootError> {
        match self.record.request.server_group() {
            None => Ok(None),
            Some(group) => {
                let found = scheduler.hosts.group(group).await?;
                // Another project's is as one that is not there.
                if found.project_id != self.record.request.project_id() {
                    return Err(ServerGroupError::NotFound { group }.into());
                }
                match unseen_to(scheduler, &found) {
                    None => Ok(Some(found)),
                    Some(sentence) => Err(BootError::NoValidHost(sentence.into())),
                }
            }
        }
    }

    /// One search and one claim by it. The turn ends early where there is nothing to choose from: why, is found out by many questions.
    async fn round(
        &self,
        round: &Round<'_>,
        among: Hosts,
        turn: &mut Option<SemaphorePermit<'_>>,
    ) -> Result<Ended, BootError> {
        let Round {
            scheduler,
            way,
            cancel,
            group,
            asked,
        } = round;
        let found = asked.candidates(way).await?;
        let considered = self.considered(&found, among);
        let mut ask = self.ask(asked);
        if considered.is_empty() {
            *turn = None;
            let error = self.none_in_placement(scheduler, way, asked, &ask).await?;
            return Ok(Ended::Without(SearchOutcome::NoCandidates, error));
        }
        let (known, unheard) = self
            .known(scheduler, way, &considered, asked, group.as_ref())
            .await?;
        if known.is_empty() {
            return Ok(self.none_known(round, &ask, &considered, unheard).await);
        }
        let states: Vec<_> = known.iter().map(|it| it.considered.clone()).collect();
        ask.request.plugin_answers = tokio::select! {
            answers = scheduler.plugins.ask(&ask.request, &states) => answers,
            () = cancel.cancelled() => return Err(BootError::Cancelled),
        };
        let search = Search {
            scheduler,
            way,
            cancel,
            placement: asked.answered(&found),
            choices: Choices { considered, known },
            place: group.as_ref().map(|group| {
                let member = way.member(group.uuid, self.record.request.uuid());
                GroupPlace::new(scheduler.hosts.as_ref(), group, member)
            }),
        };
        self.claimed(search, scheduler.scheduler.select(ask, states))
            .await
    }

    /// What the scheduler is asked; plugins' answers are added.
    fn ask(&self, asked: &Asked) -> Ask {
        Ask {
            instance_uuids: vec![asked.request.instance_uuid.clone()],
            request: asked.request.clone(),
            // Another attempt asks again, by what is known then.
            alternates: Alternates::None,
            claims: Claims::Needed,
            seed: throw(*self.record.request.uuid().as_uuid()) as u64,
        }
    }

    /// Placement has candidates, and of none of their hosts anything is known.
    async fn none_known(
        &self,
        round: &Round<'_>,
        ask: &Ask,
        considered: &Considered,
        unheard: usize,
    ) -> Ended {
        let scheduler = round.scheduler;
        let sentence = match unheard {
            0 => NO_OTHER.to_owned(),
            unheard => nobody_known(considered, unheard),
        };
        self.keep_none(scheduler, &round.asked, ask, &[], &sentence)
            .await;
        match unheard {
            0 => {
                let error = BootError::NoValidHost(sentence.into());
                Ended::Without(SearchOutcome::NoCandidates, error)
            }
            _ => Ended::Without(SearchOutcome::Unknown, none_yet(scheduler, sentence.into())),
        }
    }

    /// Claims one after another, until one is granted.
    async fn claimed(
        &self,
        mut search: Search<'_>,
        mut step: Step<'_>,
    ) -> Result<Ended, BootError> {
        let way = search.way;
        let mut granted = None;
        let mut taken = 0;
        loop {
            step = match step {
                Step::Claim(claiming) => {
                    called_off(search.cancel)?;
                    let claiming = self.nearest(way, claiming, &search.choices).await;
                    match self.try_claim(&mut search, &claiming).await {
                        Ok(Tried::Granted(it)) => {
                            granted = Some(it);
                            claiming.granted()
                        }
                        Ok(Tried::Taken) => {
                            taken += 1;
                            claiming.refused()
                        }
                        Ok(Tried::Overtaken) => return Ok(Ended::Overtaken),
                        Err(error) => {
                            return self.given_up(search, claiming.give_up(), error).await;
                        }
                    }
                }
                Step::Selected(selected) => {
                    way.metrics.rejected(&selected.record);
                    let explanation = Explanation::of_selected(&selected);
                    self.keep(
                        search.scheduler,
                        explanation.with_placement(search.placement),
                    )
                    .await;
                    return Ok(granted.map_or(Ended::Overtaken, Ended::Placed));
                }
                Step::NoValidHost(why) => {
                    let why = why.after(&search.placement);
                    way.metrics.rejected(&why.record);
                    let diagnosis = search.scheduler.scheduler.diagnose(&why);
                    let explanation = Explanation::of_no_valid_host(&why, diagnosis);
                    self.keep(
                        search.scheduler,
                        explanation.with_placement(search.placement),
                    )
                    .await;
                    if taken > 0 {
                        self.nothing_claimed(way).await?;
                        let error = BootError::AllTaken(taken);
                        return Ok(Ended::Without(SearchOutcome::AllTaken, error));
                    }
                    let error = none(search.scheduler, &why);
                    return Ok(Ended::Without(SearchOutcome::NoValidHost, error));
                }
            };
        }
    }

    /// One claim, after the guest's place in its group.
    async fn try_claim(
        &self,
        search: &mut Search<'_>,
        claiming: &Claiming<'_>,
    ) -> Result<Tried, BootError> {
        let way = search.way;
        let chosen = search.choices.chosen(claiming)?;
        // Before its place in the group: whoever undoes this boot knows by it that there may be one.
        self.begin_claim(way, &chosen).await?;
        if let Some(place) = &mut search.place
            && !place.put_on(&claiming.claim().host.host).await?
        {
            self.nothing_claimed(way).await?;
            return Ok(Tried::Overtaken);
        }
        match self.claim_begun(way, &chosen).await {
            Ok(claimed) => {
                way.metrics.claimed(ClaimResult::Granted);
                Ok(Tried::Granted(Box::new((chosen, claimed))))
            }
            Err(BootError::Claim(ClaimError::Taken(_))) => {
                way.metrics.claimed(ClaimResult::Refused);
                Ok(Tried::Taken)
            }
            Err(error) => Err(error),
        }
    }

    /// Placement has no candidate, or none that was not tried in vain.
    async fn none_in_placement(
        &self,
        scheduler: &FilterScheduler,
        way: &Way,
        asked: &Asked,
        ask: &Ask,
    ) -> Result<BootError, BootError> {
        let (causes, sentence) = match self.avoided(false).is_empty() {
            false => (Vec::new(), NO_OTHER.to_owned()),
            true => {
                let causes = diagnosis::causes(&way.placement, &asked.query).await?;
                let beyond = match causes.is_empty() {
                    true => diagnosis::beyond_all(&way.placement, &asked.query).await?,
                    false => Vec::new(),
                };
                let sentence = diagnosis::beyond_sentence(&beyond)
                    .unwrap_or_else(|| diagnosis::sentence(&causes));
                (causes, sentence)
            }
        };
        self.keep_none(scheduler, asked, ask, &causes, &sentence)
            .await;
        Ok(BootError::NoValidHost(sentence.into()))
    }
}

/// How a search ended, in a word.
fn outcome(ended: &Result<Ended, BootError>) -> SearchOutcome {
    match ended {
        Ok(Ended::Placed(_)) => SearchOutcome::Selected,
        Ok(Ended::Without(outcome, _)) => *outcome,
        // No candidate can be right, so that Placement is not asked, or refuses the question.
        Err(BootError::NoValidHost(_)) => SearchOutcome::NoCandidates,
        Ok(Ended::Overtaken) | Err(_) => SearchOutcome::Undecided,
    }
}

/// No host. Where one was rejected because it is silent, and the conductor has only just begun to hear of hosts, one may be there
/// in a moment.
fn none(scheduler: &FilterScheduler, why: &NoValidHost) -> BootError {
    let mut named = why
        .record
        .turns
        .iter()
        .flat_map(|turn| turn.rejected.named());
    match named.any(|(_, one)| matches!(one.reason, Reason::ServiceDown { .. })) {
        true => none_yet(scheduler, sentence(why)),
        false => BootError::NoValidHost(sentence(why)),
    }
}

/// Why nobody would see to what is wanted of a group's members: guests together that are to be apart were worse than none.
fn unseen_to(scheduler: &FilterScheduler, group: &KeptServerGroup) -> Option<String> {
    let (name, option) = match group.policy {
        GroupPolicy::Affinity => ("ServerGroupAffinityFilter", "enabled_filters"),
        GroupPolicy::AntiAffinity => ("ServerGroupAntiAffinityFilter", "enabled_filters"),
        GroupPolicy::SoftAffinity => ("ServerGroupSoftAffinityWeigher", "weight_classes"),
        GroupPolicy::SoftAntiAffinity => ("ServerGroupSoftAntiAffinityWeigher", "weight_classes"),
    };
    let scheduler = &scheduler.scheduler;
    let is_there = scheduler
        .filters()
        .chain(scheduler.weighers())
        .any(|it| it == name);
    (!is_there).then(|| {
        format!(
            "its server group {} is of the policy {}, which nobody sees to: {option} does not name {name}",
            group.uuid,
            group.policy.as_str()
        )
    })
}

/// Why none of the hosts with room is looked at.
fn nobody_known(considered: &Considered, unheard: usize) -> String {
    let many = considered.hosts().count();
    format!(
        "of {many} hosts with room, {unheard} are unknown to the scheduler, or have no agent that can be asked: have they told their \
         state ([conductor] there), and does [conductor_service] agents name them?"
    )
}

fn none_yet(scheduler: &FilterScheduler, why: NoHostWhy) -> BootError {
    match scheduler.may_have_missed_agents() {
        true => BootError::HostsSilent(why),
        false => BootError::NoValidHost(why),
    }
}

/// Without the words that every such error begins with.
fn sentence(why: &NoValidHost) -> NoHostWhy {
    let rest = |text: String| {
        let rest = text.strip_prefix("no valid host was found: ");
        rest.map_or(text.clone(), ToOwned::to_owned)
    };
    NoHostWhy::new(rest(why.to_string()), rest(why.without_hosts()))
}
