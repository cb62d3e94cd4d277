//! The fault sweep: each operation is killed before and after each of its calls, and each recovery likewise.

use berth_agent_journal::samples::{guest, request};
use berth_agent_journal::{GuestJournal as _, GuestRequest, NetworkFunction};
use berth_virt::NetworkFunctionFacts;
use berth_virt::guest_spec::{
    GuestDevice, GuestInterface, GuestInterfaces, GuestPort, GuestSpec, InterfaceSource, Label,
    LinkName, PciManagement, PlugSignal, PortConnection,
};
use berth_wire::guest::ActionId;
use uuid::Uuid;

use crate::fault_harness::{FaultHarness, FaultPoint, InjectedFault, PlantedBug, SimulatedFailure};
use crate::guests::Guests;
use crate::outcome::ReconcileOutcome;
use crate::tests::invariants;

fn port() -> Uuid {
    Uuid::from_u128(7)
}

/// The interface of a port that is attached later.
fn interface() -> GuestInterface {
    let connection = PortConnection::OpenVswitch {
        bridge: LinkName::new("br-int").unwrap(),
        signal: PlugSignal::OvnInstalled,
    };
    let network = Label::new("private").unwrap();
    let port = GuestPort::new(port(), network, Vec::new(), None, connection).unwrap();
    GuestInterface {
        mac: "fa:16:3e:00:00:07".parse().unwrap(),
        source: InterfaceSource::Port(Box::new(port)),
    }
}

/// A guest with two accelerator requests and a port on the switch.
fn request_with_port() -> GuestRequest {
    let plain = request(1, &[1, 2]);
    let spec = GuestSpec {
        interfaces: GuestInterfaces::new(vec![interface()]).unwrap(),
        ..plain.spec().clone()
    };
    let arqs = plain.arqs().iter().copied().collect();
    GuestRequest::new(plain.node().clone(), arqs, spec).unwrap()
}

const FUNCTION: &str = "0000:05:10.2";

/// The interface of a direct port that is bound to the function.
fn direct_interface() -> GuestInterface {
    let connection = PortConnection::NetworkFunction {
        address: FUNCTION.parse().unwrap(),
        vlan: Some(42),
        trusted: false,
    };
    let network = Label::new("storage").unwrap();
    let port = GuestPort::new(port(), network, Vec::new(), None, connection).unwrap();
    GuestInterface {
        mac: "fa:16:3e:00:00:08".parse().unwrap(),
        source: InterfaceSource::Port(Box::new(port)),
    }
}

/// A guest with two accelerator requests and a direct port that is not bound yet.
fn request_with_function() -> GuestRequest {
    let plain = request(1, &[1, 2]);
    plain.with_function(function(), function_device()).unwrap()
}

fn function_device() -> GuestDevice {
    GuestDevice::Pci {
        address: FUNCTION.parse().unwrap(),
        managed: PciManagement::Hypervisor,
    }
}

fn function() -> NetworkFunction {
    NetworkFunction {
        port: port(),
        address: FUNCTION.parse().unwrap(),
        vendor_id: 0x8086,
        product_id: 0x10ca,
        physical_network: "storage".to_owned(),
        facts: NetworkFunctionFacts {
            number: Some(1),
            physical_mac: None,
        },
    }
}

/// An operation, as a client runs it.
#[derive(Debug, Clone, Copy)]
enum ClientOperation {
    Spawn,
    SpawnFails(SimulatedFailure),
    SpawnAndDelete,
    FailAndDelete(SimulatedFailure),
    SpawnWithPort,
    SpawnWithPortFails(SimulatedFailure),
    SpawnWithPortAndDelete,
    Attach,
    AttachFails(SimulatedFailure),
    AttachAndDetach,
    AttachAndDelete,
    AttachFunction,
    AttachFunctionFails,
    AttachFunctionAndDetach,
    AttachFunctionAndDelete,
    BindPorts,
    BindPortsAndDelete,
}

