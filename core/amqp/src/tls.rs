//! TLS settings of connections to brokers: trusted authorities and this side's certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::MessagingError;
use crate::options::MessagingOptions;

/// The settings by the options; `None` without TLS. A broker's certificate is always checked.
pub(crate) fn client_config(
    options: &MessagingOptions,
) -> Result<Option<Arc<ClientConfig>>, MessagingError> {
    if !options.ssl {
        return Ok(None);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of rustls' default versions")
        .with_root_certificates(authorities(options.ssl_ca_file.as_deref())?);
    let Some(certificate) = &options.ssl_cert_file else {
        return Ok(Some(Arc::new(builder.with_no_client_auth())));
    };
    let chain = certificates("ssl_cert_file", certificate)?;
    let (option, path) = match &options.ssl_key_file {
        Some(key) => ("ssl_key_file", key),
        None => ("ssl_cert_file", certificate),
    };
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(option, path, &error))?;
    let config = builder.with_client_auth_cert(chain, key);
    let config = config.map_err(|error| unusable(option, path, &error))?;
    Ok(Some(Arc::new(config)))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, MessagingError> {
    const OPTION: &str = "ssl_ca_file";
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for certificate in certificates(OPTION, file)? {
        let added = roots.add(certificate);
        added.map_err(|error| unusable(OPTION, file, &error))?;
    }
    Ok(roots)
}

fn certificates(
    option: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, MessagingError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(option, path, &error))?;
    if found.is_empty() {
        return Err(unusable(option, path, &"it holds no certificate"));
    }
    Ok(found)
}

fn unusable(option: &'static str, path: &Path, reason: &dyn std::fmt::Display) -> MessagingError {
    MessagingError::TlsFile {
        option,
        path: path.display().to_string(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_certificate_is_named_with_its_option() {
        let folder = tempfile::tempdir().unwrap();
        let (empty, absent) = (
            folder.path().join("empty.pem"),
            folder.path().join("absent"),
        );
        std::fs::write(&empty, "").unwrap();
        let with = |ca: &Path, certificate: Option<&Path>| {
            let options = MessagingOptions {
                ssl: true,
                ssl_ca_file: Some(ca.to_owned()),
                ssl_cert_file: certificate.map(Path::to_owned),
                ..MessagingOptions::default()
            };
            client_config(&options).unwrap_err().to_string()
        };
        let error = with(&empty, None);
        assert!(
            error.contains("ssl_ca_file") && error.contains("empty.pem"),
            "{error}"
        );
        assert!(error.contains("no certificate"), "{error}");
        assert!(with(&absent, None).contains("absent"));
        assert!(
            client_config(&MessagingOptions::default())
                .unwrap()
                .is_none()
        );
    }
}
