//! An agent with guests on a fake machine, and with devices that the real Cyborg binds.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use berth_agent_api::compute_api;
use berth_agent_devices::{
    DeviceConditions as _, DeviceManager, DeviceManagerParts, DeviceOptions,
};
use berth_agent_images::InstancesPath;
use berth_agent_instances::reconcile::Reconciler;
use berth_agent_instances::{
    Accelerators, BuildContext, BuildOptions, ExternalEvents, GuestFiles, Guests, GuestsParts,
    HostResources, ReconcileOutcome,
};
use berth_agent_journal::{GuestRequest, SqlJournal};
use berth_client::AcceleratorClient;
use berth_fake::FakeDriver;
use berth_model::{ArqUuid, ConsumerUuid, NodeName, PciAddress};
use berth_virt::guest_spec::{
    CpuModel, DesiredPower, GuestBoot, GuestDevices, GuestDisks, GuestInterfaces, GuestName,
    GuestOwner, GuestSpec, GuestTopology, HostPath, ProjectId,
};
use berth_virt::{HostDeviceId, VirtDriver as _};

use crate::real_cyborg::cloud::{Cloud, FUNCTIONS, NODE};
use crate::real_cyborg::nova::EventDelivery;

pub(crate) struct Agent {
    pub(crate) guests: Guests<FakeDriver, HostResources<FakeDriver>>,
    driver: Arc<FakeDriver>,
    journal: SqlJournal,
    events: ExternalEvents,
    instances: InstancesPath,
    _folder: tempfile::TempDir,
}

impl Agent {
    /// An agent that uses this accelerator service.
    pub(crate) async fn new(cloud: &Cloud, accelerators: AcceleratorClient) -> Self {
        Self::waiting(cloud, accelerators, Duration::from_mins(2)).await
    }

    /// The same, which waits so long for a bind.
    pub(crate) async fn waiting(
        cloud: &Cloud,
        accelerators: AcceleratorClient,
        binding_timeout: Duration,
    ) -> Self {
        let tree = cloud.tree();
        let driver = FakeDriver::from_text("accelerators", &machine()).expect("a machine");
        let driver = Arc::new(driver);
        let journal = SqlJournal::in_memory().await.expect("memory");
        let events = ExternalEvents::default();
        let kept = tempfile::tempdir().expect("a folder");
        let folder = HostPath::new(&kept.path().display().to_string()).expect("a path");
        let instances = InstancesPath::new(folder.clone());
        let guests = Guests::new(GuestsParts {
            journal: Arc::new(journal.clone()),
            driver: Arc::clone(&driver),
            resources: Arc::new(HostResources::new(
                Arc::clone(&driver),
                GuestFiles::below(instances.clone()),
            )),
            accelerators: Accelerators {
                client: Some(accelerators),
                events: events.clone(),
                binding_timeout,
            },
            boot_id: "boot".to_owned(),
            max_concurrent_builds: 10,
        });
        let guests = guests.with_build_context(BuildContext {
            options: BuildOptions {
                instances: instances.clone(),
                cpu_model: CpuModel::Default,
                kernel_directories: vec![folder],
            },
            provider_trees: Arc::new(move |_| Some(Arc::clone(&tree))),
            device_conditions: None,
        });
        Self {
            guests,
            driver,
            journal,
            events,
            instances,
            _folder: kept,
        }
    }

    /// The reconciler of its guests, after it observed the host's devices and, if it reports them itself, reported
    /// them.
    pub(crate) async fn reconciler(
        &self,
        cloud: &Cloud,
    ) -> Reconciler<FakeDriver, HostResources<FakeDriver>> {
        let devices = DeviceManager::open(DeviceManagerParts {
            driver: Arc::clone(&self.driver),
            register: self.journal.devices(),
            journal: Arc::new(self.journal.clone()),
            service: Some(cloud.accelerators()),
            options: DeviceOptions::default(),
        });
        let devices = devices.await.expect("memory");
        let observation = devices.begin_observation();
        let mut view = self.driver.observe().await.expect("the driver tells");
        devices.overlay(observation, &mut view);
        devices
            .send_reports()
            .await
            .expect("Cyborg has no such route");
        let placement = cloud.placement_client();
        Reconciler::new(self.guests.clone(), Some(devices), Some(placement))
    }

