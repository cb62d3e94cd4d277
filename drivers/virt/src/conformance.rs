//! The conformance suite: checks that a driver keeps the guarantees of the contract. Every driver's tests run it, so a
//! fake machine behaves like a real one. It needs no test framework and no runtime, and returns the violations.
//!
//! [`check`] observes a machine that does not change; [`check_guests`] creates and destroys guests, [`check_devices`]
//! gives them devices; [`check_watch`] needs an event and [`check_recovery`] needs a failure: the driver's test passes
//! functions that cause them.

mod devices;
mod foreign;
mod guests;
mod offered;
mod reshapes;
mod sample;
mod trees;

pub use devices::check_devices;
pub use guests::check_guests;
pub use sample::sample_guest;

use std::collections::BTreeSet;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use berth_model::{Disposition, NodeName};

use crate::{HostCpuStats, HostView, NodeView, VirtDriver};

/// A guarantee that every driver must give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// A machine at rest can be observed.
    Observes,
    /// Two observations of an unchanged machine are equal, including node names.
    ObservesTheSameTwice,
    /// There is at least one node.
    HasNodes,
    /// The driver has a name.
    HasAName,
    /// No CPU is both shared and dedicated.
    PartsItsCpus,
    /// The supported guest kinds are complete and listed once.
    NamesWhatItRuns,
    /// CPU statistics, if available, never decrease.
    MeasuresItsCpus,
    /// A guest's mediated device is of a GPU that is seen, or of none that is known.
    ExplainsItsMdevs,
    /// No mediated device and no function is in two guests.
    GivesADeviceOnce,
    /// Each part of a device is offered once, and in one form only.
    OffersADeviceOnce,
    /// Each offered device is a child of the root with its owner's traits. Its inventory has one unit per part; all are
    /// reserved, with the reason as a trait, if the device is unfit.
    ReportsItsDevices,
    /// A missing device is reserved with its reason while units are allocated, deleted when they are free, and restored
    /// when it is back.
    HoldsMissingDevices,
    /// The same view and tree give the same desired tree.
    IsPure,
    /// From a bare root, the wanted tree is a plain update.
    StartsWithAnUpdate,
    /// After the update, nothing is left to do.
    IsInSyncAfterAnUpdate,
    /// Foreign children, sharing providers, unknown inventories and foreign traits stay as they are.
    KeepsForeignParts,
    /// An unknown node has no tree.
    RefusesAnUnknownNode,
    /// A change of the model is a valid reshape: it resolves, keeps all allocations (including those of unknown
    /// consumers), and is not requested again.
    Reshapes,
    /// An event follows a change.
    ReportsChanges,
    /// If the machine cannot be observed, `observe` returns a retryable error instead of a view.
    FailsClosed,
    /// After a repair the machine is observed as before.
    Recovers,
    /// A spawned guest matches its specification. Further spawns change nothing.
    SpawnsOnce,
    /// All guests are listed with their owner and devices.
    ListsGuests,
    /// A power action is executed once, refused if the state does not permit it, and succeeds if there
    /// is nothing to do.
    PowersGuests,
    /// A guest has the same devices after each power action.
    KeepsDevices,
    /// A destroyed guest and its use of resources are gone. Destroying it again is not an error.
    DestroysGuests,
    /// Checking a device changes nothing, and a device that no guest may have is refused.
    ChecksDevices,
    /// Preparing a device is idempotent, and a guest can have the device afterwards.
    PreparesDevices,
    /// A mediated device created by the driver is reported as prepared by Berth until it is reset.
    ReportsPreparedDevices,
    /// After its guest was deleted, a device can be reset, repeatedly, and given to another guest.
    ResetsDevices,
}

