//! Reads names, purposes and validity of a certificate from its DER (RFC 5280). It does not verify the certificate; the TLS library has
//! done that before.
//!
//! Used for the access log, to compare the names of clients, to report expired files, and to show files.

mod der;
mod name;
mod time;

use std::fmt;
use std::time::SystemTime;

use der::{Der, tag};
pub use name::{SubjectName, SubjectNameError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
pub use time::DateTime;

/// The longest part of a name that is shown, in characters.
const LONGEST: usize = 200;
/// The most alternative names that are shown.
const MOST_NAMES: usize = 8;

/// `subjectAltName` (2.5.29.17).
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// `basicConstraints` (2.5.29.19).
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
/// `extKeyUsage` (2.5.29.37).
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];

/// The purposes in `extKeyUsage` that are known.
const PURPOSES: [(&[u8], CertificatePurpose); 2] = [
    (&[0x2b, 6, 1, 5, 5, 7, 3, 1], CertificatePurpose::Server),
    (&[0x2b, 6, 1, 5, 5, 7, 3, 2], CertificatePurpose::Client),
];

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

/// What a certificate may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificatePurpose {
    /// It signs certificates.
    Authority,
    /// A listener shows it.
    Server,
    /// A client shows it.
    Client,
}

impl fmt::Display for CertificatePurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Authority => "authority",
            Self::Server => "server",
            Self::Client => "client",
        })
    }
}

/// The parts of a certificate that are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The subject, and the names in the form of logs.
    pub holder: CertificateHolder,
    /// All alternative names, as they are compared.
    pub names: Vec<SubjectName>,
    /// The purposes that it is limited to; empty: any, but not that of an authority.
    pub purposes: Vec<CertificatePurpose>,
    /// The number by which a revocation list names it, big-endian.
    pub serial_number: Vec<u8>,
    pub not_before: DateTime,
    pub not_after: DateTime,
}

impl Certificate {
    /// Parses a certificate; `None` if the bytes are not one.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut signed = Der::new(bytes).enter(tag::SEQUENCE)?;
        let mut body = signed.enter(tag::SEQUENCE)?;
        body.skip_if(tag::VERSION);
        let serial_number = body.value(tag::INTEGER)?.to_vec();
        body.skip()?; // signature's algorithm
        body.skip()?; // issuer
        let mut validity = body.enter(tag::SEQUENCE)?;
        let (not_before, not_after) = (time::read(&mut validity)?, time::read(&mut validity)?);
        let subject = subject(body.enter(tag::SEQUENCE)?)?;
        body.skip()?; // public key
        let (names, purposes) = extensions(body).unwrap_or_default();
        let shown = names.iter().take(MOST_NAMES);
        let holder = CertificateHolder {
            subject,
            names: shown.map(|name| shown_text(&name.to_string())).collect(),
        };
        Some(Self {
            holder,
            names,
            purposes,
            serial_number,
            not_before,
            not_after,
        })
    }

    /// The certificates in a PEM text, in their order; empty if it has none that can be read.
    #[must_use]
    pub fn read_pem(pem: &[u8]) -> Vec<Self> {
        CertificateDer::pem_slice_iter(pem)
            .filter_map(|certificate| Self::read(&certificate.ok()?))
            .collect()
    }

    /// Whether it is not valid any more at this time.
    #[must_use]
    pub fn expires_before(&self, time: SystemTime) -> bool {
        self.not_after < DateTime::from(time)
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

/// The alternative names and the purposes.
fn extensions(mut rest: Der<'_>) -> Option<(Vec<SubjectName>, Vec<CertificatePurpose>)> {
    let (mut names, mut purposes) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (kind, value) = rest.next()?;
        if kind != tag::EXTENSIONS {
            continue;
        }
        let mut extensions = Der::new(value).enter(tag::SEQUENCE)?;
        while !extensions.is_empty() {
            let mut extension = extensions.enter(tag::SEQUENCE)?;
            let oid = extension.value(tag::OBJECT_IDENTIFIER)?;
            extension.skip_if(tag::BOOLEAN);
            let mut value = Der::new(extension.value(tag::OCTET_STRING)?);
            match oid {
                ALTERNATIVE_NAMES => names = general_names(value.enter(tag::SEQUENCE)?),
                BASIC_CONSTRAINTS => {
                    let flag = value.enter(tag::SEQUENCE)?.value(tag::BOOLEAN);
                    let is_authority = flag.is_some_and(|flag| flag != [0]);
                    purposes.extend(is_authority.then_some(CertificatePurpose::Authority));
                }
                EXTENDED_KEY_USAGE => {
                    let mut listed = value.enter(tag::SEQUENCE)?;
                    while !listed.is_empty() {
                        let oid = listed.value(tag::OBJECT_IDENTIFIER)?;
                        let known = PURPOSES.iter().find(|(known, _)| *known == oid);
                        purposes.extend(known.map(|(_, purpose)| *purpose));
                    }
                }
                _ => {}
            }
        }
    }
    Some((names, purposes))
}

/// Names of other kinds, and texts that are not UTF-8, are left out: they equal no name that a person writes.
fn general_names(mut names: Der<'_>) -> Vec<SubjectName> {
    let mut found = Vec::new();
    while let Some((kind, value)) = names.next() {
        let text = || str::from_utf8(value).ok().map(str::to_owned);
        found.extend(match kind {
            tag::EMAIL => text().map(SubjectName::Email),
            tag::DNS => text().map(SubjectName::Dns),
            tag::URI => text().map(SubjectName::Uri),
            tag::ADDRESS => address(value).map(SubjectName::Ip),
            _ => None,
        });
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
    shown_text(&String::from_utf8_lossy(value))
}

fn shown_text(text: &str) -> String {
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
