//! The names of one certificate, as the command line gives them: `NAME[,ADDRESS...]`.

use std::net::IpAddr;
use std::str::FromStr;

use berth_options::text::is_host_name;
use berth_serve::SubjectName;

use super::authority::RESERVED;

/// The name of a host, which its files have too, and further names and addresses of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CertificateNames {
    first: String,
    further: Vec<String>,
}

/// The text is not the name of a host.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} {1}")]
pub(super) struct CertificateNamesError(String, &'static str);

impl CertificateNames {
    /// The names of an existing certificate, with the name of its file.
    pub(super) fn of(file: &str, names: &[SubjectName]) -> Self {
        let further = names.iter().filter_map(|name| match name {
            SubjectName::Dns(name) => Some(name.clone()),
            SubjectName::Ip(address) => Some(address.to_string()),
            // No certificate of `berth tls` has them.
            SubjectName::Uri(_) | SubjectName::Email(_) => None,
        });
        Self {
            first: file.to_owned(),
            further: further.filter(|name| name != file).collect(),
        }
    }

    pub(super) fn first(&self) -> &str {
        &self.first
    }

    /// All of them, and these; each once.
    pub(super) fn with(&self, more: &[&str]) -> Vec<String> {
        let mut all = vec![self.first.clone()];
        let further = self.further.iter().map(String::as_str);
        for name in further.chain(more.iter().copied()) {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        }
        all
    }
}

impl FromStr for CertificateNames {
    type Err = CertificateNamesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut names = text.split(',').map(str::trim).map(|name| {
            let good = is_host_name(name) && !name.is_empty() || name.parse::<IpAddr>().is_ok();
            match good {
                true => Ok(name.to_owned()),
                false => Err(CertificateNamesError(
                    name.to_owned(),
                    "is neither a host name nor an address",
                )),
            }
        });
        let first = names.next().transpose()?.unwrap_or_default();
        if RESERVED.contains(&first.as_str()) || !is_host_name(&first) {
            let wrong =
                "cannot be the name of files; put a host name first, such as compute1,192.0.2.11";
            return Err(CertificateNamesError(first, wrong));
        }
        Ok(Self {
            first,
            further: names.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_a_host_name_first_and_further_names_and_addresses() {
        let names: CertificateNames = "compute1,192.0.2.11, 2001:db8::11,compute1.example.org"
            .parse()
            .unwrap();
        assert_eq!(names.first(), "compute1");
        assert_eq!(
            names.with(&["localhost", "192.0.2.11"]),
            [
                "compute1",
                "192.0.2.11",
                "2001:db8::11",
                "compute1.example.org",
                "localhost"
            ]
        );
        for wrong in [
            "",
            "a,",
            "../a",
            "a b",
            "ca",
            "revoked",
            "2001:db8::1",
            "a,b/c",
            "*.example.org",
        ] {
            assert!(wrong.parse::<CertificateNames>().is_err(), "{wrong}");
        }
    }
}
