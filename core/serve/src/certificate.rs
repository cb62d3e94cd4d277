//! Reads the holder and the validity of a certificate from its DER (RFC 5280). It does not verify the certificate; the TLS library has
//! done that before.
//!
//! Used for the access log and to report expired files.

mod der;
mod time;

use std::fmt;

use der::{Der, tag};
pub(crate) use time::DateTime;

/// The longest part of a name that is shown, in characters.
const LONGEST: usize = 200;
/// The most alternative names that are shown.
const MOST_NAMES: usize = 8;

/// `subjectAltName` (2.5.29.17).
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// Attributes that have a short name (RFC 4514, section 3).
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (&[0x55, 0x04, 0x03], "CN"),
    (&[0x55, 0x04, 0x05], "serialNumber"),
    (&[0x55, 0x04, 0x06], "C"),
    (&[0x55, 0x04, 0x07], "L"),
    (&[0x55, 0x04, 0x08], "ST"),
    (&[0x55, 0x04, 0x0a], "O"),
    (&[0x55, 0x04, 0x0b], "OU"),
];

/// The holder of a certificate: its subject and alternative names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateHolder {
    /// The subject, as RFC 4514 writes it (`CN=conductor,O=Example`); may be empty.
    pub subject: String,
    /// Its alternative names, each with its kind (`DNS:conductor-1`, `URI:spiffe://example/conductor`), eight at most.
    pub names: Vec<String>,
}

impl fmt::Display for CertificateHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.subject.as_str(), self.names.as_slice()) {
            ("", []) => f.write_str("a certificate without a name"),
            ("", names) => f.write_str(&names.join(", ")),
            (subject, []) => f.write_str(subject),
            (subject, names) => write!(f, "{subject} ({})", names.join(", ")),
        }
    }
}

/// The parts of a certificate that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) holder: CertificateHolder,
    pub(crate) not_before: DateTime,
    pub(crate) not_after: DateTime,
}

impl Certificate {
    /// Parses a certificate; `None` if the bytes are not one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut signed = Der::new(bytes).enter(tag::SEQUENCE)?;
        let mut body = signed.enter(tag::SEQUENCE)?;
        body.skip_if(tag::VERSION);
        body.skip()?; // serial number
        body.skip()?; // signature's algorithm
        body.skip()?; // issuer
        let mut validity = body.enter(tag::SEQUENCE)?;
        let (not_before, not_after) = (time::read(&mut validity)?, time::read(&mut validity)?);
        let subject = subject(body.enter(tag::SEQUENCE)?)?;
        body.skip()?; // public key
        let names = alternative_names(body).unwrap_or_default();
        Some(Self {
            holder: CertificateHolder { subject, names },
            not_before,
            not_after,
        })
    }
}

/// RFC 4514: the last part first.
fn subject(mut name: Der<'_>) -> Option<String> {
    let mut parts = Vec::new();
    while !name.is_empty() {
        let mut set = name.enter(tag::SET)?;
        while !set.is_empty() {
            let mut attribute = set.enter(tag::SEQUENCE)?;
            let kind = attribute.value(tag::OBJECT_IDENTIFIER)?;
            let (_, value) = attribute.next()?;
            let known = ATTRIBUTES.iter().find(|(oid, _)| *oid == kind);
            let label = known.map_or_else(|| hexadecimal(kind), |(_, label)| (*label).to_owned());
            parts.push(format!("{label}={}", shown(value)));
        }
    }
    parts.reverse();
    Some(parts.join(","))
}

fn alternative_names(mut rest: Der<'_>) -> Option<Vec<String>> {
    while !rest.is_empty() {
        let (kind, value) = rest.next()?;
        if kind != tag::EXTENSIONS {
            continue;
        }
        let mut extensions = Der::new(value).enter(tag::SEQUENCE)?;
        while !extensions.is_empty() {
            let mut extension = extensions.enter(tag::SEQUENCE)?;
            if extension.value(tag::OBJECT_IDENTIFIER)? != ALTERNATIVE_NAMES {
                continue;
            }
            extension.skip_if(tag::BOOLEAN);
            let names = Der::new(extension.value(tag::OCTET_STRING)?).enter(tag::SEQUENCE)?;
            return Some(general_names(names));
        }
    }
    None
}

fn general_names(mut names: Der<'_>) -> Vec<String> {
    let mut found = Vec::new();
    while let Some((kind, value)) = names.next() {
        let name = match kind {
            tag::EMAIL => format!("email:{}", shown(value)),
            tag::DNS => format!("DNS:{}", shown(value)),
            tag::URI => format!("URI:{}", shown(value)),
            tag::ADDRESS => match address(value) {
                Some(address) => format!("IP:{address}"),
                None => continue,
            },
            _ => continue,
        };
        found.push(name);
        if found.len() == MOST_NAMES {
            break;
        }
    }
    found
}

fn address(bytes: &[u8]) -> Option<std::net::IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(std::net::IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from))
        .ok()
}

/// Escaped for one line of a log, because a certificate may contain any text.
fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let safe = text.chars().map(|c| match c {
        ',' | '"' | '\\' => '_',
        c if c.is_control() => '_',
        c => c,
    });
    safe.take(LONGEST).collect()
}

fn hexadecimal(oid: &[u8]) -> String {
    oid.iter()
        .take(LONGEST)
        .fold("#".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_are_too_strange_to_read(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = Certificate::read(&bytes);
        }
    }

    #[test]
    fn a_holder_is_one_line_whatever_is_in_it() {
        let holder = |subject: &str, names: &[&str]| CertificateHolder {
            subject: subject.to_owned(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        let cases = [
            (holder("", &[]), "a certificate without a name"),
            (holder("CN=a", &[]), "CN=a"),
            (holder("", &["DNS:a", "URI:b"]), "DNS:a, URI:b"),
            (holder("CN=a,O=b", &["DNS:a"]), "CN=a,O=b (DNS:a)"),
        ];
        for (holder, line) in cases {
            assert_eq!(holder.to_string(), line);
        }
        assert_eq!(shown(b"a\nb,c\"\x1b[1m"), "a_b_c__[1m");
    }
}
