//! What room there is for guests that nobody asked for yet: the way of a boot, up to its claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::boot::{BootError, Requested};
use crate::destinations::{Considered, FilterScheduler};
use crate::headroom::{AskedFlavor, Headroom, HostWithRoom, Room, fill};
use crate::journal::{BootRecord, Course};
use crate::way::Way;

impl Requested {
    /// A guest that asks for a flavor, and that nobody will build.
    pub(crate) fn imagined(flavor: &AskedFlavor) -> Self {
        let record = BootRecord {
            request: flavor.request().clone(),
            course: Course::Boot,
            attempt: 1,
            failures: Vec::new(),
            steps: BTreeMap::new(),
        };
        Self { record }
    }

    /// How many such guests would find a host now. Nothing is claimed, and nothing is kept of it.
    ///
    /// # Errors
    /// A service did not answer. What no host can be right for is no error: there is room for none.
    pub(crate) async fn headroom(
        &self,
        scheduler: &Arc<FilterScheduler>,
        way: &Way,
    ) -> Result<Headroom, BootError> {
        match self.would_fit(scheduler, way).await {
            Err(
                BootError::NoValidHost(_)
                | BootError::NoProfile(_)
                | BootError::Groups(_)
                | BootError::Request(_),
            ) => Ok(Headroom::default()),
            other => other,
        }
    }

    async fn would_fit(
        &self,
        scheduler: &Arc<FilterScheduler>,
        way: &Way,
    ) -> Result<Headroom, BootError> {
        let profile = self.profile(way).await?;
        let asked = self.asked(scheduler, way, None, profile.as_ref()).await?;
        let found = asked.candidates(way).await?;
        let guest = *self.record.request.uuid().as_uuid();
        let considered = Considered::new(&found, &BTreeSet::new(), guest);
        let (known, _) = self
            .known(scheduler, way, &considered, &asked, None)
            .await?;
        let hosts = known.into_iter().map(|it| HostWithRoom {
            candidates: considered.of(it.host).to_vec(),
            considered: it.considered,
        });
        let hosts: Vec<HostWithRoom> = hosts.collect();
        let mut request = asked.request;
        let states: Vec<_> = hosts.iter().map(|it| it.considered.clone()).collect();
        request.plugin_answers = scheduler.plugins.ask(&request, &states).await;
        let (scheduler, room) = (Arc::clone(scheduler), Room::of(&found));
        // Where there are many hosts this takes a while, and others have the same threads.
        let counted = tokio::task::spawn_blocking(move || {
            let filled = fill(&scheduler.scheduler, &request, &hosts, room);
            Headroom {
                hosts: filled.hosts,
                guests: filled.guests.len(),
            }
        });
        // It ends without an answer only with the runtime.
        counted.await.map_err(|_| BootError::Cancelled)
    }
}
