//! Test helpers: runs one filter on hosts.

use serde_json::Value;

use super::{Chain, InstancePosition};
use crate::host_state::{ConsideredHost, SchedulerLimits};
use crate::options::SchedulerOptions;
use crate::reason::Reason;
use crate::request::RequestSpec;
use berth_scheduler_objects::testing;

/// The default options, but for one.
pub(super) fn options(group: &str, name: &str, value: &Value) -> SchedulerOptions {
    let groups = serde_json::json!({group: {name: value}});
    serde_json::from_value(groups).expect("an option")
}

/// The code of each host's rejection; empty if it passes.
pub(super) fn verdicts(
    filter: &str,
    options: &SchedulerOptions,
    request: &Value,
    hosts: &Value,
) -> Vec<String> {
    verdicts_on(filter, options, &testing::request(request), hosts)
}

/// Like [`verdicts`] for an existing request.
pub(super) fn verdicts_on(
    filter: &str,
    options: &SchedulerOptions,
    request: &RequestSpec,
    hosts: &Value,
) -> Vec<String> {
    let code = |reason: Option<Reason>| {
        let reason = reason.map(|reason| {
            assert!(!reason.to_string().is_empty(), "{reason:?} is a sentence");
            serde_json::to_value(reason).expect("a reason is JSON")
        });
        let code = reason.as_ref().map(|it| it["code"].as_str());
        code.map_or_else(String::new, |it| it.expect("a code").to_owned())
    };
    let asked = ask(filter, options, request, hosts);
    asked.into_iter().map(|(_, reason)| code(reason)).collect()
}

/// The limits that the filter sets for each host's agent.
pub(super) fn limits(
    filter: &str,
    options: &SchedulerOptions,
    request: &Value,
    hosts: &Value,
) -> Vec<SchedulerLimits> {
    let asked = ask(filter, options, &testing::request(request), hosts);
    asked.into_iter().map(|(host, _)| host.limits).collect()
}

/// The places of each host's candidates that are left.
pub(super) fn surviving(
    filter: &str,
    options: &SchedulerOptions,
    request: &Value,
    hosts: &Value,
) -> Vec<Vec<usize>> {
    let asked = ask(filter, options, &testing::request(request), hosts);
    let places = |host: &ConsideredHost| host.surviving().map(|(place, _)| place).collect();
    asked.iter().map(|(host, _)| places(host)).collect()
}

fn ask(
    filter: &str,
    options: &SchedulerOptions,
    request: &RequestSpec,
    hosts: &Value,
) -> Vec<(ConsideredHost, Option<Reason>)> {
    let mut options = options.clone();
    options.filter_scheduler.enabled_filters = vec![filter.to_owned()];
    let chain = Chain::new(&options).expect("the filter is there");
    let one_by_one = testing::hosts(hosts).into_iter().map(|host| {
        let (mut left, mut out) = (vec![host], None);
        chain.filter(
            &mut left,
            request,
            &options,
            InstancePosition::First,
            |rejected| {
                out = Some((rejected.host, Some(rejected.reason)));
            },
        );
        out.or_else(|| left.pop().map(|host| (host, None)))
            .expect("a host passes or is rejected")
    });
    one_by_one.collect()
}
