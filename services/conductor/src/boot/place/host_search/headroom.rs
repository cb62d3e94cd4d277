//! Computes the headroom of a flavor with the same queries and filters as a boot, up to the claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::boot::{BootError, RequestedBoot};
use crate::boot_context::BootContext;
use crate::filter_scheduler::{CandidateHosts, FilterScheduler};
use crate::headroom::{FreeResources, Headroom, HeadroomHost, RequestedFlavor, fill_hosts};
use crate::journal::{BootGoal, BootRecord};

impl RequestedBoot {
    /// A boot of a hypothetical guest that is never built.
    pub(crate) fn hypothetical(flavor: &RequestedFlavor) -> Self {
        let record = BootRecord {
            request: flavor.request().clone(),
            goal: BootGoal::Boot,
            attempt: 1,
            failures: Vec::new(),
            steps: BTreeMap::new(),
        };
        Self { record }
    }

    /// How many such guests would find a host now. Claims and records nothing.
    ///
    /// Errors: A service did not answer. An unsatisfiable request is not an error: its headroom is 0.
    pub(crate) async fn headroom(
        &self,
        scheduler: &Arc<FilterScheduler>,
        context: &BootContext,
    ) -> Result<Headroom, BootError> {
        match self.count_headroom(scheduler, context).await {
            Err(
                BootError::NoValidHost(_)
                | BootError::NoProfile(_)
                | BootError::Groups(_)
                | BootError::Request(_),
            ) => Ok(Headroom::default()),
            other => other,
        }
    }

    async fn count_headroom(
        &self,
        scheduler: &Arc<FilterScheduler>,
        context: &BootContext,
    ) -> Result<Headroom, BootError> {
        let profile = self.profile(context).await?;
        let query = self
            .scheduling_query(scheduler, context, None, profile.as_ref())
            .await?;
        let found = query.candidates(context).await?;
        let guest = *self.record.request.uuid().as_uuid();
        let considered = CandidateHosts::new(&found, &BTreeSet::new(), guest);
        let (known, _) = self
            .known_hosts(scheduler, context, &considered, &query, None)
            .await?;
        let hosts = known.into_iter().map(|it| HeadroomHost {
            candidates: considered.of(it.host).to_vec(),
            considered: it.considered,
        });
        let hosts: Vec<HeadroomHost> = hosts.collect();
        let mut request = query.request;
        let states: Vec<_> = hosts.iter().map(|it| it.considered.clone()).collect();
        request.plugin_answers = scheduler.plugins.ask(&request, &states).await;
        let (scheduler, room) = (
            Arc::clone(scheduler),
            FreeResources::from_candidates(&found),
        );
        // With many hosts this takes long, so it does not run on the async threads.
        let counted = tokio::task::spawn_blocking(move || {
            let filled = fill_hosts(&scheduler.scheduler, &request, &hosts, room);
            Headroom {
                hosts: filled.hosts,
                guests: filled.guests.len(),
            }
        });
        // The task fails only if the runtime shuts down.
        counted.await.map_err(|_| BootError::Cancelled)
    }
}
