//! An authority, and certificates of a broker and of a client.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

pub(crate) struct Certificates {
    pub(crate) authority: PathBuf,
    pub(crate) server: PathBuf,
    pub(crate) server_key: PathBuf,
    pub(crate) client: PathBuf,
    pub(crate) client_key: PathBuf,
}

impl Certificates {
    pub(crate) fn write(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            // With the authority's own name, a certificate counts as signed by itself.
            params.distinguished_name.push(DnType::CommonName, name);
            (
                params.signed_by(&key, &authority).unwrap().pem(),
                key.serialize_pem(),
            )
        };
        let (server, server_key) = issue("127.0.0.1");
        let (client, client_key) = issue("cmp1");
        Self {
            authority: write("authority.pem", authority.pem()),
            server: write("server.pem", server),
            server_key: write("server.key", server_key),
            client: write("client.pem", client),
            client_key: write("client.key", client_key),
        }
    }
}
