//! Requests of the agent's guest API: a guest described by flavor, image and networks, and actions.
//!
//! The agent turns a [`GuestBuild`] into what its hypervisor needs: it chooses host cells, CPUs, pages and the flavor's
//! devices. It checks ranges and names the field in errors.

use std::collections::BTreeMap;
use std::fmt;

use berth_model::DesiredPower;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::network_info::VifBody;

/// POST /v1/guests, at most 256 KiB. Repeating the same body is safe; another body with the same UUID is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestBuild {
    /// The instance's UUID, which is also its consumer's in Placement and the domain's on the hypervisor.
    pub uuid: Uuid,
    /// Its name on the hypervisor: 1 to 240 bytes of printable characters without `/`.
    pub name: String,
    /// Its project: 1 to 255 bytes of printable characters.
    pub project_id: String,
    /// The requesting user, for the guest's metadata; 1 to 255 bytes of printable characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The node to build it on: the `hostname` of its accelerator requests.
    pub node: String,
    /// The flavor: size and placement.
    pub flavor: FlavorBody,
    /// The image of its root disk. By default the root disk is empty, or missing if the flavor has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageBody>,
    /// A kernel on the host to boot directly; by default it boots from its root disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelBody>,
    /// Its interfaces in their order, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub networks: Vec<NetworkBody>,
    /// The accelerator requests (ARQs) of its devices, without duplicates, at most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub accelerator_requests: Vec<Uuid>,
    /// Its allocations: amounts by provider and resource class. From these the agent knows which GPU a `VGPU` of the
    /// flavor is on, and which cells its devices are near.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocations: BTreeMap<Uuid, BTreeMap<String, u64>>,
    /// Limits that the scheduler computed for the chosen node.
    #[serde(default, skip_serializing_if = "LimitsBody::is_none")]
    pub limits: LimitsBody,
    /// The content of the config drive; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_drive: Option<ConfigDriveBody>,
    /// The desired power state.
    #[serde(default)]
    pub power: DesiredPower,
}

/// A flavor, as embedded by Nova.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlavorBody {
    /// Its name, for messages and the guest's metadata; 1 to 255 bytes of printable characters.
    pub name: String,
    /// Virtual CPUs, 1 to 4096.
    #[schemars(range(min = 1, max = 4096))]
    pub vcpus: u32,
    /// Memory in MiB, 1 to 2^30.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub ram_mb: u64,
    /// The root disk in GiB; 0: as large as its image, or none without an image.
    #[serde(default)]
    pub disk_gb: u64,
    /// The ephemeral disk in GiB; 0: none.
    #[serde(default)]
    pub ephemeral_gb: u64,
    /// The swap disk in MiB; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub swap_mb: u64,
    /// `hw:cpu_policy` and others, at most 256. Keys that hosts do not support are refused, as by the compute API.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_specs: BTreeMap<String, String>,
}

/// An image: where its data are, and what it requires of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageBody {
    /// The location of the data.
    pub location: ImageLocation,
    /// `ALGORITHM:HEX` with `sha256` or `sha512`; optional only if the data come from the image service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// The format of the data: `raw` or `qcow2`.
    pub format: String,
    /// Requirements on the machine, such as `hw_firmware_type` (`bios`, `uefi`),
    /// `os_secure_boot` (`required`, `optional`, `disabled`) and `hw_watchdog_action`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

impl ImageBody {
    /// The image with only those properties that agents accept.
    #[must_use]
    pub fn of_machine(mut self) -> Self {
        self.properties
            .retain(|key, _| berth_model::is_machine_property(key));
        self
    }
}

/// The location of image data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageLocation {
    /// A file on the host, in a folder that the agent's configuration names.
    Path(String),
    /// An `http` or `https` URL.
    Url(String),
    /// An image of the image service.
    Glance(Uuid),
}

/// A kernel that lies on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelBody {
    /// The kernel's absolute path.
    pub kernel: String,
    /// The absolute path of the initial RAM disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramdisk: Option<String>,
    /// Its command line, at most 2047 bytes of printable characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command_line: String,
}

/// A network interface of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkBody {
    /// What it is connected to.
    pub source: NetworkSource,
    /// The MAC address; by default derived from the guest's UUID and the interface's index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// What an interface is connected to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkSource {
    /// A libvirt network's name.
    Network(String),
    /// A Linux bridge's name.
    Bridge(String),
    /// A Neutron port, bound to this host. A port with the `vnic_type` `direct` is unbound: the host selects its network
    /// function, and the guest waits until its ports are bound (`bind_ports`).
    Port(Box<VifBody>),
}

/// The scheduler's limits: Nova's `NUMATopologyLimits`, and the chosen cells.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsBody {
    /// The host NUMA cells it may use; default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cells: Option<Vec<u32>>,
    /// The maximum of shared virtual CPUs per CPU of a cell, above 0; no bound if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub cpu_allocation_ratio: Option<f64>,
    /// The maximum of guest memory per memory of a cell, above 0; no bound if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub ram_allocation_ratio: Option<f64>,
}

