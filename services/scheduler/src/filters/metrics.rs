//! `MetricsFilter`: the host must report all metrics of `[metrics] weight_setting`.

use super::{Filter, FilterPlan, Runs};
use crate::host_state::{ConsideredHost, HostState};
use crate::options::{SchedulerOptions, weight_settings};
use crate::reason::Reason;
use crate::request::RequestSpec;

pub(super) struct MetricsFilter;

impl Filter for MetricsFilter {
    fn name(&self) -> &'static str {
        "MetricsFilter"
    }

    fn runs(&self) -> Runs {
        Runs::FOR_EACH
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, options: &'a SchedulerOptions) -> FilterPlan<'a> {
        let wanted = weight_settings(&options.metrics.weight_setting);
        if wanted.is_empty() {
            return FilterPlan::PassAll;
        }
        FilterPlan::each(move |host: &mut ConsideredHost| {
            let is_missing = |name: &str| measured(&host.state, name).is_none();
            if !wanted.iter().any(|(name, _)| is_missing(name)) {
                return Ok(());
            }
            let names = wanted.iter().map(|(name, _)| *name);
            Err(Reason::MetricsMissing {
                missing: names
                    .filter(|it| is_missing(it))
                    .map(str::to_owned)
                    .collect(),
            })
        })
    }
}

/// A metric of a host; `None` if it is not finite, because such values cannot be weighed.
pub fn measured(host: &HostState, metric: &str) -> Option<f64> {
    let measured = host.metrics.as_ref()?.get(metric).copied();
    measured.filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::filters::testing::{options, verdicts};

    #[test]
    fn a_host_measures_what_is_weighed() {
        let metric = |name: &str| json!({"name": name, "value": 1});
        let hosts = json!([
            {"metrics": [metric("a"), metric("b")]},
            {"metrics": [metric("a")]},
            {"metrics": []},
            {},
        ]);
        let missing = "metrics_missing";
        for (setting, expected) in [
            (json!(["a=1", "b=-2.5"]), ["", missing, missing, missing]),
            (
                json!(["a=1", "c", "c=x", "=1", "c:1", "a=1=2"]),
                ["", "", missing, missing],
            ),
            (json!(["x"]), [""; 4]),
        ] {
            let options = options("metrics", "weight_setting", &setting);
            let got = verdicts("MetricsFilter", &options, &json!({}), &hosts);
            assert_eq!(got, expected, "{setting}");
        }
    }
}
