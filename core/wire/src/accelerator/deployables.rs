//! Deployables: what of a device is offered, one provider each.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Link;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployableBody {
    pub uuid: Uuid,
    /// The deployable that it is a part of.
    #[serde(default)]
    pub parent_id: Option<i64>,
    /// The deployable that all of it is a part of.
    #[serde(default)]
    pub root_id: Option<i64>,
    /// Its name, which is its provider's too.
    pub name: String,
    /// How many guests it can serve.
    pub num_accelerators: i64,
    pub device_id: i64,
    /// Its attributes: a text that holds a JSON list of objects with one key each.
    pub attributes_list: String,
    pub rp_uuid: Uuid,
    #[serde(default)]
    pub driver_name: Option<String>,
    /// The bitstream it was programmed with.
    #[serde(default)]
    pub bitstream_id: Option<String>,
    /// Where the document is.
    #[serde(default)]
    pub links: Vec<Link>,
    /// When it was seen first.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When it was changed last.
    #[serde(default)]
    pub updated_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployableList {
    pub deployables: Vec<DeployableBody>,
}
