//! What a port needs from Placement.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

/// A port's `resource_request` in the form of the extension `port-resource-request-groups`. The older form has one group
/// without an id.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PortResourceRequest {
    pub request_groups: Vec<PortRequestGroup>,
    /// Groups whose providers must be in one subtree.
    pub same_subtree: Vec<Uuid>,
}

impl PortResourceRequest {
    /// Whether the port needs nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.request_groups.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRequestGroup {
    /// The key of the group in `allocation` of the binding profile; `None` in the older form, where that is the provider
    /// alone.
    #[serde(default)]
    pub id: Option<Uuid>,
    #[serde(default)]
    pub resources: BTreeMap<String, u64>,
    /// Required traits.
    #[serde(default)]
    pub required: Vec<String>,
}

#[derive(Deserialize)]
struct ResourceRequestFields {
    #[serde(default)]
    request_groups: Option<Vec<PortRequestGroup>>,
    #[serde(default)]
    same_subtree: Vec<Uuid>,
    #[serde(default)]
    resources: BTreeMap<String, u64>,
    #[serde(default)]
    required: Vec<String>,
}

impl<'de> Deserialize<'de> for PortResourceRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = ResourceRequestFields::deserialize(deserializer)?;
        let flat = || match fields.resources.is_empty() && fields.required.is_empty() {
            true => Vec::new(),
            false => vec![PortRequestGroup {
                id: None,
                resources: fields.resources,
                required: fields.required,
            }],
        };
        Ok(Self {
            request_groups: fields.request_groups.unwrap_or_else(flat),
            same_subtree: fields.same_subtree,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> PortResourceRequest {
        crate::decode(text.as_bytes()).unwrap()
    }

    #[test]
    fn both_forms_of_a_resource_request_are_groups() {
        let flat = of(
            r#"{"required": ["CUSTOM_PHYSNET_A"], "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}}"#,
        );
        assert_eq!(flat.request_groups.len(), 1);
        assert_eq!(flat.request_groups[0].id, None);
        let groups = of(r#"{"request_groups": [
                {"id": "11111111-2222-4333-8444-555555555555", "required": ["CUSTOM_VNIC_TYPE_NORMAL"],
                 "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}},
                {"id": "11111111-2222-4333-8444-555555555556", "resources": {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 5}}],
               "same_subtree": ["11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-555555555556"]}"#);
        assert_eq!(groups.request_groups.len(), 2);
        assert_eq!(
            groups.same_subtree,
            [
                groups.request_groups[0].id.unwrap(),
                groups.request_groups[1].id.unwrap()
            ]
        );
        assert!(of("{}").is_empty());
    }
}
