//! What the service does with what others send, up to the database and without one: query strings are read and searched for in a
//! small cloud that is always the same, bodies are read and judged by the inventories of that cloud.
//!
//! Caller: `tests/fuzz`, which looks for what no reader may fall over. No part of the API.

mod cloud;

use std::collections::BTreeMap;

use berth_http::{Fault, Microversion, QueryString, read_body};

use crate::candidates::{CandidateOrder, CandidatesDocument, ParsedCandidatesQuery, search};
use crate::filters::ProviderFilters;
use crate::handlers::allocations::{ConsumerBody, consumers};
use crate::handlers::reshaper::Reshape;
use crate::handlers::traits;
use crate::inventory::InventoryRecord;
use crate::ledger::{AllocationLedger, ProviderClass, RequestedAmount};
use crate::microversions::RANGE;
use crate::router::PlacementApiOptions;
use crate::schemas;
use crate::store::replace::Replace;
use cloud::FuzzCloud;

/// How many candidates an answer has at most here: a search for all of them is another test.
const MOST: usize = 64;

/// Which list a query string asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FuzzList {
    Providers,
    Traits,
    Usages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FuzzWrite {
    Claim,
    Claims,
    Reshape,
}

/// One class of one provider, before a write and after it.
#[derive(Debug, Clone, PartialEq)]
pub struct FuzzUsage {
    /// Units in use before.
    pub before: i128,
    /// Units in use after.
    pub after: i128,
    /// Units that may be in use after; none where the class is gone.
    pub capacity: Option<f64>,
    /// Whether total and reserved are what is in use after.
    pub is_held: bool,
    /// Units by which usage was over before.
    pub excess: f64,
}

/// What became of a body.
#[derive(Debug, Clone, PartialEq)]
pub enum BodyVerdict {
    /// A provider or a class that does not exist.
    Unknown,
    /// It does not fit.
    Refused,
    /// It fits: what is in use then.
    Admitted(Vec<FuzzUsage>),
}

/// The microversion 1.`minor`; the newest one if that does not exist.
#[must_use]
pub fn version(minor: u16) -> Microversion {
    Microversion::new(RANGE.max.major, minor).min(RANGE.max)
}

/// GET /allocation_candidates: the answer.
pub fn candidates(text: &str, version: Microversion) -> Result<Vec<u8>, Fault> {
    let query = QueryString::parse(text)?;
    schemas::check_candidates(&query, version)?;
    let query = ParsedCandidatesQuery::parse(&query, version)?;
    let snapshot = &FuzzCloud::known().snapshot;
    let limit = query.limit.map_or(MOST, |limit| limit.min(MOST));
    let wanted = query.resolve(snapshot);
    let wanted = wanted.map_err(|error| Fault::bad_request(error.to_string()))?;
    // A missing tree serves nothing.
    let found = wanted
        .as_ref()
        .map(|wanted| search(snapshot, wanted, limit, CandidateOrder::Fixed));
    let (wanted, found) = (wanted.unwrap_or_default(), found.unwrap_or_default());
    let document = CandidatesDocument::new(snapshot.names(), &wanted, &found, version);
    document
        .write()
        .map_err(|error| Fault::internal(error.to_string()))
}

/// The query string of a list.
pub fn list(list: FuzzList, text: &str, version: Microversion) -> Result<(), Fault> {
    let query = QueryString::parse(text)?;
    let refuse = |violation| Fault::bad_request(format!("{violation}"));
    let check = |schema: berth_http::BodySchema| schema.check(&query.to_json()).map_err(refuse);
    match list {
        FuzzList::Providers => {
            check(schemas::list_providers(version))?;
            ProviderFilters::parse(&query, version).map(drop)
        }
        FuzzList::Traits => {
            check(schemas::LIST_TRAITS)?;
            traits::filters(&query).map(drop)
        }
        FuzzList::Usages => check(schemas::total_usages(version)),
    }
}

