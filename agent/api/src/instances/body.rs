//! Conversions between the journal's records and the JSON bodies of the guest routes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_agent_images::{ConfigDriveChange, ImageDownload, ImageSource};
use berth_agent_instances::create::{
    DirectPort, attached_interface, bound_interfaces, config_drive_change, image_of, kernel_of,
    unbound_port,
};
use berth_agent_instances::{
    BuildError, BuildOptions, MachineDescription, RescueSystem, TransitionRequest,
};
use berth_agent_journal::{
    Blame, Goal, GuestRecord, GuestRequest, NetworkFunction, SpawnStep, StepState, TransitionKind,
};
use berth_model::{ConsumerUuid, NodeName, ProviderUuid};
use berth_virt::guest_spec::{
    CpuPinning, DesiredPower, GuestInterface, InterfaceSource, MemoryPages, VcpuPin,
};
use berth_virt::{
    GuestDiagnostics, InterfaceAddresses, PowerAction, PowerState, TrafficStatistics,
};
use berth_wire::guest::{
    CellBody, DiagnosticsBody, DiskStatisticsBody, GuestAction, GuestBody, GuestBuild, GuestList,
    ImageBody, ImageComing as ImageComingBody, InterfaceBody, InterfaceStatisticsBody,
    NetworkFunctionBody, StepBody, TrafficBody,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use uuid::Uuid;

use crate::body::API;

/// Longest accepted grace period, in seconds.
const LONGEST_GRACE: u16 = 600;

/// All guests; `held` has the reasons of blocked ones.
pub(super) fn guest_list(
    records: &[Arc<GuestRecord>],
    held: &BTreeMap<ConsumerUuid, String>,
    states: &BTreeMap<ConsumerUuid, PowerState>,
    addresses: &InterfaceAddresses,
) -> GuestList {
    let guests = records.iter().map(|record| {
        let uuid = record.request.uuid();
        GuestBody {
            state: states.get(&uuid).map(ToString::to_string),
            interfaces: interfaces(record, addresses),
            ..guest_body(record, held.get(&uuid))
        }
    });
    GuestList {
        api: API.to_owned(),
        guests: guests.collect(),
    }
}

/// Progress of an image download.
pub(super) fn image_progress(image: ImageDownload) -> ImageComingBody {
    ImageComingBody {
        stage: image.stage.as_str().to_owned(),
        bytes: image.done,
        total: image.of,
    }
}

/// The interfaces of a guest with these addresses.
pub(super) fn interfaces(
    record: &GuestRecord,
    addresses: &InterfaceAddresses,
) -> Vec<InterfaceBody> {
    let interfaces = record.interfaces().as_slice().iter();
    let interfaces = interfaces.map(|interface| InterfaceBody {
        network: match &interface.source {
            InterfaceSource::Network(name) | InterfaceSource::Bridge(name) => name.to_string(),
            InterfaceSource::Port(port) => port.network().to_string(),
        },
        mac: interface.mac.to_string(),
        addresses: match &interface.source {
            // Neutron assigned them.
            InterfaceSource::Port(port) => port.addresses().iter().map(IpAddr::to_string).collect(),
            InterfaceSource::Network(_) | InterfaceSource::Bridge(_) => addresses
                .get(&interface.mac)
                .map(|all| all.iter().map(ToString::to_string).collect())
                .unwrap_or_default(),
        },
    });
    interfaces.collect()
}

/// The cells of a guest, and the size of its huge pages.
pub(super) fn cells(record: &GuestRecord) -> (Vec<CellBody>, Option<u64>) {
    let topology = &record.request.spec().topology;
    let pins = topology.pinning().map(CpuPinning::pins).unwrap_or_default();
    let pinned = |vcpu: u32| match pins.get(usize::try_from(vcpu).ok()?)? {
        VcpuPin::Dedicated(cpu) => Some((vcpu, *cpu)),
        VcpuPin::Shared(_) => None,
    };
    let cells = topology.cells().iter().map(|cell| CellBody {
        vcpus: cell.vcpus.iter().collect(),
        memory_mb: cell.memory_mib,
        host_cell: cell.host_cell,
        pins: cell.vcpus.iter().filter_map(pinned).collect(),
    });
    let pages = match topology.pages() {
        MemoryPages::Small => None,
        MemoryPages::Huge { size_kib } => Some(size_kib),
    };
    (cells.collect(), pages)
}

/// The statistics of a guest.
pub(super) fn diagnostics(driver: &str, found: GuestDiagnostics) -> DiagnosticsBody {
    let traffic = |it: TrafficStatistics| TrafficBody {
        bytes: it.bytes,
        packets: it.packets,
        errors: it.errors,
        dropped: it.dropped,
    };
    let disks = found.disks.into_iter().map(|disk| DiskStatisticsBody {
        name: disk.name,
        read_bytes: disk.read_bytes,
        read_requests: disk.read_requests,
        write_bytes: disk.write_bytes,
        write_requests: disk.write_requests,
        errors: disk.errors,
    });
    let interfaces = found.interfaces.into_iter();
    let interfaces = interfaces.map(|interface| InterfaceStatisticsBody {
        device: interface.device,
        mac: interface.mac,
        received: traffic(interface.received),
        sent: traffic(interface.sent),
    });
    DiagnosticsBody {
        driver: driver.to_owned(),
        memory_maximum_mb: found.memory_maximum_mib,
        memory_used_mb: found.memory_used_mib,
        vcpus: found.vcpus,
        cpu_time_ns: found.cpu_time_ns,
        disks: disks.collect(),
        interfaces: interfaces.collect(),
    }
}

/// One guest; `held` is the reason if it is blocked.
pub(super) fn guest_body(record: &GuestRecord, held: Option<&String>) -> GuestBody {
    let request = &record.request;
    let own = request.spec().devices.as_slice().iter();
    let own = own.map(|attached| attached.device.to_string());
    let bound = record.devices.iter().flat_map(|devices| devices.iter());
    let bound = bound.map(|bound| bound.device.to_string());
    let steps = record.steps.iter().map(|(step, record)| StepBody {
        step: step.to_string(),
        state: record.state.to_string(),
    });
    let topology = &request.spec().topology;
    let pinned = topology.pinning().map(|pinning| pinning.dedicated());
    let cells = topology.cells().iter();
    GuestBody {
        uuid: *request.uuid().as_uuid(),
        name: request.spec().name.to_string(),
        node: request.node().to_string(),
        status: status(record).to_owned(),
        state: None,
        reason: held.cloned().or_else(|| reason(record)),
        blame: blame(record).map(|blame| blame.as_str().to_owned()),
        image: None,
        dedicated_cpus: pinned.map(|cpus| cpus.to_string()).unwrap_or_default(),
        host_cells: cells.map(|cell| cell.host_cell).collect(),
        interfaces: interfaces(record, &InterfaceAddresses::default()),
        unbound_functions: record.unbound_functions().map(unbound_function).collect(),
        cells: Vec::new(),
        page_size_kib: None,
        accelerator_requests: request.arqs().iter().map(|arq| *arq.as_uuid()).collect(),
        devices: own.chain(bound).collect(),
        steps: steps.collect(),
    }
}

fn unbound_function(function: &NetworkFunction) -> NetworkFunctionBody {
    let (vendor, product) = (function.vendor_id, function.product_id);
    NetworkFunctionBody {
        port: function.port,
        pci_slot: function.address.to_string(),
        pci_vendor_info: format!("{vendor:04x}:{product:04x}"),
        physical_network: function.physical_network.clone(),
        pf_mac_address: function.facts.physical_mac.map(|mac| mac.to_string()),
        vf_num: function.facts.number,
    }
}

fn status(record: &GuestRecord) -> &'static str {
    match &record.goal {
        Goal::Destroy => "deleting",
        Goal::Undo { .. } if record.open().is_some() => "failing",
        Goal::Undo { .. } => "failed",
        Goal::Spawn if record.open().is_some() => {
            match record
                .overrides
                .transition
                .as_ref()
                .map(|transition| transition.kind)
            {
                Some(TransitionKind::Rescue) => "rescuing",
                Some(TransitionKind::Unrescue) => "unrescuing",
                Some(TransitionKind::Rebuild) => "rebuilding",
                None => "building",
            }
        }
        Goal::Spawn => match record.power {
            DesiredPower::Running if record.overrides.rescue.is_some() => "rescued",
            DesiredPower::Running => "active",
            DesiredPower::Paused => "paused",
            DesiredPower::ShutOff => "stopped",
        },
    }
}

