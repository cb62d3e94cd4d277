//! Device profiles.

use berth_model::{DeviceProfileError, DeviceProfileGroup, DeviceProfileGroups, DeviceProfileName};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::DocumentLink;
use crate::body::pairs;

/// One group: an object of texts, in the order of the document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupBody(pub Vec<(String, String)>);

impl From<&DeviceProfileGroup> for GroupBody {
    fn from(group: &DeviceProfileGroup) -> Self {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Self(group.entries().map(owned).collect())
    }
}

impl GroupBody {
    pub fn into_group(self) -> Result<DeviceProfileGroup, DeviceProfileError> {
        DeviceProfileGroup::new(self.0.iter().map(|(k, v)| (k.as_str(), v.as_str())))
    }
}

impl Serialize for GroupBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for GroupBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pairs(deserializer, "an object of texts").map(Self)
    }
}

/// An element of the list in POST /v2/device_profiles. Missing fields are reported with Cyborg's messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateDeviceProfile {
    #[serde(default)]
    pub name: Option<String>,
    /// The requested UUID; by default the service chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub groups: Option<Vec<GroupBody>>,
}

/// A profile's name and groups that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateDeviceProfileError {
    /// The name is missing.
    #[error("DeviceProfile name needed.")]
    NoName,
    /// Name or groups are not as they should be.
    #[error(transparent)]
    Profile(#[from] DeviceProfileError),
}

impl CreateDeviceProfile {
    /// Name and groups, checked.
    pub fn into_profile(
        self,
    ) -> Result<(DeviceProfileName, DeviceProfileGroups), CreateDeviceProfileError> {
        let name = self.name.ok_or(CreateDeviceProfileError::NoName)?;
        let name = DeviceProfileName::new(&name)?;
        let groups = self.groups.unwrap_or_default().into_iter();
        let groups = groups
            .map(GroupBody::into_group)
            .collect::<Result<_, _>>()?;
        Ok((name, DeviceProfileGroups::new(groups)?))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProfileBody {
    pub uuid: Uuid,
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    pub groups: Vec<GroupBody>,
    /// When it was created.
    #[serde(default)]
    pub created_at: Option<String>,
    /// When it was last changed.
    #[serde(default)]
    pub updated_at: Option<String>,
    #[serde(default)]
    pub links: Vec<DocumentLink>,
}

/// The profiles that match a filter, or all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProfileList {
    pub device_profiles: Vec<DeviceProfileBody>,
}

/// One profile: the only single document that is wrapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProfileDocument {
    pub device_profile: DeviceProfileBody,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    #[test]
    fn groups_keep_their_order_on_the_way_in_and_out() {
        let text = br#"[{"name":"a","groups":[{"trait:CUSTOM_Z":"required","resources:FPGA":"2","accel:a":"x"}]}]"#;
        let list: Vec<CreateDeviceProfile> = decode(text).unwrap();
        assert_eq!(encode(&list), text);
        let (name, groups) = list[0].clone().into_profile().unwrap();
        assert_eq!(name.as_str(), "a");
        let back = GroupBody::from(&groups.as_slice()[0]);
        assert_eq!(list[0].groups.as_ref().unwrap()[0], back);
    }

    #[test]
    fn what_is_missing_is_reported_in_a_sentence() {
        for (text, sentence) in [
            (&br#"{"groups": []}"#[..], "DeviceProfile name needed."),
            (br#"{"name": "a"}"#, "DeviceProfile needs groups field."),
            (br#"{"name": "a b", "groups": [{}]}"#, "must be of the form"),
        ] {
            let body: CreateDeviceProfile = decode(text).unwrap();
            let refused = body.into_profile().unwrap_err().to_string();
            assert!(refused.contains(sentence), "{refused}");
        }
        let wrong =
            decode::<CreateDeviceProfile>(br#"{"name": "a", "groups": [{"resources:FPGA": 1}]}"#);
        assert!(wrong.unwrap_err().to_string().starts_with("groups[0]"));
    }
}
