//! What is counted of searches for hosts and of boots, for Prometheus: the conductor has the clock that the scheduler has not. Nothing listens
//! here; the page is written when it is asked for. Every metric is a row of [`METRICS`].
//!
//! Labels are words of closed vocabularies, names of filters that are configured, and the flavors that `headroom` knows, of which
//! there are few; never a guest, a project or a host.

mod durations;
mod page;
mod rows;
mod words;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_scheduler::select::Record;

use durations::Durations;
pub(crate) use page::Page;
pub use rows::METRICS;
use rows::{BOOT_STAGES, CLAIMS, REJECTED, SEARCH_DURATION, SEARCHES};
pub(crate) use rows::{HEADROOM_AGE, HEADROOM_FAILURES, HEADROOM_GUESTS, HEADROOM_HOSTS};
pub(crate) use words::{BootStage, ClaimResult, SearchOutcome};

/// What was counted since the start.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    searches: BTreeMap<SearchOutcome, u64>,
    durations: Durations,
    claims: BTreeMap<ClaimResult, u64>,
    /// By filter and kind of reason.
    rejected: BTreeMap<(&'static str, &'static str), u64>,
    stages: BTreeMap<BootStage, Durations>,
}

impl Metrics {
    /// A search ended so, after this time.
    pub(crate) fn searched(&self, outcome: SearchOutcome, took: Duration) {
        let mut counts = self.counts();
        add(&mut counts.searches, outcome, 1);
        counts.durations.record(took);
    }

    /// A stage of a boot came to its end after this time.
    pub(crate) fn staged(&self, stage: BootStage, took: Duration) {
        self.counts().stages.entry(stage).or_default().record(took);
    }

    /// A claim ended so.
    pub(crate) fn claimed(&self, result: ClaimResult) {
        add(&mut self.counts().claims, result, 1);
    }

    /// Counts the hosts that a search's filters rejected: a step for each filter and kind of reason, however many hosts there are.
    pub(crate) fn rejected(&self, record: &Record) {
        let mut counts = self.counts();
        let turns = record.turns.iter();
        for kind in turns.flat_map(|turn| turn.rejected.kinds()) {
            // A kind is there because a host is out for it, and the first is named.
            let Some(first) = kind.named.first() else {
                continue;
            };
            let hosts = u64::try_from(kind.hosts).unwrap_or(u64::MAX);
            let by = (kind.filter, first.reason.code());
            add(&mut counts.rejected, by, hosts);
        }
    }

    /// Writes all of it.
    pub(crate) fn write(&self, page: &mut Page) {
        let counts = self.counts();
        page.row(SEARCHES);
        for outcome in SearchOutcome::ALL {
            let many = counts.searches.get(&outcome).copied().unwrap_or_default();
            page.number(SEARCHES, &[("outcome", outcome.as_str())], many);
        }
        page.row(SEARCH_DURATION);
        counts.durations.write(SEARCH_DURATION, &[], page);
        page.row(REJECTED);
        for ((filter, reason), hosts) in &counts.rejected {
            page.number(REJECTED, &[("filter", filter), ("reason", reason)], *hosts);
        }
        page.row(CLAIMS);
        for result in ClaimResult::ALL {
            let many = counts.claims.get(&result).copied().unwrap_or_default();
            page.number(CLAIMS, &[("result", result.as_str())], many);
        }
        page.row(BOOT_STAGES);
        let none = Durations::default();
        for stage in BootStage::ALL {
            let durations = counts.stages.get(&stage).unwrap_or(&none);
            durations.write(BOOT_STAGES, &[("stage", stage.as_str())], page);
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
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
