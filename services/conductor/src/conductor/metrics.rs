//! The conductor's metrics page, and the computation of the headroom in it.

use super::Conductor;
use crate::boot::RequestedBoot;
use crate::metrics::{BootMetricsPage, WAITING_BOOTS};

impl Conductor {
    /// All metrics in Prometheus' text format.
    ///
    /// If the headroom is older than
    /// [`ConductorOptions::headroom_interval`](crate::ConductorOptions::headroom_interval), it is computed in a
    /// background task, for which the page waits at most two seconds.
    pub async fn metrics(&self) -> String {
        self.refresh_headroom().await;
        let mut page = BootMetricsPage::default();
        self.inner.context.metrics.write_to(&mut page);
        page.header(WAITING_BOOTS);
        let waiting = u64::try_from(self.waiting_boots()).unwrap_or(u64::MAX);
        page.number(WAITING_BOOTS, &[], waiting);
        self.inner.headroom.write_to(&mut page);
        page.into_text()
    }

    /// The number of guests that wait for the turn of their project.
    #[must_use]
    pub fn waiting_boots(&self) -> usize {
        self.inner.context.boots.waiting()
    }

    async fn refresh_headroom(&self) {
        let Some(interval) = self.inner.context.options.headroom_interval else {
            return;
        };
        if let Some(update) = self.inner.headroom.begin_update(interval) {
            let conductor = self.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = conductor.compute_headroom() => {}
                    () = conductor.inner.headroom.stopping() => {}
                }
                drop(update);
            });
        }
        self.inner.headroom.wait_for_update().await;
    }

    /// Computes the headroom of each recent flavor, one after another.
    async fn compute_headroom(&self) {
        let (context, headrooms) = (&self.inner.context, &self.inner.headroom);
        if !headrooms.is_journal_loaded() {
            match context.journal.guests().await {
                Ok(records) => headrooms.load_journal(&records.readable),
                // The reconcile loop reports that the journal is unreadable.
                Err(_) => return headrooms.record_journal_failure(),
            }
        }
        for flavor in headrooms.flavors() {
            match RequestedBoot::hypothetical(&flavor)
                .headroom(&context.scheduler, context)
                .await
            {
                Ok(headroom) => headrooms.store(&flavor, headroom),
                Err(error) => {
                    if headrooms.record_failure(&flavor) {
                        let flavor = flavor.name();
                        tracing::warn!(flavor, %error, "failed to compute a flavor's headroom");
                    }
                }
            }
        }
    }
}
