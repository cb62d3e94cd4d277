//! Bodies of the accelerator API: Cyborg v2, microversions 2.0 to 2.3, and the agent's device report.
//!
//! Quirks that clients rely on are kept: `attributes_list` and `std_board_info` are JSON as text; a single device profile is
//! wrapped but every other single document is not; fields of unbound requests are `null`, `""` or `{}`.

mod arqs;
mod attach_handles;
mod attributes;
mod deployables;
mod device_profiles;
mod devices;
mod errors;
mod host_devices;
mod link;
mod programmings;
mod version;

pub use arqs::{
    AdoptedArqs, ArqBody, ArqList, BindField, BindPatch, CreateArqs, NotAdopted, PatchBody,
    PatchOp, PatchStep, read_patch,
};
pub use attach_handles::AttachHandleInfoBody;
pub use attributes::{AttributeBody, AttributeList, CreateAttribute};
pub use deployables::{DeployableBody, DeployableList};
pub use device_profiles::{
    CreateDeviceProfile, CreateDeviceProfileError, DeviceProfileBody, DeviceProfileDocument,
    DeviceProfileList, GroupBody,
};
pub use devices::{DeviceBody, DeviceList};
pub use errors::AcceleratorErrorBody;
pub use host_devices::{
    Health, HostAttachHandle, HostChanges, HostDeployable, HostDevicesReport, KnownAttachHandle,
    KnownDeployable, KnownDevice, KnownDevices, NotTaken, ReportedHostDevice,
};
pub use link::DocumentLink;
pub use programmings::{
    DueProgramming, DueProgrammings, Program, ProgramImage, ProgramStep, ProgrammedHandle,
    ProgrammingEnd, read_program,
};
pub use version::{RootDocument, VersionBody};
