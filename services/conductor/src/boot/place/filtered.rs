//! A claim by filters and weighers: Placement's candidates on hosts whose agents told their state.

use berth_client::placement::{Candidates, ClaimError, Claimed};
use berth_hosts::{Hosts, KeptServerGroup, ServerGroupError};
use berth_model::{CandidatesQuery, RequestGroups};
use berth_scheduler::placement_query::{Cloud, Compute, Group, placement_query};
use berth_scheduler::select::{Alternates, Ask, Claiming, Claims, NoValidHost, Selected, Step};
use berth_scheduler::{HostState, Reason, RequestSpec};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{NO_OTHER, Requested};
use crate::boot::{BootError, Placed, called_off};
use crate::destinations::{Considered, FilterScheduler, Known, request_spec, throw};
use crate::diagnosis;
use crate::journal::Chosen;
use crate::way::Way;

/// So often a guest of a server group is placed anew because others of the group were quicker; each time one of them was placed.
const MOST_ROUNDS: usize = 1000;

/// What is asked for one guest, of the scheduler and of Placement.
struct Asked {
    request: RequestSpec,
    query: CandidatesQuery,
    /// Where nothing answers the first one: dedicated CPUs as shared ones, of hosts that do not tell them apart.
    fallback: Option<CandidatesQuery>,
}

impl Requested {
    pub(super) async fn place_filtered(
        self,
        scheduler: &FilterScheduler,
        way: &Way,
        cancel: &CancellationToken,
    ) -> Result<Placed, BootError> {
        for _ in 0..MOST_ROUNDS {
            let group = self.group(scheduler).await?;
            if let Some((chosen, claimed)) = self.round(scheduler, way, cancel, group).await? {
                return Ok(self.placed(chosen, claimed));
            }
        }
        Err(BootError::GroupBusy(MOST_ROUNDS))
    }

    /// The server group that the guest is in, as it is now.
    async fn group(
        &self,
        scheduler: &FilterScheduler,
    ) -> Result<Option<KeptServerGroup>, BootError> {
        match self.record.request.server_group() {
            None => Ok(None),
            Some(group) => Ok(Some(scheduler.hosts.group(group).await?)),
        }
    }

    /// One search and one claim by it; none where the group was changed meanwhile.
    async fn round(
        &self,
        scheduler: &FilterScheduler,
        way: &Way,
        cancel: &CancellationToken,
        group: Option<KeptServerGroup>,
    ) -> Result<Option<(Chosen, Claimed)>, BootError> {
        let asked = self.asked(scheduler, way, group.as_ref()).await?;
        let found = found(way, &asked).await?;
        let guest = *self.record.request.uuid().as_uuid();
        let mut considered = Considered::new(&found, &self.avoided(false), guest);
        if considered.is_empty() {
            // What was not ready may be by now, and is waited for otherwise.
            considered = Considered::new(&found, &self.avoided(true), guest);
        }
        if considered.is_empty() {
            return Err(self.none_in_placement(way, &asked).await?);
        }
        let group = group.as_ref();
        let known = self
            .known(scheduler, way, &considered, &asked, group)
            .await?;
        let step = scheduler.scheduler.select(
            Ask {
                instance_uuids: vec![asked.request.instance_uuid.clone()],
                request: asked.request,
                // Another attempt asks again, by what is known then.
                alternates: Alternates::None,
                claims: Claims::Needed,
                seed: throw(guest) as u64,
            },
            known.iter().map(|it| it.considered.clone()).collect(),
        );
        let choices = Choices { considered, known };
        let mut place = group.map(|group| GroupPlace {
            hosts: &scheduler.hosts,
            group: group.uuid,
            generation: group.generation,
            guest,
        });
        self.claimed(scheduler, way, cancel, step, &choices, place.as_mut())
            .await
    }

