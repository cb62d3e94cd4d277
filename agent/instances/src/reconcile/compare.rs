//! Compares each pair of sources: [`compare`] turns [`ReconcileFacts`] into findings. Pure. A source that could not be
//! read leads to no finding.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_devices::DeviceSnapshot;
use berth_agent_journal::{
    BoundDevices, Goal, GuestRecord, NamedDevice as _, SpawnStep, StepState,
};
use berth_model::{ConsumerUuid, ProviderUuid};
use berth_net::SwitchInterface;
use berth_virt::{GuestHardware, GuestOnHost, HostDeviceId, PreparedDevice, Preparer};

use crate::accelerators::BoundArq;
use crate::power_sync::{PowerSyncAction, plan_power_sync};
use crate::reconcile::finding::{ReconcileFinding, Unbinder};
use crate::spawn_context::is_ours;

/// The state of the six sources. `None`: the source could not be read, or does not exist.
#[derive(Debug, Clone, Default)]
pub struct ReconcileFacts {
    /// Boot ID of the host.
    pub boot_id: String,
    pub journal: Vec<GuestRecord>,
    pub hypervisor: Option<BTreeMap<ConsumerUuid, GuestOnHost>>,
    pub devices: Option<DeviceSnapshot>,
    /// Prepared devices, read before the journal, so that the journal contains every instance that they were prepared
    /// for.
    pub prepared: Vec<PreparedDevice>,
    /// The interfaces that this agent added to the host's switch, read before the journal like prepared devices.
    pub ports: Vec<SwitchInterface>,
    /// The devices that each instance's requests are bound to now, or why they are not.
    pub requests: BTreeMap<ConsumerUuid, Result<BoundDevices, String>>,
    /// The requests that are bound on this host. Only filled if the accelerator service does not report the holders of
    /// devices.
    pub bound_here: Vec<BoundArq>,
    /// The names of this host's providers that each consumer has allocations on.
    pub allocations: Option<BTreeMap<ConsumerUuid, BTreeSet<String>>>,
    pub providers: BTreeMap<ProviderUuid, String>,
}

/// All differences between the sources.
#[must_use]
pub fn compare(facts: &ReconcileFacts) -> BTreeSet<ReconcileFinding> {
    let mut found = BTreeSet::new();
    let known = known(facts);
    for record in &facts.journal {
        journal_and_hypervisor(facts, record, &mut found);
        journal_and_requests(facts, record, &mut found);
        journal_and_devices(facts, record, &mut found);
    }
    if let Some(hypervisor) = &facts.hypervisor {
        for (uuid, guest) in hypervisor {
            if guest.owner.is_some() && !known.contains_key(uuid) {
                found.insert(ReconcileFinding::GuestOrphan {
                    guest: *uuid,
                    name: guest.name.clone(),
                });
            }
        }
        devices_and_hypervisor(facts, hypervisor, &mut found);
    }
    devices_and_requests(facts, &known, &mut found);
    found.extend(leftover_devices(facts).map(leftover_finding));
    found.extend(orphan_ports(facts, &known).map(orphan_port_finding));
    allocations_and_guests(facts, &known, &mut found);
    found
}

/// Whether the instance is idle and should have its devices.
fn is_settled(record: &GuestRecord) -> bool {
    record.goal == Goal::Spawn && record.state(SpawnStep::Start) == Some(StepState::Done)
}

