//! [`DeviceManager`]: the state of this host's devices, shared by the modules of this crate, and the interface to the
//! service loop ([`DeviceConditions`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use berth_agent_journal::{DeviceRegister, GuestJournal, JournalError, NamedDevice as _, Register};
use berth_agent_tracker::KnownTrees;
use berth_client::AcceleratorClient;
use berth_hook::Hook;
use berth_model::{ConsumerUuid, NodeName, ProviderUuid};
use berth_virt::{
    FabricPartitions, HostDeviceId, HostEvent, HostEvents, HostView, NodeView, OfferedDevice,
    VirtDriver,
};
use berth_wire::accelerator::HostDevicesReport;
use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::health_check::HealthCheck;
use crate::overlay;
use crate::report::{Advice, Scrub};

/// The device conditions that the driver does not see, as the agent's service loop uses them. Only `run` waits.
///
/// For each observation of the host, the loop calls [`DeviceConditions::begin_observation`], then the driver's `observe`, then
/// [`DeviceConditions::overlay`] before it updates the provider trees. It passes [`DeviceConditions::take_missing`] to the nodes'
/// passes, and treats [`DeviceConditions::changes`] as a second source of host events. [`DeviceConditions::run`] is a separate task.
pub trait DeviceConditions: Send + Sync + 'static {
    /// Registers the start of an observation. The observation that started last is current.
    fn begin_observation(&self) -> ObservationId;

    /// Adds conditions to an observed view: quarantines, failed resets, devices disabled at the accelerator service,
    /// and verdicts of the health check. A device that the driver reported as unhealthy is not changed. A view of an
    /// outdated observation gets the conditions, too, but is not stored.
    fn overlay(&self, observation_id: ObservationId, view: &mut HostView);

    /// The providers that Placement has lost since the last call. A cache that contains one is outdated.
    fn take_missing(&self) -> MissingProviders;

    /// An event whenever the overlay of the last view is outdated. Never ends.
    fn changes(&self) -> HostEvents;

    /// Runs the reporter, the change watch, resets, programming and health checks until `shutdown`. `ends` changes with
    /// every completed reconciliation of an instance (`Guests::completed_reconciles`).
    fn run(
        &self,
        ends: Option<watch::Receiver<u64>>,
        shutdown: CancellationToken,
    ) -> BoxFuture<'static, ()>;
}

/// The number of an observation of the host, in order of their start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservationId(u64);

/// Providers that Placement has lost, by node.
pub type MissingProviders = BTreeMap<NodeName, BTreeSet<ProviderUuid>>;

/// Options for reporting and cleaning devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Interval of reports without changes, so that either side may lose its state (60 s). Changes by operators are
    /// noticed earlier.
    pub interval: Duration,
    /// Whether devices are cleaned between two guests.
    pub scrub: Scrub,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_mins(1),
            scrub: Scrub::Always,
            seed: 0,
        }
    }
}

/// The dependencies of [`DeviceManager`].
pub struct DeviceManagerParts<D> {
    pub driver: Arc<D>,
    /// The persistent state of devices: [`berth_agent_journal::SqlJournal::devices`].
    pub register: DeviceRegister,
    pub journal: Arc<dyn GuestJournal>,
    /// The accelerator service; `None` if `[cyborg]` configures none.
    pub service: Option<AcceleratorClient>,
    pub options: DeviceOptions,
}

/// The devices of this host. Clones share the state.
pub struct DeviceManager<D> {
    pub(super) inner: Arc<DeviceManagerInner<D>>,
}

impl<D> Clone for DeviceManager<D> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

pub(super) struct DeviceManagerInner<D> {
    pub(super) driver: Arc<D>,
    pub(super) register: DeviceRegister,
    pub(super) journal: Arc<dyn GuestJournal>,
    pub(super) service: Option<AcceleratorClient>,
    pub(super) options: DeviceOptions,
    pub(super) program_hook: OnceLock<Hook>,
    pub(super) health_check: OnceLock<HealthCheck>,
    pub(super) trees: OnceLock<KnownTrees>,
    partitions: OnceLock<FabricPartitions>,
    table: Mutex<DeviceTable>,
    /// Wakes the reporter loop at once.
    pub(super) report_requested: Notify,
    pub(super) reported: Notify,
    /// The observed devices changed.
    pub(super) observed: Notify,
    overlay_changed: Arc<Notify>,
}

