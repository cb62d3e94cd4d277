//! The reconciler of this host's instances. It compares the journal, the hypervisor, the devices, the accelerator requests and
//! the allocations, pair by pair. It repairs each difference, or reports it with what an operator can do.
//!
//! It never changes what belongs to a tenant: an orphaned instance, an allocation without an instance and an instance that
//! differs from its record are reported. An instance that is being created looks like an orphan for a while, so orphans are
//! logged only if they persist.
//!
//! Caller: the composition root, which gives a [`Reconciler`] to `GuestService` of the agent instead of the bare [`Guests`]. The
//! reconciler runs the instances' loop and serves its own routes next to theirs.

mod compare;
mod finding;
mod kind;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use berth_agent_devices::Devices;
use berth_client::{AcceleratorError, PlacementClient, PlacementError};
use berth_model::{ConsumerUuid, NodeName, ProviderUuid};
use berth_virt::{GuestError, PreparedDevice, VirtDriver};
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::accelerators::BoundHere;
use crate::binding_wait::BindRefused;
use crate::guests::{Guests, GuestsError};
use crate::manager::{FindingObserver, GuestManager};
use crate::outcome::HeldGuests;
use crate::reconcile::compare::{left, left_behind};
use crate::resources::GuestResources;
use crate::sync_loop::SyncError;

pub use compare::{Facts, compare};
pub use finding::{Finding, GRACE, Remedy, Unbinding};
pub use kind::FindingKind;

/// How old a list of all accelerator requests may be that the clock's comparison looks at: it is long where the cloud is large,
/// and each host asks for it. One that seems to show an orphan is asked for again before that is told.
const LIST_AGE: Duration = Duration::from_mins(60);

/// Who wants a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Somebody who waits for the answer: it is of now.
    Now,
    NowAndThen,
}

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
    /// Where findings are counted.
    observer: OnceLock<Arc<dyn FindingObserver>>,
    /// What is bound on this host, and when it was asked.
    listed: Mutex<Option<(Instant, Vec<BoundHere>)>>,
}