const OPERATIONS: [ClientOperation; 23] = [
    ClientOperation::Spawn,
    ClientOperation::SpawnFails(SimulatedFailure::BindFailed(2)),
    ClientOperation::SpawnFails(SimulatedFailure::DeviceUnhealthy(2)),
    ClientOperation::SpawnFails(SimulatedFailure::PrepareFails(2)),
    ClientOperation::SpawnFails(SimulatedFailure::DefineFails),
    ClientOperation::SpawnFails(SimulatedFailure::StartFails),
    ClientOperation::SpawnAndDelete,
    ClientOperation::FailAndDelete(SimulatedFailure::StartFails),
    ClientOperation::SpawnWithPort,
    ClientOperation::SpawnWithPortFails(SimulatedFailure::StartFails),
    ClientOperation::SpawnWithPortFails(SimulatedFailure::PortTimesOut),
    ClientOperation::SpawnWithPortAndDelete,
    ClientOperation::Attach,
    ClientOperation::AttachFails(SimulatedFailure::AttachFails),
    ClientOperation::AttachFails(SimulatedFailure::PortTimesOut),
    ClientOperation::AttachAndDetach,
    ClientOperation::AttachAndDelete,
    ClientOperation::AttachFunction,
    ClientOperation::AttachFunctionFails,
    ClientOperation::AttachFunctionAndDetach,
    ClientOperation::AttachFunctionAndDelete,
    ClientOperation::BindPorts,
    ClientOperation::BindPortsAndDelete,
];

impl ClientOperation {
    async fn harness(self) -> FaultHarness {
        let harness = FaultHarness::new().await;
        harness.bind(1, &[1, 2]);
        if let Self::SpawnFails(failure)
        | Self::FailAndDelete(failure)
        | Self::SpawnWithPortFails(failure)
        | Self::AttachFails(failure) = self
        {
            harness.add_failure(failure);
        }
        if matches!(self, Self::AttachFunctionFails) {
            harness.add_failure(SimulatedFailure::AttachFails);
        }
        harness
    }

    fn deletes(self) -> bool {
        matches!(
            self,
            Self::SpawnAndDelete
                | Self::FailAndDelete(_)
                | Self::SpawnWithPortAndDelete
                | Self::AttachAndDelete
                | Self::AttachFunctionAndDelete
                | Self::BindPortsAndDelete
        )
    }

    /// The request of the guest; with a function for a direct port, if the operation binds one.
    fn request(self) -> GuestRequest {
        match self {
            Self::BindPorts | Self::BindPortsAndDelete => request_with_function(),
            Self::SpawnWithPort | Self::SpawnWithPortFails(_) | Self::SpawnWithPortAndDelete => {
                request_with_port()
            }
            _ => request(1, &[1, 2]),
        }
    }

    /// Attaches a port, and detaches it.
    async fn change_interfaces<D, R>(self, guests: &Guests<D, R>)
    where
        D: berth_virt::VirtDriver,
        R: crate::resources::GuestResources,
    {
        let attach: ActionId = "attach".parse().unwrap();
        let detach: ActionId = "detach".parse().unwrap();
        let is_function = matches!(
            self,
            Self::AttachFunction
                | Self::AttachFunctionFails
                | Self::AttachFunctionAndDetach
                | Self::AttachFunctionAndDelete
        );
        let attaches = matches!(
            self,
            Self::Attach | Self::AttachFails(_) | Self::AttachAndDetach | Self::AttachAndDelete
        );
        if !attaches && !is_function {
            return;
        }
        let before = guests.show(guest(1)).await.unwrap();
        let fails = matches!(self, Self::AttachFails(_) | Self::AttachFunctionFails);
        // A client does not repeat what was answered.
        if !before.overrides.has_recorded(Some(&detach)) {
            let interface = match is_function {
                true => direct_interface(),
                false => interface(),
            };
            if is_function && before.function_of(port()).is_none() {
                let claimed = guests.claim_function(&before, function(), function_device());
                let _ = claimed.await.unwrap();
            }
            let attached = guests.attach_interface(guest(1), interface, Some(&attach));
            let attached = attached.await;
            assert_eq!(attached.is_err(), fails, "{attached:?}");
        }
        if matches!(
            self,
            Self::AttachAndDetach | Self::AttachFunctionAndDetach | Self::AttachFunctionFails
        ) {
            let detached = guests.detach_interface(guest(1), port(), Some(&detach));
            let _ = detached.await.unwrap();
        }
    }

