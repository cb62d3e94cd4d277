//! `MetricsWeigher`: a sum of metrics that the host measures, each times its ratio of `[metrics] weight_setting`.

use super::range::bounded;
use super::{MetricMissing, Multiplier, Weigher, WeigherPlan};
use crate::filters::measured;
use crate::host_state::HostState;
use crate::options::{MetricsOptions, SchedulerOptions, weight_settings};
use crate::request::RequestSpec;

pub(super) struct MetricsWeigher;

impl Weigher for MetricsWeigher {
    fn name(&self) -> &'static str {
        "MetricsWeigher"
    }

    fn module(&self) -> &'static str {
        "metrics"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("metrics_weight_multiplier", |options| {
            options.metrics.weight_multiplier
        })
    }

    fn plan<'a>(&'a self, _: &'a RequestSpec, options: &'a SchedulerOptions) -> WeigherPlan<'a> {
        let metrics = &options.metrics;
        let terms = weight_settings(&metrics.weight_setting);
        if terms.is_empty() {
            return WeigherPlan::same(0.0);
        }
        // Most metrics are per cents.
        let unit = terms.iter().map(|(_, ratio)| ratio.abs() * 100.0).sum();
        WeigherPlan::each_with_multiplier(move |host, multiplier| {
            sum(host, multiplier, &terms, metrics)
        })
        .unit(unit)
    }
}

/// A host without one of the metrics has `weight_of_unavailable`, unless that metric counts nothing on it.
fn sum(
    host: &HostState,
    multiplier: f64,
    terms: &[(&str, f64)],
    options: &MetricsOptions,
) -> Result<f64, MetricMissing> {
    let mut sum = 0.0;
    for &(metric, ratio) in terms {
        match measured(host, metric) {
            // Two that are too large, of opposite signs, make no number.
            Some(value) => sum += bounded(value * ratio),
            None if options.required => {
                return Err(MetricMissing {
                    metric: metric.to_owned(),
                });
            }
            None if ratio * multiplier == 0.0 => {}
            None => return Ok(options.weight_of_unavailable),
        }
    }
    Ok(sum)
}
