//! The address of the client that sent a request, also behind trusted proxies.
//!
//! A proxy appends the address of its own client to `X-Forwarded-For` and writes the scheme into `X-Forwarded-Proto`. Anybody can write
//! these headers, so only those of a trusted proxy are read. The listener calls `RequestOrigin::identify` for each request; handlers ask
//! [`client_address`].

use std::net::{IpAddr, SocketAddr};

use berth_options::{Json, OptionKind, OptionType, TextKind};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The address of the client that sent a request: its peer's or, behind a trusted proxy, the one that the proxy names. `None` if
/// the request did not come over TCP.
#[must_use]
pub fn client_address(request: &Extensions) -> Option<IpAddr> {
    request.get::<RequestOrigin>().map(|origin| origin.address)
}

/// The proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl OptionType for TrustedProxies {
    const KIND: OptionKind = OptionKind::Texts(&TextKind::new(
        "list of addresses and networks",
        "write proxies such as [\"192.0.2.5\", \"10.0.0.0/8\"]",
        |text| match network(text) {
            Some(_) => Ok(()),
            None => Err(format!("{text:?} is neither an address nor a network").into()),
        },
    ));

    fn read(value: &Json) -> Option<Self> {
        let proxies = value.as_array()?.iter();
        proxies
            .map(|it| network(it.as_str()?))
            .collect::<Option<_>>()
            .map(Self)
    }

    fn write(&self) -> Json {
        self.0.iter().map(ToString::to_string).collect()
    }
}

fn network(text: &str) -> Option<IpNet> {
    let one = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| one()).ok()
}

/// Where a request came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestOrigin {
    address: IpAddr,
}

impl RequestOrigin {
    /// Reads the headers of a trusted proxy, and removes those of others: `X-Forwarded-Proto` names the client's scheme afterwards, and
    /// is missing for plain HTTP without a proxy. `is_tls`: whether this listener speaks TLS itself.
    pub(crate) fn identify(
        peer: IpAddr,
        is_tls: bool,
        proxies: &TrustedProxies,
        headers: &mut HeaderMap,
    ) -> Self {
        let peer = peer.to_canonical();
        let (address, forwarded) = match proxies.contain(peer) {
            true => {
                let hops = values(headers, &FORWARDED_FOR);
                let (address, proxies_passed) = client_of(peer, &hops, proxies);
                (address, scheme(headers, proxies_passed))
            }
            false => (peer, None),
        };
        headers.remove(FORWARDED_FOR);
        headers.remove(FORWARDED_PROTO);
        let own = is_tls.then_some("https");
        if let Some(scheme) = forwarded.or(own) {
            headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
        }
        Self { address }
    }
}

/// The last hop that is no trusted proxy, and how many proxies named hops after it. What a client wrote itself stands before that hop
/// and is not read.
fn client_of(peer: IpAddr, hops: &[String], proxies: &TrustedProxies) -> (IpAddr, usize) {
    let mut last = peer;
    for (passed, hop) in hops.iter().rev().enumerate() {
        match address(hop) {
            Some(address) if proxies.contain(address) => last = address,
            Some(address) => return (address, passed),
            None => return (last, passed.saturating_sub(1)),
        }
    }
    (last, hops.len().saturating_sub(1))
}

/// The scheme that the client used towards the first proxy. A proxy that writes one value only writes that of its own client.
fn scheme(headers: &HeaderMap, proxies_passed: usize) -> Option<&'static str> {
    let values = values(headers, &FORWARDED_PROTO);
    let of_client = values.iter().rev().nth(proxies_passed);
    match of_client.or(values.first())?.as_str() {
        "https" => Some("https"),
        "http" => Some("http"),
        _ => None,
    }
}

/// The elements of a header that is a list, in their order. A header may be repeated.
fn values(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let texts = headers.get_all(name).iter();
    let texts = texts.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    texts.map(|text| text.trim().to_owned()).collect()
}

