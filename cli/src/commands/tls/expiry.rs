//! Certificates that the configuration names and that expire soon, for `berth config check` and `berth doctor`.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use berth_config::{ConfigProblem, LoadedConfig};
use berth_output::ErrorCode;
use berth_serve::Certificate;

/// How long before its end a certificate is reported.
const NOTICE: Duration = Duration::from_hours(30 * 24);

/// The options with a certificate of this host, and the certificates that signed it.
const OWN: [&str; 12] = [
    "agent.tls_cert",
    "agent_client.certfile",
    "api.tls_cert",
    "accelerator_service.tls_cert",
    "compute_service.tls_cert",
    "identity_service.tls_cert",
    "placement_service.tls_cert",
    "conductor.certfile",
    "cyborg.certfile",
    "glance.certfile",
    "neutron.certfile",
    "placement.certfile",
];

/// The options with authorities. One that expires is no problem as long as another one is in the file.
const AUTHORITIES: [&str; 8] = [
    "agent.client_ca",
    "agent_client.cafile",
    "api.cafile",
    "conductor.cafile",
    "cyborg.cafile",
    "glance.cafile",
    "neutron.cafile",
    "placement.cafile",
];

/// How a certificate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CertificateStatus {
    Valid,
    ExpiresSoon,
    Expired,
}

impl fmt::Display for CertificateStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Valid => "valid",
            Self::ExpiresSoon => "expires soon",
            Self::Expired => "expired",
        })
    }
}

pub(super) fn status(certificate: &Certificate, now: SystemTime) -> CertificateStatus {
    if certificate.expires_before(now) {
        CertificateStatus::Expired
    } else if certificate.expires_before(now + NOTICE) {
        CertificateStatus::ExpiresSoon
    } else {
        CertificateStatus::Valid
    }
}

/// The files with certificates that the configuration names, and whether they hold authorities.
fn named(loaded: &LoadedConfig) -> impl Iterator<Item = (String, String, bool)> {
    let all = loaded.effective.iter();
    all.filter_map(|each| {
        let name = each.name.as_str();
        let is_authority = AUTHORITIES.contains(&name);
        let path = (is_authority || OWN.contains(&name)).then(|| each.shown())?;
        Some((name.to_owned(), path.as_str()?.to_owned(), is_authority))
    })
}

/// How many files with certificates the configuration names.
#[must_use]
pub fn count(loaded: &LoadedConfig) -> usize {
    named(loaded).count()
}

/// The certificates that expire within 30 days or did already. `read` reads a file; what cannot be read is left out, because
/// other checks report it.
pub fn expiring(
    loaded: &LoadedConfig,
    read: impl Fn(&Path) -> Option<String>,
    now: SystemTime,
) -> Vec<ConfigProblem> {
    let problems = named(loaded).filter_map(|(key, path, is_authority)| {
        let certificates = Certificate::read_pem(read(Path::new(&path))?.as_bytes());
        let end = |certificate: &&Certificate| certificate.not_after;
        let deciding = match is_authority {
            true => certificates.iter().max_by_key(end),
            false => certificates.iter().min_by_key(end),
        }?;
        let wrong = match status(deciding, now) {
            CertificateStatus::Valid => return None,
            CertificateStatus::ExpiresSoon => "expires at",
            CertificateStatus::Expired => "expired at",
        };
        Some(ConfigProblem {
            at: loaded.origin(&key),
            key,
            wrong: format!(
                "{path} holds the certificate of {}, which {wrong} {}",
                deciding.holder, deciding.not_after
            ),
            right: "make a new one (berth tls renew), replace the file and send SIGHUP".to_owned(),
            code: ErrorCode::Doubtful,
        })
    });
    problems.collect()
}

#[cfg(test)]
mod tests {
    use berth_config::{ConfigDocument, resolve};

    use super::*;

    #[test]
    fn a_certificate_is_reported_a_month_before_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let words = ["--controller", "ctl"];
        super::super::tests::run("init", folder.path(), &words).unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let text = format!(
            "[api]\ntls_cert = \"{}\"\ntls_key = \"{}\"\ncafile = \"{}\"\n",
            file("ctl.pem"),
            file("ctl.key"),
            file("ca.pem"),
        );
        let document = ConfigDocument {
            name: "berth.toml".to_owned(),
            text,
        };
        let loaded = resolve(&[document], &[]).unwrap();
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        let day = Duration::from_hours(24);
        let found = |days: u32| {
            let found = expiring(&loaded, read, SystemTime::now() + day * days);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(count(&loaded), 2);
        assert_eq!(found(334), [""; 0]);
        for (days, words) in [(336, "which expires at"), (366, "which expired at")] {
            let found = found(days);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with("berth.toml:2:12: api.tls_cert: ") && found[0].contains(words),
                "{found:?}"
            );
        }
        assert_eq!(found(3640).len(), 2);
        assert_eq!(expiring(&loaded, |_| None, SystemTime::now()), []);
    }
}