impl<D, R> Clone for Reconciler<D, R> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<D, R> Reconciler<D, R> {
    /// The instances that are compared.
    #[must_use]
    pub fn guests(&self) -> &Guests<D, R> {
        &self.inner.guests
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
            observer: OnceLock::new(),
            listed: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Compares, and changes nothing.
    pub async fn look(&self) -> Result<Reconciled, GuestsError> {
        Ok(self.look_by(Wanted::Now).await?.0)
    }

    /// What differs, and what is to be taken back of it: it has been nobody's for long enough.
    async fn look_by(
        &self,
        wanted: Wanted,
    ) -> Result<(Reconciled, Vec<PreparedDevice>), GuestsError> {
        let (facts, unknown) = self.facts(wanted).await?;
        let findings = self.aged(compare(&facts));
        self.count(&findings);
        let is_due = |device: &&PreparedDevice| {
            let wanted = left(device);
            let mut found = findings.iter();
            found.any(|(finding, age)| *finding == wanted && *age >= GRACE)
        };
        let due = left_behind(&facts).filter(is_due).cloned().collect();
        Ok((Reconciled { findings, unknown }, due))
    }

    /// Compares, mends what can be mended, and says what was found. Guests' journeys go on by themselves afterwards.
    pub async fn repair(&self) -> Result<Reconciled, SyncError> {
        self.repair_by(Wanted::Now).await
    }

    async fn repair_by(&self, wanted: Wanted) -> Result<Reconciled, SyncError> {
        let (mut found, due) = self.look_by(wanted).await?;
        if let Some(devices) = &self.inner.devices {
            for device in due {
                // What stood in the way is in the log, and the finding stays.
                if let Ok(true) = devices.take_back_left(&device.wanted).await {
                    let finding = left(&device);
                    tracing::warn!(code = finding.code(), subject = %finding.subject(), "{finding}");
                }
            }
            for device in devices
                .remove_orphan_mdevs()
                .await
                .map_err(GuestsError::from)?
            {
                // It is gone, and no later comparison finds it.
                let finding = Finding::MdevOrphan { device };
                tracing::warn!(code = finding.code(), subject = %finding.subject(), "{finding}");
                if !found.findings.iter().any(|(known, _)| *known == finding) {
                    found.findings.push((finding, Duration::ZERO));
                }
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
            let repaired = self.repair_by(Wanted::NowAndThen).await;
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

    /// What the metric says from now on: as the log, it knows nothing of what may be under way.
    fn count(&self, findings: &[(Finding, Duration)]) {
        if let Some(observer) = self.inner.observer.get() {
            let lasting = findings.iter().filter(|(finding, age)| finding.lasts(*age));
            observer.findings(lasting.map(|(finding, _)| finding.kind()).collect());
        }
    }

    /// Each finding once, when it is old enough to be one.
    fn log(&self, found: &Reconciled) {
        for (finding, age) in &found.findings {
            if !finding.lasts(*age) {
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

    /// Makes every finding so much older.
    #[cfg(test)]
    pub(crate) fn let_pass(&self, time: Duration) {
        for (at, _) in self.since().values_mut() {
            *at -= time;
        }
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
    async fn facts(&self, wanted: Wanted) -> Result<(Facts, Vec<String>), GuestsError> {
        let context = &self.inner.guests.inner.context;
        // What could be read is compared; that nothing of it can be mended is told first.
        self.inner.guests.try_write().await;
        let mut unknown: Vec<String> = self.inner.guests.refuses_writes().into_iter().collect();
        // Before the journal, which says of whatever is made ready for whom that is.
        let prepared = context
            .driver
            .prepared_devices()
            .await
            .unwrap_or_else(|error| {
                unknown.push(error.to_string());
                Vec::new()
            });
        let mut facts = Facts {
            boot_id: context.boot_id.clone(),
            prepared,
            journal: {
                let records = self.inner.guests.list().await?;
                records.into_iter().map(Arc::unwrap_or_clone).collect()
            },
            ..Facts::default()
        };
        match context.driver.guests().await {
            Ok(guests) => facts.hypervisor = Some(guests),
            Err(GuestError::NotSupported { .. }) => facts.hypervisor = Some(BTreeMap::new()),
            Err(error) => unknown.push(error.to_string()),
        }
        facts.devices = self.inner.devices.as_ref().map(Devices::facts);
        for record in &facts.journal {
            if record.open().is_some() || record.request.arqs().is_empty() {
                continue;
            }
            let now = match context.accelerators.bound_now(&record.request).await {
                Ok(bound) => Ok(bound),
                Err(BindRefused::Service(error)) => {
                    unknown.push(error.to_string());
                    break;
                }
                Err(refused) => Err(refused.to_string()),
            };
            facts.requests.insert(record.request.uuid(), now);
        }
        let nodes = self.nodes(&facts);
        match self.bound_here(wanted, &nodes).await {
            Ok(bound) => facts.bound_here = bound,
            Err(error) => unknown.push(error.to_string()),
        }
        if let Some(placement) = &self.inner.placement {
            match allocations(placement, &nodes, &mut facts.providers).await {
                Ok(allocations) => facts.allocations = allocations,
                Err(error) => unknown.push(error.to_string()),
            }
        }
        Ok((facts, unknown))
    }

    /// This host's nodes: those that were seen, and those that guests were asked for on.
    fn nodes(&self, facts: &Facts) -> BTreeSet<NodeName> {
        let of_guests = facts.journal.iter();
        let of_guests = of_guests.map(|record| record.request.node().clone());
        let seen = self.inner.devices.iter().flat_map(Devices::nodes);
        of_guests.chain(seen).collect()
    }

    /// What is bound on these nodes, where nobody else says who holds this host's devices; else nothing is asked.
    async fn bound_here(
        &self,
        wanted: Wanted,
        nodes: &BTreeSet<NodeName>,
    ) -> Result<Vec<BoundHere>, AcceleratorError> {
        let devices = self.inner.devices.as_ref();
        if !devices.is_some_and(Devices::holders_are_unsaid) {
            return Ok(Vec::new());
        }
        let is_orphan = |finding: &Finding| matches!(finding, Finding::RequestOrphan { .. });
        let longest = match self.since().keys().any(is_orphan) {
            true => GRACE,
            false => LIST_AGE,
        };
        if wanted == Wanted::NowAndThen
            && let Some((at, bound)) = &*self.listed()
            && at.elapsed() < longest
        {
            return Ok(bound.clone());
        }
        let asked = Instant::now();
        let accelerators = &self.inner.guests.inner.context.accelerators;
        let bound = accelerators.bound_on(nodes).await?;
        *self.listed() = Some((asked, bound.clone()));
        Ok(bound)
    }

    fn listed(&self) -> MutexGuard<'_, Option<(Instant, Vec<BoundHere>)>> {
        let listed = self.inner.listed.lock();
        listed.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who holds what of these nodes' providers, and in `names` what those are called; none where Placement does not know the host.
async fn allocations(
    placement: &PlacementClient,
    nodes: &BTreeSet<NodeName>,
    names: &mut BTreeMap<ProviderUuid, String>,
) -> Result<Option<BTreeMap<ConsumerUuid, BTreeSet<String>>>, PlacementError> {
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
            names.insert(provider.uuid(), provider.name.to_string());
        }
    }
    Ok(held)
}

impl<D: VirtDriver, R: GuestResources> GuestManager for Reconciler<D, R> {
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

    fn count_by(&self, observer: Arc<dyn FindingObserver>) {
        let _ = self.inner.observer.set(observer);
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
