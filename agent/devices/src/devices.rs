//! What is known of this host's devices, and the overlay that every look gets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use berth_agent_journal::{DeviceRegister, GuestJournal, JournalError, NamedDevice as _, Register};
use berth_agent_tracker::KnownTrees;
use berth_client::AcceleratorClient;
use berth_hook::Hook;
use berth_model::{ConsumerUuid, NodeName, ProviderUuid};
use berth_virt::{
    HostDevice, HostEvent, HostEvents, HostView, NodeView, OfferedDevice, VirtDriver,
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

/// What the service asks of the devices, whatever the driver. All but `keep` wait for nothing.
///
/// The loop takes a number ([`DeviceConditions::begin_look`]) before `observe` and calls [`DeviceConditions::overlay`] with each
/// view between `observe` and `update_provider_tree` (in `observed`, before the view goes to the nodes' passes), hands the passes
/// what [`DeviceConditions::take_missing`] gives, and takes [`DeviceConditions::changes`] for a source of events beside the
/// driver's `watch` (`Trigger::HostEvent`): what is laid over the next look has changed. Beside the loop
/// [`DeviceConditions::keep`] runs as a task until the stop.
pub trait DeviceConditions: Send + Sync + 'static {
    /// The number of a look at the host that begins now: of two looks the one that began later is right.
    fn begin_look(&self) -> ObservationId;

    /// Writes into the view what is known beside what was seen: quarantines, failed resets, devices that the accelerator
    /// service has disabled, what the vendor's check says. Devices that are sick as seen stay as they are. The view is what
    /// `look` brought; one that a later look has overtaken is written into and not believed.
    fn overlay(&self, look: ObservationId, view: &mut HostView);

    /// The providers that Placement was seen without since this was asked last: a cache that has one of them is wrong.
    fn take_missing(&self) -> MissingProviders;

    /// An event whenever the overlay of the last view would now be another one. Never ends.
    fn changes(&self) -> HostEvents;

    /// Reports, watches for changes, resets, programs and checks until `shutdown`. `ends` changes whenever a change of an instance
    /// ended (`Guests::ends` of the agent's instances).
    fn keep(
        &self,
        ends: Option<watch::Receiver<u64>>,
        shutdown: CancellationToken,
    ) -> BoxFuture<'static, ()>;
}

/// The number of a look at the host, in the order in which they began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObservationId(u64);

/// Providers that Placement was seen without, by node.
pub type MissingProviders = BTreeMap<NodeName, BTreeSet<ProviderUuid>>;

/// How devices are told and cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceOptions {
    /// How often the accelerator service is told what it knows already, so that either side may lose it (60 s). What an operator
    /// changes there is heard of before.
    pub interval: Duration,
    /// Whether devices are cleaned between two guests.
    pub scrub: Scrub,
    /// The seed of all jitter.
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

/// What devices are known through.
pub struct DevicesParts<D> {
    pub driver: Arc<D>,
    /// What is kept of them: [`berth_agent_journal::SqlJournal::devices`].
    pub register: DeviceRegister,
    pub journal: Arc<dyn GuestJournal>,
    /// The accelerator service; none where `[cyborg]` names none.
    pub service: Option<AcceleratorClient>,
    pub options: DeviceOptions,
}

/// The devices of this host. Clones are one.
pub struct Devices<D> {
    pub(super) inner: Arc<Inner<D>>,
}

impl<D> Clone for Devices<D> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

pub(super) struct Inner<D> {
    pub(super) driver: Arc<D>,
    pub(super) register: DeviceRegister,
    pub(super) journal: Arc<dyn GuestJournal>,
    pub(super) service: Option<AcceleratorClient>,
    pub(super) options: DeviceOptions,
    pub(super) program_hook: OnceLock<Hook>,
    pub(super) health_check: OnceLock<HealthCheck>,
    pub(super) trees: OnceLock<KnownTrees>,
    known: Mutex<Known>,
    /// Something is to be told.
    pub(super) stir: Notify,
    pub(super) told: Notify,
    /// Other devices are seen than before.
    pub(super) looked: Notify,
    /// The overlay has changed.
    changed: Arc<Notify>,
}

