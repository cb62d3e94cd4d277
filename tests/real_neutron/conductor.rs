//! Guests with ports, booted by a conductor that is killed, or gets no answer, before and after each of its calls of Neutron.

use std::sync::atomic::{AtomicU32, Ordering};

use berth_client::{Disposition, NetworkClient};
use berth_conductor::{BootRequest, Conductor, GuestRunOutcome, InterfaceError};
use berth_model::ConsumerUuid;
use berth_tests::boot::{AgentBehaviour, BootFault, BootStage, EffectSide, NODE, asked, guest};
use berth_tests::sample::one_of;
use berth_tests::wait::poll_until;
use berth_wire::conductor::RequestedNetwork;
use berth_wire::guest::{ActionId, NetworkSource};
use berth_wire::neutron::PortRecord;
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::real_neutron::cloud::NetworkCloud;

/// `make test` takes every n-th of a sweep's cases. The number is odd, so that each kind of fault has its turn.
const ONE_OF: usize = one_of(41);

/// The faults at each side of a call of Neutron.
fn faults(at: usize, what: &str) -> Vec<(EffectSide, BootFault)> {
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
    before: u32,
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
    fn guest(&self, number: u32) -> ConsumerUuid {
        guest(self.before + number)
    }

    /// A guest with a new port and the given one.
    fn request(&self, number: u32, profile: &str) -> BootRequest {
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
    async fn has_its_ports(&self, number: u32) {
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
    fn wanted(&self) -> RequestedNetwork {
        RequestedNetwork {
            uuid: Some(self.network),
            tag: Some("late".to_owned()),
            ..RequestedNetwork::default()
        }
    }

    /// The guest has one more port, which its host attached.
    async fn has_a_port_more(&self, number: u32) {
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
    async fn has_no_ports(&self, number: u32) {
        assert_eq!(self.ports(number).await, []);
        let given = self.client.port(self.given).await.expect("an answer");
        let given = given.expect("the given port");
        assert_eq!(
            (given.device_id.as_str(), given.device_owner.as_str()),
            ("", "")
        );
        assert_eq!(given.vif_type.as_deref(), Some("unbound"));
    }

    /// Deletes the ports that Neutron created late.
    async fn collect_late_ports(&self) {
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
    async fn until_killed(
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Boot,
    Delete,
    Attach,
    Detach,
}

impl Goal {
    /// What the guest needs before.
    fn before(self) -> &'static [Self] {
        match self {
            Self::Boot => &[],
            Self::Delete | Self::Attach => &[Self::Boot],
            Self::Detach => &[Self::Boot, Self::Attach],
        }
    }
}

/// Whether the client of an attachment or detachment repeats it: nothing was decided, or another change was in the way.
fn may_be_repeated(error: &InterfaceError, fault: Option<(EffectSide, BootFault)>) -> bool {
    let is_refused = fault.is_some_and(|(_, fault)| fault == BootFault::Conflict);
    is_refused || error.disposition() == Disposition::Retry
}

/// The id of an attachment.
fn action_id(number: u32) -> ActionId {
    format!("attach-{number}").parse().expect("an id")
}

/// Works until the guest is where it should be.
async fn arrives(conductor: &Conductor, request: &BootRequest) -> GuestRunOutcome {
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

#[tokio::test]
async fn a_guest_gets_its_ports_in_order_bound_to_its_host_and_gives_them_back() {
    let stage = PortStage::new("boots").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.request(1, "gpu");
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.has_its_ports(1).await;
    let build = stage.stage.agent.guests().remove(&stage.guest(1));
    let build = build.expect("a build request");
    let vifs = build.networks.iter().map(|network| match &network.source {
        NetworkSource::Port(vif) => vif,
        other => panic!("{other:?}"),
    });
    let vifs: Vec<_> = vifs.collect();
    assert_eq!(vifs.len(), 2);
    assert_eq!(vifs[0].meta["tag"], "front");
    assert!(!vifs[0].preserve_on_delete);
    assert_eq!(vifs[0].network.label.as_deref(), Some("boots"));
    assert_eq!(vifs[1].id, stage.given);
    assert!(vifs[1].preserve_on_delete);
    conductor
        .delete(stage.guest(1))
        .await
        .expect("it is deleted");
    arrives(&conductor, &request).await;
    stage.has_no_ports(1).await;
    stage.stage.judge().await;
}

/// A stage whose host has a network card on `storage`, and whose given port is direct, on a VLAN.
async fn direct_stage(name: &str) -> PortStage {
    function_stage(name, "direct").await
}

/// A stage whose host has a network card on `storage`, and whose given port is of this kind, on a VLAN.
async fn function_stage(name: &str, vnic_type: &str) -> PortStage {
    let stage = PortStage::new(name).await;
    stage.stage.add_network_card("storage", 2).await;
    let cloud = NetworkCloud::shared();
    let network = cloud.vlan_network(name, "192.0.2.0/24").await;
    let mut wanted = cloud.port_of(network, Uuid::nil());
    wanted.device_id = String::new();
    wanted.vnic_type = Some(vnic_type.to_owned());
    let given = stage.client.create_port(&wanted).await.expect("a port");
    PortStage {
        given: given.id,
        ..stage
    }
}

impl PortStage {
    /// A guest with the direct port and a new one.
    fn direct_request(&self, number: u32) -> BootRequest {
        let networks = json!([
            {"port": self.given, "physical_network": "storage"},
            {"uuid": self.network},
        ]);
        self.request_with(number, "gpu", &networks)
    }

    /// The direct port is bound to the function that the host selected first.
    async fn has_its_function(&self) {
        self.has_its_slot("0000:85:10.0").await;
    }

    /// The direct port is bound to this function.
    async fn has_its_slot(&self, slot: &str) {
        let port = self.client.port(self.given).await.expect("an answer");
        let port = port.expect("the given port");
        assert_eq!(port.host_id.as_deref(), Some(NODE));
        assert_eq!(port.vif_type.as_deref(), Some("hw_veb"));
        let profile = port.profile.expect("a profile");
        let number = slot
            .rsplit('.')
            .next()
            .and_then(|text| text.parse::<u32>().ok());
        for (key, value) in [
            ("vf_num", json!(number)),
            ("pci_slot", json!(slot)),
            ("pci_vendor_info", json!("8086:10ca")),
            ("physical_network", json!("storage")),
            ("pf_mac_address", json!("52:54:00:00:00:85")),
        ] {
            assert_eq!(profile.get(key), Some(&value), "{key} of {profile:?}");
        }
    }

    /// The direct port is bound to no host and no function.
    async fn has_a_free_function(&self, number: u32) {
        self.has_no_ports(number).await;
        self.is_unbound().await;
    }

    /// The direct port is free.
    async fn is_unbound(&self) {
        let port = self.client.port(self.given).await.expect("an answer");
        let port = port.expect("the given port");
        assert_eq!(
            (port.device_id.as_str(), port.vif_type.as_deref()),
            ("", Some("unbound"))
        );
        let profile = port.profile.unwrap_or_default();
        assert!(profile.is_empty(), "{profile:?}");
    }
}

#[tokio::test]
async fn a_direct_port_is_bound_to_the_function_that_the_host_selects_and_is_free_again() {
    let stage = direct_stage("direct").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.direct_request(1);
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.has_its_function().await;
    // Its claim has a function of the card.
    let held = stage.stage.placement();
    let held = held.allocations(stage.guest(1)).await.expect("an answer");
    let held = held.expect("allocations").resources;
    let functions = held
        .iter()
        .filter(|((_, class), _)| class.as_str() == "SRIOV_NET_VF");
    assert_eq!(functions.map(|(_, amount)| *amount).sum::<u64>(), 1);
    conductor
        .delete(stage.guest(1))
        .await
        .expect("it is deleted");
    arrives(&conductor, &request).await;
    stage.has_a_free_function(1).await;
    stage.stage.judge().await;
}

#[tokio::test]
async fn a_macvtap_port_has_a_function_and_a_direct_physical_one_a_card_with_its_address() {
    for (vnic_type, vif_type, slot, key) in [
        ("macvtap", "hw_veb", "0000:85:10.0", "pf_mac_address"),
        (
            "direct-physical",
            "hostdev_physical",
            "0000:86:00.0",
            "device_mac_address",
        ),
    ] {
        let stage = function_stage(vnic_type, vnic_type).await;
        stage.stage.add_whole_card("storage").await;
        stage.stage.effects.begin(None);
        let conductor = stage.stage.conductor();
        let networks =
            json!([{"port": stage.given, "physical_network": "storage", "vnic_type": vnic_type}]);
        let request = stage.request_with(1, "gpu", &networks);
        let end = stage.boot(&conductor, &request).await;
        assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
        let port = stage.client.port(stage.given).await.expect("an answer");
        let port = port.expect("the given port");
        assert_eq!(port.vif_type.as_deref(), Some(vif_type));
        let profile = port.profile.expect("a profile");
        assert_eq!(profile["pci_slot"], slot);
        assert_eq!(profile.contains_key("vf_num"), vnic_type == "macvtap");
        let of_card = profile[key].as_str() == Some(&port.mac_address);
        assert_eq!(of_card, vnic_type == "direct-physical", "{profile:?}");
        conductor
            .delete(stage.guest(1))
            .await
            .expect("it is deleted");
        arrives(&conductor, &request).await;
        stage.has_a_free_function(1).await;
        stage.stage.judge().await;
    }
}

/// Its owner may change an unbound port at any time.
#[tokio::test]
async fn a_port_that_is_no_longer_direct_when_its_function_was_selected_is_not_bound() {
    let stage = direct_stage("direct-changed").await;
    stage.stage.effects.begin(None);
    let path = format!("/v2.0/ports/{}", stage.given);
    stage
        .stage
        .effects
        .before_nth(1, "agent GET /v1/guests/{uuid}", async move {
            let body = json!({"port": {"binding:vnic_type": "macvtap"}});
            NetworkCloud::shared().ask(Method::PUT, &path, &body);
        });
    let conductor = stage.stage.conductor();
    let end = stage.boot(&conductor, &stage.direct_request(1)).await;
    let GuestRunOutcome::Failed { reason } = end else {
        panic!("{end:?}")
    };
    assert!(
        reason.contains("it was direct when it was requested"),
        "{reason}"
    );
    stage.has_a_free_function(1).await;
    stage.stage.judge().await;
}

#[tokio::test]
async fn a_direct_port_is_bound_once_or_free_whatever_fails_on_the_way() {
    let stage = direct_stage("direct-sweep").await;
    let boot = async |number: u32, fault: Option<(EffectSide, BootFault)>| -> bool {
        stage.stage.effects.begin(fault);
        let request = stage.direct_request(number);
        let run = async {
            let conductor = stage.stage.conductor();
            let end = stage.boot(&conductor, &request).await;
            assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
        };
        tokio::select! {
            biased;
            () = stage.stage.effects.dies() => true,
            () = run => false,
        }
    };
    boot(1, None).await;
    let history = stage.stage.effects.history();
    let calls = history.iter().enumerate();
    // From the build request on: the host selects the function, and the conductor binds the port and tells the host.
    let calls = calls.skip_while(|(_, what)| !what.starts_with("agent "));
    let calls: Vec<_> = calls
        .filter(|(_, what)| what.starts_with("network ") || what.starts_with("agent "))
        .collect();
    let cases = calls.iter().flat_map(|(at, _)| {
        let sides = [false, true].map(|after| EffectSide { at: at + 1, after });
        sides.map(|side| [(side, BootFault::Kill), (side, BootFault::Error)])
    });
    let cases: Vec<_> = cases.flatten().collect();
    let mut number = 1;
    stage.until_killed(number, Goal::Delete, None).await;
    stage.has_a_free_function(number).await;
    for fault in cases.into_iter().step_by(one_of(19)) {
        number += 1;
        if boot(number, Some(fault)).await {
            boot(number, None).await;
        }
        stage.has_its_function().await;
        stage.until_killed(number, Goal::Delete, None).await;
        stage.has_a_free_function(number).await;
    }
    assert!(number > 4, "{calls:?}");
    stage.stage.judge().await;
}

impl PortStage {
    /// The units of network functions that the guest's claim has.
    async fn claimed_functions(&self, number: u32) -> u64 {
        let held = self.stage.placement().allocations(self.guest(number)).await;
        let held = held.expect("an answer").expect("allocations").resources;
        let functions = held
            .iter()
            .filter(|((_, class), _)| class.as_str() == "SRIOV_NET_VF");
        functions.map(|(_, amount)| *amount).sum()
    }

    /// Attaches the direct port to a guest or detaches it, until it is done or the conductor is killed; whether it was killed.
    async fn change_direct_port(
        &self,
        number: u32,
        goal: Goal,
        fault: Option<(EffectSide, BootFault)>,
    ) -> bool {
        self.stage.effects.begin(fault);
        let guest = self.guest(number);
        let wanted = RequestedNetwork {
            port: Some(self.given),
            physical_network: Some("storage".to_owned()),
            ..RequestedNetwork::default()
        };
        let (attach, detach) = (action_id(number), "detach".parse().expect("an id"));
        let run = async {
            let conductor = self.stage.conductor();
            loop {
                let done = match goal {
                    Goal::Detach => conductor.detach_interface(guest, self.given, &detach).await,
                    _ => {
                        let attached = conductor.attach_interface(guest, &wanted, &attach);
                        attached.await.map(drop)
                    }
                };
                match done {
                    Ok(()) => break,
                    Err(error) => {
                        assert_eq!(error.disposition(), Disposition::Retry, "{error}");
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

#[tokio::test]
async fn a_direct_port_is_attached_with_a_claimed_function_and_detached_whatever_fails_on_the_way()
{
    let stage = direct_stage("direct-attached").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.request_with(1, "gpu", &json!([{"uuid": stage.network}]));
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let guest = stage.guest(1);
    let mut cases = 0;
    for goal in [Goal::Attach, Goal::Detach] {
        let before = match goal {
            Goal::Attach => None,
            _ => Some(Goal::Attach),
        };
        let after = async || match goal {
            Goal::Attach => {
                stage.has_its_slot("0000:85:10.1").await;
                assert_eq!(stage.claimed_functions(1).await, 1);
                assert!(stage.stage.agent.attached(guest).contains(&stage.given));
            }
            _ => {
                stage.is_unbound().await;
                assert_eq!(stage.claimed_functions(1).await, 0);
                assert!(stage.stage.agent.attached(guest).is_empty());
            }
        };
        if let Some(before) = before {
            stage.change_direct_port(1, before, None).await;
        }
        stage.change_direct_port(1, goal, None).await;
        let calls = stage.stage.effects.history().len();
        after().await;
        stage.change_direct_port(1, Goal::Detach, None).await;
        let sides = (1..=calls).flat_map(|at| [false, true].map(|after| EffectSide { at, after }));
        for side in sides.step_by(one_of(19)) {
            for fault in [BootFault::Kill, BootFault::Error] {
                cases += 1;
                if let Some(before) = before {
                    stage.change_direct_port(1, before, None).await;
                }
                if stage.change_direct_port(1, goal, Some((side, fault))).await {
                    stage.change_direct_port(1, goal, None).await;
                }
                after().await;
                stage.change_direct_port(1, Goal::Detach, None).await;
            }
        }
    }
    assert!(cases > 4, "{cases}");
    // A host that refuses keeps nothing.
    stage.stage.effects.begin(None);
    let wanted = RequestedNetwork {
        port: Some(stage.given),
        physical_network: Some("storage".to_owned()),
        trusted: true,
        ..RequestedNetwork::default()
    };
    let (conductor, id) = (stage.stage.conductor(), action_id(7));
    let refused = conductor.attach_interface(guest, &wanted, &id);
    let refused = refused.await.expect_err("no card has trusted functions");
    assert!(
        refused.to_string().contains("no free network function"),
        "{refused}"
    );
    stage.is_unbound().await;
    // The guest takes its function with it.
    stage.change_direct_port(1, Goal::Attach, None).await;
    stage.until_killed(1, Goal::Delete, None).await;
    stage.has_a_free_function(1).await;
    stage.stage.judge().await;
}

#[tokio::test]
async fn no_port_is_left_or_made_twice_whatever_fails_on_the_way() {
    let stage = PortStage::new("sweep").await;
    let mut cases = 0;
    let mut number = 0;
    for goal in [Goal::Boot, Goal::Delete, Goal::Attach, Goal::Detach] {
        number += 1;
        for before in goal.before() {
            stage.until_killed(number, *before, None).await;
        }
        stage.until_killed(number, goal, None).await;
        let history = stage.stage.effects.history();
        stage.until_killed(number, Goal::Delete, None).await;
        let calls = history.iter().enumerate();
        let calls = calls.filter(|(_, what)| what.starts_with("network "));
        let faults = calls.flat_map(|(at, what)| faults(at + 1, what));
        for fault in faults.step_by(ONE_OF) {
            number += 1;
            cases += 1;
            for before in goal.before() {
                stage.until_killed(number, *before, None).await;
            }
            if stage.until_killed(number, goal, Some(fault)).await {
                stage.until_killed(number, goal, None).await;
            }
            if stage.stage.effects.perform_late().await {
                stage.collect_late_ports().await;
            }
            // A port that was created twice goes with its guest.
            if fault.1 != BootFault::Twice {
                match goal {
                    Goal::Boot | Goal::Detach => stage.has_its_ports(number).await,
                    Goal::Attach => stage.has_a_port_more(number).await,
                    Goal::Delete => {}
                }
            }
            stage.until_killed(number, Goal::Delete, None).await;
            stage.has_no_ports(number).await;
        }
    }
    assert!(cases > 4, "{cases}");
    stage.stage.judge().await;
}

/// The answer to a call is lost, and Neutron acts on it only after the guest was deleted.
#[tokio::test]
async fn what_neutron_does_after_a_guest_is_gone_is_undone_or_refused() {
    let stage = PortStage::new("late").await;
    let mut number = 1;
    stage.until_killed(number, Goal::Boot, None).await;
    let history = stage.stage.effects.history();
    stage.until_killed(number, Goal::Delete, None).await;
    for (call, acts) in [
        ("network POST /v2.0/ports", true),
        ("network PUT /v2.0/ports/{port_id}", false),
    ] {
        let calls = history.iter().enumerate();
        let mut calls = calls.filter(|(_, what)| *what == call);
        let last = calls.next_back().expect("a call").0;
        number += 1;
        let side = EffectSide {
            at: last + 1,
            after: false,
        };
        let fault = Some((side, BootFault::Late));
        stage.until_killed(number, Goal::Boot, fault).await;
        stage.has_its_ports(number).await;
        stage.until_killed(number, Goal::Delete, None).await;
        assert!(stage.stage.effects.perform_late().await, "{call}");
        assert_eq!(stage.ports(number).await.len(), usize::from(acts), "{call}");
        stage.collect_late_ports().await;
        stage.has_no_ports(number).await;
    }
    stage.stage.judge().await;
}

#[tokio::test]
async fn an_attempt_after_a_failed_one_has_new_ports_and_the_given_port_again() {
    let stage = PortStage::new("again").await;
    stage.stage.effects.begin(None);
    stage.stage.agent.is(AgentBehaviour::CannotBuildOne);
    let conductor = stage.stage.conductor();
    let request = stage.request(1, "gpu");
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    stage.has_its_ports(1).await;
    let made = stage.ports(1).await;
    let made = made.iter().find(|port| port.id != stage.given);
    let made = made.expect("a new port");
    assert!(
        made.description.contains("attempt 2"),
        "{}",
        made.description
    );
}

#[tokio::test]
async fn a_guest_gets_no_port_and_no_network_that_its_project_may_not_have() {
    let stage = PortStage::new("refused").await;
    let cloud = NetworkCloud::shared();
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let (network, _) = cloud
        .network("other-project", "private", "192.0.2.0/24")
        .await;
    let mut wanted = cloud.port_of(network.id, Uuid::nil());
    (wanted.tenant_id, wanted.device_id) = ("other-project".to_owned(), String::new());
    let foreign = stage.client.create_port(&wanted).await.expect("a port").id;
    let used = cloud.port_of(stage.network, Uuid::new_v4());
    let used = stage.client.create_port(&used).await.expect("a port").id;
    let unknown = Uuid::new_v4();
    for (number, networks, reason) in [
        (1, json!([{"uuid": network.id}]), "could not be found"),
        (2, json!([{"uuid": unknown}]), "could not be found"),
        (3, json!([{"port": unknown}]), "could not be found"),
        (4, json!([{"port": foreign}]), "not usable for instance"),
        (5, json!([{"port": used}]), "is still in use"),
        (
            6,
            json!([{"uuid": stage.network, "fixed_ip": "198.51.100.7"}]),
            "is not a valid IP",
        ),
    ] {
        let request = stage.request_with(number, "gpu", &networks);
        let end = stage.boot(&conductor, &request).await;
        let GuestRunOutcome::Failed { reason: shown } = end else {
            panic!("{end:?}")
        };
        assert!(shown.contains(reason), "{number}: {shown}");
        assert_eq!(stage.ports(number).await, []);
    }
    // Of a request with a bad second part, the first part is given back.
    let networks = json!([{"uuid": stage.network}, {"port": stage.given}, {"port": used}]);
    let request = stage.request_with(7, "gpu", &networks);
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Failed { .. }), "{end:?}");
    stage.has_no_ports(7).await;
    let foreign = stage.client.port(foreign).await.expect("an answer");
    assert_eq!(foreign.expect("a port").device_id, "");
    stage.stage.judge().await;
}

/// The sweep would notice a conductor that acts before it writes.
#[tokio::test]
async fn a_conductor_that_writes_no_intent_makes_a_port_twice() {
    let stage = PortStage::new("canary").await;
    stage.stage.effects.forget_intents();
    stage.until_killed(1, Goal::Boot, None).await;
    let history = stage.stage.effects.history();
    let created = history
        .iter()
        .position(|what| what == "network POST /v2.0/ports");
    let at = created.expect("a port is created") + 1;
    stage.until_killed(1, Goal::Delete, None).await;
    let side = EffectSide { at, after: true };
    let fault = Some((side, BootFault::Kill));
    assert!(stage.until_killed(2, Goal::Boot, fault).await);
    stage.until_killed(2, Goal::Boot, None).await;
    assert_eq!(stage.ports(2).await.len(), 3);
}

#[tokio::test]
async fn a_port_that_the_host_cannot_attach_is_given_back_and_one_that_it_keeps_stays() {
    let stage = PortStage::new("kept").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.request_with(1, "gpu", &json!([]));
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let guest = stage.guest(1);
    let ids = [1, 2, 3, 4, 5].map(action_id);
    let given = RequestedNetwork {
        port: Some(stage.given),
        ..RequestedNetwork::default()
    };
    stage.stage.agent.is(AgentBehaviour::KeepsItsPorts);
    for wanted in [&stage.wanted(), &given] {
        let refused = conductor.attach_interface(guest, wanted, &ids[0]);
        let refused = refused.await.expect_err("the host refuses");
        assert!(refused.to_string().contains("did not release"), "{refused}");
        stage.has_no_ports(1).await;
    }
    stage.stage.agent.is(AgentBehaviour::Well);
    let attached = conductor.attach_interface(guest, &given, &ids[1]);
    let attached = attached.await.expect("it is attached");
    assert!(attached.preserve_on_delete);
    stage.stage.agent.is(AgentBehaviour::KeepsItsPorts);
    let detach = conductor.detach_interface(guest, stage.given, &ids[2]);
    detach.await.expect_err("the host refuses");
    assert_eq!(stage.ports(1).await.len(), 1);
    stage.stage.agent.is(AgentBehaviour::Well);
    let detach = conductor.detach_interface(guest, stage.given, &ids[3]);
    detach.await.expect("it is detached");
    stage.has_no_ports(1).await;
    // A guest takes what was attached with it.
    for (wanted, id) in [(stage.wanted(), &ids[3]), (given, &ids[4])] {
        let attached = conductor.attach_interface(guest, &wanted, id).await;
        attached.expect("it is attached");
    }
    conductor.delete(guest).await.expect("it is deleted");
    arrives(&conductor, &request).await;
    stage.has_no_ports(1).await;
}

#[tokio::test]
async fn a_deletion_does_not_wait_for_an_attachment() {
    let stage = PortStage::new("interrupted").await;
    stage.stage.effects.begin(None);
    let conductor = stage.stage.conductor();
    let request = stage.request_with(1, "gpu", &json!([]));
    let end = stage.boot(&conductor, &request).await;
    assert!(matches!(end, GuestRunOutcome::Active), "{end:?}");
    let (guest, wanted, id) = (stage.guest(1), stage.wanted(), action_id(1));
    stage.stage.agent.is(AgentBehaviour::Slow);
    let attach = conductor.attach_interface(guest, &wanted, &id);
    let delete = async {
        poll_until("the port is bound", async || {
            let ports = stage.ports(1).await;
            match ports
                .iter()
                .any(|port| port.host_id.as_deref() == Some(NODE))
            {
                true => Ok(()),
                false => Err(ports),
            }
        })
        .await;
        conductor.delete(guest).await.expect("it is deleted");
    };
    let (attached, ()) = tokio::join!(attach, delete);
    let refused = attached.expect_err("the guest is deleted").to_string();
    assert!(refused.contains("was interrupted"), "{refused}");
    stage.stage.agent.is(AgentBehaviour::Well);
    arrives(&conductor, &request).await;
    stage.has_no_ports(1).await;
}
