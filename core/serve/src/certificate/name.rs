//! The alternative names of a certificate, as they are written in options and compared.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One alternative name with its kind: `DNS:conductor-1`, `IP:192.0.2.10`, `URI:spiffe://example/conductor`,
/// `email:ops@example.org`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectName {
    Dns(String),
    Ip(IpAddr),
    Uri(String),
    Email(String),
}

impl SubjectName {
    /// Whether both name the same subject. A DNS name has no case; a wildcard matches only itself.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dns(one), Self::Dns(other)) => one.eq_ignore_ascii_case(other),
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for SubjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => write!(f, "DNS:{name}"),
            Self::Ip(address) => write!(f, "IP:{address}"),
            Self::Uri(uri) => write!(f, "URI:{uri}"),
            Self::Email(address) => write!(f, "email:{address}"),
        }
    }
}

/// The text is no alternative name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name has its kind before it: DNS:, IP:, URI: or email:")]
pub struct SubjectNameError;

impl FromStr for SubjectName {
    type Err = SubjectNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, name) = text.split_once(':').ok_or(SubjectNameError)?;
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(SubjectNameError);
        }
        match kind {
            "DNS" => Ok(Self::Dns(name.to_owned())),
            "IP" => name.parse().map(Self::Ip).map_err(|_| SubjectNameError),
            "URI" => Ok(Self::Uri(name.to_owned())),
            "email" => Ok(Self::Email(name.to_owned())),
            _ => Err(SubjectNameError),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn name(text: &str) -> SubjectName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_is_compared_with_its_kind_and_as_a_whole() {
        for (one, other, same) in [
            ("DNS:conductor-1", "DNS:Conductor-1", true),
            ("DNS:conductor-1", "DNS:conductor-10", false),
            ("DNS:*.example.org", "DNS:a.example.org", false),
            ("DNS:192.0.2.7", "IP:192.0.2.7", false),
            ("IP:2001:db8::1", "IP:2001:db8:0::1", true),
            ("URI:spiffe://example/a", "URI:spiffe://example/A", false),
            ("email:a@b", "email:a@b", true),
        ] {
            assert_eq!(name(one).matches(&name(other)), same, "{one} {other}");
        }
        for wrong in [
            "conductor-1",
            "DNS:",
            "IP:conductor",
            "dns:a",
            "CN:a",
            "DNS:a b",
        ] {
            assert_eq!(
                wrong.parse::<SubjectName>(),
                Err(SubjectNameError),
                "{wrong}"
            );
        }
    }
}
