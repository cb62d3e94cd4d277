//! Generates key pairs for users who send no public key. The private key is in the response only: it is not stored.
//!
//! Nova generates RSA keys. Berth generates Ed25519 keys for SSH and ECDSA keys (P-256) for certificates, because ring generates no RSA
//! keys, and the crate `rsa` is forbidden (RUSTSEC-2023-0071).

use berth_model::KeyPairType;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose,
    OtherNameValue, SanType,
};
use ssh_key::private::Ed25519Keypair;
use ssh_key::{LineEnding, PrivateKey};
use time::{Duration, OffsetDateTime};

use super::KeyPairError;

/// The object identifier of the user principal name, by which Windows finds the account of a certificate.
const USER_PRINCIPAL_NAME: [u64; 10] = [1, 3, 6, 1, 4, 1, 311, 20, 2, 3];
/// The limit of RFC 5280 (`ub-common-name`).
const LONGEST_COMMON_NAME: usize = 64;
/// How long a certificate is valid, as Nova's.
const VALIDITY: Duration = Duration::days(3650);

/// A key pair that was generated.
pub(crate) struct GeneratedKeyPair {
    /// A line of `authorized_keys`, or a certificate in PEM.
    pub(crate) public_key: String,
    /// The private key, in OpenSSH's format or in PEM (PKCS#8).
    pub(crate) private_key: String,
}

impl GeneratedKeyPair {
    /// Generates a key pair for a user.
    ///
    /// Errors: the system gives no random bytes.
    pub(crate) fn new(kind: KeyPairType, user_id: &str) -> Result<Self, KeyPairError> {
        match kind {
            KeyPairType::Ssh => ssh(),
            KeyPairType::X509 => x509(user_id),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> KeyPairError {
    KeyPairError::NotGenerated {
        reason: error.to_string(),
    }
}

fn ssh() -> Result<GeneratedKeyPair, KeyPairError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(failed)?;
    let mut key = PrivateKey::from(Ed25519Keypair::from_seed(&seed));
    key.set_comment("Generated-by-Berth");
    Ok(GeneratedKeyPair {
        public_key: key.public_key().to_openssh().map_err(failed)?,
        private_key: key.to_openssh(LineEnding::LF).map_err(failed)?.to_string(),
    })
}

/// A certificate for WinRM, with the content of Nova's.
fn x509(user_id: &str) -> Result<GeneratedKeyPair, KeyPairError> {
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    let name: String = user_id.chars().take(LONGEST_COMMON_NAME).collect();
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    let name = OtherNameValue::Utf8String(format!("{user_id}@localhost"));
    params.subject_alt_names = vec![SanType::OtherName((USER_PRINCIPAL_NAME.to_vec(), name))];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    // A guest's clock may be a little late.
    params.not_before = OffsetDateTime::now_utc() - Duration::days(1);
    params.not_after = params.not_before + VALIDITY;
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(GeneratedKeyPair {
        public_key: certificate.pem(),
        private_key: key.serialize_pem(),
    })
}
