//! `berth placement explain`: explains why a query has few allocation candidates, or none. It repeats the query with
//! one demand less at a time. If no single demand is the cause, it finds a set of demands that no host meets together.
//! It works over the API of any Placement, or on a database that no service has open.

use std::collections::BTreeSet;
use std::io::Write;

use berth_client::{Candidates, PlacementClient, PlacementError};
use berth_compose::placement_failure::placement_failure;
use berth_compose::{database, placement_for_commands, placement_in_process};
use berth_config::{Config, Secret};
use berth_model::{CandidatesQuery, QueryDemand};
use berth_output::{ErrorCode, Failure, ListFormat, Listing};
use http::StatusCode;
use serde_json::{Value, json};

/// The arguments of `berth placement explain`.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArguments {
    /// The query of GET /allocation_candidates, as a log shows it; everything before a `?` is ignored.
    query: String,
    /// Work directly on this database, which no service may have open; default: the Placement of [placement], or that
    /// of `berth up`. file:PATH reads the URL from a file.
    #[arg(
        long,
        value_name = "URL",
        env = "BERTH_DATABASE_URL",
        hide_env_values = true
    )]
    database: Option<String>,
    /// Count at most this many candidates. The query's own limit is ignored.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    format: ListFormat,
}

/// Explains the query and prints the result.
///
/// Errors: the query is invalid, Placement does not answer or refuses it, or the database cannot be opened.
pub(super) async fn explain(
    asked: &ExplainArguments,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let query = CandidatesQuery::read(&asked.query).map_err(|error| {
        Failure::caused(ErrorCode::BadValue, "the query is invalid", &error)
            .hint("berth placement explain --help shows an example")
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
        // The user wrote the query, so this is a usage error.
        PlacementError::Refused(refusal) if refusal.status == StatusCode::BAD_REQUEST => {
            let what = format!("Placement refuses the query: {}", refusal.message.trim());
            Failure::new(ErrorCode::BadValue, what)
                .hint("berth placement explain --help shows an example")
        }
        error => placement_failure(error),
    })?;
    if asked.format.is_for_people() {
        writeln!(out, "{}", explanation.sentence())?;
    }
    explanation.listing().print(&asked.format, out)
}

/// The size of a result.
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

/// How one demand contributes to the missing candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DemandRole {
    /// Placement does not know the class or the trait.
    Unknown,
    /// No provider meets it, even without the other demands.
    Alone,
    /// Without it there are candidates, with it none.
    Cause,
    /// It belongs to a set of demands that no host meets together.
    Together,
    /// It does not cause the lack of candidates.
    None,
}

impl DemandRole {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown to placement",
            Self::Alone => "alone",
            Self::Cause => "yes",
            Self::Together => "with others",
            Self::None => "",
        }
    }
}

struct DemandVerdict {
    demand: QueryDemand,
    role: DemandRole,
    /// The result without this demand; none if that query was not sent.
    without: Option<Count>,
    /// For a resource that is the cause: the largest free amount on one provider.
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
                    QueryDemand::Resource(_, class, _) if is_cause => most_free(&without, class),
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
                    // A query must keep its last resource.
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
                "No candidate: no host ever reported these: {}. The other demands are judged without them.",
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
            [cause] => format!("No candidate: no host has {cause} in addition to the rest."),
            causes => format!(
                "No candidate: no host meets all demands; leaving out any of these would give one: {}.",
                causes.join("; ")
            ),
        }
    }

    fn listing(&self) -> Listing {
        let mut listing = Listing::new(&[
            "requirement",
            "blocks",
            "candidates_if_dropped",
            "hosts_if_dropped",
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
            (QueryDemand::Resource(_, _, amount), Some(free)) if free < *amount => {
                format!(
                    "{} (the most that a provider has free is {free})",
                    self.demand
                )
            }
            (QueryDemand::Resource(..), Some(_)) if self.role == DemandRole::Alone => format!(
                "{} (this much is free, but min_unit, max_unit or step_size of the inventory forbid the amount)",
                self.demand
            ),
            (QueryDemand::Resource(..), Some(_)) => format!(
                "{} (this much is free, but min_unit, max_unit or step_size of the inventory forbid the amount, or another host \
                 has it)",
                self.demand
            ),
            _ => self.demand.to_string(),
        }
    }
}

