//! The certificate authority in a folder: its key signs the certificates of the controller and of the hosts, and the list of revoked ones.
//!
//! | file | contents |
//! |---|---|
//! | `ca.pem`, `ca.key` | the authority |
//! | `revoked.pem` | its revocation list, derived from the certificates in `revoked/` |
//! | `NAME.pem`, `NAME.key` | a certificate and its key |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use berth_compose::state_file;
use berth_output::{ErrorCode, Failure};
use berth_serve::{Certificate, TlsError, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber,
};
use time::OffsetDateTime;

use super::names::CertificateNames;
use super::{CertificateRole, DAY};

pub(super) const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca.key";
/// The revocation list.
pub(super) const REVOKED: &str = "revoked.pem";
/// The folder of revoked certificates.
const REVOKED_FOLDER: &str = "revoked";
/// Names that files of hosts cannot have.
pub(super) const RESERVED: [&str; 2] = ["ca", "revoked"];

/// The subject of every authority that this command makes, before the name of the first controller.
const SUBJECT: &str = "CN=Berth authority of ";
/// How long the authority and its list are valid.
const LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);
/// Certificates are valid from some time ago on, because clocks differ.
const LEEWAY: Duration = Duration::from_hours(1);
/// The names by which a host calls itself.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The authority of a folder.
pub(super) struct TlsAuthority {
    folder: PathBuf,
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
    params: CertificateParams,
}

impl TlsAuthority {
    /// Makes a folder, an authority and an empty revocation list.
    pub(super) fn create(
        folder: &Path,
        controller: &str,
        now: SystemTime,
    ) -> Result<Self, Failure> {
        if fs::symlink_metadata(folder.join(KEY)).is_ok() {
            let what = format!(
                "{} exists without {CERTIFICATE}: the authority is damaged",
                folder.join(KEY).display()
            );
            return Err(Failure::new(ErrorCode::State, what).hint(format!(
                "restore {CERTIFICATE}, or choose another --directory"
            )));
        }
        make_folder(folder)?;
        let key = KeyPair::generate().map_err(not_made)?;
        state_file::write(&folder.join(KEY), &key.serialize_pem())?;
        let authority = Self::signed(folder, controller, key, now)?;
        authority.write_list(now)?;
        Ok(authority)
    }

