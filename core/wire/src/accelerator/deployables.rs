//! Deployables: the parts of a device that are offered, one resource provider each.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::DocumentLink;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployableBody {
    pub uuid: Uuid,
    /// The id of its parent deployable.
    #[serde(default)]
    pub parent_id: Option<i64>,
    /// The id of its root deployable.
    #[serde(default)]
    pub root_id: Option<i64>,
    /// The name, which is also its provider's.
    pub name: String,
    /// The number of guests that it can serve.
    pub num_accelerators: i64,
    pub device_id: i64,
    /// Its attributes: a text that holds a JSON list of objects with one key each.
    pub attributes_list: String,
    pub rp_uuid: Uuid,
    #[serde(default)]
    pub driver_name: Option<String>,
    /// The bitstream that it is programmed with.
    #[serde(default)]
    pub bitstream_id: Option<String>,
    /// Links to the document.
    #[serde(default)]
    pub links: Vec<DocumentLink>,
    /// When it was first reported.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When it was last changed.
    #[serde(default)]
    pub updated_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployableList {
    pub deployables: Vec<DeployableBody>,
}
