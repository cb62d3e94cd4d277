//! [`PortStage`]: a conductor with a network of the real Neutron, and a check of the ports that a guest should have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use berth_client::network::PortFilter;
use berth_client::{Disposition, NetworkClient};
use berth_conductor::journal::{BootGoal, BootJournal as _};
use berth_conductor::{BootRequest, Conductor, GuestRunOutcome, InterfaceError};
use berth_model::ConsumerUuid;
use berth_tests::boot::{BootFault, BootStage, EffectSide, NODE, asked, guest};
use berth_tests::sample::one_of;
use berth_wire::conductor::RequestedNetwork;
use berth_wire::guest::ActionId;
use berth_wire::network_info::Extras;
use berth_wire::neutron::PortRecord;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::real_neutron::cloud::NetworkCloud;

/// `make test` takes every n-th of a sweep's cases. The number is odd, so that each kind of fault has its turn.
pub(super) const ONE_OF: usize = one_of(61);

/// The faults at each side of a call of Neutron.
pub(super) fn faults(at: usize, what: &str) -> Vec<(EffectSide, BootFault)> {
    let (before, after) = (
        EffectSide { at, after: false },
        EffectSide { at, after: true },
    );
    let mut faults = vec![
        (before, BootFault::Kill),
        (after, BootFault::Error),
        (before, BootFault::InternalError),
        (after, BootFault::Kill),
        (before, BootFault::Error),
    ];
    if !what.starts_with("network GET") {
        let writes = [BootFault::Late, BootFault::Conflict, BootFault::Twice];
        faults.extend(writes.map(|fault| (before, fault)));
    }
    faults
}

/// A network with a free port of the tenant's, and a conductor that may use them.
pub(super) struct PortStage {
    pub(super) stage: BootStage,
    pub(super) client: NetworkClient,
    pub(super) network: Uuid,
    pub(super) given: Uuid,
    /// All stages have one Neutron: the number before that of this stage's first guest.
    pub(super) before: u32,
}

impl PortStage {
    pub(super) async fn new(name: &str) -> Self {
        Self::over(name, BootStage::new().await).await
    }

    pub(super) async fn over(name: &str, stage: BootStage) -> Self {
        static STAGES: AtomicU32 = AtomicU32::new(0);
        let cloud = NetworkCloud::shared();
        let client = cloud.client();
        let (network, _) = cloud.network(cloud.tenant(), name, "192.0.2.0/24").await;
        let mut wanted = cloud.port_of(network.id, Uuid::nil());
        wanted.device_id = String::new();
        let given = client.create_port(&wanted).await.expect("a port");
        let (http, auth) = cloud.access();
        Self {
            stage: stage.with_networks(http, auth),
            client,
            network: network.id,
            given: given.id,
            before: STAGES.fetch_add(1, Ordering::Relaxed) * 1000,
        }
    }

    /// The n-th guest of this stage.
    pub(super) fn guest(&self, number: u32) -> ConsumerUuid {
        guest(self.before + number)
    }

    /// A guest with a new port and the given one.
    pub(super) fn request(&self, number: u32, profile: &str) -> BootRequest {
        let networks = json!([
            {"uuid": self.network, "tag": "front"},
            {"port": self.given},
        ]);
        self.request_with(number, profile, &networks)
    }

    pub(super) fn request_with(&self, number: u32, profile: &str, networks: &Value) -> BootRequest {
        asked(&json!({
            "uuid": self.guest(number).to_string(),
            "name": format!("vm{number}"),
            "project_id": NetworkCloud::shared().tenant(),
            "flavor": {"name": "small", "vcpus": 2, "ram_mb": 512, "disk_gb": 10},
            "device_profile": profile,
            "requested_networks": networks,
        }))
    }

    pub(super) async fn ports(&self, number: u32) -> Vec<PortRecord> {
        let device = *self.guest(number).as_uuid();
        self.client.ports_of_device(device).await.expect("ports")
    }