    /// Runs the operation as a client that repeats it after each restart of the agent.
    async fn run(self, harness: &FaultHarness) {
        let guests = harness.guests();
        if !self.deletes() || !self.is_deleted(harness, &guests).await {
            // A client repeats unanswered requests, but does not recreate what is being deleted.
            // A conductor does not repeat a build that has ended.
            let attaches = guests
                .show(guest(1))
                .await
                .is_ok_and(|record| *record.request.spec() != *self.request().spec());
            if !attaches {
                let asked = guests.create(&self.request()).await;
                assert!(asked.is_ok() || self.deletes(), "{asked:?}");
            }
            let mut end = guests.reconcile_instance(guest(1)).await;
            if matches!(end, ReconcileOutcome::AwaitsPorts) {
                let bound = guests.bind_ports(guest(1), &[direct_interface()]).await;
                let _ = bound.unwrap();
                end = guests.reconcile_instance(guest(1)).await;
            }
            assert!(!matches!(end, ReconcileOutcome::Blocked { .. }), "{end:?}");
            if matches!(end, ReconcileOutcome::Settled) {
                self.change_interfaces(&guests).await;
            }
        }
        if self.deletes() {
            guests.delete(guest(1)).await.ok();
            let end = guests.reconcile_instance(guest(1)).await;
            assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
        }
    }

    /// Whether the deletion finished before the kill: its requests are gone, so no client repeats the creation.
    async fn is_deleted<D, R>(self, harness: &FaultHarness, guests: &Guests<D, R>) -> bool
    where
        D: berth_virt::VirtDriver,
        R: crate::resources::GuestResources,
    {
        harness.world().arqs.is_empty() && guests.list().await.is_ok_and(|all| all.is_empty())
    }

    async fn check(self, harness: &FaultHarness) {
        invariants::check_at_rest(harness).await;
        match self {
            Self::Spawn
            | Self::AttachFails(_)
            | Self::AttachAndDetach
            | Self::AttachFunctionFails
            | Self::AttachFunctionAndDetach => {
                assert_eq!(harness.devices_of_running_guest(1).len(), 2);
                assert!(harness.world().plugged.is_empty());
                let record = harness.journal().guest(guest(1)).await.unwrap().unwrap();
                assert_eq!(record.request, request(1, &[1, 2]));
            }
            Self::Attach | Self::SpawnWithPort => {
                assert_eq!(harness.devices_of_running_guest(1).len(), 2);
                let plugged: Vec<_> = harness.world().plugged.keys().copied().collect();
                assert_eq!(plugged, [port()]);
            }
            Self::SpawnFails(_) | Self::SpawnWithPortFails(_) => {
                assert!(!harness.exists_on_hypervisor(1));
                assert!(harness.world().plugged.is_empty());
                assert_eq!(harness.world().arqs.len(), 2, "unbound, not deleted");
            }
            Self::BindPorts | Self::AttachFunction => {
                // Those of its accelerator requests, and the function of its port.
                assert_eq!(harness.devices_of_running_guest(1).len(), 3);
            }
            Self::SpawnAndDelete
            | Self::FailAndDelete(_)
            | Self::SpawnWithPortAndDelete
            | Self::AttachAndDelete
            | Self::AttachFunctionAndDelete
            | Self::BindPortsAndDelete => {
                assert!(harness.world().plugged.is_empty());
                assert!(!harness.exists_on_hypervisor(1));
                harness.only_foreign_requests_are_left();
            }
        }
    }

    /// Runs until it is finished or killed. Returns whether it was killed.
    async fn until_killed(self, harness: &FaultHarness, kill: Option<FaultPoint>) -> bool {
        harness.kill_at(kill);
        tokio::select! {
            biased;
            () = harness.wait_for_kill() => true,
            () = self.run(harness) => false,
        }
    }
}

fn kills(crossings: usize) -> impl Iterator<Item = FaultPoint> {
    (1..=crossings).flat_map(|at| [false, true].map(|after| FaultPoint { at, after }))
}

#[tokio::test]
async fn the_record_keeps_an_interface_whose_function_could_not_be_unplugged_until_it_is_detached()
{
    for (interface, has_function) in [(direct_interface(), true), (interface(), false)] {
        let harness = ClientOperation::Spawn.harness().await;
        assert!(!ClientOperation::Spawn.until_killed(&harness, None).await);
        for failure in [SimulatedFailure::AttachFails, SimulatedFailure::UnplugFails] {
            harness.add_failure(failure);
        }
        let guests = harness.guests();
        if has_function {
            let record = guests.show(guest(1)).await.unwrap();
            let claimed = guests.claim_function(&record, function(), function_device());
            let _ = claimed.await.unwrap();
        }
        let refused = guests.attach_interface(guest(1), interface, None).await;
        assert!(refused.is_err(), "{refused:?}");
        let record = guests.show(guest(1)).await.unwrap();
        assert_eq!(
            record.interfaces().ports().count(),
            usize::from(has_function)
        );
        if has_function {
            let refused = guests.detach_interface(guest(1), port(), None).await;
            assert!(refused.unwrap_err().to_string().contains("does not answer"));
        }
        harness.world().failures.clear();
        let detached = guests.detach_interface(guest(1), port(), None).await;
        let _ = detached.unwrap();
        let record = guests.show(guest(1)).await.unwrap();
        assert_eq!(record.request, request(1, &[1, 2]));
        assert_eq!(record.interfaces().ports().count(), 0);
    }
}

