//! One reconciler: what the journal, the hypervisor, the devices, the accelerator requests and the allocations say of this
//! host's guests is compared pair by pair; each difference is mended, or told with what an operator can do about it.
//!
//! It changes nothing that is a tenant's: an orphan guest, an allocation without a guest, a guest that differs are reported.
//! A guest that is being made looks like an orphan for a while, so those are logged only when they last.
//!
//! Caller: the composition root, which gives a [`Reconciler`] to [`crate::service::GuestService`] in the place of the bare
//! [`Guests`]: it keeps them, and offers their routes beside its own.

pub mod api;
mod compare;
mod finding;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use berth_client::{PlacementClient, PlacementError};
use berth_model::{ConsumerUuid, NodeName};
use berth_virt::{GuestError, VirtDriver};
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use compare::{DeviceFacts, Facts, compare};
pub use finding::{Finding, Remedy};

use super::binding_wait::BindRefused;
use super::guests::{Guests, GuestsError, HeldGuests};
use super::keep::KeepError;
use super::resources::GuestResources;
use crate::device::Devices;
use crate::service::KeptGuests;

/// How long something may look like an orphan while a guest is being made.
pub const GRACE: Duration = Duration::from_mins(5);

/// What one comparison came to.
#[derive(Debug, Clone, Default)]
pub struct Reconciled {
    /// The differences, with how long each has been there.
    pub findings: Vec<(Finding, Duration)>,
    /// What could not be read: nothing is known of it.
    pub unknown: Vec<String>,
}

/// The comparison and its repair. Clones are one.
pub struct Reconciler<D, R> {
    inner: Arc<Inner<D, R>>,
}

struct Inner<D, R> {
    guests: Guests<D, R>,
    devices: Option<Devices<D>>,
    placement: Option<PlacementClient>,
    /// Since when each finding has been there, and whether the log was told.
    since: Mutex<BTreeMap<Finding, (Instant, bool)>>,
}

impl<D, R> Clone for Reconciler<D, R> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<D: VirtDriver, R: GuestResources> Reconciler<D, R> {
    /// Of these guests and devices; without a Placement allocations are not compared.
    #[must_use]
    pub fn new(
        guests: Guests<D, R>,
        devices: Option<Devices<D>>,
        placement: Option<PlacementClient>,
    ) -> Self {
        let inner = Inner {
            guests,
            devices,
            placement,
            since: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Compares, and changes nothing. A mediated device that is nobody's is not among what is found: a driver does not say which
    /// there are, only what it removed ([`Reconciler::repair`]).
    ///
    /// # Errors
    /// The journal cannot be read; whatever else does not answer is told as unknown.
    pub async fn look(&self) -> Result<Reconciled, GuestsError> {
        let (facts, unknown) = self.facts().await?;
        let findings = self.aged(compare(&facts));
        Ok(Reconciled { findings, unknown })
    }

    /// Compares, mends what can be mended, and says what was found. Guests' journeys go on by themselves afterwards.
    ///
    /// # Errors
    /// The journal or the hypervisor does not answer.
    pub async fn repair(&self) -> Result<Reconciled, KeepError> {
        let mut found = self.look().await?;
        if let Some(devices) = &self.inner.devices {
            for device in devices
                .remove_orphan_mdevs()
                .await
                .map_err(GuestsError::from)?
            {
                // It is gone, and no later comparison finds it.
                let finding = Finding::MdevOrphan { device };
                tracing::warn!(code = finding.code(), subject = %finding.subject(), "{finding}");
                found.findings.push((finding, Duration::ZERO));
            }
            let has =
                |wanted: fn(&Finding) -> bool| found.findings.iter().any(|(it, _)| wanted(it));
            if has(|finding| matches!(finding, Finding::DeviceUnclean { .. })) {
                devices.stir();
            }
            if has(|finding| matches!(finding, Finding::ProviderMissing { .. })) {
                devices.ask_for_the_missing();
            }
        }
        self.inner.guests.reconcile().await?;
        Ok(found)
    }

    async fn keep_going(&self, interval: Duration, shutdown: CancellationToken) {
        loop {
            let repaired = self.repair().await;
            match repaired {
                Ok(found) => self.log(&found),
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "guests could not be compared"
                ),
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = self.inner.guests.between(interval) => {}
            }
        }
        self.inner.guests.stop().await;
    }

    /// Each finding once, when it is old enough to be one.
    fn log(&self, found: &Reconciled) {
        for (finding, age) in &found.findings {
            if finding.may_be_under_way() && *age < GRACE {
                continue;
            }
            let mut since = self.since();
            let Some((_, said)) = since.get_mut(finding) else {
                continue;
            };
            if !std::mem::replace(said, true) {
                tracing::warn!(code = finding.code(), subject = %finding.subject(), "{finding}");
            }
        }
    }

    fn since(&self) -> MutexGuard<'_, BTreeMap<Finding, (Instant, bool)>> {
        let since = self.inner.since.lock();
        since.unwrap_or_else(PoisonError::into_inner)
    }

