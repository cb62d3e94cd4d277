//! Reads a function's configuration space and PCIe link, to find out whether it responds and as which card.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use berth_model::PciAddress;

use crate::Sysfs;
use crate::read::{self, SysfsError};

/// The part of the space that every function has, in bytes.
const HEADER: usize = 64;

/// The state of a function's configuration space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSpace {
    /// It responds with these ids. Virtual functions have ffff for both and are recognised by the rest.
    Answers { vendor: u16, device: u16 },
    /// All ones: nothing responds on the bus.
    AllOnes,
    /// The function does not exist.
    NotThere,
}

impl ConfigSpace {
    /// Whether a function with these ids responds.
    #[must_use]
    pub fn answers_as(self, vendor: u16, device: u16) -> bool {
        match self {
            ConfigSpace::Answers {
                vendor: 0xffff,
                device: 0xffff,
            } => true,
            ConfigSpace::Answers {
                vendor: v,
                device: d,
            } => (v, d) == (vendor, device),
            ConfigSpace::AllOnes | ConfigSpace::NotThere => false,
        }
    }
}

/// A link of PCI Express.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Speed in tenths of a gigatransfer per second: 25, 50, 80, 160, 320.
    pub speed: u32,
    pub width: u32,
}

impl Link {
    /// Whether the link is at least as fast and as wide as another one.
    #[must_use]
    pub fn is_at_least(self, other: Link) -> bool {
        self.speed >= other.speed && self.width >= other.width
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{} GT/s x{}",
            self.speed / 10,
            self.speed % 10,
            self.width
        )
    }
}

impl Sysfs {
    /// Reads a function's configuration space from the device itself; the files `vendor` and `device` are
    /// cached by the kernel.
    pub fn config_space(&self, address: PciAddress) -> Result<ConfigSpace, SysfsError> {
        let path = self.pci_device(address).join("config");
        let mut header = [0_u8; HEADER];
        match File::open(&path).and_then(|mut file| file.read_exact(&mut header)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(SysfsError::malformed(&path, "", "at least 64 bytes"));
            }
            Err(error) if read::is_gone(&error) => return Ok(ConfigSpace::NotThere),
            Err(source) => return Err(SysfsError::Unreadable { path, source }),
        }
        if header.iter().all(|byte| *byte == 0xff) {
            return Ok(ConfigSpace::AllOnes);
        }
        Ok(ConfigSpace::Answers {
            vendor: u16::from_le_bytes([header[0], header[1]]),
            device: u16::from_le_bytes([header[2], header[3]]),
        })
    }

    /// The current link; `None` for a function without one, and while it is down.
    pub fn link(&self, address: PciAddress) -> Result<Option<Link>, SysfsError> {
        let at = self.pci_device(address);
        let speed = read::value(
            &at.join("current_link_speed"),
            "a speed such as 8.0 GT/s PCIe, or Unknown",
            speed,
        )?;
        let width = read::value(&at.join("current_link_width"), "a count", read::decimal)?;
        Ok(match (speed.flatten(), width) {
            (Some(speed), Some(width)) if width > 0 => Some(Link { speed, width }),
            _ => None,
        })
    }

    /// The maximum number of lanes of the function and its upstream port together; `None` if one of them is unknown.
    pub fn most_lanes(&self, address: PciAddress) -> Result<Option<u32>, SysfsError> {
        let most = |at: &Path| -> Result<Option<u32>, SysfsError> {
            let width = read::value(&at.join("max_link_width"), "a count", read::decimal)?;
            // Virtual functions and ports without a link write something else.
            Ok(width.filter(|lanes| (1..=32).contains(lanes)))
        };
        let Some(at) = read::resolved(&self.pci_device(address))? else {
            return Ok(None);
        };
        let port = at.parent().map(most).transpose()?.flatten();
        Ok(match (most(&at)?, port) {
            (Some(own), Some(port)) => Some(own.min(port)),
            _ => None,
        })
    }
}

/// `8.0 GT/s PCIe`; older kernels write `8 GT/s`, and `Unknown` for none.
fn speed(text: &str) -> Option<Option<u32>> {
    if text.starts_with("Unknown") {
        return Some(None);
    }
    let (number, unit) = text.split_once(' ')?;
    if !unit.starts_with("GT/s") {
        return None;
    }
    let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u32 = read::decimal(whole)?;
    let tenths: u32 = read::decimal(tenths).filter(|tenths| *tenths < 10)?;
    whole.checked_mul(10)?.checked_add(tenths).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{CardFixture, TestTree};

    fn tree() -> TestTree {
        let tree = TestTree::new();
        tree.card(CardFixture::gpu("0000:81:00.0", 1));
        tree
    }

    fn address() -> PciAddress {
        "81:00.0".parse().unwrap()
    }

    #[test]
    fn a_space_answers_is_all_ones_or_is_not_there() {
        let tree = tree();
        let space = || tree.sysfs().config_space(address()).unwrap();
        assert_eq!(space(), ConfigSpace::NotThere);
        let file = "bus/pci/devices/0000:81:00.0/config";
        let mut bytes = [0_u8; 256];
        bytes[..4].copy_from_slice(&[0xde, 0x10, 0xb8, 0x1e]);
        tree.write(file, bytes);
        assert!(space().answers_as(0x10de, 0x1eb8) && !space().answers_as(0x10de, 0x1eb9));
        tree.write(file, [0xff; 256]);
        assert_eq!(space(), ConfigSpace::AllOnes);
        tree.write(file, [0; 10]);
        assert!(tree.sysfs().config_space(address()).is_err());
    }

    #[test]
    fn a_virtual_function_shows_no_ids_and_answers() {
        let mut bytes = [0_u8; 64];
        bytes[..4].fill(0xff);
        let tree = tree();
        tree.write("bus/pci/devices/0000:81:00.0/config", bytes);
        let space = tree.sysfs().config_space(address()).unwrap();
        assert!(space.answers_as(0x8086, 0x10ca));
    }

    #[test]
    fn a_function_can_have_as_many_lanes_as_both_ends_of_its_link() {
        for (own, port, most) in [
            (Some("16"), Some("8"), Some(8)),
            (Some("4"), Some("16"), Some(4)),
            (Some("255"), Some("16"), None),
            (Some("16"), None, None),
            (None, Some("16"), None),
        ] {
            let tree = tree();
            for (at, width) in [("pci0000:80/0000:81:00.0", own), ("pci0000:80", port)] {
                if let Some(width) = width {
                    tree.write(&format!("devices/{at}/max_link_width"), width);
                }
            }
            let seen = tree.sysfs().most_lanes(address()).unwrap();
            assert_eq!(seen, most, "{own:?} {port:?}");
        }
    }

    #[test]
    fn a_link_has_speed_and_lanes() {
        for (speed, width, link) in [
            ("8.0 GT/s PCIe", "16", Some("8.0 GT/s x16")),
            ("2.5 GT/s", "1", Some("2.5 GT/s x1")),
            ("32 GT/s PCIe", "4", Some("32.0 GT/s x4")),
            ("Unknown", "0", None),
            ("Unknown speed", "63", None),
        ] {
            let tree = tree();
            tree.write("bus/pci/devices/0000:81:00.0/current_link_speed", speed);
            tree.write("bus/pci/devices/0000:81:00.0/current_link_width", width);
            let seen = tree.sysfs().link(address()).unwrap();
            assert_eq!(seen.map(|it| it.to_string()).as_deref(), link, "{speed}");
        }
        let tree = tree();
        tree.write("bus/pci/devices/0000:81:00.0/current_link_speed", "fast");
        assert!(tree.sysfs().link(address()).is_err());
    }
}