    /// Cyborg's events about the guest come here.
    pub(crate) fn deliver_events_of(&self, cloud: &Cloud, guest: ConsumerUuid) {
        let journal = Arc::new(self.journal.clone());
        let router = compute_api(journal, self.events.clone(), cloud.nova.sources());
        cloud.nova.deliver(guest, EventDelivery::Agent(router));
    }

    /// Asks for the guest with these requests, and no other devices.
    pub(crate) async fn asks_for(&self, guest: ConsumerUuid, arqs: &[ArqUuid]) {
        let node = NodeName::new(NODE).expect("a name");
        let request = GuestRequest::new(node, arqs.to_vec(), spec(guest, &self.instances))
            .expect("a request");
        let accepted = self.guests.create(&request).await;
        accepted.expect("the journal takes it");
    }

    /// Until the guest runs.
    pub(crate) async fn runs(&self, guest: ConsumerUuid) {
        let end = self.guests.reconcile_instance(guest).await;
        assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    }

    /// Until the guest is refused; why.
    pub(crate) async fn refuses(&self, guest: ConsumerUuid) -> String {
        match self.guests.reconcile_instance(guest).await {
            ReconcileOutcome::Undone { reason } => {
                assert!(self.is_empty().await, "a refused guest is undone");
                reason
            }
            end => panic!("{end:?}"),
        }
    }

    /// Deletes the guest, until it is gone.
    pub(crate) async fn deletes(&self, guest: ConsumerUuid) {
        let asked = self.guests.delete(guest).await;
        asked.expect("the journal takes it");
        let end = self.guests.reconcile_instance(guest).await;
        assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
        assert!(self.devices(guest).await.is_empty());
    }

    /// The functions that the guest has on the hypervisor; none if the guest does not exist.
    pub(crate) async fn devices(&self, guest: ConsumerUuid) -> BTreeSet<PciAddress> {
        let all = self.driver.guests().await.expect("the driver tells");
        let Some(guest) = all.get(&guest) else {
            return BTreeSet::new();
        };
        let held = guest.devices.iter();
        held.filter_map(|held| match held.device {
            HostDeviceId::Function(address) => Some(address),
            HostDeviceId::Mdev(_) => None,
        })
        .collect()
    }

    async fn is_empty(&self) -> bool {
        let all = self.driver.guests().await;
        all.expect("the driver tells").is_empty()
    }
}

/// A machine with the functions that Cyborg finds.
fn machine() -> String {
    let mut text = format!(
        "[model]\nvgpu = \"per-gpu\"\nnuma = \"flat\"\npcpu = \"vcpu\"\n\n[[node]]\nname = \"{NODE}\"\n\
         memory_mib = 65536\ndisk = 500\ntraits = []\ncpus = {{ online = \"0-31\" }}\n"
    );
    for function in FUNCTIONS {
        let (vendor, product) = function.ids.split_once(':').expect("ids");
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[[node.device]]\naddress = \"{}\"\nvendor = \"{vendor}\"\nproduct = \"{product}\"\n",
            function.address
        );
    }
    text
}

fn spec(guest: ConsumerUuid, instances: &InstancesPath) -> GuestSpec {
    GuestSpec {
        uuid: guest,
        node: None,
        name: GuestName::new(&format!("guest-{guest}")).expect("a name"),
        owner: GuestOwner {
            project: ProjectId::new("service").expect("a project"),
            consumer: guest,
        },
        description: None,
        topology: GuestTopology::plain(1, 128).expect("a topology"),
        cpu_model: CpuModel::Default,
        machine: berth_virt::guest_spec::MachineOptions::default(),
        boot: GuestBoot::Disk,
        disks: GuestDisks::default(),
        interfaces: GuestInterfaces::default(),
        console_log: instances.console_log(guest).expect("a path"),
        devices: GuestDevices::default(),
        power: DesiredPower::Running,
    }
}
