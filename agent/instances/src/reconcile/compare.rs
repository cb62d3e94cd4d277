//! The comparison, pair by pair. Pure: what could not be read is no finding.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent_devices::DeviceFacts;
use berth_agent_journal::{
    BoundDevices, Goal, GuestRecord, NamedDevice as _, SpawnStep, StepState,
};
use berth_model::{ConsumerUuid, ProviderUuid};
use berth_virt::{GuestHardware, GuestOnHost, HostDevice, PreparedDevice, Preparer};

use crate::accelerators::BoundHere;
use crate::power_sync::{PowerSyncAction, plan_power_sync};
use crate::reconcile::finding::{Finding, Unbinding};
use crate::spawn_context::is_ours;

/// What was read of the five truths. None: it could not be, or there is none.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Which boot of the host this is.
    pub boot_id: String,
    pub journal: Vec<GuestRecord>,
    pub hypervisor: Option<BTreeMap<ConsumerUuid, GuestOnHost>>,
    pub devices: Option<DeviceFacts>,
    /// What was made ready for guests, as it was before the journal was read: whoever it was made ready for is in there.
    pub prepared: Vec<PreparedDevice>,
    /// What the requests of each guest are bound to now, or why that cannot be.
    pub requests: BTreeMap<ConsumerUuid, Result<BoundDevices, String>>,
    /// Whatever is bound on this host, where the accelerator service takes no report of its devices and so tells no holders.
    pub bound_here: Vec<BoundHere>,
    /// Who holds what of this host's providers, by their names.
    pub allocations: Option<BTreeMap<ConsumerUuid, BTreeSet<String>>>,
    /// The names of this host's providers in Placement.
    pub providers: BTreeMap<ProviderUuid, String>,
}

/// All findings, in their order.
#[must_use]
pub fn compare(facts: &Facts) -> BTreeSet<Finding> {
    let mut found = BTreeSet::new();
    let known: BTreeMap<ConsumerUuid, &GuestRecord> = facts
        .journal
        .iter()
        .map(|record| (record.request.uuid(), record))
        .collect();
    for record in &facts.journal {
        journal_and_hypervisor(facts, record, &mut found);
        journal_and_requests(facts, record, &mut found);
        journal_and_devices(facts, record, &mut found);
    }
    if let Some(hypervisor) = &facts.hypervisor {
        for (uuid, guest) in hypervisor {
            if guest.owner.is_some() && !known.contains_key(uuid) {
                found.insert(Finding::GuestOrphan {
                    guest: *uuid,
                    name: guest.name.clone(),
                });
            }
        }
        devices_and_hypervisor(facts, hypervisor, &mut found);
    }
    devices_and_requests(facts, &known, &mut found);
    found.extend(left_behind(facts).map(left));
    allocations_and_guests(facts, &known, &mut found);
    found
}

/// Whether nothing is under way with the guest, and it should have its devices.
fn settled(record: &GuestRecord) -> bool {
    record.course == Goal::Spawn && record.state(SpawnStep::Start) == Some(StepState::Done)
}

fn journal_and_hypervisor(facts: &Facts, record: &GuestRecord, found: &mut BTreeSet<Finding>) {
    let guest = record.request.uuid();
    let on_host = facts.hypervisor.as_ref();
    let on_host = on_host.and_then(|guests| guests.get(&guest));
    if let Some(reason) = on_host.and_then(|on_host| on_host.stuck.clone()) {
        // Whatever is to be done with it waits for that.
        found.insert(Finding::GuestStuck { guest, reason });
        return;
    }
    if let Some(what) = record.open() {
        found.insert(Finding::GuestUnfinished { guest, what });
        return;
    }
    if facts.hypervisor.is_none() {
        return;
    }
    match plan_power_sync(record, on_host, &facts.boot_id) {
        PowerSyncAction::InSync => {}
        PowerSyncAction::BringBack => {
            found.insert(Finding::GuestAway { guest });
        }
        PowerSyncAction::EndedItself => {
            found.insert(Finding::GuestEnded { guest });
        }
        PowerSyncAction::Stop | PowerSyncAction::Suspend | PowerSyncAction::Pause => {
            found.insert(Finding::GuestNotAtRest { guest });
        }
        PowerSyncAction::UnexpectedlyPaused => {
            found.insert(Finding::GuestPaused { guest });
        }
        PowerSyncAction::TakeOff => {
            found.insert(Finding::GuestUndone { guest });
        }
    }
    if !settled(record) {
        return;
    }
    let Some(on_host) = on_host else { return };
    let difference = if let Some(reason) = &on_host.unreadable {
        Some(format!("it cannot be read: {reason}"))
    } else if is_ours(on_host, &record.request) {
        let bound = record.devices.clone().unwrap_or_default();
        match bound.attached_to(record.request.spec()) {
            Ok(spec) => on_host.difference(&spec),
            Err(error) => Some(error.to_string()),
        }
    } else {
        Some("it is another's".to_owned())
    };
    if let Some(difference) = difference {
        found.insert(Finding::GuestDiffers { guest, difference });
    } else if let Some(difference) = other_hardware(record, on_host) {
        found.insert(Finding::DomainDiffers { guest, difference });
    }
}

