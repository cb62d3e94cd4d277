//! How many more guests of a flavor there is room for: what a cloud's operator wants to know before a user is told that there is no
//! valid host.
//!
//! It is made for those who read the metrics, and for nobody else: a read that finds it older than its interval sets out to make it,
//! and waits a moment for it. So Placement is asked for nothing that nobody looks at; one who reads seldom still reads what is true
//! now; and a Placement that is slow or away delays no page for longer than that moment: the page has what was made before, and its
//! age. Two reads at once make it once.
//!
//! What is asked is what a boot would ask (`boot::place::filtered`), up to its claim. Callers: `conductor`.

mod fill;
mod flavors;
mod room;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_model::ConsumerUuid;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use fill::{HostWithRoom, fill};
pub(crate) use flavors::AskedFlavor;
use flavors::AskedFlavors;
pub(crate) use room::Room;

use crate::BootRequest;
use crate::journal::BootRecord;
use crate::metrics::{HEADROOM_AGE, HEADROOM_FAILURES, HEADROOM_GUESTS, HEADROOM_HOSTS, Page};

/// How long a read of the metrics waits for a headroom that is being made. Prometheus gives a page ten seconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Room for guests of one flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Headroom {
    /// Hosts that would take one.
    pub(crate) hosts: usize,
    /// Guests that they would take at least.
    pub(crate) guests: usize,
}

/// The headroom of the flavors that were asked for last.
#[derive(Debug, Default)]
pub(crate) struct Headrooms {
    state: Mutex<State>,
    /// Held while it is made.
    turn: Arc<tokio::sync::Mutex<()>>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    flavors: AskedFlavors,
    knows_journal: bool,
    /// When it was begun to be made last.
    begun: Option<Instant>,
    made: BTreeMap<ConsumerUuid, Made>,
    failures: u64,
}

#[derive(Debug, Clone, Copy)]
struct Made {
    /// None where it could not be made yet.
    headroom: Option<(Headroom, Instant)>,
    has_failed: bool,
}

/// Whoever has it makes the headroom; nobody else does meanwhile.
pub(crate) struct Making(
    #[expect(dead_code, reason = "it is held, and then dropped")] OwnedMutexGuard<()>,
);

impl Headrooms {
    /// A guest is asked for.
    pub(crate) fn asked(&self, request: &BootRequest) {
        self.state().flavors.asked(request);
    }

    /// Whether what the journal has was told.
    pub(crate) fn knows_journal(&self) -> bool {
        self.state().knows_journal
    }

    /// The guests of the journal, which were asked for before this process began.
    pub(crate) fn tell_journal(&self, records: &[BootRecord]) {
        let mut state = self.state();
        for record in records {
            state.flavors.was_asked(&record.request);
        }
        state.knows_journal = true;
    }

    /// The flavors whose headroom is to be made.
    pub(crate) fn flavors(&self) -> Vec<AskedFlavor> {
        self.state().flavors.iter().cloned().collect()
    }

    /// The turn to make it, where it is time for that and nobody else does.
    pub(crate) fn due(&self, interval: Duration) -> Option<Making> {
        if self.stop.is_cancelled() {
            return None;
        }
        let turn = Arc::clone(&self.turn).try_lock_owned().ok()?;
        let mut state = self.state();
        if state.begun.is_some_and(|begun| begun.elapsed() < interval) {
            return None;
        }
        state.begun = Some(Instant::now());
        Some(Making(turn))
    }

    /// Waits a moment for who makes it.
    pub(crate) async fn settled(&self) {
        // Who waited long enough has what was made before.
        let _ = timeout(PATIENCE, self.turn.lock()).await;
    }

    /// Ends with the conductor.
    pub(crate) async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// Ends who makes it, and waits for that. Nobody does any more.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        drop(self.turn.lock().await);
    }

    pub(crate) fn made(&self, flavor: &AskedFlavor, headroom: Headroom) {
        let made = Made {
            headroom: Some((headroom, Instant::now())),
            has_failed: false,
        };
        self.state().made.insert(flavor.id(), made);
    }

    /// It could not be made; whether that is news.
    pub(crate) fn failed(&self, flavor: &AskedFlavor) -> bool {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        let made = state.made.entry(flavor.id()).or_insert(Made {
            headroom: None,
            has_failed: false,
        });
        !std::mem::replace(&mut made.has_failed, true)
    }

    /// It could not be made of any flavor.
    pub(crate) fn failed_for_all(&self) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
    }

    /// Writes it, and forgets that of flavors that are not remembered any more.
    pub(crate) fn write(&self, page: &mut Page) {
        let mut state = self.state();
        let State { flavors, made, .. } = &mut *state;
        made.retain(|id, _| flavors.iter().any(|flavor| flavor.id() == *id));
        let rows = flavors.iter().filter_map(|flavor| {
            let (headroom, at) = made.get(&flavor.id())?.headroom?;
            Some((flavor, flavor.spec(), headroom, at))
        });
        let rows: Vec<_> = rows.collect();
        for name in [HEADROOM_HOSTS, HEADROOM_GUESTS] {
            page.row(name);
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
        page.row(HEADROOM_AGE);
        if let Some(oldest) = rows.iter().map(|(.., at)| *at).min() {
            page.seconds(HEADROOM_AGE, &[], oldest.elapsed());
        }
        page.row(HEADROOM_FAILURES);
        page.number(HEADROOM_FAILURES, &[], state.failures);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
