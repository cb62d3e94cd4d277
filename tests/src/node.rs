//! One node of a cloud for scenarios: a driver, its state files and its tracker, advanced pass by pass.

mod memory_files;

use std::sync::{Arc, Mutex, PoisonError};

use berth_agent_tracker::complete::Service;
use berth_agent_tracker::node_identity::{self, NodeIdentityError, PlacementRecord, UuidSource};
use berth_agent_tracker::options::TrackerOptions;
use berth_agent_tracker::propose::ResourceTracker;
use berth_agent_tracker::report_client::{ReportClient, ReportError};
use berth_agent_tracker::startup::{self, Preview, ReviewedPlan, StartupError, StartupOutcome};
use berth_agent_tracker::tick::{self, TickError, TickReport};
use berth_model::{NodeName, ProviderUuid};
use berth_store::state_dir::{StateDir, StateFiles};
use berth_virt::{HostEvents, HostView, ObserveError, VirtDriver};
use futures_util::stream;
use tokio::time::Instant;

use crate::cloud::Cloud;
use crate::host::Host;

pub use memory_files::MemoryFiles;

/// The state file with a node's UUID.
pub const COMPUTE_ID: &str = "compute_id";

/// A driver that shows whatever view a scenario gives it.
#[derive(Debug)]
pub struct ViewDriver(Mutex<HostView>);

impl ViewDriver {
    /// A driver that shows this.
    #[must_use]
    pub fn new(view: HostView) -> Self {
        Self(Mutex::new(view))
    }

    /// Shows this from now on.
    pub fn show(&self, host: &Host) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = host.view();
    }

    #[must_use]
    pub fn view(&self) -> HostView {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl VirtDriver for ViewDriver {
    fn name(&self) -> &'static str {
        "shown"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        Ok(self.view())
    }

    fn watch(&self) -> HostEvents {
        Box::pin(stream::pending())
    }
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its identity could not be determined.
    #[error(transparent)]
    Identity(#[from] NodeIdentityError),
    /// Its startup failed.
    #[error(transparent)]
    Startup(#[from] StartupError),
    /// Its rename did not.
    #[error(transparent)]
    Rename(#[from] ReportError),
}

/// A node with one driver, across any number of processes.
pub struct Node {
    pub driver: Arc<ViewDriver>,
    pub name: NodeName,
    /// The options of its next process.
    pub options: TrackerOptions,
    /// Whether an operator has it in service.
    pub service: Service,
    files: Arc<dyn StateFiles>,
    folder: Option<tempfile::TempDir>,
}

/// A running process of a node, after its startup.
pub struct NodeProcess {
    pub tracker: ResourceTracker<ViewDriver>,
    /// What the startup did.
    pub started: StartupOutcome,
}

impl Node {
    /// A node that was never started, with state files on the disk.
    ///
    /// # Panics
    /// There is no room on the disk.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        let folder = tempfile::tempdir().expect("room for a directory");
        let files = StateDir::open(folder.path()).expect("a directory that is there");
        Self {
            folder: Some(folder),
            ..Self::with_files(host, Arc::new(files))
        }
    }

    /// A node with these state files.
    #[must_use]
    pub fn with_files(host: &Host, files: Arc<dyn StateFiles>) -> Self {
        Self {
            driver: Arc::new(ViewDriver::new(host.view())),
            name: host.name().clone(),
            options: TrackerOptions::default(),
            service: Service::Enabled,
            files,
            folder: None,
        }
    }

    #[must_use]
    pub fn files(&self) -> &Arc<dyn StateFiles> {
        &self.files
    }

    /// The folder of its state files, where they are on the disk.
    #[must_use]
    pub fn folder(&self) -> Option<&std::path::Path> {
        self.folder.as_ref().map(tempfile::TempDir::path)
    }

    /// Its root provider's UUID, once it has one.
    ///
    /// # Panics
    /// It has none yet.
    pub async fn root(&self) -> ProviderUuid {
        root_in(self.files.as_ref())
            .await
            .expect("a node that was started")
    }

    /// Who it is, and its tracker: what a start does before its first pass.
    pub async fn identified(
        &self,
        cloud: &Cloud,
    ) -> Result<(ResourceTracker<ViewDriver>, PlacementRecord), NodeIdentityError> {
        let placement = cloud.placement();
        let source = UuidSource::File(COMPUTE_ID.to_owned());
        let (files, rename) = (self.files.as_ref(), self.options.rename);
        let identity =
            node_identity::identify(&self.name, &source, files, &placement, rename).await?;
        let report = ReportClient::new(placement, self.name.clone(), identity.root, &self.options);
        let (driver, options) = (Arc::clone(&self.driver), self.options.clone());
        let tracker = ResourceTracker::new(driver, self.name.clone(), report, options)
            .with_state_files(Arc::clone(&self.files));
        Ok((tracker, identity.in_placement))
    }

    /// Starts its process: who am I, rename if accepted, startup.
    pub async fn start(&self, cloud: &Cloud) -> Result<NodeProcess, NodeError> {
        let (mut tracker, known) = self.identified(cloud).await?;
        if let PlacementRecord::Renamed { from } = &known {
            berth_agent_tracker::rename::reconcile(&mut tracker, from, Instant::now()).await?;
        }
        let view = self.driver.view();
        let now = Instant::now();
        let started =
            startup::reconcile(&mut tracker, &view, self.service, now, None, &|_, _| {}).await?;
        Ok(NodeProcess { tracker, started })
    }

    /// What a start would do.
    pub async fn preview(&self, cloud: &Cloud) -> Result<(Preview, ReviewedPlan), NodeError> {
        let (mut tracker, _) = self.identified(cloud).await?;
        let (view, now) = (self.driver.view(), Instant::now());
        Ok(startup::preview(&mut tracker, &view, self.service, now, &|_, _| {}).await?)
    }
}

impl NodeProcess {
    pub async fn tick(&mut self, node: &Node) -> Result<TickReport, TickError> {
        let view = node.driver.view();
        tick::reconcile(&mut self.tracker, &view, node.service, Instant::now()).await
    }
}

/// The UUID that these state files keep.
pub async fn root_in(files: &dyn StateFiles) -> Option<ProviderUuid> {
    let content = files.read(COMPUTE_ID).await.ok().flatten()?;
    String::from_utf8(content).ok()?.trim().parse().ok()
}