#[tokio::test]
async fn a_kill_at_any_effect_leaves_nothing_and_duplicates_nothing() {
    let mut cases = 0;
    for operation in OPERATIONS {
        let harness = operation.harness().await;
        assert!(!operation.until_killed(&harness, None).await);
        let crossings = harness.count();
        operation.check(&harness).await;
        for kill in kills(crossings) {
            let harness = operation.harness().await;
            let killed = operation.until_killed(&harness, Some(kill)).await;
            assert!(killed, "{operation:?} finished before {kill:?}");
            invariants::check_always(&harness).await;
            assert!(!operation.until_killed(&harness, None).await);
            operation.check(&harness).await;
            cases += 1;
        }
    }
    assert!(cases > 300, "{cases} cases");
}

#[tokio::test]
async fn a_kill_in_the_recovery_from_a_kill_is_no_worse() {
    let mut cases = 0;
    for operation in [
        ClientOperation::SpawnAndDelete,
        ClientOperation::SpawnFails(SimulatedFailure::StartFails),
    ] {
        let clean = operation.harness().await;
        operation.until_killed(&clean, None).await;
        // Only some first kills, because all combinations take minutes; for these, every call of the recovery.
        for first in kills(clean.count()).step_by(13) {
            for second in kills(usize::MAX) {
                let harness = operation.harness().await;
                assert!(operation.until_killed(&harness, Some(first)).await);
                let killed = operation.until_killed(&harness, Some(second)).await;
                invariants::check_always(&harness).await;
                assert!(!operation.until_killed(&harness, None).await);
                operation.check(&harness).await;
                cases += 1;
                if !killed {
                    break;
                }
            }
        }
    }
    assert!(cases > 300, "{cases} cases");
}

/// A client sees an error now and then, while the agent lives and retries.
#[tokio::test]
async fn an_error_at_any_point_before_or_after_its_effect_ends_done_or_undone() {
    let mut cases = 0;
    for operation in [
        ClientOperation::Spawn,
        ClientOperation::SpawnFails(SimulatedFailure::StartFails),
        ClientOperation::SpawnAndDelete,
        ClientOperation::SpawnWithPortAndDelete,
    ] {
        let clean = operation.harness().await;
        operation.until_killed(&clean, None).await;
        for point in kills(clean.count()) {
            let harness = operation.harness().await;
            harness.fault_at(Some(point), InjectedFault::Error);
            let guests = harness.guests();
            // The answer may be the injected error; the client repeats the request.
            for _ in 0..2 {
                guests.create(&operation.request()).await.ok();
            }
            let mut end = guests.reconcile_instance(guest(1)).await;
            for _ in 0..2 {
                if matches!(end, ReconcileOutcome::Blocked { .. }) {
                    invariants::check_always(&harness).await;
                    end = guests.reconcile_instance(guest(1)).await;
                }
            }
            assert!(
                matches!(
                    end,
                    ReconcileOutcome::Settled | ReconcileOutcome::Undone { .. }
                ),
                "{operation:?} at {point:?}: {end:?}"
            );
            invariants::check_at_rest(&harness).await;
            if operation.deletes() {
                for _ in 0..2 {
                    guests.delete(guest(1)).await.ok();
                }
                while !matches!(
                    guests.reconcile_instance(guest(1)).await,
                    ReconcileOutcome::Gone
                ) {}
                operation.check(&harness).await;
            }
            cases += 1;
        }
    }
    assert!(cases > 150, "{cases} cases");
}

