//! TLS of a listener: it has a certificate and, with [`TlsFiles::clients`], accepts only clients with a certificate of its authorities.
//!
//! [`TlsFiles::read`] loads and checks all files; the check of a configuration, the start and a reload use it. A [`ReloadableTls`] has the
//! current settings, which [`ReloadableTls::take`] replaces while the listener runs. Open connections keep their settings. Sessions are
//! never resumed, so each new connection is verified with the current settings.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientCertVerifierBuilder, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};

use crate::certificate::{Certificate, DateTime};

/// The files of a listener, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The listener's certificate chain in PEM: its own certificate first, then the signing ones.
    pub certificate: PathBuf,
    /// The key of that certificate.
    pub key: PathBuf,
    /// Which clients are accepted; `None`: all, and none has to show a certificate.
    pub clients: Option<ClientFiles>,
}

/// The files that decide which clients' certificates are accepted, all PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The authorities, one of which has signed each client's certificate.
    pub ca: PathBuf,
    /// Lists of revoked certificates. Empty: none is revoked. Otherwise an authority without a list admits no client.
    pub crl: Vec<PathBuf>,
}

/// One of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFile {
    /// [`TlsFiles::certificate`].
    Certificate,
    /// [`TlsFiles::key`].
    Key,
    /// [`ClientFiles::ca`].
    ClientCa,
    /// [`ClientFiles::crl`].
    ClientCrl,
}

impl TlsFile {
    /// The option that names it.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Self::Certificate => "tls_cert",
            Self::Key => "tls_key",
            Self::ClientCa => "client_ca",
            Self::ClientCrl => "client_crl",
        }
    }
}

impl fmt::Display for TlsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.option())
    }
}

/// The files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{file}: {} cannot be read: {source}", path.display())]
    Unreadable {
        file: TlsFile,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A file has invalid content.
    #[error("{file}: {} {wrong}", path.display())]
    Malformed {
        file: TlsFile,
        path: PathBuf,
        /// The problem, as the end of a sentence.
        wrong: String,
    },
    /// A certificate has expired or is not valid yet.
    #[error("{file}: {} holds the certificate of {holder}, which {wrong}", path.display())]
    Untimely {
        file: TlsFile,
        path: PathBuf,
        holder: String,
        /// Since or until when, as the end of a sentence.
        wrong: String,
    },
    /// The key does not belong to the certificate.
    #[error(
        "tls_key: {} is not the key of the certificate in {}",
        key.display(),
        certificate.display()
    )]
    Mismatched { certificate: PathBuf, key: PathBuf },
}

impl TlsError {
    /// The file that has to be corrected.
    #[must_use]
    pub fn file(&self) -> TlsFile {
        match self {
            Self::Unreadable { file, .. }
            | Self::Malformed { file, .. }
            | Self::Untimely { file, .. } => *file,
            Self::Mismatched { .. } => TlsFile::Key,
        }
    }

    /// The remedy, as one sentence.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match (self, self.file()) {
            (Self::Unreadable { .. }, _) => {
                "name a PEM file that the user of this process may read"
            }
            (Self::Mismatched { .. }, _) => {
                "name the key that the certificate was made with (openssl x509 -pubkey, openssl pkey -pubout)"
            }
            (Self::Untimely { .. }, TlsFile::ClientCa) => {
                "put an authority in it that is valid today, and check the clock (date)"
            }
            (Self::Untimely { .. }, _) => {
                "have a new certificate made and send SIGHUP, and check the clock (date)"
            }
            (Self::Malformed { .. }, TlsFile::Key) => {
                "name a PEM file with one private key (PKCS #8, PKCS #1 or SEC 1) that has no password"
            }
            (Self::Malformed { .. }, TlsFile::Certificate) => {
                "name a PEM file with the certificate of this host, followed by the certificates that signed it"
            }
            (Self::Malformed { .. }, TlsFile::ClientCa) => {
                "name a PEM file with the certificates of the authorities that sign clients'"
            }
            (Self::Malformed { .. }, TlsFile::ClientCrl) => {
                "name a PEM file with revocation lists (X509 CRL) of the authorities in client_ca"
            }
        }
    }
}

/// Settings that were loaded and checked.
#[derive(Debug, Clone)]
pub struct TlsSettings(Arc<ServerConfig>);

