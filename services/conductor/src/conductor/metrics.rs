//! The page of metrics, and who makes the headroom on it.

use super::Conductor;
use crate::boot::Requested;
use crate::metrics::Page;

impl Conductor {
    /// What was counted, and the headroom, in Prometheus' text format. Where the headroom is older than
    /// [`ConductorOptions::headroom_interval`](crate::ConductorOptions::headroom_interval), it is made, and waited for: two seconds
    /// at most. It is made to its end all the same.
    pub async fn metrics(&self) -> String {
        self.make_headroom().await;
        let mut page = Page::default();
        self.inner.way.metrics.write(&mut page);
        self.inner.headrooms.write(&mut page);
        page.into_text()
    }

    async fn make_headroom(&self) {
        let Some(interval) = self.inner.way.options.headroom_interval else {
            return;
        };
        if let Some(making) = self.inner.headrooms.due(interval) {
            let conductor = self.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = conductor.make_headrooms() => {}
                    () = conductor.inner.headrooms.stopping() => {}
                }
                drop(making);
            });
        }
        self.inner.headrooms.settled().await;
    }

    /// Asks for each flavor, one after another.
    async fn make_headrooms(&self) {
        let (way, headrooms) = (&self.inner.way, &self.inner.headrooms);
        if !headrooms.knows_journal() {
            match way.journal.guests().await {
                Ok(records) => headrooms.tell_journal(&records.readable),
                // That the journal cannot be read is told by who goes on with its guests.
                Err(_) => return headrooms.failed_for_all(),
            }
        }
        for flavor in headrooms.flavors() {
            match Requested::imagined(&flavor)
                .headroom(&way.scheduler, way)
                .await
            {
                Ok(headroom) => headrooms.made(&flavor, headroom),
                Err(error) => {
                    if headrooms.failed(&flavor) {
                        let flavor = flavor.name();
                        tracing::warn!(flavor, %error, "a flavor's headroom is not known");
                    }
                }
            }
        }
    }
}
