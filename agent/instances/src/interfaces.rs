//! Attaches Neutron ports to guests that exist, and detaches them.
//!
//! An attachment is journaled before it begins, and a detachment after it has ended. So the record names every port that may
//! be plugged, and a kill in between leaves no port without an owner. The caller repeats an action that was not answered.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::{Goal, GuestRecord, InstanceOverrides, NetworkFunction};
use berth_model::{ConsumerUuid, Disposition, PciAddress};
use berth_virt::guest_spec::{
    GuestInterface, GuestInterfaces, GuestSpec, GuestSpecError, InterfaceSource, MacAddress,
};
use berth_virt::{GuestError, InterfaceOutcome, VirtDriver};
use berth_wire::guest::ActionId;
use uuid::Uuid;

use crate::guests::Guests;
use crate::power::{PowerError, ensure_idle};
use crate::resources::GuestResources;

/// The port of an interface; `None` if it is connected otherwise.
fn port_of(interface: &GuestInterface) -> Option<Uuid> {
    match &interface.source {
        InterfaceSource::Port(port) => Some(port.id()),
        InterfaceSource::Network(_) | InterfaceSource::Bridge(_) => None,
    }
}

/// The guest's interfaces without the one of this port.
fn without(record: &GuestRecord, port: Uuid) -> Vec<GuestInterface> {
    let all = record.interfaces().as_slice().iter();
    let others = all.filter(|interface| port_of(interface) != Some(port));
    others.cloned().collect()
}

/// The overrides with other interfaces.
fn with_interfaces(
    record: &GuestRecord,
    interfaces: Vec<GuestInterface>,
) -> Result<InstanceOverrides, GuestSpecError> {
    Ok(InstanceOverrides {
        interfaces: Some(GuestInterfaces::new(interfaces)?),
        ..record.overrides.clone()
    })
}

/// The spec with one interface only.
fn alone(spec: &GuestSpec, interface: &GuestInterface) -> Result<GuestSpec, GuestSpecError> {
    Ok(GuestSpec {
        interfaces: GuestInterfaces::new(vec![interface.clone()])?,
        ..spec.clone()
    })
}

/// Checks that these are the guest's ports, each with the function that was selected for it, or none. `others` are its ports that
/// need no function.
fn check_bound(
    interfaces: &[GuestInterface],
    others: &[GuestInterface],
    functions: &[NetworkFunction],
) -> Result<(), PowerError> {
    let bound = interfaces.iter().filter_map(|interface| {
        let InterfaceSource::Port(port) = &interface.source else {
            return None;
        };
        Some((port.id(), port.network_function()))
    });
    let bound: BTreeMap<Uuid, Option<PciAddress>> = bound.collect();
    let selected = functions
        .iter()
        .map(|function| (function.port, function.address));
    let selected: BTreeMap<Uuid, PciAddress> = selected.collect();
    let own = others.iter().filter_map(port_of);
    let own: BTreeSet<Uuid> = own.chain(selected.keys().copied()).collect();
    if let Some(port) = bound.keys().find(|port| !own.contains(port)) {
        return Err(PowerError::OtherPort { port: *port });
    }
    for port in own {
        let Some(found) = bound.get(&port).copied() else {
            return Err(PowerError::MissingPort { port });
        };
        let selected = selected.get(&port).copied();
        if found != selected {
            return Err(PowerError::WrongFunction {
                port,
                found,
                selected,
            });
        }
    }
    Ok(())
}

/// The guest is being deleted, or the agent stops.
fn interrupted(uuid: ConsumerUuid) -> PowerError {
    let operation = "destroy";
    PowerError::Busy { uuid, operation }
}