fn journal_and_hypervisor(
    facts: &ReconcileFacts,
    record: &GuestRecord,
    found: &mut BTreeSet<ReconcileFinding>,
) {
    let guest = record.request.uuid();
    let on_host = facts.hypervisor.as_ref();
    let on_host = on_host.and_then(|guests| guests.get(&guest));
    if let Some(reason) = on_host.and_then(|on_host| on_host.stuck.clone()) {
        // Every other repair of the guest waits until it is no longer stuck.
        found.insert(ReconcileFinding::GuestStuck { guest, reason });
        return;
    }
    if let Some(what) = record.open() {
        found.insert(ReconcileFinding::GuestUnfinished { guest, what });
        return;
    }
    if facts.hypervisor.is_none() {
        return;
    }
    match plan_power_sync(record, on_host, &facts.boot_id) {
        PowerSyncAction::InSync => {}
        PowerSyncAction::StartAgain => {
            found.insert(ReconcileFinding::GuestAway { guest });
        }
        PowerSyncAction::AcceptShutOff => {
            found.insert(ReconcileFinding::GuestEnded { guest });
        }
        PowerSyncAction::Stop | PowerSyncAction::Suspend | PowerSyncAction::Pause => {
            found.insert(ReconcileFinding::GuestNotAtRest { guest });
        }
        PowerSyncAction::UnexpectedlyPaused => {
            found.insert(ReconcileFinding::GuestPaused { guest });
        }
        PowerSyncAction::Remove => {
            found.insert(ReconcileFinding::GuestUndone { guest });
        }
    }
    if !is_settled(record) {
        return;
    }
    let Some(on_host) = on_host else { return };
    let difference = if let Some(reason) = &on_host.unreadable {
        Some(format!("its definition cannot be read: {reason}"))
    } else if is_ours(on_host, &record.request) {
        let bound = record.devices.clone().unwrap_or_default();
        match bound.attached_to(record.with_interfaces().spec()) {
            Ok(spec) => on_host.difference(&spec),
            Err(error) => Some(error.to_string()),
        }
    } else {
        Some("it was not created for this request".to_owned())
    };
    if let Some(difference) = difference {
        found.insert(ReconcileFinding::GuestDiffers { guest, difference });
    } else if let Some(difference) = other_hardware(record, on_host) {
        found.insert(ReconcileFinding::DomainDiffers { guest, difference });
    }
}

/// How the guest's processors, memory, disks and interfaces differ from its spec.
fn other_hardware(record: &GuestRecord, on_host: &GuestOnHost) -> Option<String> {
    let has = on_host.hardware.as_ref()?;
    let form = record.present().ok()?;
    has.difference(&GuestHardware::of(form.spec()))
}

fn journal_and_requests(
    facts: &ReconcileFacts,
    record: &GuestRecord,
    found: &mut BTreeSet<ReconcileFinding>,
) {
    let guest = record.request.uuid();
    let Some(now) = facts.requests.get(&guest).filter(|_| is_settled(record)) else {
        return;
    };
    let before = record.devices.clone().unwrap_or_default();
    let reason = match now {
        Ok(now) if now.has_same_bindings(&before) => return,
        Ok(now) => format!("they are bound to {now}, but the guest has {before}"),
        Err(reason) => reason.clone(),
    };
    found.insert(ReconcileFinding::RequestsDiffer { guest, reason });
}

fn journal_and_devices(
    facts: &ReconcileFacts,
    record: &GuestRecord,
    found: &mut BTreeSet<ReconcileFinding>,
) {
    let Some(devices) = &facts.devices else {
        return;
    };
    let bound = record.devices.iter().flat_map(|bound| bound.iter());
    for bound in bound.filter(|_| is_settled(record)) {
        let device = bound.name();
        let reason = match devices.offered.get(&device) {
            Some(Some(reason)) => reason.clone(),
            None if devices.vanished.contains(&device) => "it has vanished".to_owned(),
            Some(None) | None => continue,
        };
        found.insert(ReconcileFinding::DeviceUnfit {
            device,
            guest: record.request.uuid(),
            reason,
        });
    }
}

fn devices_and_hypervisor(
    facts: &ReconcileFacts,
    hypervisor: &BTreeMap<ConsumerUuid, GuestOnHost>,
    found: &mut BTreeSet<ReconcileFinding>,
) {
    let Some(devices) = &facts.devices else {
        return;
    };
    for (uuid, guest) in hypervisor.iter().filter(|(_, guest)| guest.owner.is_none()) {
        for held in &guest.devices {
            let device = match held.device {
                HostDeviceId::Function(address) => address.to_string(),
                HostDeviceId::Mdev(uuid) => uuid.hyphenated().to_string(),
            };
            // A bound request means that a client of the same accelerator service uses the device.
            let mut bound = facts.bound_here.iter();
            let is_bound =
                devices.holders.contains_key(&device) || bound.any(|bound| bound.device == device);
            if devices.offered.contains_key(&device) && !is_bound {
                let guest = *uuid;
                found.insert(ReconcileFinding::DeviceTaken { device, guest });
            }
        }
    }
}

