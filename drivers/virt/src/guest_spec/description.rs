//! The description of an instance for monitoring: [`InstanceDescription`].

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::name::Label;

/// What users know of an instance. Hypervisors store it with the guest, where exporters and agents of telemetry read it
/// (libvirt: the element `nova:instance`). It has no effect on the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceDescription {
    /// The name that users see (Nova's `display_name`).
    pub name: Label,
    /// The id of the user who created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Label>,
    /// The name of its flavor.
    pub flavor: Label,
    /// The size of the flavor's root disk in GiB; 0: as large as the image.
    pub root_gib: u64,
    /// The size of the flavor's ephemeral disk in GiB; 0: none.
    pub ephemeral_gib: u64,
    /// The size of the flavor's swap disk in MiB; 0: none.
    #[serde(default)]
    pub swap_mib: u64,
    /// The image of its first root disk in the image service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Uuid>,
}
