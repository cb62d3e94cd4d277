//! Kinds `weigher` and `normalize`: one weigher's weights, and the normalization of raw weights. Both use Nova's
//! arithmetic, in which a multiplier may be infinite, so that answers can be compared with Nova's.

use serde_json::{Value, json};

use crate::case::SchedulerCase;
use berth_scheduler::weighers::{Bounds, HostRanking, Score, Weighers, normalize};
use berth_scheduler_objects::from_json::CaseField;
use berth_scheduler_objects::from_json::CaseRequestError;

/// `raw`, `norm`, `multiplier` and `score` by host; `weighed` is false for a single host; `error` if a host cannot be
/// weighed.
pub(super) fn answer(
    subject: &CaseField<'_>,
    case: &SchedulerCase<'_>,
) -> Result<Value, CaseRequestError> {
    let mut options = case.options.clone();
    options.filter_scheduler.weight_classes = vec![subject.string()?];
    let weighers = Weighers::new(&options).map_err(|error| subject.error(error.to_string()))?;
    let weighers = weighers.by_novas_arithmetic();
    let request = case.request()?;
    let hosts = case.hosts()?;
    let ranking = match HostRanking::new(&weighers, &hosts, &request, &options) {
        Ok(ranking) => ranking,
        Err(unweighable) => {
            let sentences = unweighable
                .iter()
                .map(|one| format!("{}: {one}", hosts[one.place].state.host));
            let sentences: Vec<String> = sentences.collect();
            return Ok(json!({ "error": sentences.join("; ") }));
        }
    };
    let cards = ranking.cards(0..hosts.len()).into_iter();
    let scores: Vec<Score> = cards.filter_map(|mut card| card.scores.pop()).collect();
    if scores.is_empty() {
        let weights = numbers(&ranking.weights());
        return Ok(json!({ "weighed": false, "score": weights }));
    }
    let each =
        |of: fn(&Score) -> f64| -> Value { scores.iter().map(|one| number(of(one))).collect() };
    Ok(json!({
        "raw": each(|one| one.raw),
        "norm": each(|one| one.norm),
        "multiplier": each(|one| one.multiplier),
        "score": each(|one| one.score),
    }))
}

/// Answers a `normalize` case with `out`: the normalized weight of each host.
pub(super) fn normalized(case: &SchedulerCase<'_>) -> Result<Value, CaseRequestError> {
    let raw: Vec<f64> = case.field.required("in")?.list(CaseField::float)?;
    let bounds = Bounds {
        min: case.field.optional("minval", CaseField::float)?,
        max: case.field.optional("maxval", CaseField::float)?,
    };
    Ok(json!({ "out": numbers(&normalize(&raw, bounds)) }))
}

pub(super) fn numbers(numbers: &[f64]) -> Value {
    numbers.iter().copied().map(number).collect()
}

/// A number; `{"special": ...}` for infinity and NaN, which JSON does not have.
fn number(number: f64) -> Value {
    match number {
        f64::INFINITY => json!({ "special": "inf" }),
        f64::NEG_INFINITY => json!({ "special": "-inf" }),
        it if it.is_nan() => json!({ "special": "nan" }),
        it => json!(it),
    }
}
