//! Kind `filter`: one filter's verdict on each host.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::case::SchedulerCase;
use berth_scheduler::filters::{Chain, InstancePosition};
use berth_scheduler_objects::from_json::CaseField;
use berth_scheduler_objects::from_json::CaseRequestError;
use berth_scheduler_objects::host_state::{ConsideredHost, HostState, SchedulerLimits};
use berth_scheduler_objects::reason::Reason;

/// `pass`, `reasons`, `surviving_candidates` and `limits`, by host.
pub(super) fn answer(
    subject: &CaseField<'_>,
    case: &SchedulerCase<'_>,
) -> Result<Value, CaseRequestError> {
    let mut options = case.options.clone();
    options.filter_scheduler.enabled_filters = vec![subject.string()?];
    let chain = Chain::new(&options).map_err(|error| subject.error(error.to_string()))?;
    let request = case.request()?;
    let asked = case.hosts()?;
    let mut left = asked.clone();
    let mut rejected = Vec::new();
    chain.filter(
        &mut left,
        &request,
        &options,
        InstancePosition::First,
        |one| {
            rejected.push((one.host, one.reason));
        },
    );
    let passed = left.into_iter().map(|host| (host, None));
    let out = rejected.into_iter().map(|(host, why)| (host, Some(why)));
    let verdicts = in_order(&asked, passed.chain(out).collect());
    let each = |f: &dyn Fn(&FilteredHost) -> Value| Value::Array(verdicts.iter().map(f).collect());
    Ok(json!({
        "pass": each(&|(_, reason)| json!(reason.is_none())),
        "reasons": each(&|(_, reason)| json!(reason)),
        "surviving_candidates": each(&|(host, _)| {
            host.surviving().map(|(place, _)| place).collect()
        }),
        "limits": each(&|(host, _)| limits(&host.limits)),
        "instance_numa": request.numa_topology,
    }))
}

type FilteredHost = (ConsideredHost, Option<Reason>);

/// Sorts verdicts in the original order of the hosts.
fn in_order(asked: &[ConsideredHost], mut verdicts: Vec<FilteredHost>) -> Vec<FilteredHost> {
    let numbered = asked.iter().enumerate().rev();
    let places: HashMap<*const HostState, usize> = numbered
        .map(|(place, host)| (Arc::as_ptr(&host.state), place))
        .collect();
    verdicts.sort_by_key(|(host, _)| places.get(&Arc::as_ptr(&host.state)));
    verdicts
}

/// The limits by Nova's names; null if no filter set any.
pub(super) fn limits(limits: &SchedulerLimits) -> Value {
    let mut object = serde_json::Map::new();
    let numbers = [
        ("vcpu", limits.vcpu),
        ("memory_mb", limits.memory_mb),
        ("disk_gb", limits.disk_gb),
    ];
    for (name, limit) in numbers {
        if let Some(limit) = limit {
            object.insert(name.to_owned(), json!(limit));
        }
    }
    if let Some(numa) = limits.numa {
        let ratios = json!({
            "cpu_allocation_ratio": numa.cpu_allocation_ratio,
            "ram_allocation_ratio": numa.ram_allocation_ratio,
        });
        object.insert("numa_topology".to_owned(), ratios);
    }
    match object.is_empty() {
        true => Value::Null,
        false => Value::Object(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_scheduler_objects::testing;

    #[test]
    fn verdicts_on_thirty_thousand_hosts_are_put_in_order() {
        let asked = testing::hosts(&Value::Array(vec![json!({}); 30_000]));
        let verdicts = asked.iter().rev().map(|host| (host.clone(), None));
        let ordered = in_order(&asked, verdicts.collect());
        let pairs = ordered.iter().zip(&asked);
        assert!(
            pairs
                .clone()
                .all(|((a, _), b)| Arc::ptr_eq(&a.state, &b.state))
        );
        assert_eq!(pairs.count(), 30_000);
    }
}
