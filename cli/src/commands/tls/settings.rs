//! What to do with new certificates: the files of each host, and its lines of configuration.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use berth_output::Failure;
use berth_serve::{Certificate, SubjectName};

use super::authority::{CERTIFICATE, REVOKED};
use super::{CertificateRole, FOLDER, issued};

/// All certificates of a folder.
pub(super) struct IssuedCertificates {
    folder: String,
    certificates: Vec<(String, Certificate)>,
}

impl IssuedCertificates {
    pub(super) fn in_folder(folder: &Path) -> Result<Self, Failure> {
        Ok(Self {
            folder: folder.display().to_string(),
            certificates: issued(folder)?,
        })
    }

    /// Prints the files and the configuration of each of these.
    pub(super) fn explain<'a>(
        &self,
        made: impl Iterator<Item = &'a str>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        writeln!(
            out,
            "The authority is {0}/{CERTIFICATE}. Keep {0}/ca.key where no host can read it.",
            self.folder
        )?;
        for name in made {
            let mut all = self.certificates.iter();
            let Some((name, certificate)) = all.find(|(known, _)| known == name) else {
                continue;
            };
            let (files, text) = match CertificateRole::of(certificate) {
                CertificateRole::Controller => {
                    (String::new(), self.of_controller(name, certificate))
                }
                CertificateRole::Host => (format!(" {REVOKED}"), self.of_host(name, certificate)),
                CertificateRole::Client => (String::new(), agent_client(name)),
            };
            writeln!(
                out,
                "\nOn {name}, copy to {FOLDER}: {CERTIFICATE}{files} {name}.pem {name}.key\n\
                 and write to /etc/berth/berth.d/tls.toml:\n\n{text}"
            )?;
        }
        out.flush()
    }

    fn of(&self, role: CertificateRole) -> impl Iterator<Item = &str> {
        let all = self.certificates.iter();
        let chosen = all.filter(move |(_, certificate)| CertificateRole::of(certificate) == role);
        chosen.map(|(name, _)| name.as_str())
    }

    fn of_controller(&self, name: &str, certificate: &Certificate) -> String {
        let listen = listen(certificate, 8770);
        let agents: Vec<String> = self
            .of(CertificateRole::Host)
            .map(|host| format!("\"{host}=https://{host}:9178\""))
            .collect();
        format!(
            "[api]\n{listen}\npublic_endpoint = \"https://{name}:8770\"\ntls_cert = \"{FOLDER}/{name}.pem\"\n\
             tls_key = \"{FOLDER}/{name}.key\"\ncafile = \"{FOLDER}/{CERTIFICATE}\"\n\n{}\n\
             [conductor_service]\nagents = [{}]\n",
            agent_client(name),
            agents.join(", ")
        )
    }

    fn of_host(&self, name: &str, certificate: &Certificate) -> String {
        let listen = listen(certificate, 9178);
        let clients: Vec<String> = self
            .of(CertificateRole::Controller)
            .chain(self.of(CertificateRole::Client))
            .map(|name| format!("\"{}\"", subject_name(name)))
            .collect();
        let mut text = format!(
            "[agent]\n{listen}\ntls_cert = \"{FOLDER}/{name}.pem\"\ntls_key = \"{FOLDER}/{name}.key\"\n\
             client_ca = \"{FOLDER}/{CERTIFICATE}\"\nclient_crl = [\"{FOLDER}/{REVOKED}\"]\n\
             allowed_clients = [{}]\n",
            clients.join(", ")
        );
        let controller = self
            .of(CertificateRole::Controller)
            .next()
            .unwrap_or("CONTROLLER");
        for section in ["placement", "cyborg", "conductor", "glance"] {
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "\n[{section}]\nauth_url = \"https://{controller}:8770/identity/v3\"\ncafile = \"{FOLDER}/{CERTIFICATE}\"\n"
            );
        }
        text
    }
}

/// How a client of agents shows its certificate.
fn agent_client(name: &str) -> String {
    format!(
        "[agent_client]\ncafile = \"{FOLDER}/{CERTIFICATE}\"\ncertfile = \"{FOLDER}/{name}.pem\"\n\
         keyfile = \"{FOLDER}/{name}.key\"\n"
    )
}

/// The address in the certificate that others reach, with this port.
fn listen(certificate: &Certificate, port: u16) -> String {
    let address = certificate.names.iter().find_map(|name| match name {
        SubjectName::Ip(address) if !address.is_loopback() => Some(*address),
        _ => None,
    });
    match address {
        Some(address) => format!("listen = \"{}\"", SocketAddr::new(address, port)),
        None => format!("listen = \"ADDRESS:{port}\"  # the address of this host"),
    }
}

/// The name in the certificate of a controller.
fn subject_name(name: &str) -> SubjectName {
    match name.parse() {
        Ok(address) => SubjectName::Ip(address),
        Err(_) => SubjectName::Dns(name.to_owned()),
    }
}