/// An address, as proxies write it: with a port, or an IPv6 address in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    address
        .or_else(with_port)
        .map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn proxies(list: &[&str]) -> TrustedProxies {
        TrustedProxies::read(&Json::from(list)).unwrap()
    }

    /// The client, and the scheme that links are written with.
    fn seen(peer: &str, is_tls: bool, headers: &[(&str, &str)]) -> (String, Option<String>) {
        let trusted = proxies(&["10.0.0.0/8", "192.0.2.5", "2001:db8::/32"]);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        let origin = RequestOrigin::identify(peer.parse().unwrap(), is_tls, &trusted, &mut map);
        assert!(!map.contains_key(FORWARDED_FOR));
        let scheme = map
            .get(FORWARDED_PROTO)
            .map(|it| it.to_str().unwrap().to_owned());
        (origin.address.to_string(), scheme)
    }

    #[test]
    fn headers_of_a_trusted_proxy_name_the_client_and_those_of_others_are_ignored() {
        let (for_, proto) = ("x-forwarded-for", "x-forwarded-proto");
        for (peer, headers, client, scheme) in [
            (
                "198.51.100.9",
                &[(for_, "203.0.113.1"), (proto, "https")][..],
                "198.51.100.9",
                None,
            ),
            (
                "10.1.2.3",
                &[(for_, "203.0.113.1"), (proto, "https")],
                "203.0.113.1",
                Some("https"),
            ),
            (
                "192.0.2.5",
                &[(for_, "203.0.113.1"), (proto, "http")],
                "203.0.113.1",
                Some("http"),
            ),
            (
                "::ffff:10.1.2.3",
                &[(for_, "203.0.113.1")],
                "203.0.113.1",
                None,
            ),
            ("192.0.2.6", &[(for_, "203.0.113.1")], "192.0.2.6", None),
            // What the client wrote itself stands before what the proxy appended.
            (
                "10.1.2.3",
                &[(for_, "127.0.0.1, 203.0.113.1")],
                "203.0.113.1",
                None,
            ),
            (
                "10.1.2.3",
                &[(for_, "127.0.0.1"), (for_, "203.0.113.1")],
                "203.0.113.1",
                None,
            ),
            // Two proxies, each with its own value of the scheme.
            (
                "10.1.2.3",
                &[
                    (for_, "1.1.1.1, 203.0.113.1, 10.9.9.9"),
                    (proto, "http, https, http"),
                ],
                "203.0.113.1",
                Some("https"),
            ),
            (
                "10.1.2.3",
                &[(for_, "203.0.113.1, 10.9.9.9"), (proto, "https")],
                "203.0.113.1",
                Some("https"),
            ),
            (
                "10.1.2.3",
                &[(for_, "10.7.7.7, 10.9.9.9")],
                "10.7.7.7",
                None,
            ),
            (
                "10.1.2.3",
                &[(for_, "203.0.113.1, unknown")],
                "10.1.2.3",
                None,
            ),
            (
                "10.1.2.3",
                &[(for_, "203.0.113.1:4711")],
                "203.0.113.1",
                None,
            ),
            (
                "2001:db8::1",
                &[(for_, "[2001:dba::7]:4711")],
                "2001:dba::7",
                None,
            ),
            ("10.1.2.3", &[(proto, "gopher")], "10.1.2.3", None),
            ("10.1.2.3", &[], "10.1.2.3", None),
        ] {
            let (found, written) = seen(peer, false, headers);
            assert_eq!(
                (found.as_str(), written.as_deref()),
                (client, scheme),
                "{peer} {headers:?}"
            );
        }
    }

    #[test]
    fn a_listener_with_tls_has_the_scheme_https_unless_a_trusted_proxy_says_otherwise() {
        let proto = "x-forwarded-proto";
        for (peer, headers, scheme) in [
            ("198.51.100.9", &[][..], "https"),
            ("198.51.100.9", &[(proto, "http")], "https"),
            ("10.1.2.3", &[(proto, "http")], "http"),
        ] {
            assert_eq!(
                seen(peer, true, headers).1.as_deref(),
                Some(scheme),
                "{peer} {headers:?}"
            );
        }
    }

    #[test]
    fn a_proxy_is_an_address_or_a_network() {
        let check = |text: &str| network(text).is_some();
        for right in [
            "10.0.0.0/8",
            "192.0.2.5",
            "2001:db8::/32",
            "::1",
            "10.0.0.7/8",
        ] {
            assert!(check(right), "{right}");
        }
        for wrong in ["proxy", "10.0.0.0/33", "10.0.0", "*", "10.0.0.0/8,::1"] {
            assert!(!check(wrong), "{wrong}");
        }
    }
}
