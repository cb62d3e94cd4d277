//! Builds the [`GuestSpec`] of a build, without CPU placement and devices.

use berth_agent_images::{
    Checksum, ConfigDrive, ConfigDriveChange, ConfigDriveContent, ConfigDriveParts, DiskPlan,
    ImageLocation, ImageSource, ImageUrl, PublicKey, UserData,
};
use berth_model::{
    ConsumerUuid, DiskBus, GuestFirmware, GuestMachine, MacAddress, MacAddressError,
};
use berth_virt::guest_spec::{
    DiskFormat, GuestBoot, GuestDevices, GuestDisks, GuestInterface, GuestInterfaces, GuestName,
    GuestOwner, GuestSpec, GuestSpecError, GuestTopology, HostPath, InstanceDescription,
    InterfaceSource, KernelCommandLine, Label, LinkName, MachineOptions, ProjectId,
};
use berth_wire::conductor::FunctionVnicType;
use berth_wire::guest::{
    ConfigDriveBody, ConfigDriveChangeBody, GuestBuild, ImageBody, ImageLocation as Location,
    KernelBody, NetworkBody, NetworkSource, PublicKeyBody, UserDataChange,
};
use berth_wire::network_info::VifBody;
use serde_json::Value;
use uuid::Uuid;

use super::ports;
use crate::create::error::BuildError;
use crate::create::options::BuildOptions;

/// Maximum number of interfaces.
const MOST_INTERFACES: usize = 64;

pub(super) fn spec(
    build: &GuestBuild,
    topology: GuestTopology,
    machine: GuestMachine,
    options: &BuildOptions,
) -> Result<(GuestSpec, DiskPlan), BuildError> {
    let uuid = ConsumerUuid::from(build.uuid);
    if build.uuid.is_nil() {
        return Err(BuildError::field("uuid", "the nil UUID names no guest"));
    }
    let disks = disks(build)?;
    let files = options.instances.disks(uuid, &disks)?;
    check_ide(&machine.options, &files)?;
    let spec = GuestSpec {
        uuid,
        node: None,
        name: GuestName::new(&build.name)?,
        owner: GuestOwner {
            project: ProjectId::new(&build.project_id)
                .map_err(|error| BuildError::field("project_id", error))?,
            consumer: uuid,
        },
        // Nothing depends on it, so an unusual name is no reason to refuse the guest.
        description: description(build).ok(),
        topology,
        cpu_model: options.cpu_model.clone(),
        machine: machine.options,
        boot: match &build.kernel {
            Some(body) => kernel(body, options)?,
            None => match machine.firmware {
                GuestFirmware::Bios => GuestBoot::Disk,
                GuestFirmware::Uefi {
                    secure_boot,
                    stateless,
                } => GuestBoot::Uefi {
                    secure_boot,
                    stateless,
                },
            },
        },
        disks: files,
        interfaces: interfaces(build)?,
        console_log: options.instances.console_log(uuid)?,
        devices: GuestDevices::default(),
        power: build.power,
    };
    Ok((spec, disks))
}

/// Checks that the disks on an IDE bus have room there.
fn check_ide(machine: &MachineOptions, disks: &GuestDisks) -> Result<(), BuildError> {
    let on = |bus: DiskBus, count: usize| if bus == DiskBus::Ide { count } else { 0 };
    let written = usize::from(disks.root().is_some()) + disks.ephemeral().len();
    let drives = usize::from(disks.config_drive().is_some());
    let found = on(machine.bus_of_disks(), written) + on(machine.bus_of_cdroms(), drives);
    if found <= DiskBus::MOST_ON_IDE {
        return Ok(());
    }
    let most = DiskBus::MOST_ON_IDE;
    let reason = format!("hw_disk_bus: an IDE bus has at most {most} disks, not {found}");
    Err(BuildError::field("image.properties", reason))
}

fn description(build: &GuestBuild) -> Result<InstanceDescription, GuestSpecError> {
    let drive = build.config_drive.as_ref();
    let name = drive.and_then(|drive| drive.name.as_deref().or(drive.hostname.as_deref()));
    Ok(InstanceDescription {
        name: Label::new(name.unwrap_or(&build.name))?,
        user: build.user_id.as_deref().map(Label::new).transpose()?,
        flavor: Label::new(&build.flavor.name)?,
        root_gib: build.flavor.disk_gb,
        ephemeral_gib: build.flavor.ephemeral_gb,
        swap_mib: build.flavor.swap_mb,
        image: build.image.as_ref().and_then(|image| match image.location {
            Location::Glance(uuid) => Some(uuid),
            Location::Path(_) | Location::Url(_) => None,
        }),
    })
}

