//! Security groups.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::accelerator::DocumentLink;

/// A security group, without its rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroupRecord {
    pub id: Uuid,
    /// Names are not unique in a project.
    #[serde(default)]
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroupList {
    pub security_groups: Vec<SecurityGroupRecord>,
    /// A link `next` says that there are more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups_links: Vec<DocumentLink>,
}
