//! `berth placement explain`: why a question has few allocation candidates, or none: the same question with one demand less at a
//! time, and where no demand is the cause alone, those that cannot be had together. It asks any Placement over its API, or a
//! database that no service has open.

use std::collections::BTreeSet;
use std::io::Write;

use berth_client::{Candidates, PlacementClient, PlacementError};
use berth_compose::placement_failure::placement_error_code;
use berth_compose::{database, placement_for_commands, placement_in_process};
use berth_config::{Config, Secret};
use berth_model::{CandidatesQuery, Demand};
use berth_output::{ErrorCode, Failure, ListFormat, Listing};
use http::StatusCode;
use serde_json::{Value, json};

/// What is to be explained.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArguments {
    /// The query of GET /allocation_candidates, as a log shows it: all before a `?` is left out.
    query: String,
    /// A database that no service has open, else the Placement of [placement] is asked, or that of `berth up`. file:PATH is the URL that
    /// stands in a file.
    #[arg(
        long,
        value_name = "URL",
        env = "BERTH_DATABASE_URL",
        hide_env_values = true
    )]
    database: Option<String>,
    /// Count no more candidates than this. The query's own limit does not count.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    format: ListFormat,
}

/// Explains.
///
/// # Errors
/// The query is none, Placement is away or refuses it, or the database cannot be opened.
pub(super) async fn explain(
    asked: &ExplainArguments,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let query = CandidatesQuery::read(&asked.query).map_err(|error| {
        Failure::caused(ErrorCode::BadValue, "the query cannot be asked", &error)
            .mend("berth placement explain --help shows one")
    })?;
    let (placement, store) = match &asked.database {
        Some(url) => {
            let store = database::open_existing(&Secret::from(url.clone())).await?;
            (placement_in_process(store.clone(), None)?, Some(store))
        }
        None => (placement_for_commands(config)?, None),
    };
    let explanation = CandidatesExplanation::ask(&placement, query, asked.limit).await;
    if let Some(store) = store {
        store.close().await;
    }
    let explanation = explanation.map_err(|error| match error {
        // The query is the user's own.
        PlacementError::Refused(refusal) if refusal.status == StatusCode::BAD_REQUEST => {
            let what = format!("Placement refuses the query: {}", refusal.message.trim());
            Failure::new(ErrorCode::BadValue, what).mend("berth placement explain --help shows one")
        }
        error => {
            let code = placement_error_code(&error);
            Failure::caused(code, "Placement does not answer the query", &error)
        }
    })?;
    if asked.format.is_for_people() {
        writeln!(out, "{}", explanation.sentence())?;
    }
    explanation.listing().print(&asked.format, out)
}

/// How much was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Count {
    candidates: usize,
    hosts: usize,
}

impl Count {
    fn of(found: &Candidates) -> Self {
        let hosts: BTreeSet<_> = found
            .candidates
            .iter()
            .filter_map(|it| found.host(it))
            .collect();
        Self {
            candidates: found.candidates.len(),
            hosts: hosts.len(),
        }
    }
}

/// What a demand has to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DemandRole {
    /// Placement does not know the class or the trait.
    Unknown,
    /// No provider meets it, not even where nothing else is asked for.
    Alone,
    /// Without it there are candidates, with it none.
    Cause,
    /// One of those that leave none together.
    Together,
    /// It is not why there are none.
    None,
}

impl DemandRole {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown to placement",
            Self::Alone => "cause by itself",
            Self::Cause => "cause",
            Self::Together => "with others",
            Self::None => "",
        }
    }
}

struct DemandVerdict {
    demand: Demand,
    role: DemandRole,
    /// What there is without it; none where it was not asked.
    without: Option<Count>,
    /// Of a resource that is the cause: the most that one provider has free.
    free: Option<u64>,
}

struct CandidatesExplanation {
    found: Count,
    limit: usize,
    demands: Vec<DemandVerdict>,
}