impl LimitsBody {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The content of a config drive. It may contain secrets, so `Debug` omits the user's texts.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigDriveBody {
    /// The guest's hostname; none: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The name that users see; none: the guest's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The availability zone of its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    /// Its number among the guests of one request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub launch_index: u32,
    /// The ID of the request that created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation_id: Option<String>,
    /// The tenant's `meta`: at most 128 keys, each and its value at most 255 bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// User data in base64 (like Nova), at most 65,535 bytes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Authorized public keys, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ssh_keys: Vec<PublicKeyBody>,
}

fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

impl fmt::Debug for ConfigDriveBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigDriveBody")
            .field("hostname", &self.hostname)
            .field("availability_zone", &self.availability_zone)
            .field("metadata", &self.metadata.keys())
            .field("user_data", &self.user_data.as_ref().map(String::len))
            .field("ssh_keys", &self.ssh_keys)
            .finish()
    }
}

/// A change of a config drive. What is absent stays as it is. It may contain secrets, so `Debug` omits the user's texts.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigDriveChangeBody {
    /// The name that users see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The whole `meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<UserDataChange>,
    /// All authorized public keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ssh_keys: Option<Vec<PublicKeyBody>>,
}

impl fmt::Debug for ConfigDriveChangeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = self.metadata.as_ref();
        f.debug_struct("ConfigDriveChangeBody")
            .field(
                "metadata",
                &metadata.map(|all| all.keys().collect::<Vec<_>>()),
            )
            .field("user_data", &self.user_data)
            .field("ssh_keys", &self.ssh_keys)
            .finish_non_exhaustive()
    }
}

/// A change of a config drive's user data.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UserDataChange {
    Remove,
    /// In base64 (like Nova), at most 65,535 bytes of it.
    Set(String),
}

impl fmt::Debug for UserDataChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remove => f.write_str("Remove"),
            Self::Set(text) => write!(f, "Set({} bytes)", text.len()),
        }
    }
}

/// The public key of a key pair, for the config drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicKeyBody {
    /// The name of the key pair.
    pub name: String,
    /// The line of `authorized_keys`, or a certificate in PEM.
    pub public_key: String,
}

/// POST /v1/guests/{uuid}/action. (All variants have braces, because serde ignores unknown keys in unit variants.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum GuestAction {
    /// Switches the guest on.
    Start {},
    /// Power off, after a graceful shutdown if a grace period is given.
    Stop {
        /// The grace period, 0 to 600 seconds; larger values count as 600.
        #[serde(default)]
        #[schemars(range(max = 600))]
        grace_seconds: u16,
    },
    /// Stops the CPUs; the guest keeps its resources.
    Pause {},
    /// Resumes the CPUs of a paused guest.
    Unpause {},
    /// Asks the guest to reboot by itself.
    SoftReboot {},
    /// Switches the guest off and on.
    HardReboot {},
    /// Power off, and boot a rescue system: an image in front of the guest's own disks, or a kernel on the host.
    /// Exactly one of the two.
    Rescue {
        /// The rescue system's image.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<ImageBody>,
        /// A kernel on the host that is booted instead of an image.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kernel: Option<KernelBody>,
        /// The grace period of the shutdown, 0 to 600 seconds; larger values count as 600.
        #[serde(default)]
        #[schemars(range(max = 600))]
        grace_seconds: u16,
    },
    /// Power off, and boot from its own disk again.
    Unrescue {},
    /// Power off, recreate the root disk, and restore the desired power state. Its devices stay assigned.
    Rebuild {
        /// The image of the new root disk.
        image: ImageBody,
        /// Whether its ephemeral disks are kept; by default they are recreated.
        #[serde(default)]
        preserve_ephemeral: bool,
        /// The flavor's extra specs. With them, the guest gets the devices that they and the image's properties describe.
        /// Without them it keeps its devices, and the image must have no properties.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra_specs: Option<BTreeMap<String, String>>,
    },
    /// Changes what the config drive says. The guest reads it at its next start; a running guest keeps what it read.
    UpdateConfigDrive {
        /// What changes.
        change: ConfigDriveChangeBody,
    },
    /// Binds the guest's ports to the network functions that the host selected for them (`unbound_functions`). The guest then
    /// starts.
    BindPorts {
        /// All ports of the guest in their order, bound to this host.
        #[schemars(length(max = 64))]
        ports: Vec<VifBody>,
    },
    /// Selects a network function for a port that is attached next. The answer has it in `unbound_functions`. A guest that has
    /// a function for the port keeps it.
    SelectFunction {
        /// The port, not bound yet.
        port: Box<VifBody>,
        /// The UUID of the network card's provider. The guest has an allocation on it.
        provider: Uuid,
    },
    /// Attaches a Neutron port that is bound to this host, also while the guest runs. A guest that has the port keeps it.
    AttachInterface {
        /// The port.
        port: Box<VifBody>,
    },
    /// Detaches a Neutron port, and waits until a running guest has released it.
    DetachInterface {
        /// The UUID of the port.
        port: Uuid,
    },
    /// Saves the memory to disk and switches the guest off. Refused for guests with devices.
    Suspend {},
    /// Live migration. Refused for guests with devices, and not implemented for others.
    LiveMigrate {
        /// Name of the destination node.
        destination: String,
    },
}
