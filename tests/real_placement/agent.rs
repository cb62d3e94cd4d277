//! One agent with the fake driver: its machine can be replaced between its runs, as an upgrade does.

use std::sync::Arc;

use berth_agent_tracker::complete::Service;
use berth_agent_tracker::node_identity::{self, UuidSource};
use berth_agent_tracker::options::{Ratios, ReservedForHost, TrackerOptions};
use berth_agent_tracker::propose::ResourceTracker;
use berth_agent_tracker::report_client::ReportClient;
use berth_agent_tracker::startup::{self, StartupOutcome};
use berth_agent_tracker::tick::{self, TickReport};
use berth_fake::{FakeDriver, Machine};
use berth_model::{AllocationRatio, NodeName, ProviderUuid};
use berth_tests::cloud::Cloud;
use berth_tests::node::{COMPUTE_ID, MemoryFiles, root_in};
use berth_virt::VirtDriver as _;
use tokio::time::Instant;

/// An agent across its lives.
pub(crate) struct Agent {
    driver: Arc<FakeDriver>,
    name: NodeName,
    files: MemoryFiles,
    options: TrackerOptions,
}

/// A running agent, after its startup.
pub(crate) struct AgentProcess {
    tracker: ResourceTracker<FakeDriver>,
    pub(crate) started: StartupOutcome,
}

impl Agent {
    /// Nothing is kept back and nothing promised twice, so that what the machine has is what is reported.
    pub(crate) fn new(machine: &Machine, name: NodeName) -> Self {
        Self {
            driver: Arc::new(FakeDriver::from_machine("machine.toml", machine)),
            name,
            files: MemoryFiles::default(),
            options: TrackerOptions {
                ratios: Ratios {
                    cpu: Some(AllocationRatio::ONE),
                    ..Ratios::default()
                },
                reserved: ReservedForHost {
                    memory_mib: 0,
                    ..ReservedForHost::default()
                },
                ..TrackerOptions::default()
            },
        }
    }

    pub(crate) fn show(&self, machine: &Machine) {
        self.driver
            .replace(&machine.to_toml())
            .expect("a machine in memory");
    }

    pub(crate) async fn root(&self) -> ProviderUuid {
        root_in(&self.files)
            .await
            .expect("an agent that was started")
    }

    pub(crate) async fn start(&self, cloud: &Cloud) -> AgentProcess {
        let placement = cloud.placement();
        let source = UuidSource::File(COMPUTE_ID.to_owned());
        let rename = self.options.rename;
        let identity =
            node_identity::identify(&self.name, &source, &self.files, &placement, rename)
                .await
                .expect("a clear identity");
        let report = ReportClient::new(placement, self.name.clone(), identity.root, &self.options);
        let (driver, options) = (Arc::clone(&self.driver), self.options.clone());
        let mut tracker = ResourceTracker::new(driver, self.name.clone(), report, options);
        let view = self.driver.observe().await.expect("a machine");
        let now = Instant::now();
        let started =
            startup::reconcile(&mut tracker, &view, Service::Enabled, now, None, &|_, _| {})
                .await
                .unwrap_or_else(|error| panic!("{}", berth_model::error_chain(&error)));
        AgentProcess { tracker, started }
    }

    pub(crate) async fn tick(&self, life: &mut AgentProcess) -> TickReport {
        let view = self.driver.observe().await.expect("a machine");
        tick::reconcile(&mut life.tracker, &view, Service::Enabled, Instant::now())
            .await
            .unwrap_or_else(|error| panic!("{}", berth_model::error_chain(&error)))
    }
}
