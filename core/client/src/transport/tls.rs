//! TLS settings: trusted authorities and the client certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier, WantsVersions,
};

use super::{TransportError, TransportOptions};

/// Settings for connections without TLS: cheap, and they trust nothing.
pub(super) fn unused() -> Result<ClientConfig, TransportError> {
    Ok(versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

/// Settings by the options; without `cafile` the system's authorities are trusted.
pub(super) fn config(options: &TransportOptions) -> Result<ClientConfig, TransportError> {
    let builder = if options.insecure {
        let checks = AcceptAnyCertificate(provider());
        versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(checks))
    } else {
        versions()?.with_root_certificates(authorities(options.cafile.as_deref())?)
    };
    match (&options.certfile, &options.keyfile) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (None, Some(keyfile)) => Err(unusable("keyfile", keyfile, "there is no certfile with it")),
        (Some(certfile), keyfile) => {
            let chain = certificates("certfile", certfile)?;
            let (option, path) = match keyfile {
                Some(keyfile) => ("keyfile", keyfile),
                None => ("certfile", certfile),
            };
            let key = PrivateKeyDer::from_pem_file(path)
                .map_err(|error| unusable(option, path, error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| unusable(option, path, error))
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn versions() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TransportError> {
    let builder: ConfigBuilder<ClientConfig, WantsVersions> =
        ClientConfig::builder_with_provider(provider());
    builder
        .with_safe_default_protocol_versions()
        .map_err(|error| TransportError::Unsendable {
            reason: error.to_string(),
        })
}

fn authorities(cafile: Option<&Path>) -> Result<RootCertStore, TransportError> {
    let mut roots = RootCertStore::empty();
    let Some(cafile) = cafile else {
        let system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(system.certs);
        return Ok(roots);
    };
    for certificate in certificates("cafile", cafile)? {
        roots
            .add(certificate)
            .map_err(|error| unusable("cafile", cafile, error))?;
    }
    Ok(roots)
}

fn certificates(
    option: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(option, path, error))?;
    if found.is_empty() {
        return Err(unusable(option, path, "it holds no certificate"));
    }
    Ok(found)
}

fn unusable(option: &'static str, path: &Path, reason: impl std::fmt::Display) -> TransportError {
    TransportError::File {
        option,
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// `insecure = true`: any certificate is accepted. Signatures are still verified.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