/// Checks that the kernel and RAM disk are in the folders for guests' kernels: a guest can read its RAM disk, whatever
/// file that is.
pub fn kernel(body: &KernelBody, options: &BuildOptions) -> Result<GuestBoot, BuildError> {
    let allowed = |field: &str, path: &str| {
        let field = format!("kernel.{field}");
        let path = HostPath::new(path).map_err(|error| BuildError::field(&field, error))?;
        let folders = &options.kernel_directories;
        if folders
            .iter()
            .any(|folder| path.as_path().starts_with(folder.as_path()))
        {
            return Ok(path);
        }
        let folders: Vec<_> = folders.iter().map(HostPath::as_str).collect();
        let current = match folders.is_empty() {
            true => "none".to_owned(),
            false => folders.join(", "),
        };
        let reason = format!(
            "kernels must lie in one of [image_cache] image_directories of the agent's configuration (currently: {current})"
        );
        Err(BuildError::field(field, reason))
    };
    Ok(GuestBoot::Kernel {
        kernel: allowed("kernel", &body.kernel)?,
        ramdisk: match &body.ramdisk {
            Some(path) => Some(allowed("ramdisk", path)?),
            None => None,
        },
        command_line: KernelCommandLine::new(&body.command_line)?,
    })
}

fn interfaces(build: &GuestBuild) -> Result<GuestInterfaces, BuildError> {
    let found = build.networks.len();
    if found > MOST_INTERFACES {
        let reason = format!("a guest has at most {MOST_INTERFACES}, not {found}");
        return Err(BuildError::field("networks", reason));
    }
    let interfaces = build.networks.iter().enumerate();
    let interfaces = interfaces.filter(|(_, body)| !is_direct(body));
    let interfaces = interfaces.map(|(number, body)| interface(build.uuid, number, body));
    Ok(GuestInterfaces::new(interfaces.collect::<Result<_, _>>()?)?)
}

fn interface(guest: Uuid, number: usize, body: &NetworkBody) -> Result<GuestInterface, BuildError> {
    let field = format!("networks[{number}]");
    let link = |name| LinkName::new(name).map_err(|error| BuildError::field(&field, error));
    let (own_mac, source) = match &body.source {
        NetworkSource::Network(name) => (None, InterfaceSource::Network(link(name)?)),
        NetworkSource::Bridge(name) => (None, InterfaceSource::Bridge(link(name)?)),
        NetworkSource::Port(vif) => {
            let port = ports::port(vif, &field)?;
            (Some(&vif.address), InterfaceSource::Port(Box::new(port)))
        }
    };
    let mac = match body.mac.as_ref().or(own_mac) {
        Some(text) => text.parse(),
        None => derived_mac(guest, number),
    };
    Ok(GuestInterface {
        mac: mac.map_err(|error| BuildError::field(&field, error))?,
        source,
    })
}

fn is_direct(body: &NetworkBody) -> bool {
    matches!(&body.source, NetworkSource::Port(vif) if ports::function_kind(vif).is_some())
}

/// The ports of a build that get a network function, in their order.
pub(super) fn direct_ports(build: &GuestBuild) -> Result<Vec<ports::DirectPort>, BuildError> {
    let numbered = build.networks.iter().enumerate();
    let direct = numbered.filter_map(|(number, body)| match &body.source {
        NetworkSource::Port(vif) => {
            let kind = ports::function_kind(vif)?;
            Some(ports::unbound(vif, kind, &format!("networks[{number}]")))
        }
        _ => None,
    });
    direct.collect()
}

/// The interfaces of a guest's ports, from virtual interfaces that Neutron bound. Direct ports have their functions.
pub fn bound_interfaces(vifs: &[VifBody]) -> Result<Vec<GuestInterface>, BuildError> {
    let numbered = vifs.iter().enumerate();
    let interfaces =
        numbered.map(|(number, vif)| bound_interface(vif, &format!("ports[{number}]")));
    interfaces.collect()
}

/// The interface of a port that is attached to an existing guest.
pub fn attached_interface(vif: &VifBody) -> Result<GuestInterface, BuildError> {
    bound_interface(vif, "port")
}

/// A port that is attached to an existing guest when a function has been selected for it.
pub fn unbound_port(vif: &VifBody) -> Result<ports::DirectPort, BuildError> {
    match ports::function_kind(vif) {
        Some(kind @ (FunctionVnicType::Direct | FunctionVnicType::Macvtap)) => {
            ports::unbound(vif, kind, "port")
        }
        _ => {
            let (port, kind) = (vif.id, &vif.vnic_type);
            let reason = format!(
                "port {port} has binding:vnic_type {kind}; expected a port that needs a virtual function (direct or macvtap)"
            );
            Err(BuildError::field("port", reason))
        }
    }
}

/// The interface of a virtual interface that Neutron bound. `field` names it in errors.
fn bound_interface(vif: &VifBody, field: &str) -> Result<GuestInterface, BuildError> {
    let port = match ports::function_kind(vif) {
        Some(kind) => ports::function(vif, kind, field)?,
        None => ports::port(vif, field)?,
    };
    let mac = vif.address.parse();
    Ok(GuestInterface {
        mac: mac.map_err(|error| BuildError::field(format!("{field}.address"), error))?,
        source: InterfaceSource::Port(Box::new(port)),
    })
}

