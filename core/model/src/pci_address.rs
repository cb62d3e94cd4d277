//! The address of a PCI function on its host.

use std::fmt;
use std::str::FromStr;

/// The text is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a PCI address: expected [domain:]bus:slot.function in hexadecimal, for example 0000:84:00.0 \
     (slot 00 to 1f, function 0 to 7)"
)]
pub struct PciAddressError {
    text: String,
}

/// A PCI function's address: domain, bus, slot and function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    slot: u8,
    function: u8,
}

impl PciAddress {
    /// PCI domain, 0 to ffffffff (virtual machine hosts under VMD have domains above ffff).
    #[must_use]
    pub const fn domain(self) -> u32 {
        self.domain
    }

    /// Bus, 0 to ff.
    #[must_use]
    pub const fn bus(self) -> u8 {
        self.bus
    }

    /// Slot (device), 0 to 1f.
    #[must_use]
    pub const fn slot(self) -> u8 {
        self.slot
    }

    /// Function, 0 to 7.
    #[must_use]
    pub const fn function(self) -> u8 {
        self.function
    }

    /// The name of libvirt's node device, which is also the end of a provider's name: `pci_0000_84_00_0`.
    #[must_use]
    pub fn nodedev_name(self) -> String {
        format!(
            "pci_{:04x}_{:02x}_{:02x}_{:x}",
            self.domain, self.bus, self.slot, self.function
        )
    }

    /// Parses the name of libvirt's node device. Fails if the name is not of the form `pci_DDDD_BB_SS_F`.
    pub fn from_nodedev_name(name: &str) -> Result<Self, PciAddressError> {
        let refuse = || PciAddressError {
            text: name.chars().take(80).collect(),
        };
        let parts: Vec<&str> = name
            .strip_prefix("pci_")
            .ok_or_else(refuse)?
            .split('_')
            .collect();
        match parts[..] {
            [domain, bus, slot, function] => format!("{domain}:{bus}:{slot}.{function}")
                .parse()
                .map_err(|_| refuse()),
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.slot, self.function
        )
    }
}

impl FromStr for PciAddress {
    type Err = PciAddressError;

    fn from_str(text: &str) -> Result<Self, PciAddressError> {
        parse(text).ok_or_else(|| PciAddressError {
            text: text.chars().take(80).collect(),
        })
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (rest, function) = text.rsplit_once('.')?;
    let mut parts = rest.rsplit(':');
    let slot = hexadecimal(parts.next()?, 2)?;
    let bus = hexadecimal(parts.next()?, 2)?;
    let domain = parts
        .next()
        .map_or(Some(0), |domain| hexadecimal(domain, 8))?;
    let function = hexadecimal(function, 1)?;
    if parts.next().is_some() || slot > 0x1f || function > 7 {
        return None;
    }
    Some(PciAddress {
        domain,
        bus: u8::try_from(bus).ok()?,
        slot: u8::try_from(slot).ok()?,
        function: u8::try_from(function).ok()?,
    })
}

fn hexadecimal(digits: &str, most: usize) -> Option<u32> {
    let fits = (1..=most).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if fits {
        u32::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_read_back_and_others_are_refused() {
        for (text, shown) in [
            ("0000:84:00.0", "0000:84:00.0"),
            ("84:1F.7", "0000:84:1f.7"),
            ("10000:e1:00.0", "10000:e1:00.0"),
        ] {
            let address: PciAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(
                PciAddress::from_nodedev_name(&address.nodedev_name()),
                Ok(address)
            );
        }
        for bad in [
            "",
            "84",
            "84:00",
            "84:20.0",
            "84:00.8",
            "x:84:00.0",
            "0:0:0:0.0",
            "+1:00:00.0",
            "84:00.0 ",
        ] {
            assert!(bad.parse::<PciAddress>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,24}") {
            if let Ok(address) = text.parse::<PciAddress>() {
                prop_assert_eq!(address.to_string().parse::<PciAddress>(), Ok(address));
            }
        }
    }
}
