//! Unusable TLS files are refused with their name, the problem, and the remedy.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use berth_serve::{TlsError, TlsFile, TlsFiles};
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
    let client_ca = |path: &Path| TlsFiles {
        client_ca: path.to_owned(),
        ..good.clone()
    };
    let others_key = untrusted.server().key;
    let cases: [(TlsFiles, TlsFile, &PathBuf, &str); 12] = [
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
    let alone = TlsFiles {
        client_ca: over.certificate.clone(),
        ..files.clone()
    };
    let error = refusal(&alone, later);
    assert_eq!(error.file(), TlsFile::ClientCa, "{error}");
    assert!(error.to_string().contains("expired at"), "{error}");

    let both = folder.path().join("both.pem");
    let texts = [&over.certificate, &files.client_ca].map(|path| fs::read(path).unwrap());
    fs::write(&both, texts.concat()).unwrap();
    let both = TlsFiles {
        client_ca: both,
        ..files
    };
    assert!(both.read(later).is_ok());
}
