//! Networks in CIDR notation: `192.0.2.5/24`, or with a mask in place of the prefix length.

use std::fmt;
use std::net::IpAddr;

use crate::numbers;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

/// The text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The part before the slash.
    #[error("`{0}` is not an IP address")]
    NoAddress(String),
    /// The part after the slash.
    #[error("`{0}` is no prefix length, netmask or hostmask of an address as `{1}` is")]
    NoPrefix(String, IpAddr),
}

impl Network {
    /// Parses an address with an optional prefix length, netmask (`255.255.255.0`) or hostmask (`0.0.0.255`). By
    /// default all bits count.
    pub fn new(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let none = || NetworkError::NoAddress(address.to_owned());
        let address: IpAddr = address.parse().map_err(|_| none())?;
        let prefix = match prefix {
            None => Some(width(address)),
            Some(text) => match numbers::int(text) {
                Some(number) => u32::try_from(number).ok(),
                None => text.parse().ok().and_then(|mask| of_mask(mask, address)),
            },
        };
        match prefix.filter(|prefix| *prefix <= width(address)) {
            Some(prefix) => Ok(Self { address, prefix }),
            None => Err(NetworkError::NoPrefix(
                text.split_once('/').map_or("", |(_, it)| it).to_owned(),
                address,
            )),
        }
    }

    /// Whether the network contains the address; false for the other address family.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let ignored = width(self.address) - self.prefix;
        let significant = |it: IpAddr| bits(it).checked_shr(ignored).unwrap_or(0);
        self.address.is_ipv4() == address.is_ipv4()
            && significant(self.address) == significant(address)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(it) => u128::from(it.to_bits()),
        IpAddr::V6(it) => it.to_bits(),
    }
}

/// The prefix length of a netmask or hostmask; `None` if it is neither, or of the other family.
fn of_mask(mask: IpAddr, address: IpAddr) -> Option<u32> {
    let width = width(address);
    let mask = (mask.is_ipv4() == address.is_ipv4()).then(|| bits(mask))?;
    let all = u128::MAX >> (128 - width);
    let is_block = |low: u128| low & low.wrapping_add(1) == 0;
    match (is_block(!mask & all), is_block(mask)) {
        (true, _) => Some(mask.count_ones()),
        (false, true) => Some(width - mask.count_ones()),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bits_count() {
        for (network, address, expected) in [
            ("192.0.2.5/24", "192.0.2.200", true),
            ("192.0.2.5/24", "192.0.3.5", false),
            ("192.0.2.5/255.255.255.0", "192.0.2.200", true),
            ("192.0.2.5/0.0.0.255", "192.0.3.200", false),
            ("192.0.2.5", "192.0.2.4", false),
            ("192.0.2.5/0", "10.0.0.1", true),
            ("192.0.2.5/0.0.0.0", "10.0.0.1", true),
            ("192.0.2.5/255.255.255.255", "192.0.2.4", false),
            ("192.0.2.5/ 24", "192.0.2.200", true),
            ("2001:db8::1/24", "2001:dff::", true),
            ("2001:db8::1/24", "2001:e00::", false),
            ("2001:db8::1/0", "192.0.2.5", false),
            ("2001:db8::1/ffff:ffff::", "2001:db8:1::", true),
            ("2001:db8::1/::ffff", "2001:db8::ff", true),
        ] {
            let read = Network::new(network).expect(network);
            let address: IpAddr = address.parse().expect(address);
            assert_eq!(read.contains(address), expected, "{network} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "10.0/24",
            "10.0.0.5/-1",
            "10.0.0.5/33",
            "10.0.0.5/",
            "10.0.0.5/24/3",
            "10.0.0.5/255.0.255.0",
            "10.0.0.5/::ff",
            "2001:db8::1/129",
            "host/24",
            "10.0.0.524",
        ] {
            assert!(Network::new(text).is_err(), "{text:?}");
        }
    }
}