    /// The guest has one new port and the given one, both bound to its host.
    pub(super) async fn has_its_ports(&self, number: u32) {
        let ports = self.ports(number).await;
        assert_eq!(ports.len(), 2, "{ports:#?}");
        assert!(ports.iter().any(|port| port.id == self.given));
        for port in &ports {
            assert_eq!(port.host_id.as_deref(), Some(NODE));
            assert_eq!(port.vif_type.as_deref(), Some("ovs"));
            assert_eq!(port.device_owner, "compute:nova");
        }
    }

    /// A network for one more port.
    pub(super) fn wanted(&self) -> RequestedNetwork {
        RequestedNetwork {
            uuid: Some(self.network),
            tag: Some("late".to_owned()),
            ..RequestedNetwork::default()
        }
    }

    /// The guest has one more port, which its host attached.
    pub(super) async fn has_a_port_more(&self, number: u32) {
        let ports = self.ports(number).await;
        assert_eq!(ports.len(), 3, "{ports:#?}");
        let attached = self.stage.agent.attached(self.guest(number));
        let [attached] = attached.into_iter().collect::<Vec<_>>()[..] else {
            panic!("{ports:#?}")
        };
        let mut ports = ports.iter();
        let port = ports.find(|port| port.id == attached).expect("the port");
        assert_eq!(port.host_id.as_deref(), Some(NODE));
        assert!(port.description.contains(action_id(number).as_str()));
    }

    /// Nothing is left of the guest, and the given port is free.
    pub(super) async fn has_no_ports(&self, number: u32) {
        assert_eq!(self.ports(number).await, []);
        let given = self.client.port(self.given).await.expect("an answer");
        let given = given.expect("the given port");
        assert_eq!(
            (given.device_id.as_str(), given.device_owner.as_str()),
            ("", "")
        );
        assert_eq!(given.vif_type.as_deref(), Some("unbound"));
    }

    /// What is wrong about the ports of the stage's networks. Each port of an active guest is bound to it and to its host, is
    /// recorded as it is, and is no other guest's; the host has the same ports; and no other port has a guest or a host.
    pub(super) async fn wrong_ports(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let records = self.stage.journal().guests().await.expect("a journal");
        let mut owners: BTreeMap<Uuid, Vec<ConsumerUuid>> = BTreeMap::new();
        let mut details: BTreeMap<Uuid, Extras> = BTreeMap::new();
        let active = records.readable.iter();
        for record in active.filter(|record| record.goal == BootGoal::Active) {
            let guest = record.request.uuid();
            let recorded = record.ports(record.attempt).unwrap_or_default().iter();
            let recorded: BTreeSet<Uuid> = recorded.map(|port| port.port).collect();
            let on_host = self.stage.agent.ports(guest);
            if on_host != recorded {
                wrong.push(format!(
                    "guest {guest} has the ports {recorded:?}, and on its host {on_host:?}"
                ));
            }
            for port in recorded {
                owners.entry(port).or_default().push(guest);
            }
            let vifs = record.vifs().iter();
            details.extend(vifs.map(|vif| (vif.id, vif.details.clone())));
        }
        for (port, guests) in owners.iter().filter(|(_, guests)| guests.len() > 1) {
            wrong.push(format!("port {port} is of the guests {guests:?}"));
        }
        for port in self.known_ports(owners.keys().copied()).await {
            let device = port.device_id.as_str();
            let host = port.host_id.as_deref().unwrap_or_default();
            let guests = owners.get(&port.id);
            if guests.is_some() && details.get(&port.id) != port.vif_details.as_ref() {
                let (recorded, found) = (details.get(&port.id), &port.vif_details);
                wrong.push(format!(
                    "port {} is recorded with {recorded:?}, and has {found:?}",
                    port.id
                ));
            }
            let is_owned = guests.is_some_and(|guests| {
                let mut guests = guests.iter();
                guests.any(|guest| guest.to_string() == device)
            });
            if guests.is_none() && !(device.is_empty() && host.is_empty()) {
                wrong.push(format!(
                    "port {} is left to guest {device:?} on host {host:?}",
                    port.id
                ));
            }
            if guests.is_some() && !(is_owned && host == NODE) {
                wrong.push(format!(
                    "port {} of the guests {guests:?} is bound to guest {device:?} on host {host:?}",
                    port.id
                ));
            }
        }
        wrong
    }