fn devices_and_requests(
    facts: &ReconcileFacts,
    known: &BTreeMap<ConsumerUuid, &GuestRecord>,
    found: &mut BTreeSet<ReconcileFinding>,
) {
    for bound in &facts.bound_here {
        if !is_guest(facts, known, bound.guest) {
            found.insert(ReconcileFinding::RequestOrphan {
                arq: bound.arq,
                guest: Some(bound.guest),
                device: bound.device.clone(),
                unbinder: Unbinder::Operator,
            });
        }
    }
    let Some(devices) = &facts.devices else {
        return;
    };
    for (device, holder) in &devices.holders {
        let is_here = holder
            .guest
            .is_some_and(|guest| is_guest(facts, known, guest));
        if !is_here {
            found.insert(ReconcileFinding::RequestOrphan {
                arq: holder.arq,
                guest: holder.guest,
                device: device.clone(),
                unbinder: Unbinder::Service,
            });
        }
    }
    // If the accelerator service lost its database, an instance may still use a device that the service considers
    // released.
    let had = facts.journal.iter().flat_map(|record| &record.devices);
    let had: BTreeSet<String> = had
        .flat_map(|bound| bound.iter().map(|device| device.name()))
        .collect();
    for device in devices.unclean.difference(&had) {
        let device = device.clone();
        found.insert(ReconcileFinding::DeviceUnclean { device });
    }
    for provider in &devices.missing {
        let provider = *provider;
        found.insert(ReconcileFinding::ProviderMissing { provider });
    }
}

/// Devices that Berth prepared for an instance that no longer exists. Empty if a possible user could not be read.
pub(super) fn leftover_devices(facts: &ReconcileFacts) -> impl Iterator<Item = &PreparedDevice> {
    let held = held(facts);
    let is_free = move |device: &&PreparedDevice| {
        let Some(held) = &held else { return false };
        let members = device.group_members.iter().map(ToString::to_string);
        let mut names = members.chain([device.wanted.device.name()]);
        device.by == Preparer::Berth && !names.any(|name| held.contains(&name))
    };
    facts.prepared.iter().filter(is_free)
}

/// Interfaces that Berth plugged for a guest that no longer exists or no longer has the port.
pub(super) fn orphan_ports<'a>(
    facts: &'a ReconcileFacts,
    known: &'a BTreeMap<ConsumerUuid, &GuestRecord>,
) -> impl Iterator<Item = &'a SwitchInterface> {
    facts.ports.iter().filter(move |interface| {
        let guest = interface.guest.as_deref();
        let guest = guest.and_then(|guest| guest.parse::<ConsumerUuid>().ok());
        match guest.and_then(|guest| known.get(&guest).map(|record| (guest, record))) {
            Some((_, record)) => {
                let mut ports = record.interfaces().ports();
                !ports.any(|(_, port)| port.tap().as_str() == interface.name)
            }
            // The guest may exist on a hypervisor that does not answer.
            None => match (&facts.hypervisor, guest) {
                (Some(guests), Some(guest)) => !guests.contains_key(&guest),
                (Some(_), None) => true,
                (None, _) => false,
            },
        }
    })
}

/// The finding for an interface without a user.
pub(super) fn orphan_port_finding(interface: &SwitchInterface) -> ReconcileFinding {
    ReconcileFinding::PortOrphan {
        interface: interface.name.clone(),
        port: interface.port_id.clone().unwrap_or_default(),
    }
}

/// The instances of the journal by UUID.
pub(super) fn known(facts: &ReconcileFacts) -> BTreeMap<ConsumerUuid, &GuestRecord> {
    let records = facts.journal.iter();
    records
        .map(|record| (record.request.uuid(), record))
        .collect()
}

