//! Prometheus metrics of host searches and boots. [`METRICS`] lists all of them.
//!
//! The scheduler is pure, so the conductor measures its searches. The page is written on demand. Label values are
//! from fixed sets, names of configured filters, or the flavors of `headroom`; they never contain guests, projects or
//! hosts, so the number of series stays small.

mod catalog;
mod histogram;
mod labels;
mod page;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_scheduler::select::Record;
use strum::VariantArray as _;

pub use catalog::METRICS;
use catalog::{BOOT_STAGES, CLAIMS, REJECTED, SEARCH_DURATION, SEARCHES};
pub(crate) use catalog::{
    HEADROOM_AGE, HEADROOM_FAILURES, HEADROOM_GUESTS, HEADROOM_HOSTS, WAITING_BOOTS,
};
use histogram::DurationHistogram;
pub(crate) use labels::{BootStage, ClaimResult, SearchOutcome};
pub(crate) use page::BootMetricsPage;

/// Counters and histograms since the start.
#[derive(Debug, Default)]
pub(crate) struct BootMetrics(Mutex<MetricCounts>);

#[derive(Debug, Default)]
struct MetricCounts {
    searches: BTreeMap<SearchOutcome, u64>,
    durations: DurationHistogram,
    claims: BTreeMap<ClaimResult, u64>,
    /// By filter and code of the reason.
    rejected: BTreeMap<(&'static str, &'static str), u64>,
    stages: BTreeMap<BootStage, DurationHistogram>,
}

impl BootMetrics {
    pub(crate) fn record_search(&self, outcome: SearchOutcome, took: Duration) {
        let mut counts = self.counts();
        add(&mut counts.searches, outcome, 1);
        counts.durations.record(took);
    }

    /// Records a completed stage of a boot.
    pub(crate) fn record_stage(&self, stage: BootStage, took: Duration) {
        self.counts().stages.entry(stage).or_default().record(took);
    }

    pub(crate) fn record_claim(&self, result: ClaimResult) {
        add(&mut self.counts().claims, result, 1);
    }

    /// Records the hosts that filters rejected, by filter and code of the reason.
    pub(crate) fn record_rejections(&self, record: &Record) {
        let mut counts = self.counts();
        let turns = record.turns.iter();
        for kind in turns.flat_map(|turn| turn.rejected.kinds()) {
            // Each kind has at least one named host.
            let Some(first) = kind.named.first() else {
                continue;
            };
            let hosts = u64::try_from(kind.hosts).unwrap_or(u64::MAX);
            let by = (kind.filter, first.reason.code());
            add(&mut counts.rejected, by, hosts);
        }
    }

    pub(crate) fn write_to(&self, page: &mut BootMetricsPage) {
        let counts = self.counts();
        page.header(SEARCHES);
        for outcome in SearchOutcome::VARIANTS {
            let many = counts.searches.get(outcome).copied().unwrap_or_default();
            page.number(SEARCHES, &[("outcome", outcome.into())], many);
        }
        page.header(SEARCH_DURATION);
        counts.durations.write_to(SEARCH_DURATION, &[], page);
        page.header(REJECTED);
        for ((filter, reason), hosts) in &counts.rejected {
            page.number(REJECTED, &[("filter", filter), ("reason", reason)], *hosts);
        }
        page.header(CLAIMS);
        for result in ClaimResult::VARIANTS {
            let many = counts.claims.get(result).copied().unwrap_or_default();
            page.number(CLAIMS, &[("result", result.into())], many);
        }
        page.header(BOOT_STAGES);
        let none = DurationHistogram::default();
        for stage in BootStage::VARIANTS {
            let durations = counts.stages.get(stage).unwrap_or(&none);
            durations.write_to(BOOT_STAGES, &[("stage", stage.into())], page);
        }
    }

    fn counts(&self) -> MutexGuard<'_, MetricCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, of: K, many: u64) {
    let count = counts.entry(of).or_default();
    *count = count.saturating_add(many);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