fn blame(record: &GuestRecord) -> Option<Blame> {
    match &record.goal {
        Goal::Undo { blame, .. } => *blame,
        Goal::Spawn | Goal::Destroy => None,
    }
}

fn reason(record: &GuestRecord) -> Option<String> {
    let held = record
        .steps
        .get(&SpawnStep::Prepare)
        .filter(|step| step.state == StepState::Undoing && !step.detail.is_empty());
    match (&record.goal, held) {
        (_, Some(held)) => Some(held.detail.clone()),
        (Goal::Undo { reason, .. }, None) => Some(reason.clone()),
        (Goal::Spawn, None) if record.overrides.ended && record.power == DesiredPower::ShutOff => Some(
            "the guest shut itself down or was stopped outside Berth; it stays off until it is started"
                .to_owned(),
        ),
        (Goal::Spawn | Goal::Destroy, None) => None,
    }
}

/// Body of a creation request: a build request, or the complete guest from a caller that knows the host.
pub(super) enum CreationRequest {
    Build(Box<GuestBuild>),
    Complete(Box<GuestRequest>),
}

impl CreationRequest {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, berth_wire::BodyError> {
        /// Tells the two forms apart.
        #[derive(Deserialize)]
        struct CreationShape {
            spec: Option<IgnoredAny>,
        }
        let shape: CreationShape = berth_wire::decode(bytes)?;
        match shape.spec {
            Some(_) => Ok(Self::Complete(Box::new(berth_wire::decode(bytes)?))),
            None => Ok(Self::Build(Box::new(berth_wire::decode(bytes)?))),
        }
    }
}