    /// The question, of the guest and of what its device profile says.
    async fn asked(
        &self,
        scheduler: &FilterScheduler,
        way: &Way,
        group: Option<&KeptServerGroup>,
    ) -> Result<Asked, BootError> {
        let guest = *self.record.request.uuid().as_uuid();
        let group = group.map(|group| group.for_instance(guest));
        let request = request_spec(&self.record, group)?;
        let groups = match self.profile(way).await? {
            Some(profile) => groups(&RequestGroups::default().with_device_profile(&profile)?),
            None => Vec::new(),
        };
        let target = self.node_provider(way).await?;
        let computes = target.map(|(node, provider)| Compute {
            nodename: node.to_string(),
            uuid: provider.to_string(),
            ..Compute::default()
        });
        let aggregates = scheduler.hosts.placement_aggregates().await?;
        let cloud = Cloud {
            aggregates: &aggregates,
            computes: computes.as_slice(),
            groups: &groups,
            ..Cloud::default()
        };
        let options = scheduler.scheduler.options();
        let query = placement_query(&request, options, &cloud)
            .map_err(|error| BootError::NoValidHost(error.to_string()))?;
        let read = |text: &str| {
            CandidatesQuery::read(text).map_err(|error| BootError::NoValidHost(error.to_string()))
        };
        Ok(Asked {
            request,
            query: read(&query.query)?,
            fallback: query.fallback_query.as_deref().map(read).transpose()?,
        })
    }

    /// The hosts whose state is known, which are in the cell of the attempts before, and whose agent can be reached.
    async fn known(
        &self,
        scheduler: &FilterScheduler,
        way: &Way,
        considered: &Considered,
        asked: &Asked,
        group: Option<&KeptServerGroup>,
    ) -> Result<Vec<Known>, BootError> {
        let roots: Vec<_> = considered.hosts().map(|host| *host.as_uuid()).collect();
        let mut states = scheduler.hosts.states(&roots).await?;
        if let Some(group) = group {
            group.occupy(*self.record.request.uuid().as_uuid(), &mut states);
        }
        let mut known = considered.with_states(states);
        let silent = roots.len() - known.len();
        let to = asked.request.requested_destination.as_ref();
        if let Some(cell) = to.and_then(|to| to.cell.as_ref()) {
            known.retain(|it| it.considered.state.cell == *cell);
        }
        known.retain(|it| way.agents.agent(&it.node).is_some());
        match known.is_empty() {
            false => Ok(known),
            true if silent == 0 => Err(BootError::NoValidHost(NO_OTHER.to_owned())),
            true => {
                let why = format!(
                    "of {} hosts with room, the agents of {silent} never told their state",
                    roots.len()
                );
                Err(none_yet(scheduler, why))
            }
        }
    }

    /// Claims one after another, until one is granted; none where the group was changed meanwhile.
    async fn claimed(
        &self,
        scheduler: &FilterScheduler,
        way: &Way,
        cancel: &CancellationToken,
        mut step: Step<'_>,
        choices: &Choices,
        mut place: Option<&mut GroupPlace<'_>>,
    ) -> Result<Option<(Chosen, Claimed)>, BootError> {
        let mut granted = None;
        let mut taken = 0;
        loop {
            step = match step {
                Step::Claim(claiming) => {
                    called_off(cancel)?;
                    let claiming = self.nearest(way, claiming, choices).await;
                    let chosen = choices.chosen(&claiming)?;
                    if let Some(place) = &mut place
                        && !place.put_on(&claiming.claim().host.host).await?
                    {
                        return Ok(None);
                    }
                    match self.claim(way, &chosen).await {
                        Ok(claimed) => {
                            granted = Some((chosen, claimed));
                            claiming.granted()
                        }
                        Err(BootError::Claim(ClaimError::Taken(_))) => {
                            taken += 1;
                            claiming.refused()
                        }
                        Err(error) => return Err(error),
                    }
                }
                Step::Selected(Selected { .. }) => break,
                Step::NoValidHost(_) if taken > 0 => {
                    self.nothing_claimed(way).await?;
                    return Err(BootError::AllTaken(taken));
                }
                Step::NoValidHost(why) => return Err(none(scheduler, &why)),
            };
        }
        match granted {
            Some(granted) => Ok(Some(granted)),
            None => Err(BootError::NoValidHost(NO_OTHER.to_owned())),
        }
    }

