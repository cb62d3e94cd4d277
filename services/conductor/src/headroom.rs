//! Headroom: how many more guests of each recently requested flavor fit, as metrics.
//!
//! It is computed on demand: a read of the metrics that finds an outdated value starts the computation and waits for
//! a moment. So Placement gets no queries while the metrics are not read, and a slow Placement delays a page only for
//! that moment; the page then has the previous values and their age. Concurrent reads share one computation.
//!
//! The computation uses the queries and filters of a boot (`boot::place::host_search`), up to the claim. Used by
//! `conductor`.

mod fill;
mod free_resources;
mod recent_flavors;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_model::ConsumerUuid;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use fill::{HeadroomHost, fill_hosts};
pub(crate) use free_resources::FreeResources;
use recent_flavors::RecentFlavors;
pub(crate) use recent_flavors::RequestedFlavor;

use crate::BootRequest;
use crate::journal::BootRecord;
use crate::metrics::{
    BootMetricsPage, HEADROOM_AGE, HEADROOM_FAILURES, HEADROOM_GUESTS, HEADROOM_HOSTS,
};

/// How long a read of the metrics waits for the computation. Prometheus' default timeout is ten seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Headroom of one flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Headroom {
    /// Hosts that could run one more guest.
    pub(crate) hosts: usize,
    /// Lower bound of the number of guests that fit.
    pub(crate) guests: usize,
}

/// The headroom of the recently requested flavors.
#[derive(Debug, Default)]
pub(crate) struct HeadroomCache {
    state: Mutex<HeadroomState>,
    /// Held during a computation.
    update_lock: Arc<tokio::sync::Mutex<()>>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct HeadroomState {
    flavors: RecentFlavors,
    is_journal_loaded: bool,
    /// Start of the last computation.
    begun: Option<Instant>,
    made: BTreeMap<ConsumerUuid, HeadroomEntry>,
    failures: u64,
}

#[derive(Debug, Clone, Copy)]
struct HeadroomEntry {
    /// `None` until the first success.
    headroom: Option<(Headroom, Instant)>,
    has_failed: bool,
}

/// Permit to compute the headroom; only one exists at a time.
pub(crate) struct HeadroomUpdate(
    #[expect(dead_code, reason = "it is held, and then dropped")] OwnedMutexGuard<()>,
);

impl HeadroomCache {
    /// Records the flavor of a new request.
    pub(crate) fn record_request(&self, request: &BootRequest) {
        self.state().flavors.push_front(request);
    }

    /// Whether [`Self::load_journal`] was called.
    pub(crate) fn is_journal_loaded(&self) -> bool {
        self.state().is_journal_loaded
    }

    /// Adds the flavors of the journal's guests, which were requested before this process started.
    pub(crate) fn load_journal(&self, records: &[BootRecord]) {
        let mut state = self.state();
        for record in records {
            state.flavors.push_back(&record.request);
        }
        state.is_journal_loaded = true;
    }

    /// The recently requested flavors.
    pub(crate) fn flavors(&self) -> Vec<RequestedFlavor> {
        self.state().flavors.iter().cloned().collect()
    }

    /// A permit to compute the headroom, if it is outdated and no other task computes it.
    pub(crate) fn begin_update(&self, interval: Duration) -> Option<HeadroomUpdate> {
        if self.stop.is_cancelled() {
            return None;
        }
        let guard = Arc::clone(&self.update_lock).try_lock_owned().ok()?;
        let mut state = self.state();
        if state.begun.is_some_and(|begun| begun.elapsed() < interval) {
            return None;
        }
        state.begun = Some(Instant::now());
        Some(HeadroomUpdate(guard))
    }

    /// Waits for a running computation, at most [`READ_TIMEOUT`].
    pub(crate) async fn wait_for_update(&self) {
        // After the timeout, the previous values are used.
        let _ = timeout(READ_TIMEOUT, self.update_lock.lock()).await;
    }

    /// Completes when the conductor stops.
    pub(crate) async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// Cancels a running computation, waits for its end, and permits no further one.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        drop(self.update_lock.lock().await);
    }

    pub(crate) fn store(&self, flavor: &RequestedFlavor, headroom: Headroom) {
        let made = HeadroomEntry {
            headroom: Some((headroom, Instant::now())),
            has_failed: false,
        };
        self.state().made.insert(flavor.id(), made);
    }

    /// Records a failed computation. Returns whether the previous one succeeded, so that it should be logged.
    pub(crate) fn record_failure(&self, flavor: &RequestedFlavor) -> bool {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        let made = state.made.entry(flavor.id()).or_insert(HeadroomEntry {
            headroom: None,
            has_failed: false,
        });
        !std::mem::replace(&mut made.has_failed, true)
    }

    /// Records that no flavor could be computed.
    pub(crate) fn record_journal_failure(&self) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
    }

    /// Writes the metrics, and drops the values of flavors that are no longer recent.
    pub(crate) fn write_to(&self, page: &mut BootMetricsPage) {
        let mut state = self.state();
        let HeadroomState { flavors, made, .. } = &mut *state;
        made.retain(|id, _| flavors.iter().any(|flavor| flavor.id() == *id));
        let rows = flavors.iter().filter_map(|flavor| {
            let (headroom, at) = made.get(&flavor.id())?.headroom?;
            Some((flavor, flavor.spec(), headroom, at))
        });
        let rows: Vec<_> = rows.collect();
        for name in [HEADROOM_HOSTS, HEADROOM_GUESTS] {
            page.header(name);
            for (flavor, spec, headroom, _) in &rows {
                let labels = [
                    ("flavor", flavor.name()),
                    ("device_profile", flavor.device_profile()),
                    ("spec", spec),
                ];
                let many = match name {
                    HEADROOM_HOSTS => headroom.hosts,
                    _ => headroom.guests,
                };
                page.number(name, &labels, u64::try_from(many).unwrap_or(u64::MAX));
            }
        }
        page.header(HEADROOM_AGE);
        if let Some(oldest) = rows.iter().map(|(.., at)| *at).min() {
            page.seconds(HEADROOM_AGE, &[], oldest.elapsed());
        }
        page.header(HEADROOM_FAILURES);
        page.number(HEADROOM_FAILURES, &[], state.failures);
    }

    fn state(&self) -> MutexGuard<'_, HeadroomState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
