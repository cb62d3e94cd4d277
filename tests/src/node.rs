//! One node of a cloud: a driver, its state files and its tracker, driven pass by pass by a scenario.

use std::sync::{Arc, Mutex};

use berth_agent::complete::Service;
use berth_agent::node_identity::{self, IdentityError, Known, UuidSource};
use berth_agent::options::TrackerOptions;
use berth_agent::propose::ResourceTracker;
use berth_agent::report_client::ReportClient;
use berth_agent::startup::{self, Started, StartupError};
use berth_agent::tick::{self, TickError, Ticked};
use berth_model::{NodeName, ProviderUuid};
use berth_store::state_dir::{StateDir, StateFiles};
use berth_virt::{HostEvents, HostView, ObserveError, VirtDriver};
use futures_util::stream;
use tokio::time::Instant;

use crate::cloud::Cloud;

/// A driver that shows whatever view a scenario gives it.
#[derive(Debug)]
pub struct Shown(Mutex<HostView>);

impl Shown {
    /// Shows this from now on.
    pub fn show(&self, view: HostView) {
        *self.0.lock().unwrap() = view;
    }

    /// What is shown.
    #[must_use]
    pub fn view(&self) -> HostView {
        self.0.lock().unwrap().clone()
    }
}

impl VirtDriver for Shown {
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
    /// Who it is could not be told.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Its startup did not come to its end.
    #[error(transparent)]
    Startup(#[from] StartupError),
    /// Its rename did not.
    #[error(transparent)]
    Rename(#[from] berth_agent::report_client::ReportError),
}

/// A node with one driver, across any number of process lives.
pub struct Node {
    /// The driver.
    pub driver: Arc<Shown>,
    /// Its name.
    pub name: NodeName,
    /// The options of its next life.
    pub options: TrackerOptions,
    files: Arc<dyn StateFiles>,
    _folder: tempfile::TempDir,
}

/// One life of a node's process, after its startup.
pub struct Life {
    /// Its tracker.
    pub tracker: ResourceTracker<Shown>,
    /// What the startup did.
    pub started: Started,
}

impl Node {
    /// A node that was never started.
    #[must_use]
    pub fn new(name: &str, view: HostView) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            driver: Arc::new(Shown(Mutex::new(view))),
            name: NodeName::new(name).unwrap(),
            options: TrackerOptions::default(),
            files: Arc::new(StateDir::open(folder.path()).unwrap()),
            _folder: folder,
        }
    }

    /// Its state files.
    #[must_use]
    pub fn files(&self) -> &dyn StateFiles {
        self.files.as_ref()
    }

    /// Its root provider's UUID, once it has one.
    pub async fn root(&self) -> ProviderUuid {
        let content = self.files.read("compute_id").await.unwrap().unwrap();
        String::from_utf8(content).unwrap().trim().parse().unwrap()
    }

    /// Starts its process: who am I, rename if accepted, startup.
    ///
    /// # Errors
    /// As the agent's.
    pub async fn start(&self, cloud: &Cloud) -> Result<Life, NodeError> {
        let placement = cloud.placement();
        let source = UuidSource::File("compute_id".to_owned());
        let rename = self.options.rename;
        let files = self.files.as_ref();
        let identity =
            node_identity::identify(&self.name, &source, files, &placement, rename).await?;
        let report = ReportClient::new(placement, self.name.clone(), identity.root, &self.options);
        let (driver, options) = (Arc::clone(&self.driver), self.options.clone());
        let mut tracker = ResourceTracker::new(driver, self.name.clone(), report, options);
        if let Known::Renamed { from } = &identity.known {
            berth_agent::rename::reconcile(&mut tracker, from, Instant::now()).await?;
        }
        let view = self.driver.view();
        let now = Instant::now();
        let started =
            startup::reconcile(&mut tracker, &view, Service::Enabled, now, None, &|_, _| {})
                .await?;
        Ok(Life { tracker, started })
    }
}

impl Life {
    /// One tick.
    ///
    /// # Errors
    /// As the agent's.
    pub async fn tick(&mut self, node: &Node) -> Result<Ticked, TickError> {
        let view = node.driver.view();
        tick::reconcile(&mut self.tracker, &view, Service::Enabled, Instant::now()).await
    }
}
