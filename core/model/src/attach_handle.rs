//! Attach handles: what a guest gets of a device, by which the hypervisor finds it (Cyborg, API 2.0 to 2.3).

use std::fmt;

use crate::PciAddress;

/// What kind of handle it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachHandleType {
    /// A PCI function, given to a guest whole.
    Pci,
    /// A mediated device.
    Mdev,
    /// A PCI address that Cyborg's fake driver made up: there is no device behind it.
    TestPci,
}

impl AttachHandleType {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pci, Self::Mdev, Self::TestPci];

    /// The word of the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pci => "PCI",
            Self::Mdev => "MDEV",
            Self::TestPci => "TEST_PCI",
        }
    }

    /// The type of this word; none for a word that no version has.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for AttachHandleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the device is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachHandleInfo {
    /// A PCI function.
    Pci {
        /// Its address.
        address: PciAddress,
        /// The network it is on, for a network card's function.
        physical_network: Option<String>,
    },
    /// A mediated device: its UUID is the handle's own.
    Mdev {
        /// The function that it is made of.
        parent: PciAddress,
        /// Its type, `nvidia-35` for instance.
        asked_type: String,
        /// The mark by which Cyborg's agent counts them.
        vgpu_mark: Option<String>,
    },
    /// A made-up address.
    TestPci {
        /// The address.
        address: PciAddress,
    },
}

impl AttachHandleInfo {
    /// Its type.
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
            assert_eq!(AttachHandleType::of_word(kind.as_str()), Some(kind));
        }
        assert_eq!(AttachHandleType::of_word("pci"), None);
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