/// The in-memory state of devices.
#[derive(Default)]
pub(super) struct DeviceTable {
    pub(super) register: Register,
    /// The last observation of each node.
    pub(super) observed: BTreeMap<NodeName, NodeObservation>,
    /// The observation that started last.
    last_begun: ObservationId,
    /// The observation in `observed`.
    observed_by: ObservationId,
    /// Missing providers that no pass has taken yet.
    pub(super) missing: MissingProviders,
    /// The last report of each node, with the service's answer.
    pub(super) reports: BTreeMap<NodeName, LastReport>,
    /// Devices whose reset or programming was interrupted by the end of the previous process. They are reset again.
    pub(super) interrupted: BTreeSet<String>,
    /// Failed resets, by device.
    pub(super) reset_attempts: BTreeMap<String, ResetAttempt>,
    /// Mediated devices that were free and missing, or were removed. Only a previous process can have left one, so each
    /// is checked once.
    pub(super) checked_mdevs: BTreeSet<String>,
    /// The last logged message by subject; a message is logged again when it changes.
    pub(super) logged: BTreeMap<String, String>,
    /// When the service last answered that it accepts no device reports: it is not Berth's, or a proxy answered.
    pub(super) unsupported_since: Option<Instant>,
}

/// A failed reset that will be retried.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResetAttempt {
    /// Number of failures with a cause that may be temporary.
    pub(super) failures: u32,
    pub(super) retry_at: Instant,
}

/// The last observation of a node, without conditions.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct NodeObservation {
    pub(super) devices: Vec<OfferedDevice>,
    /// All guests, including unreadable ones.
    pub(super) guests: BTreeSet<ConsumerUuid>,
    /// The guests' devices, by name.
    pub(super) used: BTreeMap<String, ConsumerUuid>,
}

impl NodeObservation {
    fn of(node: &NodeView) -> Self {
        let mut used = BTreeMap::new();
        for (uuid, guest) in &node.guests {
            let functions = guest.functions.iter().copied().map(HostDeviceId::Function);
            let mdevs = guest.mdevs.iter().map(|mdev| HostDeviceId::Mdev(mdev.uuid));
            let devices = functions.chain(mdevs);
            used.extend(devices.map(|device| (device.name(), *uuid)));
        }
        let guests = node.guests.keys().chain(node.unreadable.keys());
        Self {
            devices: node.devices.clone(),
            guests: guests.copied().collect(),
            used,
        }
    }
}

impl DeviceTable {
    /// The advice in the service's last answer for a node.
    pub(super) fn advice(&self, node: &NodeName) -> Option<&Advice> {
        self.reports.get(node).map(|report| &report.advice)
    }
}

impl<D: VirtDriver> DeviceManager<D> {
    /// Loads the persistent state. Devices whose reset the previous process did not finish stay withheld until they are
    /// reset.
    pub async fn open(parts: DeviceManagerParts<D>) -> Result<Self, JournalError> {
        let register = parts.register.read().await?;
        let table = DeviceTable {
            interrupted: register.running_resets.clone(),
            register,
            ..DeviceTable::default()
        };
        Ok(Self {
            inner: Arc::new(DeviceManagerInner {
                driver: parts.driver,
                register: parts.register,
                journal: parts.journal,
                service: parts.service,
                options: parts.options,
                program_hook: OnceLock::new(),
                health_check: OnceLock::new(),
                trees: OnceLock::new(),
                partitions: OnceLock::new(),
                table: Mutex::new(table),
                report_requested: Notify::new(),
                reported: Notify::new(),
                observed: Notify::new(),
                overlay_changed: Arc::default(),
            }),
        })
    }

    /// Sets the program that programs devices. Call it once, before the first report.
    #[must_use]
    pub fn with_program_hook(self, hook: Hook) -> Self {
        let _ = self.inner.program_hook.set(hook);
        self
    }

    /// Sets the health check program. Call it once, before [`DeviceConditions::run`].
    #[must_use]
    pub fn with_health_check(self, check: HealthCheck) -> Self {
        let _ = self.inner.health_check.set(check);
        self
    }

    /// Sets the provider trees of the service loop. Call it once, before the first report. A node without a tree is not
    /// reported, because the providers of its devices are not known yet.
    #[must_use]
    pub fn with_trees(self, trees: KnownTrees) -> Self {
        let _ = self.inner.trees.set(trees);
        self
    }

    /// Sets the partitions of the NVSwitch fabric. Call it once, before the first observation.
    #[must_use]
    pub fn with_partitions(self, partitions: FabricPartitions) -> Self {
        let _ = self.inner.partitions.set(partitions);
        self
    }

    /// Reloads the persistent state, and requests an observation if the overlay changed.
    pub async fn refresh(&self) -> Result<(), JournalError> {
        let register = self.inner.register.read().await?;
        let mut table = self.table();
        let before = &table.register;
        let changed = before.disabled != register.disabled
            || before.unhealthy.keys().ne(register.unhealthy.keys())
            || before.quarantines.keys().ne(register.quarantines.keys())
            // A partition in use reserves those that overlap.
            || (self.inner.partitions.get().is_some_and(|all| !all.is_empty())
                && before.held != register.held);
        table.register = register;
        drop(table);
        if changed {
            self.request_observation();
        }
        Ok(())
    }