/// What is known, in memory.
#[derive(Default)]
pub(super) struct Known {
    pub(super) register: Register,
    /// By node, as it was looked at last.
    pub(super) seen: BTreeMap<NodeName, Seen>,
    /// The look that began last.
    begun: ObservationId,
    /// The look that `seen` is of.
    seen_by: ObservationId,
    /// What nobody took yet.
    pub(super) missing: MissingProviders,
    /// By node, what the accelerator service was told and answered.
    pub(super) told: BTreeMap<NodeName, LastReport>,
    /// What was being reset, or programmed, when the process before this one ended, and is to be reset anew.
    pub(super) cut_off: BTreeSet<String>,
    /// Resets that failed, by device.
    pub(super) attempts: BTreeMap<String, Attempt>,
    /// Mediated devices that this process looked for and found gone or removed: only a process before it can have left one.
    pub(super) swept: BTreeSet<String>,
    /// What the log was told of a subject last: it is told again when it changes.
    pub(super) said: BTreeMap<String, String>,
    /// When the service had no route for devices, the last time it was asked: it is another's, or something between it and
    /// this agent answered in its place.
    pub(super) no_route: Option<Instant>,
}

/// A reset that failed and is tried again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    /// How often it failed for a reason that may pass.
    pub(super) failures: u32,
    /// When it is tried again.
    pub(super) again: Instant,
}

/// A node as it was seen, before anything was laid over it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) devices: Vec<OfferedDevice>,
    /// All its guests, unreadable ones too.
    pub(super) guests: BTreeSet<ConsumerUuid>,
    /// The devices that its guests have, by name.
    pub(super) used: BTreeMap<String, ConsumerUuid>,
}