/// In what a guest's processors, memory, disks and interfaces are not those of its present form.
fn other_hardware(record: &GuestRecord, on_host: &GuestOnHost) -> Option<String> {
    let has = on_host.hardware.as_ref()?;
    let form = record.present().ok()?;
    has.difference(&GuestHardware::of(form.spec()))
}

fn journal_and_requests(facts: &Facts, record: &GuestRecord, found: &mut BTreeSet<Finding>) {
    let guest = record.request.uuid();
    let Some(now) = facts.requests.get(&guest).filter(|_| settled(record)) else {
        return;
    };
    let before = record.devices.clone().unwrap_or_default();
    let reason = match now {
        Ok(now) if *now == before => return,
        Ok(now) => format!("they are bound to {now}, and the guest has {before}"),
        Err(reason) => reason.clone(),
    };
    found.insert(Finding::RequestsDiffer { guest, reason });
}

fn journal_and_devices(facts: &Facts, record: &GuestRecord, found: &mut BTreeSet<Finding>) {
    let Some(devices) = &facts.devices else {
        return;
    };
    let bound = record.devices.iter().flat_map(|bound| bound.iter());
    for bound in bound.filter(|_| settled(record)) {
        let device = bound.name();
        let reason = match devices.offered.get(&device) {
            Some(Some(reason)) => reason.clone(),
            None if devices.vanished.contains(&device) => "it is gone".to_owned(),
            Some(None) | None => continue,
        };
        found.insert(Finding::DeviceUnfit {
            device,
            guest: record.request.uuid(),
            reason,
        });
    }
}

fn devices_and_hypervisor(
    facts: &Facts,
    hypervisor: &BTreeMap<ConsumerUuid, GuestOnHost>,
    found: &mut BTreeSet<Finding>,
) {
    let Some(devices) = &facts.devices else {
        return;
    };
    for (uuid, guest) in hypervisor.iter().filter(|(_, guest)| guest.owner.is_none()) {
        for held in &guest.devices {
            let device = match held.device {
                HostDevice::Function(address) => address.to_string(),
                HostDevice::Mdev(uuid) => uuid.hyphenated().to_string(),
            };
            // A request that is bound for it says that it is somebody's who asks the same service.
            let mut bound = facts.bound_here.iter();
            let is_bound =
                devices.holders.contains_key(&device) || bound.any(|bound| bound.device == device);
            if devices.offered.contains_key(&device) && !is_bound {
                let guest = *uuid;
                found.insert(Finding::DeviceTaken { device, guest });
            }
        }
    }
}

