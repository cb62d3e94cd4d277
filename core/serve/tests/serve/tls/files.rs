//! Unusable TLS files are refused with their name, the problem, and the remedy.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use berth_serve::{Certificate, ClientFiles, TlsError, TlsFile, TlsFiles};
use tempfile::TempDir;

use super::authority::Authority;
use super::files;

const DAY: Duration = Duration::from_hours(24);

fn refusal(files: &TlsFiles, now: SystemTime) -> TlsError {
    files.read(now).expect_err("it is refused")
}

#[test]
fn each_file_that_cannot_be_used_is_named_with_what_would_be_right() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let untrusted = Authority::new(folder.path(), "stranger");
    let good = files(&authority);
    let written = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let nowhere = folder.path().join("nowhere.pem");
    let empty = written("empty.pem", b"");
    let torn = written("torn.pem", &fs::read(&good.certificate).unwrap()[..200]);
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let nonsense = written("nonsense.pem", nonsense.as_bytes());
    let bad_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let bad_key = written("bad.key", bad_key.as_bytes());
    let certificate = |path: &Path| TlsFiles {
        certificate: path.to_owned(),
        ..good.clone()
    };
    let key = |path: &Path| TlsFiles {
        key: path.to_owned(),
        ..good.clone()
    };
    let clients = |ca: &Path, crl: &[&Path]| TlsFiles {
        clients: Some(ClientFiles {
            ca: ca.to_owned(),
            crl: crl.iter().map(|&path| path.to_owned()).collect(),
        }),
        ..good.clone()
    };
    let client_ca = |path: &Path| clients(path, &[]);
    let own_ca = &authority.own.certificate;
    let good_list = authority.revoke(&authority.client());
    let client_crl = |path: &Path| clients(own_ca, &[&good_list, path]);
    let bad_list = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    let bad_list = written("bad.crl", bad_list.as_bytes());
    let others_key = untrusted.server().key;
    let cases: [(TlsFiles, TlsFile, &PathBuf, &str); 15] = [
        (
            certificate(&nowhere),
            TlsFile::Certificate,
            &nowhere,
            "cannot be read",
        ),
        (
            certificate(&empty),
            TlsFile::Certificate,
            &empty,
            "no certificate",
        ),
        (
            certificate(&torn),
            TlsFile::Certificate,
            &torn,
            "no certificate",
        ),
        (
            certificate(&nonsense),
            TlsFile::Certificate,
            &nonsense,
            "an invalid certificate",
        ),
        (
            certificate(&good.key),
            TlsFile::Certificate,
            &good.key,
            "no certificate",
        ),
        (key(&nowhere), TlsFile::Key, &nowhere, "cannot be read"),
        (key(&empty), TlsFile::Key, &empty, "no private key"),
        (key(&bad_key), TlsFile::Key, &bad_key, "cannot be used"),
        (
            key(&others_key),
            TlsFile::Key,
            &others_key,
            "is not the key of",
        ),
        (
            client_ca(&nowhere),
            TlsFile::ClientCa,
            &nowhere,
            "cannot be read",
        ),
        (
            client_ca(&empty),
            TlsFile::ClientCa,
            &empty,
            "no certificate",
        ),
        (
            client_ca(&nonsense),
            TlsFile::ClientCa,
            &nonsense,
            "an invalid certificate",
        ),
        (
            client_crl(&nowhere),
            TlsFile::ClientCrl,
            &nowhere,
            "cannot be read",
        ),
        (
            client_crl(own_ca),
            TlsFile::ClientCrl,
            own_ca,
            "no revocation list",
        ),
        (
            client_crl(&bad_list),
            TlsFile::ClientCrl,
            &bad_list,
            "cannot be used",
        ),
    ];
    for (files, file, path, words) in cases {
        let error = refusal(&files, SystemTime::now());
        let sentence = error.to_string();
        assert_eq!(error.file(), file, "{sentence}");
        let begins = format!("{}: {}", file.option(), path.display());
        assert!(sentence.starts_with(&begins), "{sentence}");
        assert!(sentence.contains(words), "{sentence}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn a_certificate_is_refused_before_and_after_its_time() {
    let folder = TempDir::new().unwrap();
    let files = files(&Authority::new(folder.path(), "authority"));
    let now = SystemTime::now();
    assert!(files.read(now).is_ok());
    for (when, words) in [(now - DAY, "is valid from"), (now + 31 * DAY, "expired at")] {
        let error = refusal(&files, when);
        assert_eq!(error.file(), TlsFile::Certificate, "{error}");
        assert!(
            error.to_string().contains("the certificate of CN=node-1"),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn an_expired_authority_admits_no_client_and_may_be_listed_with_its_successor() {
    let folder = TempDir::new().unwrap();
    let files = files(&Authority::new(folder.path(), "authority"));
    // Signed by itself to be over at once.
    let over = Authority::new(folder.path(), "over").short_lived_server();
    let later = SystemTime::now() + DAY;
    let accepting = |ca: &Path| TlsFiles {
        clients: Some(ClientFiles {
            ca: ca.to_owned(),
            crl: Vec::new(),
        }),
        ..files.clone()
    };
    let alone = accepting(&over.certificate);
    let error = refusal(&alone, later);
    assert_eq!(error.file(), TlsFile::ClientCa, "{error}");
    assert!(error.to_string().contains("expired at"), "{error}");

    let both = folder.path().join("both.pem");
    let current = files.clients.clone().unwrap().ca;
    let texts = [&over.certificate, &current].map(|path| fs::read(path).unwrap());
    fs::write(&both, texts.concat()).unwrap();
    assert!(accepting(&both).read(later).is_ok());
}

#[test]
fn a_host_whose_certificate_opens_the_other_hosts_is_found() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let admitted = |files: &TlsFiles| files.admit_own_certificate(SystemTime::now()).unwrap();
    // A certificate that is made for listeners alone opens none.
    assert!(!admitted(&files(&authority)));
    let host = authority.host();
    let both = TlsFiles {
        certificate: host.certificate,
        key: host.key,
        ..files(&authority)
    };
    assert!(admitted(&both));
    let of_clients = Authority::new(folder.path(), "clients");
    let apart = TlsFiles {
        clients: files(&of_clients).clients,
        ..both
    };
    assert!(!admitted(&apart));
}

#[test]
fn a_certificate_is_read_with_its_names_purposes_and_times() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new(folder.path(), "authority");
    let read = |path: &Path| Certificate::read_pem(&fs::read(path).unwrap()).remove(0);
    let shown = |certificate: &Certificate| {
        let names: Vec<String> = certificate.names.iter().map(ToString::to_string).collect();
        let purposes = certificate.purposes.iter().map(ToString::to_string);
        format!(
            "{} {}",
            names.join(","),
            purposes.collect::<Vec<_>>().join(",")
        )
    };
    for (pair, expected) in [
        (authority.own.clone(), " authority"),
        (authority.server(), "DNS:localhost,IP:127.0.0.1 server"),
        (authority.host(), "DNS:node-1 server,client"),
    ] {
        let certificate = read(&pair.certificate);
        assert_eq!(shown(&certificate), expected);
        assert!(!certificate.serial_number.is_empty());
        let now = SystemTime::now();
        assert!(!certificate.expires_before(now + 29 * DAY));
        assert!(certificate.expires_before(now + 31 * DAY));
    }
    assert!(Certificate::read_pem(b"no certificate").is_empty());
}
