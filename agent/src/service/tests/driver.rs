//! [`ScriptedDriver`]: a hypervisor driver whose observations and events a test controls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_model::{NodeName, ResourceClass};
use berth_virt::{
    HostEvent, HostEvents, HostView, HypervisorInfo, NodeCpus, NodeDisk, NodeView, ObserveError,
    OfferedMdevs, PhysicalGpu, ResourceModel, VgpuModel, VirtDriver,
};
use futures_util::{StreamExt, stream};
use tokio::sync::{broadcast, watch};

/// How long an observation takes.
pub(super) const OBSERVATION_TIME: Duration = Duration::from_millis(1);

/// The result of the following observations.
#[derive(Debug, Clone)]
pub(super) enum ScriptedObservation {
    View(HostView),
    Away,
    Misconfigured,
    /// It never returns.
    Hang,
    Panic,
}

pub(super) struct ScriptedDriver {
    observation: Mutex<ScriptedObservation>,
    /// `None` after the events have ended.
    events: Mutex<Option<broadcast::Sender<HostEvent>>>,
    observed: AtomicUsize,
    /// Observations wait while this is false.
    open: watch::Sender<bool>,
}

impl ScriptedDriver {
    pub(super) fn showing(view: HostView) -> Self {
        Self {
            observation: Mutex::new(ScriptedObservation::View(view)),
            events: Mutex::new(Some(broadcast::channel(256).0)),
            observed: AtomicUsize::new(0),
            open: watch::channel(true).0,
        }
    }

    pub(super) fn show(&self, observation: ScriptedObservation) {
        *self.observation.lock().unwrap() = observation;
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut HostView)) {
        if let ScriptedObservation::View(view) = &mut *self.observation.lock().unwrap() {
            change(view);
        }
    }

    /// Gives every node this much memory, in MiB.
    pub(super) fn set_memory(&self, mib: u64) {
        self.change(|view| {
            for node in view.nodes.values_mut() {
                node.memory_mib = mib;
            }
        });
    }

    pub(super) fn event(&self) {
        self.events
            .lock()
            .unwrap()
            .as_ref()
            .unwrap()
            .send(HostEvent::Devices)
            .unwrap();
    }

    pub(super) fn end_events(&self) {
        self.events.lock().unwrap().take();
    }

    pub(super) fn observed(&self) -> usize {
        self.observed.load(Ordering::SeqCst)
    }

    pub(super) fn hold(&self) {
        self.open.send_replace(false);
    }

    pub(super) fn release(&self) {
        self.open.send_replace(true);
    }
}

impl VirtDriver for ScriptedDriver {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        self.observed.fetch_add(1, Ordering::SeqCst);
        // An observation takes time, so that a loop without a pause is detected.
        tokio::time::sleep(OBSERVATION_TIME).await;
        let observation = self.observation.lock().unwrap().clone();
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
        let target = "test:///default".to_owned();
        match observation {
            ScriptedObservation::View(view) => Ok(view),
            ScriptedObservation::Away => Err(ObserveError::Unreachable {
                target,
                reason: "connection refused".to_owned(),
            }),
            ScriptedObservation::Misconfigured => Err(ObserveError::Configuration {
                option: "[compute] cpu_shared_set".to_owned(),
                reason: "CPU 99 does not exist".to_owned(),
            }),
            ScriptedObservation::Hang => std::future::pending().await,
            ScriptedObservation::Panic => panic!("planted"),
        }
    }

    fn watch(&self) -> HostEvents {
        let listened = self.events.lock().unwrap().as_ref().unwrap().subscribe();
        stream::unfold(listened, async |mut listened| {
            Some((listened.recv().await.ok()?, listened))
        })
        .boxed()
    }
}

/// A host with these nodes; each has eight CPUs and a GPU with four virtual GPUs on the root.
pub(crate) fn host(nodes: &[&str]) -> HostView {
    let hypervisor = HypervisorInfo {
        kind: "scripted".into(),
        version: "1".into(),
        hostname: "host".into(),
    };
    let nodes = nodes
        .iter()
        .map(|name| (NodeName::new(name).unwrap(), node()));
    HostView {
        hypervisor,
        nodes: nodes.collect(),
    }
}

pub(super) fn node() -> NodeView {
    let offered = OfferedMdevs {
        mdev_type: "nvidia-558".to_owned(),
        class: ResourceClass::VGPU,
        total: 4,
    };
    let gpu = PhysicalGpu {
        address: "0000:84:00.0".parse().unwrap(),
        numa_node: None,
        offered: Some(offered),
    };
    NodeView {
        uuid: None,
        cpus: NodeCpus {
            online: "0-7".parse().unwrap(),
            ..NodeCpus::default()
        },
        memory_mib: 16_384,
        disk: NodeDisk::Local { gib: 100 },
        cells: Vec::new(),
        gpus: vec![gpu],
        functions: Vec::new(),
        devices: Vec::new(),
        pci: berth_virt::PciInPlacement::default(),
        customs: Vec::new(),
        encryption_contexts: BTreeMap::new(),
        traits: BTreeSet::new(),
        capabilities: berth_virt::NodeCapabilities::default(),
        guests: BTreeMap::new(),
        unreadable: BTreeMap::new(),
        model: ResourceModel {
            vgpu: VgpuModel::Root,
            ..ResourceModel::default()
        },
    }
}