    /// The ports of the stage's networks that servers may have, and these others.
    async fn known_ports(&self, others: impl Iterator<Item = Uuid>) -> Vec<PortRecord> {
        let filter = PortFilter {
            network: Some(self.network),
            ..PortFilter::default()
        };
        let mut ports = self.client.ports(&filter).await.expect("ports");
        // Those of routers and of OVN itself.
        ports.retain(|port| !port.device_owner.starts_with("network:"));
        for id in others.chain([self.given]) {
            if !ports.iter().any(|port| port.id == id) {
                let port = self.client.port(id).await.expect("an answer");
                ports.push(port.unwrap_or_else(|| panic!("port {id} is gone")));
            }
        }
        ports
    }

    /// Nothing is left over, doubled or missing: neither of the stage, nor of ports.
    pub(super) async fn judge(&self) {
        self.stage.judge().await;
        assert_eq!(self.wrong_ports().await, [] as [String; 0]);
    }

    /// Deletes the ports that Neutron created late.
    pub(super) async fn collect_late_ports(&self) {
        self.stage.effects.begin(None);
        let collected = self.stage.conductor().collect_late_ports().await;
        collected.expect("an answer");
    }

    pub(super) async fn boot(
        &self,
        conductor: &Conductor,
        request: &BootRequest,
    ) -> GuestRunOutcome {
        while conductor.create(request).await.is_err() {}
        arrives(conductor, request).await
    }

    /// Boots and deletes a guest until both are done or the conductor is killed; whether it was killed.
    pub(super) async fn until_killed(
        &self,
        number: u32,
        goal: Goal,
        fault: Option<(EffectSide, BootFault)>,
    ) -> bool {
        self.stage.effects.begin(fault);
        let request = self.request(number, "gpu");
        let run = async {
            let conductor = self.stage.conductor();
            match goal {
                Goal::Boot => {
                    let end = self.boot(&conductor, &request).await;
                    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
                }
                Goal::Attach => {
                    let (guest, wanted) = (self.guest(number), self.wanted());
                    let id = action_id(number);
                    while let Err(error) = conductor.attach_interface(guest, &wanted, &id).await {
                        assert!(may_be_repeated(&error, fault), "{error}");
                    }
                }
                Goal::Detach => {
                    let guest = self.guest(number);
                    let id = "detach".parse().expect("an id");
                    // After a kill the port may be gone already.
                    let added = conductor.show(guest).await.expect("a record");
                    for vif in added
                        .ports(added.attempt)
                        .unwrap_or_default()
                        .iter()
                        .skip(2)
                    {
                        while let Err(error) =
                            conductor.detach_interface(guest, vif.port, &id).await
                        {
                            assert!(may_be_repeated(&error, fault), "{error}");
                        }
                    }
                }
                Goal::Delete => {
                    if conductor.delete(self.guest(number)).await.is_ok() {
                        arrives(&conductor, &request).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            () = self.stage.effects.dies() => true,
            () = run => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    Boot,
    Delete,
    Attach,
    Detach,
}

impl Goal {
    /// What the guest needs before.
    pub(super) fn before(self) -> &'static [Self] {
        match self {
            Self::Boot => &[],
            Self::Delete | Self::Attach => &[Self::Boot],
            Self::Detach => &[Self::Boot, Self::Attach],
        }
    }
}

/// Whether the client of an attachment or detachment repeats it: nothing was decided, or another change was in the way.
pub(super) fn may_be_repeated(
    error: &InterfaceError,
    fault: Option<(EffectSide, BootFault)>,
) -> bool {
    let is_refused = fault.is_some_and(|(_, fault)| fault == BootFault::Conflict);
    is_refused || error.disposition() == Disposition::Retry
}

/// The id of an attachment.
pub(super) fn action_id(number: u32) -> ActionId {
    format!("attach-{number}").parse().expect("an id")
}

/// Works until the guest is where it should be.
pub(super) async fn arrives(conductor: &Conductor, request: &BootRequest) -> GuestRunOutcome {
    for _ in 0..20 {
        match conductor.reconcile_guest(request.uuid()).await {
            GuestRunOutcome::Blocked { .. } => {}
            end => return end,
        }
    }
    panic!(
        "it is blocked: {:?}",
        conductor.blocked_reason(request.uuid())
    );
}
