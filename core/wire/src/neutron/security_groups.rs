//! Security groups.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::accelerator::DocumentLink;

/// A security group. A list may leave out all but its id and name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SecurityGroupRecord {
    pub id: Uuid,
    /// Names are not unique in a project.
    #[serde(default)]
    pub name: String,
    /// The owning project.
    #[serde(default)]
    pub tenant_id: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub security_group_rules: Vec<SecurityGroupRuleRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroupRuleRecord {
    pub id: Uuid,
    /// `ingress` or `egress`.
    pub direction: String,
    /// `tcp`, a number and others; `None` for all.
    #[serde(default)]
    pub protocol: Option<String>,
    #[serde(default)]
    pub port_range_min: Option<i64>,
    #[serde(default)]
    pub port_range_max: Option<i64>,
    /// The peers: a CIDR, the ports of a group, or all if both are `None`.
    #[serde(default)]
    pub remote_ip_prefix: Option<String>,
    #[serde(default)]
    pub remote_group_id: Option<Uuid>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityGroupList {
    pub security_groups: Vec<SecurityGroupRecord>,
    /// A link `next` says that there are more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups_links: Vec<DocumentLink>,
}
