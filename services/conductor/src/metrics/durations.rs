//! A histogram of durations.

use std::time::Duration;

use super::Page;

/// Upper bounds of the buckets in seconds, with their labels: from a search in memory to one that waits for slow services.
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

/// How long something took, each time.
#[derive(Debug, Default)]
pub(super) struct Durations {
    /// How many were as long as the bucket's bound or shorter, and longer than the bound before it.
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: Duration,
}

impl Durations {
    /// It took so long.
    pub(super) fn record(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BUCKETS.iter().position(|(bound, _)| seconds <= *bound);
        if let Some(bucket) = bucket.and_then(|at| self.buckets.get_mut(at)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// As Prometheus has a histogram: a bucket has those of all before it.
    pub(super) fn write(&self, name: &str, labels: &[(&str, &str)], page: &mut Page) {
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