/// The switch or the hypervisor gives an error once, before or after its effect, and the client repeats the attachment.
#[tokio::test]
async fn an_error_at_any_point_of_an_attachment_ends_with_the_port_or_without_it() {
    let spawn = ClientOperation::Spawn;
    let attached = ClientOperation::AttachAndDetach;
    let (clean, whole) = (spawn.harness().await, attached.harness().await);
    spawn.until_killed(&clean, None).await;
    attached.until_killed(&whole, None).await;
    let mut cases = 0;
    for point in kills(whole.count()).filter(|point| point.at > clean.count()) {
        let harness = spawn.harness().await;
        spawn.run(&harness).await;
        let at = point.at - clean.count();
        harness.fault_at(Some(FaultPoint { at, ..point }), InjectedFault::Error);
        let guests = harness.guests();
        let (attach, detach): (ActionId, ActionId) =
            ("attach".parse().unwrap(), "detach".parse().unwrap());
        let mut tries = 0;
        while let Err(error) = guests
            .attach_interface(guest(1), interface(), Some(&attach))
            .await
        {
            tries += 1;
            assert!(tries < 3, "{point:?}: {error}");
        }
        invariants::check_at_rest(&harness).await;
        assert!(harness.world().plugged.contains_key(&port()), "{point:?}");
        while guests
            .detach_interface(guest(1), port(), Some(&detach))
            .await
            .is_err()
        {
            tries += 1;
            assert!(tries < 3, "{point:?}");
        }
        attached.check(&harness).await;
        cases += 1;
    }
    assert!(cases > 10, "{cases} cases");
}

#[tokio::test]
async fn a_deletion_does_not_wait_for_a_port_that_never_works() {
    let harness = ClientOperation::Spawn.harness().await;
    ClientOperation::Spawn.run(&harness).await;
    harness.add_failure(SimulatedFailure::PortNeverWorks);
    let guests = harness.guests();
    let attach = guests.attach_interface(guest(1), interface(), None);
    let delete = async {
        while harness.world().plugged.is_empty() {
            tokio::task::yield_now().await;
        }
        guests.delete(guest(1)).await.unwrap();
    };
    let (attached, ()) = tokio::join!(attach, delete);
    let refused = attached.unwrap_err().to_string();
    assert!(refused.contains("is busy (destroy)"), "{refused}");
    let end = guests.reconcile_instance(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Gone), "{end:?}");
    ClientOperation::AttachAndDelete.check(&harness).await;
}

#[tokio::test]
async fn a_port_that_does_not_work_in_time_is_unplugged_with_the_reason() {
    let failure = SimulatedFailure::PortTimesOut;
    let spawn = ClientOperation::SpawnWithPortFails(failure);
    let harness = spawn.harness().await;
    spawn.run(&harness).await;
    spawn.check(&harness).await;
    let record = harness.journal().guest(guest(1)).await.unwrap().unwrap();
    let reason = format!("{:?}", record.goal);
    assert!(reason.contains("(vif_plugging_timeout)"), "{reason}");
    // A running guest stays as it is.
    let spawn = ClientOperation::Spawn;
    let harness = spawn.harness().await;
    spawn.run(&harness).await;
    harness.add_failure(failure);
    let guests = harness.guests();
    let attached = guests.attach_interface(guest(1), interface(), None).await;
    let refused = attached.unwrap_err().to_string();
    assert!(refused.contains("(vif_plugging_timeout)"), "{refused}");
    spawn.check(&harness).await;
}

#[tokio::test]
async fn a_guest_starts_after_a_host_boot_in_the_middle_of_an_attachment_or_detachment() {
    let (spawn, detach) = (
        ClientOperation::Spawn,
        ClientOperation::AttachFunctionAndDetach,
    );
    let (clean, whole) = (spawn.harness().await, detach.harness().await);
    spawn.until_killed(&clean, None).await;
    detach.until_killed(&whole, None).await;
    let points = kills(whole.count()).filter(|point| point.at > clean.count());
    for point in points {
        let harness = detach.harness().await;
        assert!(detach.until_killed(&harness, Some(point)).await);
        harness.reboot_host();
        let end = harness.guests().sync_one(guest(1)).await;
        assert!(
            matches!(end, ReconcileOutcome::Settled),
            "{point:?}: {end:?}"
        );
        invariants::check_always(&harness).await;
        assert!(!detach.until_killed(&harness, None).await);
        detach.check(&harness).await;
    }
}