/// The demands with a name that Placement's message calls unknown.
fn unknown(query: &CandidatesQuery, message: &str) -> Vec<QueryDemand> {
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

/// None if no demand remains, or none was to be removed.
fn without_all(query: &CandidatesQuery, demands: &[QueryDemand]) -> Option<CandidatesQuery> {
    let (first, others) = demands.split_first()?;
    let mut rest = query.without(first)?;
    for demand in others {
        // It may have been removed together with another demand.
        if rest.demands().contains(demand) {
            rest = rest.without(demand)?;
        }
    }
    Some(rest)
}

/// Finds the demands that no provider meets even without the other demands, and the free amount of each such class.
async fn alone(
    placement: &PlacementClient,
    query: &CandidatesQuery,
    demands: &mut Vec<DemandVerdict>,
) -> Result<(), PlacementError> {
    // The query is for one unit of each class, which shows what its providers have of every class. One unit may be less
    // than an inventory allows, so each class is looked up in the answers of all queries.
    let mut units = Vec::new();
    for demand in query.demands() {
        if let QueryDemand::Resource(group, class, _) = demand
            && let Some(one) = by_itself(&QueryDemand::Resource(group, class.clone(), 1), &class)
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
        let Some(class) = class_of_demand(query, &demand) else {
            continue;
        };
        let Some(one) = by_itself(&demand, &class) else {
            continue;
        };
        if !placement.candidates_of(&one).await?.candidates.is_empty() {
            continue;
        }
        let free = match &demand {
            QueryDemand::Resource(..) => free(&class),
            // If no provider has the class, none has it with a trait.
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
            // A query must keep its last resource.
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

/// A resource class to query on the providers of a demand: the demand's own class if it has one.
fn class_of_demand(query: &CandidatesQuery, demand: &QueryDemand) -> Option<String> {
    if let QueryDemand::Resource(_, class, _) = demand {
        return Some(class.clone());
    }
    query.demands().into_iter().find_map(|other| match other {
        QueryDemand::Resource(group, class, _) if group.as_ref() == demand.group() => Some(class),
        _ => None,
    })
}

/// A query with only this demand and one unit of a class; none for a demand that relates to other demands.
fn by_itself(demand: &QueryDemand, class: &str) -> Option<CandidatesQuery> {
    let suffix = demand.group().map(ToString::to_string).unwrap_or_default();
    let more = match demand {
        QueryDemand::Resource(_, class, amount) => {
            return CandidatesQuery::read(&format!(
                "resources{suffix}={class}:{amount}&limit=1000"
            ))
            .ok();
        }
        QueryDemand::Required(_, name) => format!("required{suffix}={name}"),
        QueryDemand::AnyOf(_, names) => {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("required{suffix}=in:{}", names.join(","))
        }
        QueryDemand::MemberOf(_, aggregates) => format!("member_of{suffix}={aggregates}"),
        QueryDemand::InTree(_, provider) => format!("in_tree{suffix}={provider}"),
        QueryDemand::RootRequired(name) => format!("root_required={name}"),
        QueryDemand::Forbidden(..)
        | QueryDemand::RootForbidden(_)
        | QueryDemand::SameSubtree(_)
        | QueryDemand::LinkGroup(_)
        | QueryDemand::Isolated => return None,
    };
    CandidatesQuery::read(&format!("resources{suffix}={class}:1&{more}&limit=1000")).ok()
}

/// A minimal set of demands that together leave no candidate.
async fn together(
    placement: &PlacementClient,
    query: &CandidatesQuery,
) -> Result<Vec<QueryDemand>, PlacementError> {
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

/// The largest amount of a class that one provider of the found trees has free.
fn most_free(found: &Candidates, class: &str) -> Option<u64> {
    let rooms = found
        .providers
        .values()
        .filter_map(|it| it.resources.get(class));
    rooms
        .map(|room| room.capacity.saturating_sub(room.used))
        .max()
}
