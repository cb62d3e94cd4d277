//! Where a request comes from, as far as it matters for who waits for whom.

use std::net::{IpAddr, Ipv6Addr};

/// An address, or a network of addresses that one machine has as many of as it likes; nowhere where the listener does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Source(Option<IpAddr>);

impl From<Option<IpAddr>> for Source {
    fn from(address: Option<IpAddr>) -> Self {
        Self(address.map(|address| match address.to_canonical() {
            // A host of IPv6 has a /64 of its own.
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
            v4 @ IpAddr::V4(_) => v4,
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn addresses_of_one_machine_are_one_source() {
        let of = |text: &str| Source::from(Some(text.parse().unwrap()));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("0.0.0.0"), Source::default());
    }
}