impl CandidatesExplanation {
    async fn ask(
        placement: &PlacementClient,
        query: CandidatesQuery,
        limit: u32,
    ) -> Result<Self, PlacementError> {
        let mut demands = Vec::new();
        let mut query = query.limited(Some(limit));
        let found = loop {
            match placement.candidates_of(&query).await {
                Ok(found) => break Count::of(&found),
                Err(PlacementError::Refused(refusal)) => {
                    let unknown = unknown(&query, &refusal.message);
                    let Some(rest) = without_all(&query, &unknown) else {
                        return Err(PlacementError::Refused(refusal));
                    };
                    demands.extend(unknown.into_iter().map(|demand| DemandVerdict {
                        demand,
                        role: DemandRole::Unknown,
                        without: None,
                        free: None,
                    }));
                    query = rest;
                }
                Err(error) => return Err(error),
            }
        };
        for relaxed in query.relaxations() {
            let without = placement.candidates_of(&relaxed.query).await?;
            let count = Count::of(&without);
            let is_cause = found.candidates == 0 && count.candidates > 0;
            demands.push(DemandVerdict {
                free: match &relaxed.without {
                    Demand::Resource(_, class, _) if is_cause => most_free(&without, class),
                    _ => None,
                },
                role: if is_cause {
                    DemandRole::Cause
                } else {
                    DemandRole::None
                },
                without: Some(count),
                demand: relaxed.without,
            });
        }
        if found.candidates == 0 {
            alone(placement, &query, &mut demands).await?;
        }
        let has_cause = demands
            .iter()
            .any(|it| matches!(it.role, DemandRole::Alone | DemandRole::Cause));
        if found.candidates == 0 && !has_cause {
            for demand in together(placement, &query).await? {
                match demands.iter_mut().find(|it| it.demand == demand) {
                    Some(judged) => judged.role = DemandRole::Together,
                    // The last resource cannot be left out of a question.
                    None => demands.push(DemandVerdict {
                        demand,
                        role: DemandRole::Together,
                        without: None,
                        free: None,
                    }),
                }
            }
        }
        Ok(Self {
            found: match demands.iter().any(|it| it.role == DemandRole::Unknown) {
                true => Count::default(),
                false => found,
            },
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            demands,
        })
    }

    fn sentence(&self) -> String {
        let of_role = |role| {
            let demands = self.demands.iter().filter(|it| it.role == role);
            let words: Vec<_> = demands.map(|it| it.demand.to_string()).collect();
            words
        };
        let unknown = of_role(DemandRole::Unknown);
        if !unknown.is_empty() {
            return format!(
                "No candidate: nobody ever reported what is named in: {}. The rest is judged without.",
                unknown.join("; ")
            );
        }
        if self.found.candidates > 0 {
            let Count { candidates, hosts } = self.found;
            let least = match candidates >= self.limit {
                true => "At least ",
                false => "",
            };
            return format!(
                "{least}{candidates} {} on {hosts} {}.",
                if candidates == 1 {
                    "candidate"
                } else {
                    "candidates"
                },
                if hosts == 1 { "host" } else { "hosts" }
            );
        }
        let of_role_and_free = |role| -> Vec<_> {
            let demands = self.demands.iter().filter(|it| it.role == role);
            demands.map(DemandVerdict::with_what_is_free).collect()
        };
        match &of_role_and_free(DemandRole::Alone)[..] {
            [] => {}
            [one] => return format!("No candidate: no provider meets {one}, even by itself."),
            all => {
                return format!(
                    "No candidate: no provider meets any of these, even by itself: {}.",
                    all.join("; ")
                );
            }
        }
        let causes = of_role_and_free(DemandRole::Cause);
        match &causes[..] {
            [] => format!(
                "No candidate: no host has all of these at once: {}.",
                of_role(DemandRole::Together).join("; ")
            ),
            [cause] => format!("No candidate: no host has {cause} beside the rest."),
            causes => format!(
                "No candidate: no host has all of it; there would be one without any of: {}.",
                causes.join("; ")
            ),
        }
    }

    fn listing(&self) -> Listing {
        let mut listing = Listing::new(&[
            "demand",
            "role",
            "candidates_without",
            "hosts_without",
            "free",
        ]);
        for judged in &self.demands {
            let count =
                |of: fn(Count) -> usize| judged.without.map_or(Value::Null, |it| json!(of(it)));
            listing.push([
                json!(judged.demand.to_string()),
                json!(judged.role.as_str()),
                count(|it| it.candidates),
                count(|it| it.hosts),
                json!(judged.free),
            ]);
        }
        listing
    }
}

impl DemandVerdict {
    fn with_what_is_free(&self) -> String {
        match (&self.demand, self.free) {
            (Demand::Resource(_, _, amount), Some(free)) if free < *amount => {
                format!(
                    "{} (the most that a provider has free is {free})",
                    self.demand
                )
            }
            (Demand::Resource(..), Some(_)) if self.role == DemandRole::Alone => format!(
                "{} (so much is free, but min_unit, max_unit or step_size of the inventory forbid the amount)",
                self.demand
            ),
            (Demand::Resource(..), Some(_)) => format!(
                "{} (so much is free, but min_unit, max_unit or step_size of the inventory forbid the amount, or it is not where \
                 the rest is)",
                self.demand
            ),
            _ => self.demand.to_string(),
        }
    }
}

/// The demands that name what Placement says it does not know.
fn unknown(query: &CandidatesQuery, message: &str) -> Vec<Demand> {
    let words = ["No such resource class ", "No such trait(s): "];
    let named = words
        .into_iter()
        .find_map(|words| Some(message.split_once(words)?.1));
    let names = named.unwrap_or_default().trim_end().trim_end_matches('.');
    let names: Vec<_> = names.split(", ").filter(|name| !name.is_empty()).collect();
    let demands = query.demands().into_iter();
    demands
        .filter(|demand| names.iter().any(|name| demand.names(name)))
        .collect()
}