/// The finding for a leftover device.
pub(super) fn leftover_finding(device: &PreparedDevice) -> ReconcileFinding {
    let device_name = device.wanted.device.name();
    match device.wanted.host_device() {
        HostDeviceId::Mdev(_) => ReconcileFinding::MdevOrphan {
            device: device_name,
        },
        HostDeviceId::Function(_) => ReconcileFinding::DeviceLeft {
            device: device_name,
        },
    }
}

/// The names of all devices that are in use or withheld; `None` if a source is missing.
fn held(facts: &ReconcileFacts) -> Option<BTreeSet<String>> {
    let (hypervisor, devices) = (facts.hypervisor.as_ref()?, facts.devices.as_ref()?);
    if hypervisor.values().any(|guest| guest.unreadable.is_some()) {
        return None;
    }
    let on_host = hypervisor.values().flat_map(|guest| &guest.devices);
    let of_flavors = facts.journal.iter();
    let of_flavors = of_flavors.flat_map(|record| record.request.spec().devices.as_slice());
    let bound = facts.journal.iter().flat_map(|record| &record.devices);
    let bound = bound.flat_map(|bound| bound.iter().map(|device| device.name()));
    let here = facts.bound_here.iter().map(|bound| bound.device.clone());
    let names = on_host.map(|held| held.device.name());
    let names = names.chain(of_flavors.map(|attached| attached.device.name()));
    let recorded = devices.holders.keys().chain(&devices.unclean);
    let recorded = recorded.chain(&devices.withheld).cloned();
    Some(names.chain(bound).chain(here).chain(recorded).collect())
}

fn is_guest(
    facts: &ReconcileFacts,
    known: &BTreeMap<ConsumerUuid, &GuestRecord>,
    guest: ConsumerUuid,
) -> bool {
    let hypervisor = facts.hypervisor.as_ref();
    known.contains_key(&guest)
        // During a migration, the consumer is the migration's UUID.
        || known.values().any(|record| record.request.spec().owner.consumer == guest)
        // The guest may exist on a hypervisor that does not answer.
        || hypervisor.is_none_or(|guests| guests.contains_key(&guest))
}

fn allocations_and_guests(
    facts: &ReconcileFacts,
    known: &BTreeMap<ConsumerUuid, &GuestRecord>,
    found: &mut BTreeSet<ReconcileFinding>,
) {
    let Some(allocations) = &facts.allocations else {
        return;
    };
    for (consumer, providers) in allocations {
        if !is_guest(facts, known, *consumer) {
            found.insert(ReconcileFinding::AllocationOrphan {
                consumer: *consumer,
                providers: providers.iter().cloned().collect(),
            });
        }
    }
    let providers = providers(facts);
    for record in facts.journal.iter().filter(|record| is_settled(record)) {
        let guest = record.request.spec().owner.consumer;
        let Some(held) = allocations.get(&guest) else {
            found.insert(ReconcileFinding::AllocationMissing { guest });
            continue;
        };
        for device in record.devices.iter().flat_map(|bound| bound.iter()) {
            let device = device.name();
            let provider = providers.get(device.as_str());
            if let Some(provider) = provider.filter(|provider| !held.contains(**provider)) {
                found.insert(ReconcileFinding::AllocationDiffers {
                    guest: record.request.uuid(),
                    provider: (*provider).to_owned(),
                    device,
                });
            }
        }
    }
}

/// The provider name of each device that Placement has. The reporter of a device chooses the provider's name, so
/// providers of other reporters are ignored.
fn providers(facts: &ReconcileFacts) -> BTreeMap<&str, &str> {
    let in_placement: BTreeSet<&str> = facts.providers.values().map(String::as_str).collect();
    let ours = facts.devices.iter().flat_map(|devices| &devices.providers);
    let ours = ours.map(|(device, provider)| (device.as_str(), provider.as_str()));
    let ours = ours.filter(|(_, provider)| in_placement.contains(provider));
    let bound = facts.bound_here.iter().filter_map(|bound| {
        let provider = facts.providers.get(&bound.provider)?;
        Some((bound.device.as_str(), provider.as_str()))
    });
    ours.chain(bound).collect()
}
