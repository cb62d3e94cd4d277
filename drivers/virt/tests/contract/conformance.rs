//! Violates every guarantee of the conformance suite once, to prove that the suite finds it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use berth_model::{Allocation, Allocations, DesiredTree, Homes, NodeName, ProviderTree, Trait};
use berth_virt::conformance::{Promise, Violation, check, check_recovery, check_watch};
use berth_virt::{
    HostCpuStats, HostEvent, HostEvents, HostView, ObserveError, ProviderTreeError,
    SupportedInstance, TreePair, VirtDriver, homes, provider_tree,
};

use crate::view::{card, cell, consumer, gpu, guest, host, mdevs, name, node, two_cells};

/// A driver of one machine with one planted bug, or none.
struct Planted {
    bug: Option<Promise>,
    view: HostView,
    calls: AtomicU64,
    broken: AtomicU64,
}

impl Planted {
    fn with(bug: Option<Promise>) -> Self {
        let mut view = host(machine());
        let seen = view.nodes.get_mut(&name()).unwrap();
        let first = seen.guests.get_mut(&consumer(1)).unwrap();
        match bug {
            Some(Promise::HasNodes) => view.nodes.clear(),
            Some(Promise::PartsItsCpus) => seen.cpus.dedicated = Some("0-7".parse().unwrap()),
            Some(Promise::NamesWhatItRuns) => {
                let twice = seen.capabilities.supported_instances[0].clone();
                seen.capabilities.supported_instances.push(twice);
            }
            Some(Promise::ExplainsItsMdevs) => first.mdevs = mdevs(&[9]),
            Some(Promise::GivesADeviceOnce) => first.mdevs = mdevs(&[1, 1]),
            _ => {}
        }
        Self {
            bug,
            view,
            calls: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        }
    }

    fn has(&self, bug: Promise) -> bool {
        self.bug == Some(bug)
    }

    fn call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }
}

fn machine() -> berth_virt::NodeView {
    let mut node = node();
    node.cpus.shared = Some("0-1,4-5".parse().unwrap());
    node.cpus.dedicated = Some("2-3,6-7".parse().unwrap());
    node.cells = two_cells();
    node.gpus = vec![gpu(1, "VGPU", 4), gpu(2, "VGPU", 4)];
    node.functions = vec![card(3, 4, Some(1))];
    let mut first = guest(2, 512);
    first.cells = vec![cell(1, 2, 512)];
    first.mdevs = mdevs(&[1, 2]);
    first.functions = BTreeSet::from(["03:10.0".parse().unwrap()]);
    node.guests = BTreeMap::from([(consumer(1), first), (consumer(2), guest(1, 256))]);
    node.capabilities.supported_instances = vec![SupportedInstance {
        arch: "x86_64".to_owned(),
        hv_type: "planted".to_owned(),
        vm_mode: "hvm".to_owned(),
    }];
    node
}

fn refusal(reason: &str) -> ObserveError {
    ObserveError::Refused {
        call: "observe",
        reason: reason.to_owned(),
    }
}

impl VirtDriver for Planted {
    fn name(&self) -> &'static str {
        if self.has(Promise::HasAName) {
            ""
        } else {
            "planted"
        }
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        if self.has(Promise::Observes) {
            return Err(refusal("planted"));
        }
        let breaks = self.broken.load(Ordering::Relaxed);
        if breaks == 1 && !self.has(Promise::FailsClosed) {
            return Err(refusal("broken"));
        }
        let mut view = self.view.clone();
        let call = self.call();
        let drifts =
            self.has(Promise::ObservesTheSameTwice) || (breaks == 2 && self.has(Promise::Recovers));
        if drifts {
            view.hypervisor.version = call.to_string();
        }
        Ok(view)
    }

    async fn host_cpu_stats(&self) -> Result<Option<HostCpuStats>, ObserveError> {
        let call = self.call();
        let seconds = match self.has(Promise::MeasuresItsCpus) {
            true => 1_000_000 - call,
            false => call,
        };
        Ok(Some(HostCpuStats {
            user: Duration::from_secs(seconds),
            ..HostCpuStats::default()
        }))
    }

    fn watch(&self) -> HostEvents {
        Box::pin(Events(!self.has(Promise::ReportsChanges)))
    }

    fn update_provider_tree(
        &self,
        view: &HostView,
        current: &ProviderTree,
        node: &NodeName,
    ) -> Result<DesiredTree, ProviderTreeError> {
        if !view.nodes.contains_key(node) && self.has(Promise::RefusesAnUnknownNode) {
            return Ok(DesiredTree {
                tree: current.clone(),
                moves: Vec::new(),
                held_traits: std::collections::BTreeMap::new(),
            });
        }
        let mut desired = provider_tree(view, current, node)?;
        let call = self.call();
        match self.bug {
            Some(Promise::IsPure | Promise::IsInSyncAfterAnUpdate) => {
                let counted = Trait::new(&format!("CUSTOM_{call}")).unwrap();
                desired.tree.root_mut().traits.insert(counted);
            }
            Some(Promise::StartsWithAnUpdate) => {
                let mut vast = view.clone();
                vast.nodes.get_mut(node).unwrap().memory_mib = u64::MAX;
                vast.nodes.get_mut(node).unwrap().cells.clear();
                return provider_tree(&vast, current, node);
            }
            Some(Promise::KeepsForeignParts) => {
                desired.tree.root_mut().traits.remove(&Trait::COMPUTE_NODE);
            }
            // Moved inventory also stays at its old place.
            Some(Promise::Reshapes) if !desired.moves.is_empty() => {
                let kept = current.root().inventories.clone();
                desired.tree.root_mut().inventories.extend(kept);
            }
            _ => {}
        }
        Ok(desired)
    }

    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: TreePair<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        homes(view, node, trees, allocation, all)
    }
}

/// One event, or none.
struct Events(bool);

impl futures_core::Stream for Events {
    type Item = HostEvent;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<HostEvent>> {
        if std::mem::take(&mut self.0) {
            Poll::Ready(Some(HostEvent::Unknown))
        } else {
            Poll::Pending
        }
    }
}

/// The result of a future that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn all_checks(driver: &Planted) -> Vec<Violation> {
    let set = |state: u64| async move { driver.broken.store(state, Ordering::Relaxed) };
    let mut violations = at_once(check(driver));
    violations.extend(at_once(check_watch(driver, async {}, async {})));
    violations.extend(at_once(check_recovery(driver, set(1), set(2))));
    violations
}

#[test]
fn a_sound_driver_breaks_no_promise() {
    assert_eq!(all_checks(&Planted::with(None)), []);
}

#[test]
fn each_planted_bug_is_caught() {
    for bug in [
        Promise::Observes,
        Promise::ObservesTheSameTwice,
        Promise::HasNodes,
        Promise::HasAName,
        Promise::PartsItsCpus,
        Promise::NamesWhatItRuns,
        Promise::MeasuresItsCpus,
        Promise::ExplainsItsMdevs,
        Promise::GivesADeviceOnce,
        Promise::IsPure,
        Promise::StartsWithAnUpdate,
        Promise::IsInSyncAfterAnUpdate,
        Promise::KeepsForeignParts,
        Promise::RefusesAnUnknownNode,
        Promise::Reshapes,
        Promise::ReportsChanges,
        Promise::FailsClosed,
        Promise::Recovers,
    ] {
        let violations = all_checks(&Planted::with(Some(bug)));
        assert!(
            violations.iter().any(|violation| violation.promise == bug),
            "{bug:?} is not among {violations:?}"
        );
    }
}
