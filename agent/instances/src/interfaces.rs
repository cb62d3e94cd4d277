//! Attaches Neutron ports to guests that exist, and detaches them.
//!
//! An attachment is journaled before it begins, and a detachment after it has ended. So the record names every port that may
//! be plugged, and a kill in between leaves no port without an owner. The caller repeats an action that was not answered.
//!
//! A port that is a network function (SR-IOV) is attached in two actions, because it is bound to the function in between:
//! [`Guests::select_function`] gives the function to the guest, and the attachment prepares and plugs it. From the first action
//! until the detachment has reset it, the function is a device of the guest's request.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_journal::{
    DeviceClaim, Goal, GuestRecord, GuestRequest, InstanceOverrides, NamedDevice as _,
    NetworkFunction, ReleasedDevices,
};
use berth_model::{ConsumerUuid, Disposition, MacAddress};
use berth_virt::guest_spec::{
    DeviceOrigin, GuestDevice, GuestDevices, GuestInterface, GuestInterfaces, GuestPort, GuestSpec,
    GuestSpecError, InterfaceSource, PciManagement, PortConnection,
};
use berth_virt::{GuestError, InterfaceOutcome, VirtDriver, WantedDevice};
use berth_wire::conductor::FunctionVnicType;
use berth_wire::guest::ActionId;
use uuid::Uuid;

use crate::guests::Guests;
use crate::power::{PowerError, ensure_idle};
use crate::resources::{GuestResources, ResourceError};
use crate::spawn::devices_of_other_guests;

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

/// The spec with one interface only, and without devices of others.
fn alone(spec: &GuestSpec, interface: &GuestInterface) -> Result<GuestSpec, GuestSpecError> {
    let origin = port_of(interface).map(DeviceOrigin::Port);
    let devices = spec.devices.as_slice().iter().copied();
    let devices = devices.filter(|attached| Some(attached.origin) == origin);
    Ok(GuestSpec {
        interfaces: GuestInterfaces::new(vec![interface.clone()])?,
        devices: GuestDevices::new(devices.collect())?,
        ..spec.clone()
    })
}

/// The device of the network function that was selected for a port; `None` if the port needs none.
fn function_device(record: &GuestRecord, port: Uuid) -> Option<WantedDevice> {
    let mut devices = record.request.spec().devices.as_slice().iter();
    let attached = devices.find(|attached| attached.origin == DeviceOrigin::Port(port))?;
    Some(WantedDevice::of(attached.device))
}

/// Refuses a port that is a whole network card: such a port comes with its guest, and goes with it.
fn refuse_physical(interface: &GuestInterface) -> Result<(), PowerError> {
    match &interface.source {
        InterfaceSource::Port(port) if port.is_physical() => {
            Err(PowerError::PhysicalPort { port: port.id() })
        }
        _ => Ok(()),
    }
}

/// The kind of port that a function was selected for.
pub(crate) fn selected_kind(
    request: &GuestRequest,
    function: &NetworkFunction,
) -> FunctionVnicType {
    if function.facts.number.is_none() {
        return FunctionVnicType::DirectPhysical;
    }
    let mut devices = request.spec().devices.as_slice().iter();
    let is_host_driven = devices.any(|attached| {
        let is_pci = matches!(
            attached.device,
            GuestDevice::Pci {
                managed: PciManagement::HostDriver,
                ..
            }
        );
        is_pci && attached.origin == DeviceOrigin::Port(function.port)
    });
    match is_host_driven {
        true => FunctionVnicType::Macvtap,
        false => FunctionVnicType::Direct,
    }
}

/// The kind of port that a connection is for; `None` for a tap.
fn bound_kind(connection: &PortConnection) -> Option<FunctionVnicType> {
    match connection {
        PortConnection::NetworkFunction { .. } => Some(FunctionVnicType::Direct),
        PortConnection::Macvtap { .. } => Some(FunctionVnicType::Macvtap),
        PortConnection::PhysicalFunction { .. } => Some(FunctionVnicType::DirectPhysical),
        PortConnection::OpenVswitch { .. } => None,
    }
}