    /// Before the first claim on a host: its candidates, those with near devices first.
    async fn nearest<'a>(
        &self,
        way: &Way,
        claiming: Claiming<'a>,
        choices: &Choices,
    ) -> Claiming<'a> {
        let host = claiming.claim().host;
        let Some(known) = choices.known(host).filter(|_| claiming.is_first_of_host()) else {
            return claiming;
        };
        let given = choices.considered.of(known.host);
        let near = self.nearest_first(way, &known.node, given.to_vec()).await;
        let places = near.iter();
        let places = places.filter_map(|it| given.iter().position(|other| other == it));
        let places: Vec<usize> = places.collect();
        claiming.in_order(&places)
    }

    async fn none_in_placement(&self, way: &Way, asked: &Asked) -> Result<BootError, BootError> {
        if !self.avoided(false).is_empty() {
            return Ok(BootError::NoValidHost(NO_OTHER.to_owned()));
        }
        let why = diagnosis::why_none(&way.placement, &asked.query).await?;
        Ok(BootError::NoValidHost(why))
    }
}

/// The guest's place in its server group: written before its claim, so that of any number of guests at once each is placed by a
/// group that has all who came before it.
struct GroupPlace<'a> {
    hosts: &'a Hosts,
    group: Uuid,
    generation: i64,
    guest: Uuid,
}

impl GroupPlace<'_> {
    /// Whether it could be: not where somebody changed the group since it was read.
    async fn put_on(&mut self, host: &str) -> Result<bool, BootError> {
        let Self {
            hosts,
            group,
            generation,
            guest,
        } = self;
        match hosts.place(*group, *generation, *guest, host).await {
            Ok(next) => {
                *generation = next;
                Ok(true)
            }
            Err(ServerGroupError::Changed { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The hosts, as Placement and as the filters have them.
struct Choices {
    considered: Considered,
    known: Vec<Known>,
}

impl Choices {
    fn known(&self, state: &HostState) -> Option<&Known> {
        let mut known = self.known.iter();
        known.find(|it| it.considered.state.uuid == state.uuid)
    }

    fn chosen(&self, claiming: &Claiming<'_>) -> Result<Chosen, BootError> {
        let claim = claiming.claim();
        let known = self.known(claim.host);
        let candidate = known.and_then(|it| self.considered.of(it.host).get(claim.place));
        match (known, candidate) {
            (Some(known), Some(candidate)) => Ok(Chosen {
                host: known.host,
                node: known.node.clone(),
                cell: Some(claim.host.cell.clone()),
                candidate: candidate.clone(),
            }),
            _ => Err(BootError::NoValidHost(NO_OTHER.to_owned())),
        }
    }
}

/// The candidates of a question, and those of its fallback behind them.
async fn found(way: &Way, asked: &Asked) -> Result<Candidates, BootError> {
    let ask = async |query| {
        let found = way.placement.candidates_of(query).await;
        found.map_err(diagnosis::told_by_placement)
    };
    let mut found = ask(&asked.query).await?;
    if let Some(fallback) = &asked.fallback {
        let more = ask(fallback).await?;
        found.candidates.extend(more.candidates);
        found.providers.extend(more.providers);
    }
    Ok(found)
}

/// Groups as the scheduler asks for them.
fn groups(of: &RequestGroups) -> Vec<(String, Group)> {
    let text = |one: &dyn ToString| one.to_string();
    let groups = of.suffixed().map(|(suffix, group)| {
        let amounts = group.resources.iter();
        let amounts = amounts.map(|(class, amount)| {
            (
                class.to_string(),
                i64::try_from(*amount).unwrap_or(i64::MAX),
            )
        });
        let group = Group {
            resources: amounts.collect(),
            required_traits: group.required.iter().map(|it| text(it)).collect(),
            forbidden_traits: group.forbidden.iter().map(|it| text(it)).collect(),
            ..Group::default()
        };
        (suffix.to_string(), group)
    });
    groups.collect()
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

fn none_yet(scheduler: &FilterScheduler, why: String) -> BootError {
    match scheduler.may_have_missed_agents() {
        true => BootError::HostsSilent(why),
        false => BootError::NoValidHost(why),
    }
}

/// Without the words that every such error begins with.
fn sentence(why: &NoValidHost) -> String {
    let text = why.to_string();
    let rest = text.strip_prefix("no valid host was found: ");
    rest.map_or(text.clone(), ToOwned::to_owned)
}