impl Seen {
    fn of(node: &NodeView) -> Self {
        let mut used = BTreeMap::new();
        for (uuid, guest) in &node.guests {
            let functions = guest.functions.iter().copied().map(HostDevice::Function);
            let mdevs = guest.mdevs.iter().map(|mdev| HostDevice::Mdev(mdev.uuid));
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

impl Known {
    /// What the accelerator service last asked for of a node.
    pub(super) fn advice(&self, node: &NodeName) -> Option<&Advice> {
        self.told.get(node).map(|told| &told.advice)
    }
}

impl<D: VirtDriver> Devices<D> {
    /// The devices as the register has them; none is seen yet. What a process before this one was resetting goes to nobody
    /// before this one has reset it.
    pub async fn open(parts: DevicesParts<D>) -> Result<Self, JournalError> {
        let register = parts.register.read().await?;
        let known = Known {
            cut_off: register.cleaning.clone(),
            register,
            ..Known::default()
        };
        Ok(Self {
            inner: Arc::new(Inner {
                driver: parts.driver,
                register: parts.register,
                journal: parts.journal,
                service: parts.service,
                options: parts.options,
                program_hook: OnceLock::new(),
                health_check: OnceLock::new(),
                trees: OnceLock::new(),
                known: Mutex::new(known),
                stir: Notify::new(),
                told: Notify::new(),
                looked: Notify::new(),
                changed: Arc::default(),
            }),
        })
    }

    /// The same, with a program for devices that are to be programmed; said once, before anything is told.
    #[must_use]
    pub fn with_program_hook(self, hook: Hook) -> Self {
        let _ = self.inner.program_hook.set(hook);
        self
    }

    /// The same, with a program that says whether a device is well; said once, before anything is kept.
    #[must_use]
    pub fn with_health_check(self, check: HealthCheck) -> Self {
        let _ = self.inner.health_check.set(check);
        self
    }

    /// The same, beside the service that shows its nodes' trees there; said once, before anything is told. Of a node without a
    /// tree nothing is told then: what its devices' providers are is not known yet.
    #[must_use]
    pub fn with_trees(self, trees: KnownTrees) -> Self {
        let _ = self.inner.trees.set(trees);
        self
    }

    /// Reads the register again, and asks for a look where the overlay is another one now.
    pub async fn refresh(&self) -> Result<(), JournalError> {
        let register = self.inner.register.read().await?;
        let mut known = self.known();
        let before = &known.register;
        let changed = before.disabled != register.disabled
            || before.sick.keys().ne(register.sick.keys())
            || before.quarantines.keys().ne(register.quarantines.keys());
        known.register = register;
        drop(known);
        if changed {
            self.ask_for_a_look();
        }
        Ok(())
    }

    /// The providers that Placement was seen without are to be made again.
    pub fn ask_for_the_missing(&self) {
        let mut known = self.known();
        let told = known.told.iter();
        let missing = told.map(|(node, told)| (node.clone(), told.advice.missing.clone()));
        let missing: Vec<_> = missing.filter(|(_, missing)| !missing.is_empty()).collect();
        for (node, missing) in missing {
            known.missing.entry(node).or_default().extend(missing);
        }
        drop(known);
        self.ask_for_a_look();
    }

    pub(super) fn ask_for_a_look(&self) {
        self.inner.changed.notify_one();
    }

    /// Somebody may have given something back: the accelerator service is asked soon.
    pub fn stir(&self) {
        for told in self.known().told.values_mut() {
            told.stale = true;
        }
        self.inner.stir.notify_one();
    }
}

impl<D> Devices<D> {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        let known = self.inner.known.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is new of the subject: for one line in the log, and not one a minute.
    pub(super) fn is_news(&self, subject: &str, text: &str) -> bool {
        let said = &mut self.known().said;
        said.insert(subject.to_owned(), text.to_owned()).as_deref() != Some(text)
    }

    /// There is nothing to say of the subject any more.
    pub(super) fn no_news(&self, subject: &str) {
        self.known().said.remove(subject);
    }
}

impl<D: VirtDriver> DeviceConditions for Devices<D> {
    fn begin_look(&self) -> ObservationId {
        let begun = &mut self.known().begun;
        begun.0 += 1;
        *begun
    }

    fn overlay(&self, look: ObservationId, view: &mut HostView) {
        self.keep_cyborgs(view);
        let mut known = self.known();
        let mut stirs = false;
        // A build looks beside the loop, and a slow look may come in after one that began later.
        if look >= known.seen_by {
            let nodes = view.nodes.iter();
            let seen = nodes.map(|(name, node)| (name.clone(), Seen::of(node)));
            let seen = seen.collect();
            stirs = known.seen != seen;
            (known.seen, known.seen_by) = (seen, look);
        }
        overlay::overlay_all(view, &known.register);
        drop(known);
        if stirs {
            self.inner.stir.notify_one();
            self.inner.looked.notify_one();
        }
    }

    fn take_missing(&self) -> MissingProviders {
        std::mem::take(&mut self.known().missing)
    }

    fn changes(&self) -> HostEvents {
        let changed = Arc::clone(&self.inner.changed);
        Box::pin(stream::unfold(changed, |changed| async move {
            changed.notified().await;
            Some((HostEvent::Devices, changed))
        }))
    }

    fn keep(
        &self,
        ends: Option<watch::Receiver<u64>>,
        shutdown: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let devices = self.clone();
        Box::pin(async move {
            tokio::join!(
                devices.run(ends, shutdown.clone()),
                devices.listen(shutdown.clone()),
                devices.program(shutdown.clone()),
                devices.check(shutdown)
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
    /// The service answered so, now, to nothing.
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
impl<D> Devices<D> {
    /// Pretends that the node was observed with these devices, and that the accelerator service gave this advice.
    pub fn assume(&self, node: NodeName, devices: Vec<OfferedDevice>, advice: Advice) {
        let seen = Seen {
            devices,
            ..Seen::default()
        };
        let mut known = self.known();
        known.seen.insert(node.clone(), seen);
        known.told.insert(node, LastReport::answered(advice));
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