/// Checks that a port is bound to the function that was selected for it, or needs none. The port must also be of the kind that
/// the function was selected for, because a tenant may change `binding:vnic_type` in between.
fn check_function(
    request: &GuestRequest,
    bound: &GuestPort,
    selected: Option<&NetworkFunction>,
) -> Result<(), PowerError> {
    let (port, found) = (bound.id(), bound.network_function());
    let address = selected.map(|function| function.address);
    if found != address {
        return Err(PowerError::WrongFunction {
            port,
            found,
            selected: address,
        });
    }
    let selected = selected.map(|function| selected_kind(request, function));
    match (bound_kind(bound.connection()), selected) {
        (Some(found), Some(selected)) if found != selected => Err(PowerError::OtherFunctionKind {
            port,
            found,
            selected,
        }),
        _ => Ok(()),
    }
}

/// Checks that these are the guest's ports, each with the function that was selected for it, or none.
fn check_bound(interfaces: &[GuestInterface], request: &GuestRequest) -> Result<(), PowerError> {
    let bound = interfaces.iter().filter_map(|interface| {
        let InterfaceSource::Port(port) = &interface.source else {
            return None;
        };
        Some((port.id(), port))
    });
    let bound: BTreeMap<Uuid, _> = bound.collect();
    let selected = request.host_placement().network_functions().iter();
    let selected: BTreeMap<Uuid, _> = selected.map(|function| (function.port, function)).collect();
    // The interfaces of the request are its ports that need no function.
    let own = request.spec().interfaces.as_slice().iter();
    let own = own.filter_map(port_of);
    let own: BTreeSet<Uuid> = own.chain(selected.keys().copied()).collect();
    if let Some(port) = bound.keys().find(|port| !own.contains(port)) {
        return Err(PowerError::OtherPort { port: *port });
    }
    for port in own {
        let Some(bound) = bound.get(&port) else {
            return Err(PowerError::MissingPort { port });
        };
        check_function(request, bound, selected.get(&port).copied())?;
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
    /// unless the hypervisor did not answer: the same call continues. If the settings of the port's function cannot be taken back
    /// either, the record keeps the interface, and the detachment takes them back.
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
        refuse_physical(&interface)?;
        if let InterfaceSource::Port(port) = &interface.source {
            check_function(&record.request, port, record.function_of(port.id()))?;
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
        let function = port_of(&interface).and_then(|port| function_device(&record, port));
        if let Some(function) = &function {
            self.check_free(&record, function).await?;
            context.resources.check_function(function).await?;
        }
        context.resources.check_ports(&port).await?;
        context
            .journal
            .record_overrides(uuid, &overrides, &[])
            .await?;
        let attached = async {
            if let Some(function) = &function {
                context.resources.prepare_function(uuid, function).await?;
            }
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
                let unplugged = context.resources.unplug_ports(&port).await;
                if let Err(error) = &unplugged {
                    tracing::warn!(guest = %uuid, %error, "failed to unplug a port that could not be attached");
                }
                // A tap that stays is an orphan, which the sync loop removes. The loop does not know settings of functions, so the
                // interface stays in the record until the detachment has taken them back.
                if unplugged.is_err() && function.is_some() {
                    return Err(error);
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
    /// Errors: the guest is unknown or being deleted, or a port is missing, or is bound to another function or as another kind.
    pub async fn bind_ports(
        &self,
        uuid: ConsumerUuid,
        interfaces: &[GuestInterface],
    ) -> Result<InterfaceOutcome, PowerError> {
        let (guard, record) = self.lock_record(uuid).await?;
        if record.goal != Goal::Spawn {
            return Err(interrupted(uuid));
        }
        if record.awaited_port().is_none() {
            return Ok(InterfaceOutcome::Unchanged);
        }
        check_bound(interfaces, &record.request)?;
        let own = record.request.spec().interfaces.as_slice();
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

    /// Gives a guest a network function that was selected for a port.
    pub(crate) async fn claim_function(
        &self,
        record: &GuestRecord,
        function: NetworkFunction,
        device: GuestDevice,
    ) -> Result<InterfaceOutcome, PowerError> {
        let request = record.request.clone().with_function(function, device)?;
        let what = device.name();
        let journal = &self.inner.context.journal;
        let reason = match journal.claim_function(&request, &what).await? {
            DeviceClaim::Claimed => {
                self.count_change();
                return Ok(InterfaceOutcome::Changed);
            }
            DeviceClaim::Taken { guest, .. } => format!("guest {guest} has it"),
            DeviceClaim::Withheld { why, .. } => why.to_string(),
        };
        Err(ResourceError::Refused { what, reason }.into())
    }

    /// Checks that no other guest on the hypervisor uses a function.
    async fn check_free(
        &self,
        record: &GuestRecord,
        function: &WantedDevice,
    ) -> Result<(), PowerError> {
        let wanted = BTreeSet::from([function.host_device()]);
        let context = &self.inner.context;
        let others = devices_of_other_guests(context, &record.request, &wanted).await?;
        match others.first() {
            None => Ok(()),
            Some((device, holder)) => Err(ResourceError::Refused {
                what: device.to_string(),
                reason: format!("guest {holder} uses it"),
            }
            .into()),
        }
    }

    /// Detaches a port from a guest, and waits until a running guest has released it. The network function of a port is reset. A
    /// guest without the port stays as it is.
    ///
    /// Errors: the guest is unknown or busy, the hypervisor refuses, the guest does not release the port in time, or the
    /// function cannot be reset now. The guest then keeps the port.
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
        let function = function_device(&record, port);
        let is_there = interface.is_some() || function.is_some();
        if !is_there || record.overrides.has_recorded(id) {
            return Ok(InterfaceOutcome::Unchanged);
        }
        let mut outcome = InterfaceOutcome::Changed;
        if let Some(interface) = interface {
            refuse_physical(interface)?;
            outcome = tokio::select! {
                biased;
                () = interrupt.interrupted() => return Err(interrupted(uuid)),
                detached = context.driver.detach_interface(uuid, interface.mac) => detached?,
            };
            let unplugged = alone(&present_spec(&record)?, interface)?;
            context.resources.unplug_ports(&unplugged).await?;
        }
        let overrides = with_interfaces(&record, without(&record, port))?;
        let overrides = overrides.with_action(id);
        match function {
            Some(function) => {
                self.release_function(&record, port, &function, &overrides)
                    .await?
            }
            None => {
                context
                    .journal
                    .record_overrides(uuid, &overrides, &[])
                    .await?
            }
        }
        self.count_change();
        // A guest that is missing gets its present interfaces when it is restored.
        Ok(outcome)
    }

    /// Resets a function that the guest no longer has, and takes it from the guest.
    async fn release_function(
        &self,
        record: &GuestRecord,
        port: Uuid,
        function: &WantedDevice,
        overrides: &InstanceOverrides,
    ) -> Result<(), PowerError> {
        let context = &self.inner.context;
        let uuid = record.request.uuid();
        let wanted = BTreeSet::from([function.host_device()]);
        let others = devices_of_other_guests(context, &record.request, &wanted).await?;
        let released = match others.first() {
            None => context.resources.release_function(uuid, function).await?,
            Some((device, holder)) => {
                tracing::warn!(guest = %uuid, %device, %holder, "not resetting a detached device: another guest uses it");
                ReleasedDevices::default()
            }
        };
        let request = record.request.clone();
        let request = request.without_functions(|other| other == port)?;
        let name = function.device.name();
        Ok(context
            .journal
            .release_function(&request, overrides, &name, &released)
            .await?)
    }
}
