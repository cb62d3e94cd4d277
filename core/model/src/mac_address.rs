//! The Ethernet address of one network interface.

use std::fmt;
use std::str::FromStr;

/// The text is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a MAC address: expected six pairs of hexadecimal digits with : between them, the second digit even, not all 0"
)]
pub struct MacAddressError {
    text: String,
}

/// An Ethernet address of one interface (not a group's, not all zeros): of a guest's interface, from Neutron's port or the agent,
/// or of a network card of the host, from sysfs. Parsed from and shown as `fa:16:3e:54:eb:90`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

impl FromStr for MacAddress {
    type Err = MacAddressError;

    fn from_str(text: &str) -> Result<Self, MacAddressError> {
        parse(text).ok_or_else(|| MacAddressError {
            text: text.chars().take(80).collect(),
        })
    }
}

fn parse(text: &str) -> Option<MacAddress> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let part = parts.next()?;
        if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    let is_one_interface = bytes[0] & 1 == 0 && bytes != [0; 6];
    (parts.next().is_none() && is_one_interface).then_some(MacAddress(bytes))
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_of_one_interface_read_back_and_others_are_refused() {
        let address: MacAddress = "FA:16:3e:54:eb:90".parse().unwrap();
        assert_eq!(address.to_string(), "fa:16:3e:54:eb:90");
        for bad in [
            "",
            "52:54:00:12:34",
            "52:54:00:12:34:5",
            "53:54:00:12:34:56",
            "00:00:00:00:00:00",
            "52-54-00-12-34-56",
            "+1:54:00:12:34:56",
            "52:54:00:12:34:56:78",
        ] {
            let refused = bad.parse::<MacAddress>().unwrap_err().to_string();
            assert!(refused.contains(&format!("{bad:?}")), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_mac_address_panic(text in any::<String>()) {
            let _ = text.parse::<MacAddress>();
        }
    }
}