/// None where nothing is left, or nothing was to be left out.
fn without_all(query: &CandidatesQuery, demands: &[Demand]) -> Option<CandidatesQuery> {
    let (first, others) = demands.split_first()?;
    let mut rest = query.without(first)?;
    for demand in others {
        // What went with another is gone.
        if rest.demands().contains(demand) {
            rest = rest.without(demand)?;
        }
    }
    Some(rest)
}

/// Finds the demands that no provider meets where nothing else is asked for, and how much there is of such a class.
async fn alone(
    placement: &PlacementClient,
    query: &CandidatesQuery,
    demands: &mut Vec<DemandVerdict>,
) -> Result<(), PlacementError> {
    // One unit of each class: what its providers have of every class. One unit may be less than an inventory gives, so a class
    // is looked for in the answers for all.
    let mut units = Vec::new();
    for demand in query.demands() {
        if let Demand::Resource(group, class, _) = demand
            && let Some(one) = by_itself(&Demand::Resource(group, class.clone(), 1), &class)
        {
            units.push((class, placement.candidates_of(&one).await?));
        }
    }
    let free = |class: &str| {
        let found = units
            .iter()
            .filter_map(|(_, found)| most_free(found, class));
        found.max()
    };
    for demand in query.demands() {
        let Some(class) = class_beside(query, &demand) else {
            continue;
        };
        let Some(one) = by_itself(&demand, &class) else {
            continue;
        };
        if !placement.candidates_of(&one).await?.candidates.is_empty() {
            continue;
        }
        let free = match &demand {
            Demand::Resource(..) => free(&class),
            // Of a class that nobody has, nobody has it with a trait.
            _ if units
                .iter()
                .any(|(of, found)| *of == class && found.candidates.is_empty()) =>
            {
                continue;
            }
            _ => None,
        };
        match demands.iter_mut().find(|it| it.demand == demand) {
            Some(judged) => (judged.role, judged.free) = (DemandRole::Alone, judged.free.max(free)),
            // The last resource cannot be left out of a question.
            None => demands.push(DemandVerdict {
                demand,
                role: DemandRole::Alone,
                without: None,
                free,
            }),
        }
    }
    Ok(())
}

/// A class that is asked of the providers that a demand is about; its own, where it is for one.
fn class_beside(query: &CandidatesQuery, demand: &Demand) -> Option<String> {
    if let Demand::Resource(_, class, _) = demand {
        return Some(class.clone());
    }
    query.demands().into_iter().find_map(|other| match other {
        Demand::Resource(group, class, _) if group.as_ref() == demand.group() => Some(class),
        _ => None,
    })
}

/// A demand where nothing else is asked for but one unit of a class; none for one that is about others.
fn by_itself(demand: &Demand, class: &str) -> Option<CandidatesQuery> {
    let suffix = demand.group().map(ToString::to_string).unwrap_or_default();
    let more = match demand {
        Demand::Resource(_, class, amount) => {
            return CandidatesQuery::read(&format!(
                "resources{suffix}={class}:{amount}&limit=1000"
            ))
            .ok();
        }
        Demand::Required(_, name) => format!("required{suffix}={name}"),
        Demand::AnyOf(_, names) => {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("required{suffix}=in:{}", names.join(","))
        }
        Demand::MemberOf(_, aggregates) => format!("member_of{suffix}={aggregates}"),
        Demand::InTree(_, provider) => format!("in_tree{suffix}={provider}"),
        Demand::RootRequired(name) => format!("root_required={name}"),
        Demand::Forbidden(..)
        | Demand::RootForbidden(_)
        | Demand::SameSubtree(_)
        | Demand::Isolated => return None,
    };
    CandidatesQuery::read(&format!("resources{suffix}={class}:1&{more}&limit=1000")).ok()
}

/// A set of demands that leaves no candidate, and none of which can be missed for that.
async fn together(
    placement: &PlacementClient,
    query: &CandidatesQuery,
) -> Result<Vec<Demand>, PlacementError> {
    let mut rest = query.clone().limited(Some(1));
    for demand in query.demands() {
        if !rest.demands().contains(&demand) {
            continue;
        }
        let Some(without) = rest.without(&demand) else {
            continue;
        };
        if placement
            .candidates_of(&without)
            .await?
            .candidates
            .is_empty()
        {
            rest = without;
        }
    }
    Ok(rest.demands())
}

/// The most of a class that one provider of the trees found has free.
fn most_free(found: &Candidates, class: &str) -> Option<u64> {
    let rooms = found
        .providers
        .values()
        .filter_map(|it| it.resources.get(class));
    rooms
        .map(|room| room.capacity.saturating_sub(room.used))
        .max()
}
