//! Attach handles: type and address of a device that a guest gets (Cyborg, API 2.0 to 2.3).

use std::fmt;

use crate::PciAddress;

/// The type of an attach handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachHandleType {
    /// A whole PCI function.
    Pci,
    /// A mediated device (mdev) of a parent function.
    Mdev,
    /// An invented PCI address of Cyborg's fake driver, without a device.
    TestPci,
}

impl AttachHandleType {
    /// All three types, in the order of their declaration.
    pub const ALL: [Self; 3] = [Self::Pci, Self::Mdev, Self::TestPci];

    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pci => "PCI",
            Self::Mdev => "MDEV",
            Self::TestPci => "TEST_PCI",
        }
    }

    /// The type with this name in the API.
    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for AttachHandleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Type and address of an attach handle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachHandleInfo {
    /// A PCI function that is passed through as a whole.
    Pci {
        /// The PCI address of the function on the host.
        address: PciAddress,
        /// The physical network of a network card's function.
        physical_network: Option<String>,
    },
    /// A mediated device. Its UUID is the UUID of the handle.
    Mdev {
        /// The PCI function that the mediated device is made from.
        parent: PciAddress,
        /// The mdev type, for example `nvidia-35`.
        asked_type: String,
        /// Cyborg's mark that identifies the vGPU of the parent.
        vgpu_mark: Option<String>,
    },
    /// An invented address, for tests without hardware (Cyborg's `TEST_PCI`).
    TestPci {
        /// The invented PCI address of the test device.
        address: PciAddress,
    },
}

impl AttachHandleInfo {
    /// The type that the API shows for this handle.
    #[must_use]
    pub const fn kind(&self) -> AttachHandleType {
        match self {
            Self::Pci { .. } => AttachHandleType::Pci,
            Self::Mdev { .. } => AttachHandleType::Mdev,
            Self::TestPci { .. } => AttachHandleType::TestPci,
        }
    }

    /// The address of the function, or of the mediated device's parent.
    #[must_use]
    pub const fn address(&self) -> PciAddress {
        match self {
            Self::Pci { address, .. } | Self::TestPci { address } => *address,
            Self::Mdev { parent, .. } => *parent,
        }
    }
}

impl fmt::Display for AttachHandleInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.address())?;
        match self {
            Self::Mdev { asked_type, .. } => write!(f, " {asked_type}"),
            Self::Pci { .. } | Self::TestPci { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_read_back_by_its_word() {
        for kind in AttachHandleType::ALL {
            assert_eq!(AttachHandleType::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(AttachHandleType::from_name("pci"), None);
    }

    #[test]
    fn a_handle_says_what_and_where_it_is() {
        let parent = "0000:84:00.0".parse().unwrap();
        let mdev = AttachHandleInfo::Mdev {
            parent,
            asked_type: "nvidia-35".to_owned(),
            vgpu_mark: None,
        };
        assert_eq!(mdev.to_string(), "MDEV 0000:84:00.0 nvidia-35");
        assert_eq!(mdev.address(), parent);
    }
}