    /// The authority of a folder; `None` if it has none.
    ///
    /// Errors: A file cannot be read, or the authority was not made by this command.
    pub(super) fn open(folder: &Path) -> Result<Option<Self>, Failure> {
        let path = folder.join(CERTIFICATE);
        let pem = match fs::read(&path) {
            Ok(pem) => pem,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let what = format!("cannot read {}", path.display());
                return Err(Failure::caused(ErrorCode::File, what, &error));
            }
        };
        let certificate = Certificate::read_pem(&pem).into_iter().next();
        let controller = |certificate: &Certificate| {
            let subject = certificate.holder.subject.strip_prefix(SUBJECT);
            subject.map(str::to_owned)
        };
        let named = certificate.and_then(|it| Some((controller(&it)?, it)));
        let (controller, certificate) = named.ok_or_else(|| {
            let what = format!("{} is no authority that berth tls made", path.display());
            Failure::new(ErrorCode::Refused, what)
                .hint("choose another --directory, or use the program that made this authority")
        })?;
        let path_of_key = folder.join(KEY);
        let key = fs::read_to_string(&path_of_key).map_err(|error| {
            let what = format!(
                "cannot read the key of the authority, {}",
                path_of_key.display()
            );
            Failure::caused(ErrorCode::File, what, &error).hint(format!(
                "put {KEY} back into the folder, or name its folder by --directory"
            ))
        })?;
        let key = KeyPair::from_pem(&key).map_err(|error| {
            let what = format!("{} holds no private key", path_of_key.display());
            Failure::caused(ErrorCode::State, what, &error)
        })?;
        if !pem_has_key(&path, &path_of_key) {
            let what = format!("{} is not the key of {CERTIFICATE}", path_of_key.display());
            return Err(Failure::new(ErrorCode::State, what)
                .hint(format!("restore {KEY} and {CERTIFICATE} from one backup")));
        }
        let params = params(&controller, SystemTime::now());
        Ok(Some(Self {
            folder: folder.to_owned(),
            certificate,
            issuer: Issuer::new(params.clone(), key),
            params,
        }))
    }

    fn signed(
        folder: &Path,
        controller: &str,
        key: KeyPair,
        now: SystemTime,
    ) -> Result<Self, Failure> {
        let params = params(controller, now);
        let pem = params.self_signed(&key).map_err(not_made)?.pem();
        state_file::write_public(&folder.join(CERTIFICATE), &pem)?;
        let certificate = Certificate::read_pem(pem.as_bytes()).into_iter().next();
        let certificate = certificate.ok_or_else(|| {
            Failure::new(
                ErrorCode::Bug,
                "the certificate of the authority is malformed",
            )
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            certificate,
            issuer: Issuer::new(params.clone(), key),
            params,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Renews the authority with its key if it expires before `time`; whether it did. Certificates that it signed before
    /// stay valid.
    pub(super) fn outlast(&mut self, time: SystemTime, now: SystemTime) -> Result<bool, Failure> {
        if !self.certificate.expires_before(time) {
            return Ok(false);
        }
        set_validity(&mut self.params, now, LIFETIME);
        let signed = self
            .params
            .self_signed(self.issuer.key())
            .map_err(not_made)?;
        state_file::write_public(&self.folder.join(CERTIFICATE), &signed.pem())?;
        Ok(true)
    }

    /// Refuses the name of a certificate that exists.
    pub(super) fn check_unused(&self, name: &str) -> Result<(), Failure> {
        for kind in ["pem", "key"] {
            let path = self.folder.join(format!("{name}.{kind}"));
            if fs::symlink_metadata(&path).is_ok() {
                let what = format!("{} exists", path.display());
                return Err(Failure::new(ErrorCode::Refused, what).hint(format!(
                    "berth tls renew {name}, or --replace for other names"
                )));
            }
        }
        Ok(())
    }

    /// Makes a key and a certificate. Existing files are replaced.
    pub(super) fn issue(
        &self,
        names: &CertificateNames,
        role: CertificateRole,
        now: SystemTime,
        validity: Duration,
    ) -> Result<(), Failure> {
        let (own, purposes) = match role {
            CertificateRole::Controller => (
                &OWN_NAMES[..],
                vec![
                    ExtendedKeyUsagePurpose::ServerAuth,
                    ExtendedKeyUsagePurpose::ClientAuth,
                ],
            ),
            CertificateRole::Host => (&[][..], vec![ExtendedKeyUsagePurpose::ServerAuth]),
            CertificateRole::Client => (&[][..], vec![ExtendedKeyUsagePurpose::ClientAuth]),
        };
        let mut params = CertificateParams::new(names.with(own)).map_err(not_made)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, names.first());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = purposes;
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, now, validity);
        let key = KeyPair::generate().map_err(not_made)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(not_made)?;
        let file = |kind: &str| self.folder.join(format!("{}.{kind}", names.first()));
        state_file::write_secret(&file("key"), &key.serialize_pem())?;
        state_file::write_public(&file("pem"), &certificate.pem())
    }

    /// Moves the certificate of this name to the revoked ones, removes its key, and renews the list.
    pub(super) fn revoke(&self, name: &str, now: SystemTime) -> Result<(), Failure> {
        let revoked = self.folder.join(REVOKED_FOLDER);
        make_folder(&revoked)?;
        let file = |kind: &str| self.folder.join(format!("{name}.{kind}"));
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let kept = revoked.join(format!("{name}-{}.pem", since_epoch.as_millis()));
        let failed = |error: io::Error| {
            let what = format!("cannot revoke {}", file("pem").display());
            Failure::caused(ErrorCode::State, what, &error)
        };
        fs::rename(file("pem"), kept).map_err(failed)?;
        match fs::remove_file(file("key")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        self.write_list(now)
    }

    /// Writes the revocation list of all certificates in `revoked/`.
    fn write_list(&self, now: SystemTime) -> Result<(), Failure> {
        let folder = self.folder.join(REVOKED_FOLDER);
        let certificates = match folder.exists() {
            true => super::issued(&folder)?,
            false => Vec::new(),
        };
        let time = OffsetDateTime::from(now);
        let revoked = certificates
            .into_iter()
            .map(|(_, certificate)| RevokedCertParams {
                serial_number: SerialNumber::from(certificate.serial_number),
                revocation_time: time,
                reason_code: None,
                invalidity_date: None,
            });
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let list = CertificateRevocationListParams {
            this_update: time - LEEWAY,
            next_update: time + LIFETIME,
            crl_number: SerialNumber::from(since_epoch.as_secs()),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let pem = list.signed_by(&self.issuer).and_then(|list| list.pem());
        state_file::write_public(&self.folder.join(REVOKED), &pem.map_err(not_made)?)
    }
}

/// Whether the key belongs to the certificate, whether or not that has expired.
fn pem_has_key(certificate: &Path, key: &Path) -> bool {
    let files = TlsFiles {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        clients: None,
    };
    !matches!(
        files.read(SystemTime::now()),
        Err(TlsError::Mismatched { .. })
    )
}

/// What the certificate of an authority says.
fn params(controller: &str, now: SystemTime) -> CertificateParams {
    let subject = format!("{SUBJECT}{controller}");
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let name = subject.trim_start_matches("CN=");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, LIFETIME);
    params
}

fn set_validity(params: &mut CertificateParams, now: SystemTime, validity: Duration) {
    params.not_before = OffsetDateTime::from(now - LEEWAY);
    params.not_after = OffsetDateTime::from(now + validity.max(DAY));
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    berth_files::make_folders(folder, 0o750).map_err(|error| {
        let what = format!("cannot make {}", folder.display());
        Failure::caused(ErrorCode::File, what, &error)
    })
}

fn not_made(error: rcgen::Error) -> Failure {
    Failure::caused(ErrorCode::Bug, "cannot make a certificate", &error)
}