impl TlsFiles {
    /// Reads the files and checks them as of `now`, changing nothing.
    ///
    /// Errors: A file is missing or malformed, a certificate is not valid now, or key and certificate do not match.
    pub fn read(&self, now: SystemTime) -> Result<TlsSettings, TlsError> {
        let now = DateTime::from(now);
        let provider = provider();
        let chain = certificates(TlsFile::Certificate, &self.certificate)?;
        for certificate in &chain {
            timely(TlsFile::Certificate, &self.certificate, certificate, now)?;
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| unusable(TlsFile::Key, &self.key, "private key", error))?;
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|error| {
            let wrong = format!("holds a key that cannot be used: {error}");
            malformed(TlsFile::Key, &self.key, wrong)
        })?;
        let pair = CertifiedKey::new(chain, key);
        match pair.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err(TlsError::Mismatched {
                    certificate: self.certificate.clone(),
                    key: self.key.clone(),
                });
            }
            Err(error) => {
                let wrong = format!("holds a certificate that cannot be used: {error}");
                return Err(malformed(TlsFile::Certificate, &self.certificate, wrong));
            }
        }
        let verifier = match &self.clients {
            Some(clients) => clients.verifier(now)?,
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| malformed(TlsFile::Key, &self.key, error.to_string()))?;
        let mut config = builder
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session is not verified again, so a removed authority would still admit clients.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(TlsSettings(Arc::new(config)))
    }

    /// Whether a client with the listener's own certificate would be accepted at a listener with the same authorities: every host with
    /// such a certificate is then a client of every other one.
    ///
    /// Errors: A file is missing or malformed.
    pub fn admit_own_certificate(&self, now: SystemTime) -> Result<bool, TlsError> {
        let Some(clients) = &self.clients else {
            return Ok(false);
        };
        let chain = certificates(TlsFile::Certificate, &self.certificate)?;
        let verifier = clients.verifier(DateTime::from(now))?;
        let since_epoch = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let now = UnixTime::since_unix_epoch(since_epoch);
        Ok(chain
            .split_first()
            .is_some_and(|(own, signers)| verifier.verify_client_cert(own, signers, now).is_ok()))
    }
}

impl ClientFiles {
    /// Verifies clients' certificates: signed by an authority that is valid now, and on no list of revoked ones.
    fn verifier(&self, now: DateTime) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let roots = Arc::new(self.authorities(now)?);
        let build = |lists: &[CertificateRevocationListDer<'static>]| {
            let builder: ClientCertVerifierBuilder =
                WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider());
            builder.with_crls(lists.iter().cloned()).build()
        };
        let mut revoked = Vec::new();
        for path in &self.crl {
            let file = TlsFile::ClientCrl;
            let lists = CertificateRevocationListDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| unusable(file, path, "revocation list", error))?;
            if lists.is_empty() {
                return Err(malformed(file, path, "holds no revocation list".to_owned()));
            }
            // Each file alone, so that the error names it.
            build(&lists).map_err(|error| {
                let wrong = format!("holds a revocation list that cannot be used: {error}");
                malformed(file, path, wrong)
            })?;
            revoked.extend(lists);
        }
        build(&revoked).map_err(|error| malformed(TlsFile::ClientCa, &self.ca, error.to_string()))
    }

    /// The authorities that are valid now, because the TLS library does not check their validity. An expired one is
    /// allowed next to its successor.
    fn authorities(&self, now: DateTime) -> Result<RootCertStore, TlsError> {
        let file = TlsFile::ClientCa;
        let mut roots = RootCertStore::empty();
        let mut untimely = None;
        for certificate in certificates(file, &self.ca)? {
            if let Err(error) = timely(file, &self.ca, &certificate, now) {
                if !matches!(error, TlsError::Untimely { .. }) {
                    return Err(error);
                }
                untimely = Some(error);
                continue;
            }
            roots.add(certificate).map_err(|error| {
                let wrong = format!("holds a certificate that cannot be used: {error}");
                malformed(file, &self.ca, wrong)
            })?;
        }
        match untimely {
            Some(error) if roots.is_empty() => Err(error),
            _ => Ok(roots),
        }
    }
}

/// The TLS settings in force. Clones share them.
#[derive(Debug, Clone)]
pub struct ReloadableTls {
    files: Arc<TlsFiles>,
    current: Arc<RwLock<TlsSettings>>,
}

impl ReloadableTls {
    /// Loads these files and checks them as of now.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let settings = files.read(SystemTime::now())?;
        Ok(Self {
            files: Arc::new(files),
            current: Arc::new(RwLock::new(settings)),
        })
    }

    /// The files that it was loaded from.
    #[must_use]
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Uses these settings for new connections from now on.
    pub fn take(&self, settings: TlsSettings) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner).0)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(file: TlsFile, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(file, path, "certificate", error))?;
    match found.is_empty() {
        true => Err(malformed(file, path, "holds no certificate".to_owned())),
        false => Ok(found),
    }
}

fn timely(
    file: TlsFile,
    path: &Path,
    certificate: &CertificateDer<'_>,
    now: DateTime,
) -> Result<(), TlsError> {
    let Some(read) = Certificate::read(certificate) else {
        let wrong = "holds an invalid certificate (RFC 5280)".to_owned();
        return Err(malformed(file, path, wrong));
    };
    let wrong = if now > read.not_after {
        format!("expired at {}", read.not_after)
    } else if now < read.not_before {
        format!("is valid from {} on", read.not_before)
    } else {
        return Ok(());
    };
    Err(TlsError::Untimely {
        file,
        path: path.to_owned(),
        holder: read.holder.to_string(),
        wrong,
    })
}

fn unusable(file: TlsFile, path: &Path, what: &str, error: pem::Error) -> TlsError {
    match error {
        pem::Error::Io(source) => TlsError::Unreadable {
            file,
            path: path.to_owned(),
            source,
        },
        pem::Error::NoItemsFound => malformed(file, path, format!("holds no {what}")),
        error => malformed(file, path, format!("holds no {what}: {error}")),
    }
}

fn malformed(file: TlsFile, path: &Path, wrong: String) -> TlsError {
    TlsError::Malformed {
        file,
        path: path.to_owned(),
        wrong,
    }
}