/// The body of a write.
pub fn write(write: FuzzWrite, body: &[u8], version: Microversion) -> Result<BodyVerdict, Fault> {
    const CONSUMER: &str = "c0000000-0000-0000-0000-000000000009";
    let options = PlacementApiOptions::default();
    let replace = match write {
        FuzzWrite::Claim => {
            let body: ConsumerBody = read_body(body, &schemas::put_allocations(version))?;
            Replace {
                providers: Vec::new(),
                consumers: vec![body.into_desired(CONSUMER, version, &options)],
                only_host: None,
            }
        }
        FuzzWrite::Claims => {
            let bodies: BTreeMap<String, ConsumerBody> =
                read_body(body, &schemas::post_allocations(version))?;
            Replace {
                providers: Vec::new(),
                consumers: consumers(bodies, version, &options),
                only_host: None,
            }
        }
        FuzzWrite::Reshape => {
            let body: Reshape = read_body(body, &schemas::reshape(version))?;
            body.replace(version, &options)
        }
    };
    Ok(judge(&replace))
}

/// Whether the two ways in which a body's shape is checked agree: what the quick one admits, the other one has to admit.
#[must_use]
pub fn shapes_agree(write: FuzzWrite, body: &[u8], version: Microversion) -> bool {
    let schema = match write {
        FuzzWrite::Claim => schemas::put_allocations(version),
        FuzzWrite::Claims => schemas::post_allocations(version),
        FuzzWrite::Reshape => schemas::reshape(version),
    };
    let whole = || serde_json::from_slice(body).is_ok_and(|value| schema.check(&value).is_ok());
    !schema.admits(body) || whole()
}

fn judge(replace: &Replace) -> BodyVerdict {
    let Some(ledger) = ledger(replace) else {
        return BodyVerdict::Unknown;
    };
    if ledger.check().is_err() {
        return BodyVerdict::Refused;
    }
    let mut after: BTreeMap<ProviderClass, i128> = BTreeMap::new();
    for (slot, used) in &ledger.usage {
        after.insert(*slot, i128::from(*used));
    }
    for (slot, released) in &ledger.released {
        *after.entry(*slot).or_default() -= i128::from(*released);
    }
    for RequestedAmount { slot, amount } in &ledger.wanted {
        *after.entry(*slot).or_default() += i128::from(*amount);
    }
    let uses = after
        .iter()
        .map(|(slot, after)| used(&ledger, *slot, *after));
    BodyVerdict::Admitted(uses.collect())
}

#[allow(
    clippy::cast_precision_loss,
    reason = "compared with a capacity, as the ledger does"
)]
fn used(ledger: &AllocationLedger, slot: ProviderClass, after: i128) -> FuzzUsage {
    let before = ledger.usage.get(&slot).copied().unwrap_or_default();
    let was = ledger.inventories.get(&slot);
    let inventory = match ledger.reshaped.get(&slot.0) {
        Some(all) => all.get(&slot.1),
        None => was,
    };
    let holds = |one: &InventoryRecord| one.total == one.reserved && i128::from(one.total) == after;
    FuzzUsage {
        before: i128::from(before),
        after,
        capacity: inventory.map(InventoryRecord::capacity),
        is_held: inventory.is_some_and(holds),
        excess: was.map_or(0.0, |one| before as f64 - one.capacity()),
    }
}

/// None if the request names an unknown object.
fn ledger(replace: &Replace) -> Option<AllocationLedger> {
    let cloud = FuzzCloud::known();
    let names = cloud.snapshot.names();
    let mut ledger = AllocationLedger {
        inventories: cloud.inventories.clone(),
        usage: cloud.usage.clone(),
        ..AllocationLedger::default()
    };
    for reshaped in &replace.providers {
        let provider = cloud.provider(&reshaped.provider)?;
        let inventories = reshaped.inventories.iter();
        let inventories = inventories.map(|(class, one)| Some((names.class(class)?, *one)));
        let inventories = inventories.collect::<Option<_>>()?;
        ledger.reshaped.insert(provider, inventories);
    }
    for consumer in &replace.consumers {
        if let Some(held) = cloud.holdings.get(consumer.consumer.as_str()) {
            for (slot, amount) in held {
                *ledger.released.entry(*slot).or_default() += amount;
            }
        }
        for (provider, resources) in &consumer.allocations {
            let provider = cloud.provider(provider)?;
            for (class, amount) in resources {
                let slot = (provider, names.class(class)?);
                let amount = *amount;
                ledger.wanted.push(RequestedAmount { slot, amount });
            }
        }
    }
    Some(ledger)
}