pub(super) enum ActionRequest {
    Power(PowerAction),
    Change(TransitionRequest),
    Suspend,
    LiveMigrate(NodeName),
    UpdateConfigDrive(ConfigDriveChange),
    SelectFunction(DirectPort, ProviderUuid),
    AttachInterface(Box<GuestInterface>),
    DetachInterface(Uuid),
    BindPorts(Vec<GuestInterface>),
}

/// The image of a replaced root disk. Its properties cannot be applied, so they are refused rather than ignored.
fn replacement_image(image: &ImageBody) -> Result<ImageSource, BuildError> {
    if let Some(key) = image.properties.keys().next() {
        let reason = format!(
            "{key}: the guest keeps its machine here: omit it; a rebuild with extra_specs changes the machine"
        );
        return Err(BuildError::field("image.properties", reason));
    }
    image_of(image)
}

/// Parses an action. A rescue kernel must be in a folder that the options allow.
pub(super) fn parse_action(
    action: &GuestAction,
    options: Option<&BuildOptions>,
) -> Result<ActionRequest, BuildError> {
    let grace = |seconds: u16| Duration::from_secs(seconds.min(LONGEST_GRACE).into());
    let power = match action {
        GuestAction::Start {} => PowerAction::Start,
        GuestAction::Stop { grace_seconds } => PowerAction::Stop {
            grace: grace(*grace_seconds),
        },
        GuestAction::Pause {} => PowerAction::Pause,
        GuestAction::Unpause {} => PowerAction::Unpause,
        GuestAction::SoftReboot {} => PowerAction::SoftReboot,
        GuestAction::HardReboot {} => PowerAction::HardReboot,
        GuestAction::Rescue {
            image,
            kernel,
            grace_seconds,
        } => {
            let system = match (image, kernel) {
                (Some(image), None) => RescueSystem::Image(replacement_image(image)?),
                (None, Some(kernel)) => RescueSystem::Kernel(kernel_of(
                    kernel,
                    options.ok_or(BuildError::BuildsNotSupported)?,
                )?),
                (None, None) | (Some(_), Some(_)) => {
                    let reason = "a rescue needs either an image or a kernel";
                    return Err(BuildError::field("image, kernel", reason));
                }
            };
            let grace = grace(*grace_seconds);
            return Ok(ActionRequest::Change(TransitionRequest::Rescue {
                system,
                grace,
            }));
        }
        GuestAction::Unrescue {} => return Ok(ActionRequest::Change(TransitionRequest::Unrescue)),
        GuestAction::Rebuild {
            image,
            preserve_ephemeral,
            extra_specs,
        } => {
            let description = extra_specs.as_ref().map(|extra_specs| MachineDescription {
                extra_specs: extra_specs.clone(),
                properties: image.properties.clone(),
            });
            return Ok(ActionRequest::Change(TransitionRequest::Rebuild {
                image: match description {
                    Some(_) => image_of(image)?,
                    None => replacement_image(image)?,
                },
                preserve_ephemeral: *preserve_ephemeral,
                machine: description,
            }));
        }
        GuestAction::UpdateConfigDrive { change } => {
            return Ok(ActionRequest::UpdateConfigDrive(config_drive_change(
                change,
            )?));
        }
        GuestAction::SelectFunction { port, provider } => {
            let provider = ProviderUuid::from(*provider);
            return Ok(ActionRequest::SelectFunction(unbound_port(port)?, provider));
        }
        GuestAction::AttachInterface { port } => {
            let interface = Box::new(attached_interface(port)?);
            return Ok(ActionRequest::AttachInterface(interface));
        }
        GuestAction::BindPorts { ports } => {
            return Ok(ActionRequest::BindPorts(bound_interfaces(ports)?));
        }
        GuestAction::DetachInterface { port } => {
            return Ok(ActionRequest::DetachInterface(*port));
        }
        GuestAction::Suspend {} => return Ok(ActionRequest::Suspend),
        GuestAction::LiveMigrate { destination } => {
            let node = NodeName::new(destination);
            let node = node.map_err(|error| BuildError::field("destination", error))?;
            return Ok(ActionRequest::LiveMigrate(node));
        }
    };
    Ok(ActionRequest::Power(power))
}