fn devices_and_requests(
    facts: &Facts,
    known: &BTreeMap<ConsumerUuid, &GuestRecord>,
    found: &mut BTreeSet<Finding>,
) {
    for bound in &facts.bound_here {
        if !is_guest(facts, known, bound.guest) {
            found.insert(Finding::RequestOrphan {
                arq: bound.arq,
                guest: Some(bound.guest),
                device: bound.device.clone(),
                unbinding: Unbinding::ByOperator,
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
            found.insert(Finding::RequestOrphan {
                arq: holder.arq,
                guest: holder.guest,
                device: device.clone(),
                unbinding: Unbinding::ByService,
            });
        }
    }
    // Where the accelerator service lost its rows, a guest still has what was never given back.
    let had = facts.journal.iter().flat_map(|record| &record.devices);
    let had: BTreeSet<String> = had
        .flat_map(|bound| bound.iter().map(|it| it.name()))
        .collect();
    for device in devices.unclean.difference(&had) {
        let device = device.clone();
        found.insert(Finding::DeviceUnclean { device });
    }
    for provider in &devices.missing {
        let provider = *provider;
        found.insert(Finding::ProviderMissing { provider });
    }
}

/// What was made ready by berth and is nobody's: a guest that is no more left it. Nothing, where not all could be read that may
/// hold it.
pub(super) fn left_behind(facts: &Facts) -> impl Iterator<Item = &PreparedDevice> {
    let held = held(facts);
    let is_free = move |device: &&PreparedDevice| {
        let Some(held) = &held else { return false };
        let fellows = device.fellows.iter().map(ToString::to_string);
        let mut names = fellows.chain([device.wanted.device.name()]);
        device.by == Preparer::Berth && !names.any(|name| held.contains(&name))
    };
    facts.prepared.iter().filter(is_free)
}

/// The finding for one of them.
pub(super) fn left(device: &PreparedDevice) -> Finding {
    let device_name = device.wanted.device.name();
    match device.wanted.host_device() {
        HostDevice::Mdev(_) => Finding::MdevOrphan {
            device: device_name,
        },
        HostDevice::Function(_) => Finding::DeviceLeft {
            device: device_name,
        },
    }
}

/// The names of all that somebody holds, or that goes to nobody for now; none where that cannot be said.
fn held(facts: &Facts) -> Option<BTreeSet<String>> {
    let (hypervisor, devices) = (facts.hypervisor.as_ref()?, facts.devices.as_ref()?);
    if hypervisor.values().any(|guest| guest.unreadable.is_some()) {
        return None;
    }
    let on_host = hypervisor.values().flat_map(|guest| &guest.devices);
    let of_flavors = facts.journal.iter();
    let of_flavors = of_flavors.flat_map(|record| record.request.spec().devices.as_slice());
    let bound = facts.journal.iter().flat_map(|record| &record.devices);
    let bound = bound.flat_map(|bound| bound.iter().map(|it| it.name()));
    let here = facts.bound_here.iter().map(|bound| bound.device.clone());
    let names = on_host.map(|held| held.device.name());
    let names = names.chain(of_flavors.map(|attached| attached.device.name()));
    let told = devices.holders.keys().chain(&devices.unclean);
    let told = told.chain(&devices.withheld).cloned();
    Some(names.chain(bound).chain(here).chain(told).collect())
}

fn is_guest(
    facts: &Facts,
    known: &BTreeMap<ConsumerUuid, &GuestRecord>,
    guest: ConsumerUuid,
) -> bool {
    let hypervisor = facts.hypervisor.as_ref();
    known.contains_key(&guest)
        // During a move its allocations are the migration's.
        || known.values().any(|record| record.request.spec().owner.consumer == guest)
        // A hypervisor that does not answer may have it.
        || hypervisor.is_none_or(|guests| guests.contains_key(&guest))
}

fn allocations_and_guests(
    facts: &Facts,
    known: &BTreeMap<ConsumerUuid, &GuestRecord>,
    found: &mut BTreeSet<Finding>,
) {
    let Some(allocations) = &facts.allocations else {
        return;
    };
    for (consumer, providers) in allocations {
        if !is_guest(facts, known, *consumer) {
            found.insert(Finding::AllocationOrphan {
                consumer: *consumer,
                providers: providers.iter().cloned().collect(),
            });
        }
    }
    let providers = providers(facts);
    for record in facts.journal.iter().filter(|record| settled(record)) {
        let guest = record.request.spec().owner.consumer;
        let Some(held) = allocations.get(&guest) else {
            found.insert(Finding::AllocationMissing { guest });
            continue;
        };
        for device in record.devices.iter().flat_map(|bound| bound.iter()) {
            let device = device.name();
            let provider = providers.get(device.as_str());
            if let Some(provider) = provider.filter(|it| !held.contains(**it)) {
                found.insert(Finding::AllocationDiffers {
                    guest: record.request.uuid(),
                    provider: (*provider).to_owned(),
                    device,
                });
            }
        }
    }
}

/// The provider of each device of which Placement has it: whoever reports a device names its provider, and another's name for it
/// is not to be looked for.
fn providers(facts: &Facts) -> BTreeMap<&str, &str> {
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
