//! The reconciler of this host's instances: compares journal, hypervisor, devices, accelerator requests and
//! allocations, and repairs or reports each difference.
//!
//! ```text
//! run_loop: repair_with --> find_differences_with --> facts --> compare --> findings, each with its age
//!              |                                                             |
//!              +--> reclaim leftovers, sync_all                              +--> log, metrics, API
//! ```
//!
//! The reconciler never changes what belongs to a tenant: it only reports an orphaned guest, an allocation without a guest and a
//! guest that differs from its record. An instance that is being created looks like an orphan for a while, so orphans are logged
//! only if they persist ([`FINDING_GRACE`]).
//!
//! Caller: the composition root passes a [`Reconciler`] to the agent's `GuestService` instead of the bare [`Guests`]. The
//! reconciler runs the sync loop of the instances.

mod compare;
mod finding;
mod kind;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use berth_agent_devices::DeviceManager;
use berth_client::{AcceleratorError, PlacementClient, PlacementError};
use berth_model::{ConsumerUuid, NodeName, ProviderUuid};
use berth_net::SwitchInterface;
use berth_virt::{GuestError, PreparedDevice, VirtDriver};
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::accelerators::BoundArq;
use crate::binding_wait::BindingRefusal;
use crate::guests::{Guests, GuestsError};
use crate::manager::{FindingObserver, GuestManager};
use crate::outcome::BlockedGuests;
use crate::reconcile::compare::{
    known, leftover_devices, leftover_finding, orphan_port_finding, orphan_ports,
};
use crate::resources::GuestResources;
use crate::sync_loop::SyncError;

pub use compare::{ReconcileFacts, compare};
pub use finding::{FINDING_GRACE, ReconcileFinding, Remedy, Unbinder};
pub use kind::FindingKind;

/// Maximum age of a cached list of all accelerator requests in periodic comparisons. The list is long in a large cloud,
/// and each host queries it. If a list seems to show an orphan, it is queried again before the orphan is reported.
const MAX_LIST_AGE: Duration = Duration::from_mins(60);

/// How current the list of accelerator requests must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListFreshness {
    /// A caller waits for the result: query the service.
    Current,
    MayBeCached,
}

/// The result of one comparison.
#[derive(Debug, Clone, Default)]
pub struct ReconcileReport {
    /// The differences, with the time since each was first found.
    pub findings: Vec<(ReconcileFinding, Duration)>,
    /// Sources that could not be read. Differences with these are unknown.
    pub unknown: Vec<String>,
}

/// What no instance uses any longer.
struct Leftovers {
    devices: Vec<PreparedDevice>,
    ports: Vec<SwitchInterface>,
}

/// Compares and repairs. Clones share the state.
pub struct Reconciler<D, R> {
    inner: Arc<ReconcilerInner<D, R>>,
}

struct ReconcilerInner<D, R> {
    guests: Guests<D, R>,
    devices: Option<DeviceManager<D>>,
    placement: Option<PlacementClient>,
    /// When each finding was first found, and whether it was logged.
    since: Mutex<BTreeMap<ReconcileFinding, (Instant, bool)>>,
    /// Receives the findings for the metrics.
    observer: OnceLock<Arc<dyn FindingObserver>>,
    /// The cached list of requests that are bound on this host, and the time of the query.
    listed: Mutex<Option<(Instant, Vec<BoundArq>)>>,
}

impl<D, R> Clone for Reconciler<D, R> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<D, R> Reconciler<D, R> {
    #[must_use]
    pub fn guests(&self) -> &Guests<D, R> {
        &self.inner.guests
    }
}

