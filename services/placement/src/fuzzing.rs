//! What the service does with what others send, up to the database and without one: query strings are read and searched for in a
//! small cloud that is always the same, bodies are read and judged by the inventories of that cloud.
//!
//! Caller: `tests/fuzz`, which looks for what no reader may fall over. No part of the API.

mod cloud;

use std::collections::BTreeMap;

use berth_http::{Fault, Microversion, Query, read_body};

use crate::candidates::{CandidatesQuery, Document, Order, search};
use crate::filters::ProviderFilters;
use crate::handlers::allocations::{Body, consumers};
use crate::handlers::reshaper::Reshape;
use crate::handlers::traits;
use crate::inventory::Inventory;
use crate::ledger::{Ledger, Slot, Wanted};
use crate::microversions::RANGE;
use crate::router::Options;
use crate::schemas;
use crate::store::replace::Replace;
use cloud::Cloud;

/// How many candidates an answer has at most here: a search for all of them is another test.
const MOST: usize = 64;

/// Which list a query string asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    Providers,
    Traits,
    Usages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    Claim,
    Claims,
    Reshape,
}

/// One class of one provider, before a write and after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Use {
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
pub enum Judged {
    /// A provider or a class that is not there.
    Unknown,
    /// It does not fit.
    Refused,
    /// It fits: what is in use then.
    Admitted(Vec<Use>),
}

/// The microversion 1.`minor`; the newest for one that is not there.
#[must_use]
pub fn version(minor: u16) -> Microversion {
    Microversion::new(RANGE.max.major, minor).min(RANGE.max)
}

/// GET /allocation_candidates: the answer.
pub fn candidates(text: &str, version: Microversion) -> Result<Vec<u8>, Fault> {
    let query = Query::parse(text)?;
    schemas::check_candidates(&query, version)?;
    let query = CandidatesQuery::parse(&query, version)?;
    let snapshot = &Cloud::known().snapshot;
    let limit = query.limit.map_or(MOST, |limit| limit.min(MOST));
    let wanted = query.resolve(snapshot);
    let wanted = wanted.map_err(|error| Fault::bad_request(error.to_string()))?;
    // A tree that is not there serves nothing.
    let found = wanted
        .as_ref()
        .map(|wanted| search(snapshot, wanted, limit, Order::Fixed));
    let (wanted, found) = (wanted.unwrap_or_default(), found.unwrap_or_default());
    let document = Document::new(snapshot.names(), &wanted, &found, version);
    document
        .write()
        .map_err(|error| Fault::internal(error.to_string()))
}

/// The query string of a list.
pub fn list(list: List, text: &str, version: Microversion) -> Result<(), Fault> {
    let query = Query::parse(text)?;
    let refuse = |violation| Fault::bad_request(format!("{violation}"));
    let check = |schema: berth_http::Schema| schema.check(&query.to_json()).map_err(refuse);
    match list {
        List::Providers => {
            check(schemas::list_providers(version))?;
            ProviderFilters::parse(&query, version).map(drop)
        }
        List::Traits => {
            check(schemas::LIST_TRAITS)?;
            traits::filters(&query).map(drop)
        }
        List::Usages => check(schemas::total_usages(version)),
    }
}

/// The body of a write.
pub fn write(write: Write, body: &[u8], version: Microversion) -> Result<Judged, Fault> {
    const CONSUMER: &str = "c0000000-0000-0000-0000-000000000009";
    let options = Options::default();
    let replace = match write {
        Write::Claim => {
            let body: Body = read_body(body, &schemas::put_allocations(version))?;
            Replace {
                providers: Vec::new(),
                consumers: vec![body.wanting(CONSUMER, version, &options)],
            }
        }
        Write::Claims => {
            let bodies: BTreeMap<String, Body> =
                read_body(body, &schemas::post_allocations(version))?;
            Replace {
                providers: Vec::new(),
                consumers: consumers(bodies, version, &options),
            }
        }
        Write::Reshape => {
            let body: Reshape = read_body(body, &schemas::reshape(version))?;
            body.replace(version, &options)
        }
    };
    Ok(judge(&replace))
}

/// Whether the two ways in which a body's shape is checked agree: what the quick one admits, the other one has to admit.
#[must_use]
pub fn shapes_agree(write: Write, body: &[u8], version: Microversion) -> bool {
    let schema = match write {
        Write::Claim => schemas::put_allocations(version),
        Write::Claims => schemas::post_allocations(version),
        Write::Reshape => schemas::reshape(version),
    };
    let whole = || serde_json::from_slice(body).is_ok_and(|value| schema.check(&value).is_ok());
    !schema.admits(body) || whole()
}

fn judge(replace: &Replace) -> Judged {
    let Some(ledger) = ledger(replace) else {
        return Judged::Unknown;
    };
    if ledger.check().is_err() {
        return Judged::Refused;
    }
    let mut after: BTreeMap<Slot, i128> = BTreeMap::new();
    for (slot, used) in &ledger.usage {
        after.insert(*slot, i128::from(*used));
    }
    for (slot, released) in &ledger.released {
        *after.entry(*slot).or_default() -= i128::from(*released);
    }
    for Wanted { slot, amount } in &ledger.wanted {
        *after.entry(*slot).or_default() += i128::from(*amount);
    }
    let uses = after
        .iter()
        .map(|(slot, after)| used(&ledger, *slot, *after));
    Judged::Admitted(uses.collect())
}

#[allow(
    clippy::cast_precision_loss,
    reason = "compared with a capacity, as the ledger does"
)]
fn used(ledger: &Ledger, slot: Slot, after: i128) -> Use {
    let before = ledger.usage.get(&slot).copied().unwrap_or_default();
    let was = ledger.inventories.get(&slot);
    let inventory = match ledger.reshaped.get(&slot.0) {
        Some(all) => all.get(&slot.1),
        None => was,
    };
    let holds = |one: &Inventory| one.total == one.reserved && i128::from(one.total) == after;
    Use {
        before: i128::from(before),
        after,
        capacity: inventory.map(Inventory::capacity),
        is_held: inventory.is_some_and(holds),
        excess: was.map_or(0.0, |one| before as f64 - one.capacity()),
    }
}

/// None where something is named that is not there.
fn ledger(replace: &Replace) -> Option<Ledger> {
    let cloud = Cloud::known();
    let names = cloud.snapshot.names();
    let mut ledger = Ledger {
        inventories: cloud.inventories.clone(),
        usage: cloud.usage.clone(),
        ..Ledger::default()
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
                ledger.wanted.push(Wanted { slot, amount });
            }
        }
    }
    Some(ledger)
}