#[tokio::test]
async fn an_attached_port_is_there_before_its_guest_starts_after_a_host_boot() {
    let operation = ClientOperation::Attach;
    let harness = operation.harness().await;
    operation.run(&harness).await;
    harness.reboot_host();
    assert!(harness.world().plugged.is_empty());
    let end = harness.guests().sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    operation.check(&harness).await;
}

/// The agent is killed, or the switch or the hypervisor gives an error once, at each call of the boot of a host.
#[tokio::test]
async fn whatever_fails_while_a_host_boots_its_guests_come_back_with_their_ports() {
    let mut cases = 0;
    for operation in [ClientOperation::Attach, ClientOperation::SpawnWithPort] {
        cases += host_boots_with_faults(operation).await;
    }
    assert!(cases > 40, "{cases} cases");
}

/// A host boots with the guest of this operation; returns the number of cases.
async fn host_boots_with_faults(operation: ClientOperation) -> usize {
    let after_boot = async || {
        let harness = operation.harness().await;
        operation.run(&harness).await;
        harness.reboot_host();
        harness
    };
    let clean = after_boot().await;
    clean.kill_at(None);
    let end = clean.guests().sync_one(guest(1)).await;
    assert!(matches!(end, ReconcileOutcome::Settled), "{end:?}");
    let mut cases = 0;
    for point in kills(clean.count()) {
        for fault in [InjectedFault::Kill, InjectedFault::Error] {
            let harness = after_boot().await;
            harness.fault_at(Some(point), fault);
            let guests = harness.guests();
            tokio::select! {
                biased;
                () = harness.wait_for_kill() => {}
                _ = guests.sync_one(guest(1)) => {}
            }
            invariants::check_always(&harness).await;
            harness.fault_at(None, fault);
            let guests = harness.guests();
            let mut end = guests.sync_one(guest(1)).await;
            if matches!(end, ReconcileOutcome::Blocked { .. }) {
                end = guests.sync_one(guest(1)).await;
            }
            assert!(
                matches!(end, ReconcileOutcome::Settled),
                "{point:?}: {end:?}"
            );
            operation.check(&harness).await;
            cases += 1;
        }
    }
    cases
}

#[tokio::test]
async fn a_port_that_two_guests_have_is_caught_by_the_invariants() {
    let harness = ClientOperation::Attach.harness().await;
    ClientOperation::Attach.run(&harness).await;
    harness.bind(2, &[3]);
    let guests = harness.guests();
    guests.create(&request(2, &[3])).await.unwrap();
    guests.reconcile_instance(guest(2)).await;
    let attached = guests.attach_interface(guest(2), interface(), None).await;
    let _ = attached.unwrap();
    let found = format!("port {} was plugged for two guests", port());
    assert_eq!(harness.world().violations, [found]);
}

/// Checks that never fail prove nothing.
#[tokio::test]
async fn each_planted_bug_is_caught_by_the_invariants() {
    for (bug, operation) in [
        (PlantedBug::ForgetsIntents, ClientOperation::Spawn),
        (PlantedBug::SkipsResets, ClientOperation::SpawnAndDelete),
        (
            PlantedBug::SkipsResets,
            ClientOperation::SpawnFails(SimulatedFailure::PrepareFails(2)),
        ),
        (
            PlantedBug::KeepsGuests,
            ClientOperation::SpawnFails(SimulatedFailure::StartFails),
        ),
        (
            PlantedBug::KeepsPorts,
            ClientOperation::SpawnWithPortAndDelete,
        ),
        (
            PlantedBug::KeepsPorts,
            ClientOperation::SpawnWithPortFails(SimulatedFailure::PortTimesOut),
        ),
        (PlantedBug::KeepsPorts, ClientOperation::AttachAndDetach),
        (PlantedBug::KeepsPorts, ClientOperation::AttachAndDelete),
        (
            PlantedBug::KeepsPorts,
            ClientOperation::AttachFails(SimulatedFailure::AttachFails),
        ),
    ] {
        let harness = operation.harness().await;
        harness.world().bug = Some(bug);
        let judged = tokio::spawn(async move {
            operation.until_killed(&harness, None).await;
            operation.check(&harness).await;
        });
        let caught = judged.await.is_err_and(|error| error.is_panic());
        // A guest that has never run leaves nothing in its devices.
        let harmless = matches!(
            (bug, operation),
            (PlantedBug::SkipsResets, ClientOperation::SpawnFails(_))
        );
        assert_eq!(caught, !harmless, "{bug:?} in {operation:?}");
    }
}