    /// Requests the creation of the providers that Placement has lost.
    pub fn request_missing_providers(&self) {
        let mut table = self.table();
        let report = table.reports.iter();
        let missing = report.map(|(node, report)| (node.clone(), report.advice.missing.clone()));
        let missing: Vec<_> = missing.filter(|(_, missing)| !missing.is_empty()).collect();
        for (node, missing) in missing {
            table.missing.entry(node).or_default().extend(missing);
        }
        drop(table);
        self.request_observation();
    }

    pub(super) fn request_observation(&self) {
        self.inner.overlay_changed.notify_one();
    }

    /// Requests a report to the accelerator service soon, because a device may have been released.
    pub fn request_report(&self) {
        for report in self.table().reports.values_mut() {
            report.stale = true;
        }
        self.inner.report_requested.notify_one();
    }
}

impl<D> DeviceManager<D> {
    pub(super) fn table(&self) -> MutexGuard<'_, DeviceTable> {
        let table = self.inner.table.lock();
        table.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the message is new for the subject, so that a lasting state is logged once.
    pub(super) fn is_new_message(&self, subject: &str, text: &str) -> bool {
        let logged = &mut self.table().logged;
        logged
            .insert(subject.to_owned(), text.to_owned())
            .as_deref()
            != Some(text)
    }

    /// Forgets the last message for the subject.
    pub(super) fn clear_message(&self, subject: &str) {
        self.table().logged.remove(subject);
    }
}

impl<D: VirtDriver> DeviceConditions for DeviceManager<D> {
    fn begin_observation(&self) -> ObservationId {
        let begun = &mut self.table().last_begun;
        begun.0 += 1;
        *begun
    }

    fn overlay(&self, observation_id: ObservationId, view: &mut HostView) {
        self.preserve_cyborg_classes(view);
        let mut table = self.table();
        let mut has_changed = false;
        // Builds observe the host concurrently with the loop, and a slow observation may end after a later one.
        if observation_id >= table.observed_by {
            let nodes = view.nodes.iter();
            let observed = nodes.map(|(name, node)| (name.clone(), NodeObservation::of(node)));
            let observed = observed.collect();
            has_changed = table.observed != observed;
            (table.observed, table.observed_by) = (observed, observation_id);
        }
        let partitions = self.inner.partitions.get();
        let none = FabricPartitions::default();
        let incomplete = overlay::overlay_all(view, &table.register, partitions.unwrap_or(&none));
        drop(table);
        for partition in incomplete {
            if self.is_new_message(
                &format!("partition {}", partition.id),
                &partition.to_string(),
            ) {
                tracing::warn!("{partition}");
            }
        }
        if has_changed {
            self.inner.report_requested.notify_one();
            self.inner.observed.notify_one();
        }
    }

    fn take_missing(&self) -> MissingProviders {
        std::mem::take(&mut self.table().missing)
    }

    fn changes(&self) -> HostEvents {
        let changed = Arc::clone(&self.inner.overlay_changed);
        Box::pin(stream::unfold(changed, |changed| async move {
            changed.notified().await;
            Some((HostEvent::Devices, changed))
        }))
    }

    fn run(
        &self,
        ends: Option<watch::Receiver<u64>>,
        shutdown: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let devices = self.clone();
        Box::pin(async move {
            tokio::join!(
                devices.run_reporter(ends, shutdown.clone()),
                devices.watch_changes(shutdown.clone()),
                devices.run_programming(shutdown.clone()),
                devices.run_health_checks(shutdown)
            );
        })
    }
}

/// The last report of a node's devices to the accelerator service, and the service's answer.
pub(super) struct LastReport {
    pub(super) body: HostDevicesReport,
    pub(super) at: Instant,
    pub(super) advice: Advice,
    /// The service's answer may have changed since.
    pub(super) stale: bool,
    /// The token for waiting for changes of the answer; `None` if the service does not support waiting.
    pub(super) changes: Option<String>,
}

#[cfg(any(test, feature = "testing"))]
impl LastReport {
    /// A report that the service has just answered with this advice.
    pub(super) fn answered(advice: Advice) -> Self {
        Self {
            body: HostDevicesReport::default(),
            at: Instant::now(),
            advice,
            stale: false,
            changes: None,
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl<D> DeviceManager<D> {
    /// Pretends that the node was observed with these devices, and that the accelerator service gave this advice.
    pub fn assume(&self, node: NodeName, devices: Vec<OfferedDevice>, advice: Advice) {
        let observation = NodeObservation {
            devices,
            ..NodeObservation::default()
        };
        let mut table = self.table();
        table.observed.insert(node.clone(), observation);
        table.reports.insert(node, LastReport::answered(advice));
    }

    #[must_use]
    pub fn driver(&self) -> &Arc<D> {
        &self.inner.driver
    }

    #[must_use]
    pub fn journal(&self) -> &Arc<dyn GuestJournal> {
        &self.inner.journal
    }
}
