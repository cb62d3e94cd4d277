//! Authorities of a test and what they sign, made by openssl when asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CONFIG: &str = "\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
[client]
extendedKeyUsage = clientAuth
subjectAltName = DNS:conductor-1,URI:spiffe://example/conductor,IP:192.0.2.7
[server]
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost,IP:127.0.0.1
[both]
extendedKeyUsage = serverAuth,clientAuth
subjectAltName = DNS:node-1
[ca]
default_ca = revoked
[revoked]
database = @FOLDER@/index.txt
crlnumber = @FOLDER@/crlnumber
crl_extensions = list
default_md = sha256
default_crl_days = 30
[list]
authorityKeyIdentifier = keyid:always
";

/// A certificate and its key.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Signs in a folder of its own.
pub(crate) struct Authority {
    folder: PathBuf,
    pub(crate) own: Pair,
}

impl Authority {
    /// `name` is its folder's, below `folder`, and its subject's.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let config = CONFIG.replace("@FOLDER@", &folder.display().to_string());
        fs::write(folder.join("openssl.cnf"), config).expect("a file");
        fs::write(folder.join("index.txt"), "").expect("a file");
        fs::write(folder.join("crlnumber"), "01\n").expect("a file");
        let own = pair(&folder, "authority");
        let authority = Self { folder, own };
        let mut command = authority.request("authority", &format!("/CN={name}"));
        command.args(["-x509", "-days", "30", "-extensions", "authority"]);
        succeed(command.arg("-out").arg(&authority.own.certificate));
        authority
    }

    /// A client's certificate: `CN=conductor,O=Example`, and other names.
    pub(crate) fn client(&self) -> Pair {
        self.signed("client", "/O=Example/CN=conductor", 30)
    }

    /// A listener's, for `localhost` and `127.0.0.1`.
    pub(crate) fn server(&self) -> Pair {
        self.signed("server", "/CN=node-1", 30)
    }

    /// A certificate of one host for its listener and for calls to other hosts.
    #[allow(dead_code, reason = "one of the two that include this file needs it")]
    pub(crate) fn host(&self) -> Pair {
        self.signed("both", "/CN=node-1", 30)
    }

    /// The list of all certificates that were revoked so far, with this one.
    #[allow(
        dead_code,
        reason = "not every program that includes this file needs it"
    )]
    pub(crate) fn revoke(&self, revoked: &Pair) -> PathBuf {
        let list = self.folder.join("revoked.pem");
        let command = || {
            let mut command = Command::new("openssl");
            command
                .args(["ca", "-config"])
                .arg(self.folder.join("openssl.cnf"));
            command.arg("-cert").arg(&self.own.certificate);
            command.arg("-keyfile").arg(&self.own.key);
            command
        };
        succeed(command().arg("-revoke").arg(&revoked.certificate));
        succeed(command().arg("-gencrl").arg("-out").arg(&list));
        list
    }

    /// A certificate for a listener that expires one second after it is made.
    #[allow(dead_code, reason = "one of the two that include this file needs it")]
    pub(crate) fn short_lived_server(&self) -> Pair {
        self.signed("server", "/CN=node-1", 0)
    }

    fn signed(&self, kind: &str, subject: &str, days: u32) -> Pair {
        let made = pair(&self.folder, &format!("{kind}-{days}"));
        let csr = made.key.with_extension("csr");
        let mut command = self.request(&format!("{kind}-{days}"), subject);
        succeed(command.arg("-out").arg(&csr));
        let mut command = Command::new("openssl");
        command.args(["x509", "-req", "-CAcreateserial", "-extensions", kind]);
        command.args(["-days", &days.to_string()]);
        command.arg("-in").arg(&csr);
        command.arg("-extfile").arg(self.folder.join("openssl.cnf"));
        command.arg("-CA").arg(&self.own.certificate);
        command.arg("-CAkey").arg(&self.own.key);
        succeed(command.arg("-out").arg(&made.certificate));
        made
    }

    fn request(&self, key: &str, subject: &str) -> Command {
        let mut command = Command::new("openssl");
        command.args(["req", "-new", "-newkey", "ec", "-nodes", "-subj", subject]);
        command.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        command.arg("-config").arg(self.folder.join("openssl.cnf"));
        command.arg("-keyout").arg(pair(&self.folder, key).key);
        command
    }
}

fn pair(folder: &Path, name: &str) -> Pair {
    Pair {
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}.key")),
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("openssl is installed");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}");
}