impl<D: VirtDriver, R: GuestResources> Reconciler<D, R> {
    /// A reconciler of these instances and devices. Without `placement`, allocations are not compared.
    #[must_use]
    pub fn new(
        guests: Guests<D, R>,
        devices: Option<DeviceManager<D>>,
        placement: Option<PlacementClient>,
    ) -> Self {
        let inner = ReconcilerInner {
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

    /// Compares without changing anything.
    pub async fn find_differences(&self) -> Result<ReconcileReport, GuestsError> {
        Ok(self.find_differences_with(ListFreshness::Current).await?.0)
    }

    /// The differences, and the leftover devices and ports that are old enough to be reclaimed.
    async fn find_differences_with(
        &self,
        wanted: ListFreshness,
    ) -> Result<(ReconcileReport, Leftovers), GuestsError> {
        let (facts, unknown) = self.facts(wanted).await?;
        let findings = self.track_ages(compare(&facts));
        self.report_metrics(&findings);
        let is_due = |wanted: ReconcileFinding| {
            let mut found = findings.iter();
            found.any(|(finding, age)| *finding == wanted && *age >= FINDING_GRACE)
        };
        let devices = leftover_devices(&facts).filter(|device| is_due(leftover_finding(device)));
        let known = known(&facts);
        let ports = orphan_ports(&facts, &known).filter(|port| is_due(orphan_port_finding(port)));
        let due = Leftovers {
            devices: devices.cloned().collect(),
            ports: ports.cloned().collect(),
        };
        Ok((ReconcileReport { findings, unknown }, due))
    }

    /// Compares, repairs what can be repaired, and returns the findings. Tasks of instances may run longer than this
    /// call.
    pub async fn repair(&self) -> Result<ReconcileReport, SyncError> {
        self.repair_by(ListFreshness::Current).await
    }

    async fn repair_by(&self, wanted: ListFreshness) -> Result<ReconcileReport, SyncError> {
        let (mut found, due) = self.find_differences_with(wanted).await?;
        for port in &due.ports {
            self.unplug_orphan(port).await;
        }
        if let Some(devices) = &self.inner.devices {
            for device in due.devices {
                // A failure is logged by the device manager, and the finding remains.
                if let Ok(true) = devices.reclaim_leftover(&device.wanted).await {
                    let finding = leftover_finding(&device);
                    tracing::warn!(code = finding.code(), subject = %finding.subject(), "{finding}");
                }
            }
            for device in devices
                .remove_orphan_mdevs()
                .await
                .map_err(GuestsError::from)?
            {
                // The device is removed, so no later comparison reports it.
                let finding = ReconcileFinding::MdevOrphan { device };
                tracing::warn!(code = finding.code(), subject = %finding.subject(), "{finding}");
                if !found.findings.iter().any(|(known, _)| *known == finding) {
                    found.findings.push((finding, Duration::ZERO));
                }
            }
            let has = |wanted: fn(&ReconcileFinding) -> bool| {
                found.findings.iter().any(|(finding, _)| wanted(finding))
            };
            if has(|finding| matches!(finding, ReconcileFinding::DeviceUnclean { .. })) {
                devices.request_report();
            }
            if has(|finding| matches!(finding, ReconcileFinding::ProviderMissing { .. })) {
                devices.request_missing_providers();
            }
        }
        self.inner.guests.sync_all().await?;
        Ok(found)
    }

    async fn unplug_orphan(&self, port: &SwitchInterface) {
        let resources = &self.inner.guests.inner.context.resources;
        let finding = orphan_port_finding(port);
        match resources.remove_orphan_port(port).await {
            Ok(()) => {
                tracing::warn!(code = finding.code(), subject = %finding.subject(), "{finding}");
            }
            // The finding remains, and the next run repeats this.
            Err(error) => tracing::warn!(
                code = finding.code(),
                subject = %finding.subject(),
                error = &error as &dyn std::error::Error,
                "unplugging an orphaned port failed; retrying"
            ),
        }
    }

    async fn run_loop(&self, interval: Duration, shutdown: CancellationToken) {
        loop {
            let repaired = self.repair_by(ListFreshness::MayBeCached).await;
            match repaired {
                Ok(found) => self.log_findings(&found),
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "comparison of the instances failed"
                ),
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = self.inner.guests.wait_until_due(interval) => {}
            }
        }
        self.inner.guests.stop().await;
    }

    /// Passes the persistent findings to the metrics.
    fn report_metrics(&self, findings: &[(ReconcileFinding, Duration)]) {
        if let Some(observer) = self.inner.observer.get() {
            let lasting = findings
                .iter()
                .filter(|(finding, age)| finding.is_persistent(*age));
            observer.findings(lasting.map(|(finding, _)| finding.kind()).collect());
        }
    }

    /// Logs each persistent finding once.
    fn log_findings(&self, found: &ReconcileReport) {
        for (finding, age) in &found.findings {
            if !finding.is_persistent(*age) {
                continue;
            }
            let mut since = self.since();
            let Some((_, is_logged)) = since.get_mut(finding) else {
                continue;
            };
            if !std::mem::replace(is_logged, true) {
                tracing::warn!(code = finding.code(), subject = %finding.subject(), "{finding}");
            }
        }
    }

    fn since(&self) -> MutexGuard<'_, BTreeMap<ReconcileFinding, (Instant, bool)>> {
        let since = self.inner.since.lock();
        since.unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes every finding older by `time`.
    #[cfg(test)]
    pub(crate) fn age_findings(&self, time: Duration) {
        for (at, _) in self.since().values_mut() {
            *at -= time;
        }
    }

    fn track_ages(&self, found: BTreeSet<ReconcileFinding>) -> Vec<(ReconcileFinding, Duration)> {
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

    /// Reads all sources; also returns the errors of unreadable ones.
    async fn facts(
        &self,
        wanted: ListFreshness,
    ) -> Result<(ReconcileFacts, Vec<String>), GuestsError> {
        let context = &self.inner.guests.inner.context;
        // The first reported error is that the journal cannot be written, because then nothing can be repaired.
        self.inner.guests.probe_journal().await;
        let mut unknown: Vec<String> = self
            .inner
            .guests
            .journal_write_error()
            .into_iter()
            .collect();
        // Read the devices before the journal: then the journal contains every instance that they were prepared for.
        let prepared = context
            .driver
            .prepared_devices()
            .await
            .unwrap_or_else(|error| {
                unknown.push(error.to_string());
                Vec::new()
            });
        let ports = context.resources.plugged_ports().await;
        let ports = ports.unwrap_or_else(|error| {
            unknown.push(error.to_string());
            Vec::new()
        });
        let mut facts = ReconcileFacts {
            ports,
            boot_id: context.boot_id.clone(),
            prepared,
            journal: {
                let records = self.inner.guests.list().await?;
                records.into_iter().map(Arc::unwrap_or_clone).collect()
            },
            ..ReconcileFacts::default()
        };
        match context.driver.guests().await {
            Ok(guests) => facts.hypervisor = Some(guests),
            Err(GuestError::NotSupported { .. }) => facts.hypervisor = Some(BTreeMap::new()),
            Err(error) => unknown.push(error.to_string()),
        }
        facts.devices = self.inner.devices.as_ref().map(DeviceManager::facts);
        for record in &facts.journal {
            if record.open().is_some() || record.request.arqs().is_empty() {
                continue;
            }
            let now = match context.accelerators.bound_now(&record.request).await {
                Ok(bound) => Ok(bound),
                Err(BindingRefusal::Service(error)) => {
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

    /// The nodes of this host: the observed ones, and those of the instances.
    fn nodes(&self, facts: &ReconcileFacts) -> BTreeSet<NodeName> {
        let of_guests = facts.journal.iter();
        let of_guests = of_guests.map(|record| record.request.node().clone());
        let seen = self.inner.devices.iter().flat_map(DeviceManager::nodes);
        of_guests.chain(seen).collect()
    }

    /// The requests that are bound on these nodes. Empty if the accelerator service reports the holders of this host's
    /// devices.
    async fn bound_here(
        &self,
        wanted: ListFreshness,
        nodes: &BTreeSet<NodeName>,
    ) -> Result<Vec<BoundArq>, AcceleratorError> {
        let devices = self.inner.devices.as_ref();
        if !devices.is_some_and(DeviceManager::holders_unknown) {
            return Ok(Vec::new());
        }
        let is_orphan =
            |finding: &ReconcileFinding| matches!(finding, ReconcileFinding::RequestOrphan { .. });
        let longest = match self.since().keys().any(is_orphan) {
            true => FINDING_GRACE,
            false => MAX_LIST_AGE,
        };
        if wanted == ListFreshness::MayBeCached
            && let Some((at, bound)) = &*self.arq_list()
            && at.elapsed() < longest
        {
            return Ok(bound.clone());
        }
        let queried_at = Instant::now();
        let accelerators = &self.inner.guests.inner.context.accelerators;
        let bound = accelerators.arqs_bound_on(nodes).await?;
        *self.arq_list() = Some((queried_at, bound.clone()));
        Ok(bound)
    }

    fn arq_list(&self) -> MutexGuard<'_, Option<(Instant, Vec<BoundArq>)>> {
        let listed = self.inner.listed.lock();
        listed.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The providers of these nodes that each consumer has allocations on; `None` if Placement has none of the nodes. Adds
/// the names of the providers to `names`.
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
    fn run(&self, interval: Duration, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
        let reconciler = self.clone();
        Box::pin(async move { reconciler.run_loop(interval, shutdown).await })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let guests = self.inner.guests.clone();
        Box::pin(async move { guests.stop().await })
    }

    fn subscribe_blocked(&self) -> watch::Receiver<BlockedGuests> {
        self.inner.guests.subscribe_blocked()
    }

    fn set_finding_observer(&self, observer: Arc<dyn FindingObserver>) {
        let _ = self.inner.observer.set(observer);
    }

    fn notify_changed(&self) {
        self.inner.guests.notify_changed();
    }

    fn subscribe_journal_error(&self) -> watch::Receiver<Option<String>> {
        self.inner.guests.subscribe_journal_error()
    }
}

#[cfg(test)]
mod tests;
