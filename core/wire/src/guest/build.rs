//! What is asked of the agent: a guest as its flavor, image and networks describe it, and what is to be done with one.
//!
//! The agent makes of a [`GuestBuild`] what its hypervisor needs: it picks host cells, CPUs, pages and the devices of the
//! flavor. Ranges are checked there, with an error that names the field.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// POST /v1/guests. At most 256 KiB in all. The same body again is the same guest; another body with its UUID is refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestBuild {
    /// The instance's UUID, which its consumer in Placement and the guest on the hypervisor have too.
    pub uuid: Uuid,
    /// Its name on the hypervisor: 1 to 240 bytes of printable characters without `/`.
    pub name: String,
    /// Its project: 1 to 255 bytes of printable characters.
    pub project_id: String,
    /// Who asked for it, for the guest's metadata; 1 to 255 bytes of printable characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The node it shall be on: the `hostname` of its accelerator requests.
    pub node: String,
    /// How large it is, and how it is placed.
    pub flavor: FlavorBody,
    /// The image its root disk lies over; none: an empty root disk, or none where the flavor has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageBody>,
    /// A kernel of the host that it starts from; none: its root disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelBody>,
    /// Its interfaces in their order, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub networks: Vec<NetworkBody>,
    /// The accelerator requests whose devices it must have, each once, at most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub accelerator_requests: Vec<Uuid>,
    /// What it holds in Placement: by provider, by resource class, how much. The agent finds there which GPU a flavor's
    /// `VGPU` is of, and which cells its devices are near.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocations: BTreeMap<Uuid, BTreeMap<String, u64>>,
    /// What the scheduler allows.
    #[serde(default, skip_serializing_if = "LimitsBody::is_none")]
    pub limits: LimitsBody,
    /// What its config drive says; none: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_drive: Option<ConfigDriveBody>,
    /// Whether it should run.
    #[serde(default)]
    pub power: GuestPower,
}

/// A flavor, as Nova embeds it.
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
    /// The root disk in GiB; 0: as large as its image, or none where there is no image.
    #[serde(default)]
    pub disk_gb: u64,
    /// The ephemeral disk in GiB; 0: none.
    #[serde(default)]
    pub ephemeral_gb: u64,
    /// `hw:cpu_policy` and the like, at most 256. Keys of a namespace the agent places by and does not know are refused;
    /// those of other namespaces are somebody else's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_specs: BTreeMap<String, String>,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageBody {
    /// Where it is.
    pub location: ImageLocation,
    /// `ALGORITHM:HEX` with `sha256` or `sha512`; none only where the image service itself says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// `raw` or `qcow2`.
    pub format: String,
    /// What it says of the machine it needs: `hw_firmware_type` (`bios`, `uefi`) and `os_secure_boot` (`required`, `optional`,
    /// `disabled`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

impl ImageBody {
    /// The image with those of its properties that an agent reads: it refuses others.
    #[must_use]
    pub fn of_machine(mut self) -> Self {
        let read = ["hw_firmware_type", "os_secure_boot"];
        self.properties
            .retain(|key, _| read.contains(&key.as_str()));
        self
    }
}

/// Where an image is.
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
    /// Its initial RAM disk's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramdisk: Option<String>,
    /// Its command line, at most 2047 bytes of printable characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command_line: String,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkBody {
    /// What it is plugged into.
    pub source: NetworkSource,
    /// Its Ethernet address; none: one that is derived of the guest's UUID and the interface's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// What an interface is plugged into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkSource {
    /// A libvirt network's name.
    Network(String),
    /// A Linux bridge's name.
    Bridge(String),
}

/// What the scheduler allows: Nova's `NUMATopologyLimits`, and the cells it chose.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsBody {
    /// The host's NUMA cells it may be on; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cells: Option<Vec<u32>>,
    /// How many shared virtual CPUs per CPU of a cell, above 0; none: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub cpu_allocation_ratio: Option<f64>,
    /// How much guests' memory per memory of a cell, above 0; none: no bound.
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

/// What a config drive says. May hold secrets: what is shown of it for debugging leaves out the tenant's texts.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigDriveBody {
    /// The guest's hostname; none: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The tenant's `meta`: at most 128 keys, each and its value at most 255 bytes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// User data in base64 (Nova's form), at most 65,535 bytes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Public keys that may log in, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ssh_keys: Vec<SshKeyBody>,
}

impl fmt::Debug for ConfigDriveBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigDriveBody")
            .field("hostname", &self.hostname)
            .field("metadata", &self.metadata.keys())
            .field("user_data", &self.user_data.as_ref().map(String::len))
            .field("ssh_keys", &self.ssh_keys)
            .finish()
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SshKeyBody {
    /// Its name.
    pub name: String,
    /// The line of `authorized_keys`.
    pub public_key: String,
}

/// Whether a guest should run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuestPower {
    /// It should run.
    #[default]
    Running,
    /// It should be there, stopped in its tracks.
    Paused,
    /// It should be defined and off.
    ShutOff,
}

/// POST /v1/guests/{uuid}/action. (Braces everywhere: serde lets keys it does not know pass in a variant without.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
pub enum GuestAction {
    /// On.
    Start {},
    /// Off: asked to end by itself first, where there is a grace.
    Stop {
        /// How long it may take, 0 to 600 seconds; more is 600.
        #[serde(default)]
        #[schemars(range(max = 600))]
        grace_seconds: u16,
    },
    /// Stopped in its tracks.
    Pause {},
    /// Going on.
    Unpause {},
    /// Asked to boot again.
    SoftReboot {},
    /// Off and on.
    HardReboot {},
    /// Off, and on from something else: an image, before the guest's own disks, or a kernel of the host. One of the two.
    Rescue {
        /// The rescue system's image.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        image: Option<ImageBody>,
        /// Its kernel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kernel: Option<KernelBody>,
        /// How long the guest may take to end by itself, 0 to 600 seconds; more is 600.
        #[serde(default)]
        #[schemars(range(max = 600))]
        grace_seconds: u16,
    },
    /// Off, and on from its own disk again.
    Unrescue {},
    /// Off, and on again, where it is to be, from a root disk that is made anew. Its devices stay its own.
    Rebuild {
        /// The image of the new root disk.
        image: ImageBody,
        /// Whether its ephemeral disks are kept; they are made anew where nothing is said.
        #[serde(default)]
        preserve_ephemeral: bool,
    },
    /// Its memory written to disk, and off. Not with devices.
    Suspend {},
    /// To another host while it runs. Not with devices, and not yet without.
    LiveMigrate {
        /// The node it is to go to.
        destination: String,
    },
}