    fn aged(&self, found: BTreeSet<Finding>) -> Vec<(Finding, Duration)> {
        let mut since = self.since();
        since.retain(|finding, _| found.contains(finding));
        found
            .into_iter()
            .map(|finding| {
                let (at, _) = since
                    .entry(finding.clone())
                    .or_insert_with(|| (Instant::now(), false));
                (finding, at.elapsed())
            })
            .collect()
    }

    /// Everything that can be read, and what cannot.
    async fn facts(&self) -> Result<(Facts, Vec<String>), GuestsError> {
        let way = &self.inner.guests.inner.way;
        // What could be read is compared; that nothing of it can be mended is told first.
        self.inner.guests.try_write().await;
        let mut unknown: Vec<String> = self.inner.guests.refuses_writes().into_iter().collect();
        let mut facts = Facts {
            boot_id: way.boot_id.clone(),
            journal: self.inner.guests.list().await?,
            ..Facts::default()
        };
        match way.driver.guests().await {
            Ok(guests) => facts.hypervisor = Some(guests),
            Err(GuestError::NotSupported { .. }) => facts.hypervisor = Some(BTreeMap::new()),
            Err(error) => unknown.push(error.to_string()),
        }
        facts.devices = self.inner.devices.as_ref().map(Devices::facts);
        for record in &facts.journal {
            if record.open().is_some() || record.request.arqs().is_empty() {
                continue;
            }
            let now = match way.accelerators.bound_now(&record.request).await {
                Ok(bound) => Ok(bound),
                Err(BindRefused::Service(error)) => {
                    unknown.push(error.to_string());
                    break;
                }
                Err(refused) => Err(refused.to_string()),
            };
            facts.requests.insert(record.request.uuid(), now);
        }
        if let Some(placement) = &self.inner.placement {
            match self.allocations(placement, &facts).await {
                Ok(allocations) => facts.allocations = allocations,
                Err(error) => unknown.push(error.to_string()),
            }
        }
        Ok((facts, unknown))
    }

    /// Who holds what of this host's providers; none where Placement does not know the host.
    async fn allocations(
        &self,
        placement: &PlacementClient,
        facts: &Facts,
    ) -> Result<Option<BTreeMap<ConsumerUuid, BTreeSet<String>>>, PlacementError> {
        let of_guests = facts
            .journal
            .iter()
            .map(|record| record.request.node().clone());
        let mut nodes: BTreeSet<NodeName> = of_guests.collect();
        if let Some(devices) = &self.inner.devices {
            nodes.extend(devices.nodes());
        }
        let mut held: Option<BTreeMap<ConsumerUuid, BTreeSet<String>>> = None;
        for node in nodes {
            let Some(root) = placement.provider_by_name(node.root_name()).await? else {
                continue;
            };
            let held = held.get_or_insert_default();
            for provider in placement.providers_in_tree(root.uuid()).await? {
                let of = placement.provider_allocations(provider.uuid()).await?;
                for consumer in of.value.into_keys() {
                    let providers = held.entry(consumer).or_default();
                    providers.insert(provider.name.to_string());
                }
            }
        }
        Ok(held)
    }
}

impl<D: VirtDriver, R: GuestResources> KeptGuests for Reconciler<D, R> {
    fn routes(&self) -> Router {
        super::api::routes(&self.inner.guests).merge(api::routes(self))
    }

    fn keep(&self, interval: Duration, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        let reconciler = self.clone();
        Box::pin(async move { reconciler.keep_going(interval, shutdown).await })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let guests = self.inner.guests.clone();
        Box::pin(async move { guests.stop().await })
    }

    fn holding(&self) -> watch::Receiver<HeldGuests> {
        self.inner.guests.holding()
    }

    fn stir(&self) {
        self.inner.guests.stir();
    }

    fn unusable(&self) -> watch::Receiver<Option<String>> {
        self.inner.guests.unusable()
    }
}

#[cfg(test)]
mod tests;
