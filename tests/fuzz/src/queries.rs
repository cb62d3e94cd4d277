//! Fuzz targets: query strings of the Placement API.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use berth_http::{Microversion, QueryString};
use berth_placement::fuzzing::{self, FuzzList};
use serde_json::Value;

use crate::{refused, versioned};

/// The text, and what holds of every query string: what was read and is written again is the same.
fn text(data: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(data).ok()?;
    match QueryString::parse(text) {
        Err(fault) => refused(&fault),
        Ok(query) => {
            let again = query.pairs().fold(String::new(), |mut all, (key, value)| {
                let _ = write!(all, "{}={}&", encoded(key), encoded(value));
                all
            });
            assert_eq!(QueryString::parse(&again).ok(), Some(query), "{again}");
        }
    }
    Some(text)
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        let _ = write!(all, "%{byte:02X}");
        all
    })
}

pub(crate) fn list(data: &[u8]) {
    let Some((version, data)) = versioned(data) else {
        return;
    };
    let Some((list, rest)) = data.split_first() else {
        return;
    };
    let list = match list % 3 {
        0 => FuzzList::Providers,
        1 => FuzzList::Traits,
        _ => FuzzList::Usages,
    };
    if let Some(text) = text(rest)
        && let Err(fault) = fuzzing::list(list, text, version)
    {
        refused(&fault);
    }
}

pub(crate) fn candidates(data: &[u8]) {
    let Some((version, rest)) = versioned(data) else {
        return;
    };
    let Some(text) = text(rest) else {
        return;
    };
    match fuzzing::candidates(text, version) {
        Err(fault) => refused(&fault),
        Ok(answer) => {
            // One in eight is asked twice.
            if data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) % 8 == 0 {
                let again = fuzzing::candidates(text, version).ok();
                assert_eq!(again.as_ref(), Some(&answer), "the same question");
            }
            check(&answer, text, version);
        }
    }
}

type Amounts = BTreeMap<String, i128>;

/// Each candidate takes what was asked for, and there is room for it.
fn check(answer: &[u8], text: &str, version: Microversion) {
    let answer: Value = serde_json::from_slice(answer).expect("the answer is JSON");
    let candidates = answer["allocation_requests"].as_array().expect("a list");
    if let Some(limit) = limit(text) {
        assert!(candidates.len() <= limit, "{} of {limit}", candidates.len());
    }
    let asked = asked(text);
    for candidate in candidates {
        let mut taken = Amounts::new();
        for (provider, class, amount) in allocations(candidate, version) {
            let summary = &answer["provider_summaries"][&provider]["resources"][&class];
            let room = |key: &str| {
                summary[key]
                    .as_f64()
                    .unwrap_or_else(|| panic!("no {key} of {class} of {provider}"))
            };
            #[allow(clippy::cast_precision_loss, reason = "compared with a capacity")]
            let wanted = amount as f64;
            assert!(
                wanted <= room("capacity") - room("used"),
                "{class} of {provider}"
            );
            *taken.entry(class).or_default() += amount;
        }
        assert_eq!(taken, asked, "{candidate}");
    }
}

fn limit(text: &str) -> Option<usize> {
    let query = QueryString::parse(text).ok()?;
    query.all("limit").next()?.parse().ok()
}

/// Amounts by class over all groups, of a query that was answered.
fn asked(text: &str) -> Amounts {
    let query = QueryString::parse(text).expect("it was answered");
    // Of a key that comes twice the last counts.
    let last: BTreeMap<&str, &str> = query.pairs().collect();
    let groups = last.iter().filter(|(key, _)| key.starts_with("resources"));
    let mut amounts = Amounts::new();
    for (_, value) in groups {
        // And of a class that a group has twice.
        let of_group: BTreeMap<&str, i128> = value
            .split(',')
            .filter_map(|part| part.split_once(':'))
            .map(|(class, amount)| (class, amount.trim().parse().expect("an amount")))
            .collect();
        for (class, amount) in of_group {
            *amounts.entry(class.to_owned()).or_default() += amount;
        }
    }
    amounts
}

fn allocations(candidate: &Value, version: Microversion) -> Vec<(String, String, i128)> {
    let amounts = |provider: &str, resources: &Value| -> Vec<_> {
        let resources = resources.as_object().expect("amounts by class").iter();
        let amount = |amount: &Value| i128::from(amount.as_i64().expect("a whole number"));
        resources
            .map(|(class, value)| (provider.to_owned(), class.clone(), amount(value)))
            .collect()
    };
    let allocations = &candidate["allocations"];
    if version.minor >= 12 {
        let all = allocations.as_object().expect("by provider").iter();
        return all
            .flat_map(|(provider, at)| amounts(provider, &at["resources"]))
            .collect();
    }
    let all = allocations.as_array().expect("a list").iter();
    all.flat_map(|at| {
        let provider = at["resource_provider"]["uuid"].as_str().expect("a uuid");
        amounts(provider, &at["resources"])
    })
    .collect()
}