/// The spec of the guest with its devices.
fn present_spec(record: &GuestRecord) -> Result<GuestSpec, PowerError> {
    let devices = record.devices.clone().unwrap_or_default();
    Ok(devices.attached_to(record.present()?.spec())?)
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Attaches a port to a guest, also while it runs. A guest that has the port keeps it.
    ///
    /// Errors: the guest is unknown or busy, the port cannot be plugged, or the hypervisor refuses. The guest is then unchanged,
    /// unless the hypervisor did not answer: the same call continues.
    pub async fn attach_interface(
        &self,
        uuid: ConsumerUuid,
        interface: GuestInterface,
        id: Option<&ActionId>,
    ) -> Result<InterfaceOutcome, PowerError> {
        let context = &self.inner.context;
        // Subscribe before reading the record, so that a later deletion interrupts the wait for the port.
        let interrupt = self.subscribe_interrupt(uuid);
        let (_guard, record) = self.lock_record(uuid).await?;
        ensure_idle(&record)?;
        if record.overrides.has_recorded(id) {
            return Ok(InterfaceOutcome::Unchanged);
        }
        let others = match port_of(&interface) {
            Some(port) => without(&record, port),
            None => record.interfaces().as_slice().to_vec(),
        };
        let with = [others.as_slice(), std::slice::from_ref(&interface)].concat();
        let overrides = with_interfaces(&record, with).map_err(PowerError::Interface)?;
        let then = GuestRecord {
            overrides: overrides.clone(),
            ..record.clone()
        };
        let spec = present_spec(&then)?;
        let port = alone(&spec, &interface)?;
        context.resources.check_ports(&port).await?;
        context
            .journal
            .record_overrides(uuid, &overrides, &[])
            .await?;
        let attached = async {
            context.resources.plug_ports(&port).await?;
            tokio::select! {
                biased;
                () = interrupt.interrupted() => return Err(interrupted(uuid)),
                waited = context.resources.wait_for_ports(&port) => waited?,
            }
            Ok(context
                .driver
                .attach_interface(&spec, interface.mac)
                .await?)
        };
        match attached.await {
            Ok(outcome) => {
                let overrides = overrides.with_action(id);
                context
                    .journal
                    .record_overrides(uuid, &overrides, &[])
                    .await?;
                self.count_change();
                Ok(outcome)
            }
            // The deletion unplugs the port.
            Err(error @ PowerError::Busy { .. }) => Err(error),
            // It may still take effect.
            Err(PowerError::Driver(error)) if error.disposition() == Disposition::Retry => {
                Err(error.into())
            }
            // An earlier call attached it.
            Err(error) if self.has_interface(uuid, interface.mac).await? => Err(error),
            Err(error) => {
                // A port that stays plugged is an orphan, which the sync loop removes.
                if let Err(error) = context.resources.unplug_ports(&port).await {
                    tracing::warn!(guest = %uuid, %error, "failed to unplug a port that could not be attached");
                }
                let overrides = with_interfaces(&record, others)?;
                context
                    .journal
                    .record_overrides(uuid, &overrides, &[])
                    .await?;
                Err(error)
            }
        }
    }

    /// Binds the ports of a guest to the network functions that were selected for them. The guest then starts. `interfaces` are
    /// all ports of the guest, in their order. The call changes nothing if the ports are bound.
    ///
    /// Errors: the guest is unknown or being deleted, or a port is missing, or is bound to another function.
    pub async fn bind_ports(
        &self,
        uuid: ConsumerUuid,
        interfaces: &[GuestInterface],
    ) -> Result<InterfaceOutcome, PowerError> {
        let (guard, record) = self.lock_record(uuid).await?;
        if record.goal != Goal::Spawn {
            return Err(interrupted(uuid));
        }
        if record.unbound_functions().next().is_none() {
            return Ok(InterfaceOutcome::Unchanged);
        }
        let functions = record.request.host_placement().network_functions();
        let own = record.request.spec().interfaces.as_slice();
        check_bound(interfaces, own, functions)?;
        let others = own.iter().filter(|interface| port_of(interface).is_none());
        let all = others.chain(interfaces).cloned().collect();
        let overrides = with_interfaces(&record, all).map_err(PowerError::Interface)?;
        let context = &self.inner.context;
        context
            .journal
            .record_overrides(uuid, &overrides, &[])
            .await?;
        drop(guard);
        self.spawn_reconcile(uuid);
        Ok(InterfaceOutcome::Changed)
    }

    /// Whether the hypervisor has this interface in the guest.
    async fn has_interface(&self, uuid: ConsumerUuid, mac: MacAddress) -> Result<bool, GuestError> {
        let found = self.inner.context.on_host(uuid).await?;
        let hardware = found.and_then(|found| found.hardware);
        Ok(hardware.is_some_and(|hardware| hardware.interfaces.contains_key(&mac.to_string())))
    }

    /// Detaches a port from a guest, and waits until a running guest has released it. A guest without the port stays as it is.
    ///
    /// Errors: the guest is unknown or busy, the hypervisor refuses, or the guest does not release the port in time. The guest
    /// then keeps the port.
    pub async fn detach_interface(
        &self,
        uuid: ConsumerUuid,
        port: Uuid,
        id: Option<&ActionId>,
    ) -> Result<InterfaceOutcome, PowerError> {
        let context = &self.inner.context;
        let interrupt = self.subscribe_interrupt(uuid);
        let (_guard, record) = self.lock_record(uuid).await?;
        ensure_idle(&record)?;
        let mut interfaces = record.interfaces().as_slice().iter();
        let interface = interfaces.find(|interface| port_of(interface) == Some(port));
        let Some(interface) = interface.filter(|_| !record.overrides.has_recorded(id)) else {
            return Ok(InterfaceOutcome::Unchanged);
        };
        let functions = record.request.host_placement().network_functions();
        if functions.iter().any(|function| function.port == port) {
            return Err(PowerError::DirectPort { port });
        }
        let outcome = tokio::select! {
            biased;
            () = interrupt.interrupted() => return Err(interrupted(uuid)),
            detached = context.driver.detach_interface(uuid, interface.mac) => detached?,
        };
        let unplugged = alone(&present_spec(&record)?, interface)?;
        context.resources.unplug_ports(&unplugged).await?;
        let overrides = with_interfaces(&record, without(&record, port))?;
        let overrides = overrides.with_action(id);
        context
            .journal
            .record_overrides(uuid, &overrides, &[])
            .await?;
        self.count_change();
        // A guest that is missing gets its present interfaces when it is restored.
        Ok(outcome)
    }
}
