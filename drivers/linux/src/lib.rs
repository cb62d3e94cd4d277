//! The Linux virt driver: reports the CPUs and the memory of this machine, without a hypervisor.
//!
//! It creates no guests. It is for hosts whose inventory belongs in Placement while another program uses it, for example
//! one that runs containers. The kernel's files are read at each observation.

mod machine_files;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use berth_model::NodeName;
use berth_virt::{
    CpuSet, HostEvent, HostEvents, HostView, HypervisorInfo, NodeCapabilities, NodeCpus, NodeDisk,
    NodeView, ObserveError, PciInPlacement, ResourceModel, VirtDriver,
};
use futures_util::stream::unfold;
use tokio::time::sleep;

/// The pause between two looks for changes.
const PACE: Duration = Duration::from_secs(1);

/// The common options of drivers that this driver uses.
#[derive(Debug, Clone)]
pub struct LinuxOptions {
    /// The folder that contains the kernel's `proc` and `sys`: `/`.
    pub root: PathBuf,
    /// The node's name; `None`: the kernel's host name.
    pub host: Option<NodeName>,
    /// `[compute] cpu_shared_set`.
    pub cpu_shared_set: Option<CpuSet>,
    /// `[compute] cpu_dedicated_set`.
    pub cpu_dedicated_set: Option<CpuSet>,
    /// `[model]`.
    pub model: ResourceModel,
}

/// The driver of this machine.
#[derive(Debug, Clone)]
pub struct LinuxDriver {
    options: LinuxOptions,
}

impl LinuxDriver {
    #[must_use]
    pub fn new(options: LinuxOptions) -> Self {
        Self { options }
    }

    fn view(&self) -> Result<HostView, ObserveError> {
        let root = &self.options.root;
        let hostname = machine_files::hostname(root)?;
        let node = match &self.options.host {
            Some(host) => host.clone(),
            None => hostname.parsed(NodeName::new)?,
        };
        let seen = NodeView {
            uuid: None,
            cpus: NodeCpus {
                online: machine_files::online_cpus(root)?,
                shared: self.options.cpu_shared_set.clone(),
                dedicated: self.options.cpu_dedicated_set.clone(),
            },
            memory_mib: machine_files::memory_mib(root)?,
            disk: NodeDisk::None,
            cells: Vec::new(),
            gpus: Vec::new(),
            functions: Vec::new(),
            devices: Vec::new(),
            pci: PciInPlacement::NotReported,
            customs: Vec::new(),
            traits: BTreeSet::new(),
            capabilities: NodeCapabilities::default(),
            guests: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            model: self.options.model,
        };
        Ok(HostView {
            hypervisor: HypervisorInfo {
                kind: "linux".to_owned(),
                version: machine_files::kernel_version(root)?,
                hostname: hostname.text().to_owned(),
            },
            nodes: BTreeMap::from([(node, seen)]),
        })
    }
}

impl VirtDriver for LinuxDriver {
    fn name(&self) -> &'static str {
        "linux"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        self.view()
    }

    fn watch(&self) -> HostEvents {
        let start = (self.clone(), self.view().ok());
        Box::pin(unfold(start, |(driver, last)| async move {
            loop {
                sleep(PACE).await;
                let now = driver.view().ok();
                if now != last {
                    return Some((HostEvent::Unknown, (driver, now)));
                }
            }
        }))
    }
}
