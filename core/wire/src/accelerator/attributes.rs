//! Attributes of deployables: a key and a value.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Link;

/// One attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeBody {
    /// Its UUID.
    pub uuid: Uuid,
    /// The deployable's number.
    pub deployable_id: i64,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// When it was made.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When it was changed last.
    #[serde(default)]
    pub updated_at: Option<String>,
    /// Where the document is.
    #[serde(default)]
    pub links: Vec<Link>,
}

/// Several attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeList {
    /// The attributes.
    pub attributes: Vec<AttributeBody>,
}

/// POST /v2/attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateAttribute {
    /// The deployable's number.
    pub deployable_id: i64,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}
