//! A Prometheus histogram of durations.

use std::time::Duration;

use super::BootMetricsPage;

/// Upper bounds of the buckets in seconds, with their labels.
const BUCKETS: [(f64, &str); 13] = [
    (0.001, "0.001"),
    (0.0025, "0.0025"),
    (0.005, "0.005"),
    (0.01, "0.01"),
    (0.025, "0.025"),
    (0.05, "0.05"),
    (0.1, "0.1"),
    (0.25, "0.25"),
    (0.5, "0.5"),
    (1.0, "1"),
    (2.5, "2.5"),
    (10.0, "10"),
    (60.0, "60"),
];

/// Durations, counted in buckets.
#[derive(Debug, Default)]
pub(super) struct DurationHistogram {
    /// Counts per bucket, not cumulated.
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: Duration,
}

impl DurationHistogram {
    pub(super) fn record(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BUCKETS.iter().position(|(bound, _)| seconds <= *bound);
        if let Some(bucket) = bucket.and_then(|at| self.buckets.get_mut(at)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// Writes the histogram with cumulated buckets, as Prometheus expects.
    pub(super) fn write_to(&self, name: &str, labels: &[(&str, &str)], page: &mut BootMetricsPage) {
        let bucket = format!("{name}_bucket");
        let up_to = |bound| [labels, &[("le", bound)]].concat();
        let mut so_far = 0;
        for (many, (_, bound)) in self.buckets.iter().zip(BUCKETS) {
            so_far += many;
            page.number(&bucket, &up_to(bound), so_far);
        }
        page.number(&bucket, &up_to("+Inf"), self.count);
        page.seconds(&format!("{name}_sum"), labels, self.sum);
        page.number(&format!("{name}_count"), labels, self.count);
    }
}
