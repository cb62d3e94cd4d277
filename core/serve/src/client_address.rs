//! The address of a client, as limits count by it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A client address. IPv6 addresses are grouped by /64, because one host may use all of them. Empty if the listener
/// does not provide it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientAddress {
    address: Option<IpAddr>,
    is_of_many: bool,
}

impl ClientAddress {
    /// Whether many clients may have this address: those of a unix socket, programs of this host, and all clients of a
    /// trusted proxy or of one on this host.
    pub(crate) fn is_shared(self) -> bool {
        // The group of ::1 is that of ::.
        let is_own = |address: IpAddr| address.is_unspecified() || address == Ipv4Addr::LOCALHOST;
        self.is_of_many || self.address.is_none_or(is_own)
    }

    /// Whether the client is on the other end of a TCP connection, not of a unix socket.
    pub(crate) fn is_of_network(self) -> bool {
        self.address.is_some()
    }

    /// The address as one that many clients have, such as that of a proxy.
    #[must_use]
    pub fn of_many(self) -> Self {
        let is_of_many = true;
        Self { is_of_many, ..self }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            None => f.write_str("a unix socket"),
            Some(IpAddr::V6(network)) => write!(f, "{network}/64"),
            Some(address) => address.fmt(f),
        }
    }
}

impl From<Option<IpAddr>> for ClientAddress {
    fn from(address: Option<IpAddr>) -> Self {
        let address = address.map(|address| match address.to_canonical() {
            // An IPv6 host has a /64 of its own.
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
            v4 @ IpAddr::V4(_) => v4,
        });
        let is_of_many = false;
        Self {
            address,
            is_of_many,
        }
    }
}

/// The address of an accepted connection, of each kind of listener.
pub trait PeerAddress {
    fn client(&self) -> ClientAddress;
}

impl PeerAddress for std::net::SocketAddr {
    fn client(&self) -> ClientAddress {
        Some(self.ip()).into()
    }
}

impl PeerAddress for tokio::net::unix::SocketAddr {
    fn client(&self) -> ClientAddress {
        ClientAddress::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn of(text: &str) -> ClientAddress {
        Some(text.parse().unwrap()).into()
    }

    #[test]
    fn addresses_of_one_machine_are_one_source() {
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(of("0.0.0.0"), ClientAddress::default());
    }

    #[test]
    fn only_this_host_has_an_address_that_many_clients_share() {
        for (text, shared) in [
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("::1", true),
            ("127.0.0.2", false),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(of(text).is_shared(), shared, "{text}");
        }
        assert!(ClientAddress::default().is_shared());
        assert!(of("192.0.2.1").of_many().is_shared());
    }
}