/// A MAC address derived from the guest's UUID: locally administered, and the same for every build of the guest.
fn derived_mac(guest: Uuid, number: usize) -> Result<MacAddress, MacAddressError> {
    let derived = Uuid::new_v5(&guest, format!("interface {number}").as_bytes());
    let [a, b, c, d, e, ..] = *derived.as_bytes();
    format!("fa:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}").parse()
}

fn disks(build: &GuestBuild) -> Result<DiskPlan, BuildError> {
    let image = build.image.as_ref().map(image).transpose()?;
    let ephemeral = Some(build.flavor.ephemeral_gb).filter(|gib| *gib > 0);
    let drive = build.config_drive.as_ref();
    let drive = drive.map(|body| config_drive(body, build)).transpose()?;
    let ephemeral = ephemeral.into_iter().collect();
    Ok(
        DiskPlan::new(image, build.flavor.disk_gb, ephemeral, drive)?
            .with_swap(build.flavor.swap_mb)?,
    )
}

pub fn image(body: &ImageBody) -> Result<ImageSource, BuildError> {
    let location = match &body.location {
        Location::Path(path) => ImageLocation::Path(
            HostPath::new(path).map_err(|error| BuildError::field("image.location", error))?,
        ),
        Location::Url(url) => ImageLocation::Url(ImageUrl::new(url)?),
        Location::Glance(image) => ImageLocation::Glance(*image),
    };
    let format = match body.format.as_str() {
        "raw" => DiskFormat::Raw,
        "qcow2" => DiskFormat::Qcow2,
        _ => {
            return Err(BuildError::field("image.format", "expected raw or qcow2"));
        }
    };
    let checksum = body
        .checksum
        .as_ref()
        .map(|text| text.parse::<Checksum>())
        .transpose()?;
    Ok(ImageSource::new(location, checksum, format)?)
}

fn config_drive(body: &ConfigDriveBody, build: &GuestBuild) -> Result<ConfigDrive, BuildError> {
    let user_data = body
        .user_data
        .as_ref()
        .map(|text| UserData::from_base64(text));
    let keys = public_keys(&body.ssh_keys);
    let content = ConfigDriveContent::new(ConfigDriveParts {
        hostname: match &body.hostname {
            Some(hostname) => hostname.clone(),
            None => hostname(&build.name, build.uuid),
        },
        name: Some(body.name.as_ref().unwrap_or(&build.name).clone()),
        project_id: Some(build.project_id.clone()),
        availability_zone: body.availability_zone.clone(),
        launch_index: body.launch_index,
        reservation_id: body.reservation_id.clone(),
        flavor: Some(build.flavor.name.clone()),
        image_id: match build.image.as_ref().map(|image| &image.location) {
            Some(Location::Glance(image)) => Some(image.to_string()),
            _ => None,
        },
        metadata: body.metadata.clone(),
        public_keys: keys,
        user_data: user_data.transpose()?,
        network_data: network_data(build),
        ..ConfigDriveParts::default()
    })?;
    Ok(ConfigDrive::new(content))
}

/// The description of the guest's ports; `None` if it has none.
fn network_data(build: &GuestBuild) -> Option<Value> {
    let vifs = build.networks.iter().filter_map(|body| match &body.source {
        NetworkSource::Port(vif) => Some(&**vif),
        NetworkSource::Network(_) | NetworkSource::Bridge(_) => None,
    });
    let vifs: Vec<_> = vifs.collect();
    (!vifs.is_empty()).then(|| ports::network_data(&vifs))
}

/// The change of a config drive, by the agent's own types.
pub fn config_drive_change(body: &ConfigDriveChangeBody) -> Result<ConfigDriveChange, BuildError> {
    let user_data = match &body.user_data {
        None => None,
        Some(UserDataChange::Remove) => Some(None),
        Some(UserDataChange::Set(text)) => Some(Some(UserData::from_base64(text)?)),
    };
    Ok(ConfigDriveChange {
        name: body.name.clone(),
        metadata: body.metadata.clone(),
        user_data,
        public_keys: body.ssh_keys.as_deref().map(public_keys),
    })
}

fn public_keys(keys: &[PublicKeyBody]) -> Vec<PublicKey> {
    let keys = keys.iter().map(|key| PublicKey {
        name: key.name.clone(),
        public_key: key.public_key.clone(),
    });
    keys.collect()
}

/// A hostname derived from the guest's name, as in Nova: blanks and underscores become hyphens, and invalid characters
/// are dropped.
fn hostname(name: &str, guest: Uuid) -> String {
    let letters = name.to_lowercase();
    let letters = letters.chars().filter_map(|letter| match letter {
        ' ' | '_' => Some('-'),
        letter if letter.is_ascii_alphanumeric() || letter == '-' => Some(letter),
        _ => None,
    });
    let letters: String = letters.take(63).collect();
    match letters.trim_matches('-') {
        "" => format!("server-{}", guest.hyphenated()),
        hostname => hostname.to_owned(),
    }
}