/// A promise that a driver broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The guarantee that the driver violates.
    pub promise: Promise,
    /// The node, if it concerns one.
    pub node: Option<NodeName>,
    /// What the check observed instead.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.promise)?;
        if let Some(node) = &self.node {
            write!(f, " on {node}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

fn broken(promise: Promise, node: Option<&NodeName>, detail: impl fmt::Display) -> Violation {
    Violation {
        promise,
        node: node.cloned(),
        detail: detail.to_string(),
    }
}

/// Checks a machine that does not change. Read-only. Returns the violations.
pub async fn check(driver: &impl VirtDriver) -> Vec<Violation> {
    let view = match driver.observe().await {
        Ok(view) => view,
        Err(error) => return vec![broken(Promise::Observes, None, error)],
    };
    let mut violations = Vec::new();
    match driver.observe().await {
        Ok(again) if again == view => {}
        Ok(_) => violations.push(broken(
            Promise::ObservesTheSameTwice,
            None,
            "the second view differs from the first",
        )),
        Err(error) => violations.push(broken(Promise::Observes, None, error)),
    }
    if driver.name().is_empty() {
        violations.push(broken(Promise::HasAName, None, "the name is empty"));
    }
    if view.nodes.is_empty() {
        violations.push(broken(Promise::HasNodes, None, "the view has no node"));
    }
    for (node, seen) in &view.nodes {
        violations.extend(cpus(node, seen));
        violations.extend(capabilities(node, seen));
        violations.extend(devices(node, seen));
        violations.extend(offered::check(driver, &view, node));
        violations.extend(trees::check(driver, &view, node));
        violations.extend(foreign::check(driver, &view, node));
        violations.extend(reshapes::check(driver, &view, node));
    }
    violations.extend(trees::check_unknown_node(driver, &view));
    violations.extend(cpu_stats(driver).await);
    violations
}

/// Watches, lets `change` happen, and waits for an event until `patience` ends (a sleep of the caller's runtime).
pub async fn check_watch(
    driver: &impl VirtDriver,
    change: impl Future<Output = ()>,
    patience: impl Future<Output = ()>,
) -> Vec<Violation> {
    let mut events = driver.watch();
    change.await;
    let mut patience = pin!(patience);
    let verdict = poll_fn(|context| match events.as_mut().poll_next(context) {
        Poll::Ready(Some(_)) => Poll::Ready(None),
        Poll::Ready(None) => Poll::Ready(Some("the stream ended before the driver")),
        Poll::Pending => {
            let waited = patience.as_mut().poll(context);
            waited.map(|()| Some("no event followed the change"))
        }
    });
    let verdict = verdict.await;
    verdict
        .map(|detail| broken(Promise::ReportsChanges, None, detail))
        .into_iter()
        .collect()
}

/// Breaks and repairs the machine: in between, `observe` must fail with a retryable error.
pub async fn check_recovery(
    driver: &impl VirtDriver,
    breaks: impl Future<Output = ()>,
    repairs: impl Future<Output = ()>,
) -> Vec<Violation> {
    let before = driver.observe().await;
    breaks.await;
    let while_broken = driver.observe().await;
    repairs.await;
    let after = driver.observe().await;
    let mut violations = Vec::new();
    match while_broken {
        Ok(_) => violations.push(broken(
            Promise::FailsClosed,
            None,
            "a broken machine was observed without an error",
        )),
        Err(error) if error.disposition() == Disposition::Retry => {}
        Err(error) => violations.push(broken(
            Promise::FailsClosed,
            None,
            format!("{error}: not to be retried"),
        )),
    }
    match (before, after) {
        (Ok(before), Ok(after)) if before == after => {}
        (Ok(_), Ok(_)) => violations.push(broken(
            Promise::Recovers,
            None,
            "the repaired machine is observed differently",
        )),
        (Err(error), _) => violations.push(broken(Promise::Observes, None, error)),
        (_, Err(error)) => violations.push(broken(Promise::Recovers, None, error)),
    }
    violations
}

fn cpus(node: &NodeName, seen: &NodeView) -> Option<Violation> {
    let cpus = &seen.cpus;
    let both = cpus.shared_online().intersection(&cpus.dedicated_online());
    (!both.is_empty()).then(|| {
        let detail = format!("CPUs {both} are shared and dedicated");
        broken(Promise::PartsItsCpus, Some(node), detail)
    })
}

fn capabilities(node: &NodeName, seen: &NodeView) -> Vec<Violation> {
    let capabilities = &seen.capabilities;
    let mut wrong = Vec::new();
    let mut listed = BTreeSet::new();
    for instance in &capabilities.supported_instances {
        let words = [&instance.arch, &instance.hv_type, &instance.vm_mode];
        if words.iter().any(|word| word.is_empty()) {
            wrong.push(format!(
                "the supported instance {instance:?} has an empty member"
            ));
        }
        if !listed.insert(instance) {
            wrong.push(format!(
                "the supported instance {instance} is reported twice"
            ));
        }
    }
    let processor = capabilities.processor.as_ref();
    if let Some(topology) = processor.and_then(|processor| processor.topology) {
        let counts = [
            topology.cells,
            topology.sockets,
            topology.cores,
            topology.threads,
        ];
        if counts.contains(&0) {
            wrong.push(format!("its processor topology has a zero: {topology:?}"));
        }
    }
    wrong
        .into_iter()
        .map(|detail| broken(Promise::NamesWhatItRuns, Some(node), detail))
        .collect()
}

async fn cpu_stats(driver: &impl VirtDriver) -> Option<Violation> {
    let detail = match (driver.host_cpu_stats().await, driver.host_cpu_stats().await) {
        (Ok(None), Ok(None)) => return None,
        (Ok(Some(first)), Ok(Some(second))) => {
            let times = |stats: HostCpuStats| [stats.kernel, stats.user];
            let fell = times(first).into_iter().zip(times(second));
            if fell.clone().all(|(first, second)| first <= second) {
                return None;
            }
            format!("its CPUs had done {first:?}, and then {second:?}")
        }
        (first, second) => format!("first it returned {first:?}, and then {second:?}"),
    };
    Some(broken(Promise::MeasuresItsCpus, None, detail))
}

fn devices(node: &NodeName, seen: &NodeView) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut given = BTreeSet::new();
    for (uuid, guest) in &seen.guests {
        for mdev in &guest.mdevs {
            if let Some(parent) = mdev.parent
                && !seen.gpus.iter().any(|gpu| gpu.address == parent)
                && !seen.devices.iter().any(|device| device.address == parent)
            {
                let detail = format!("guest {uuid} uses GPU {parent}, which is not seen");
                violations.push(broken(Promise::ExplainsItsMdevs, Some(node), detail));
            }
        }
        let mdevs = guest.mdevs.iter().map(|mdev| mdev.uuid.to_string());
        let functions = guest.functions.iter().map(ToString::to_string);
        for device in mdevs.chain(functions) {
            if !given.insert(device.clone()) {
                let detail = format!("{device} is in two guests");
                violations.push(broken(Promise::GivesADeviceOnce, Some(node), detail));
            }
        }
    }
    violations
}

/// The view with one node changed.
fn changed(view: &HostView, node: &NodeName, change: impl FnOnce(&mut NodeView)) -> HostView {
    let mut view = view.clone();
    if let Some(seen) = view.nodes.get_mut(node) {
        change(seen);
    }
    view
}
