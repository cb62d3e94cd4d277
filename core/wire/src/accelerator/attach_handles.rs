//! The address of an attach handle: hexadecimal digits without `0x`.

use berth_model::{AttachHandleInfo, AttachHandleType, PciAddress};
use serde::{Deserialize, Serialize};

use crate::BodyError;

/// `attach_handle_info`. For a request that is not bound all fields are omitted: `{}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachHandleInfoBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The network of a network card's function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_network: Option<String>,
    /// The type of a mediated device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_type: Option<String>,
    /// The mark of a mediated device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vgpu_mark: Option<String>,
}

impl From<&AttachHandleInfo> for AttachHandleInfoBody {
    fn from(info: &AttachHandleInfo) -> Self {
        let address = info.address();
        let mut body = Self {
            domain: Some(format!("{:04x}", address.domain())),
            bus: Some(format!("{:02x}", address.bus())),
            device: Some(format!("{:02x}", address.slot())),
            function: Some(format!("{:x}", address.function())),
            ..Self::default()
        };
        match info {
            AttachHandleInfo::TestPci { .. } => {}
            AttachHandleInfo::Pci {
                physical_network, ..
            } => body.physical_network.clone_from(physical_network),
            AttachHandleInfo::Mdev {
                asked_type,
                vgpu_mark,
                ..
            } => {
                body.asked_type = Some(asked_type.clone());
                body.vgpu_mark.clone_from(vgpu_mark);
            }
        }
        body
    }
}

impl AttachHandleInfoBody {
    /// The address for the given handle type.
    ///
    /// Errors: A field that the type requires is missing or invalid.
    pub fn into_info(self, kind: AttachHandleType) -> Result<AttachHandleInfo, BodyError> {
        let part = |name: &str, value: &Option<String>| {
            value
                .clone()
                .ok_or_else(|| BodyError::field(name, "is missing"))
        };
        let text = format!(
            "{}:{}:{}.{}",
            part("domain", &self.domain)?,
            part("bus", &self.bus)?,
            part("device", &self.device)?,
            part("function", &self.function)?
        );
        let address: PciAddress = text
            .parse()
            .map_err(|error| BodyError::field("attach_info", error))?;
        Ok(match kind {
            AttachHandleType::TestPci => AttachHandleInfo::TestPci { address },
            AttachHandleType::Pci => AttachHandleInfo::Pci {
                address,
                physical_network: self.physical_network,
            },
            AttachHandleType::Mdev => AttachHandleInfo::Mdev {
                parent: address,
                asked_type: part("asked_type", &self.asked_type)?,
                vgpu_mark: self.vgpu_mark,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};

    #[test]
    fn the_real_services_handles_are_read_padded_or_not() {
        let body = br#"{"domain": "0000", "bus": "0c", "device": "0", "function": "1"}"#;
        let body: AttachHandleInfoBody = decode(body).unwrap();
        let info = body.into_info(AttachHandleType::TestPci).unwrap();
        assert_eq!(info.to_string(), "TEST_PCI 0000:0c:00.1");
        assert_eq!(
            encode(&AttachHandleInfoBody::from(&info)),
            br#"{"domain":"0000","bus":"0c","device":"00","function":"1"}"#
        );
    }

    #[test]
    fn a_missing_or_odd_part_is_named() {
        let empty = AttachHandleInfoBody::default();
        assert_eq!(encode(&empty), b"{}");
        let refused = empty.into_info(AttachHandleType::Pci).unwrap_err();
        assert!(refused.to_string().starts_with("domain"), "{refused}");
        let odd: AttachHandleInfoBody =
            decode(br#"{"domain": "0000", "bus": "0c.1/../", "device": "0", "function": "1"}"#)
                .unwrap();
        assert!(odd.clone().into_info(AttachHandleType::Pci).is_err());
        let mut parent = odd;
        parent.bus = Some("0c".to_owned());
        let refused = parent.into_info(AttachHandleType::Mdev).unwrap_err();
        assert!(refused.to_string().starts_with("asked_type"), "{refused}");
    }
}
