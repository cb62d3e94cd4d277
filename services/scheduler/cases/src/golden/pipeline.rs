//! Kind `pipeline`: filters, weighers and the order, for one instance and without a claim.

use serde_json::{Value, json};

use super::weigher::numbers;
use crate::case::SchedulerCase;
use berth_scheduler_objects::from_json::CaseRequestError;
use berth_scheduler_objects::host_state::ConsideredHost;

/// `per_filter` (name, hosts before, hosts after), `filtered`, `order` and `weights`; the last two if a host is left.
pub(super) fn answer(case: &SchedulerCase<'_>) -> Result<Value, CaseRequestError> {
    let scheduler = case.scheduler()?;
    let (sorted, turnout) = scheduler.sort(&case.request()?, case.hosts()?, 0);
    let passed = turnout.passed.iter();
    let mut answer = json!({
        "per_filter": passed
            .map(|one| json!([one.filter, one.before, one.after]))
            .collect::<Value>(),
        "filtered": names(sorted.as_they_came().iter()),
    });
    if !sorted.is_empty() {
        answer["order"] = names(sorted.best_first());
        answer["weights"] = numbers(&sorted.weights());
    }
    Ok(answer)
}

fn names<'a>(hosts: impl Iterator<Item = &'a ConsideredHost>) -> Value {
    hosts.map(|one| one.state.host.clone()).collect()
}
