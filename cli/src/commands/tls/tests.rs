use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use berth_config::{ConfigDocument, resolve};
use berth_output::Failure;
use berth_serve::{ClientFiles, TlsFiles};
use clap::Parser as _;

use super::*;

#[derive(clap::Parser)]
struct Program {
    #[command(flatten)]
    tls: TlsArguments,
}

/// What a command prints, for this folder.
pub(super) fn run(command: &str, folder: &Path, words: &[&str]) -> Result<String, Failure> {
    let folder = folder.display().to_string();
    let start = ["berth", command, "--directory", folder.as_str()];
    let all = start.iter().chain(words).copied();
    let program = Program::try_parse_from(all).unwrap();
    let mut out = Vec::new();
    super::run(&program.tls, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

const CLOUD: [&str; 6] = [
    "--controller",
    "ctl,192.0.2.10",
    "--host",
    "compute1,192.0.2.11",
    "--host",
    "compute2",
];

/// The files of a listener that accepts clients of the authority.
fn files(folder: &Path, name: &str) -> TlsFiles {
    TlsFiles {
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}.key")),
        clients: Some(ClientFiles {
            ca: folder.join("ca.pem"),
            crl: vec![folder.join("revoked.pem")],
        }),
    }
}

fn names_of(folder: &Path, name: &str) -> Vec<String> {
    let certificate = read(&folder.join(format!("{name}.pem"))).unwrap().remove(0);
    certificate.names.iter().map(ToString::to_string).collect()
}

#[test]
fn a_host_gets_a_certificate_that_is_no_client_and_keys_are_their_owners_alone() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("tls");
    run("init", &folder, &CLOUD).unwrap();
    let now = SystemTime::now();
    for (name, is_client, names) in [
        (
            "ctl",
            true,
            &[
                "DNS:ctl",
                "IP:192.0.2.10",
                "DNS:localhost",
                "IP:127.0.0.1",
                "IP:::1",
            ][..],
        ),
        ("compute1", false, &["DNS:compute1", "IP:192.0.2.11"]),
        ("compute2", false, &["DNS:compute2"]),
    ] {
        let files = files(&folder, name);
        files.read(now).unwrap();
        assert_eq!(
            files.admit_own_certificate(now).unwrap(),
            is_client,
            "{name}"
        );
        assert_eq!(names_of(&folder, name), names);
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let is_key = path.extension().is_some_and(|it| it == "key");
        assert_eq!(mode & 0o077 == 0, is_key, "{}: {mode:o}", path.display());
    }
}

#[test]
fn a_certificate_is_not_overwritten_and_further_hosts_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let before = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let refused = |words: &[&str]| run("init", folder, words).unwrap_err().explain();
    assert!(refused(&[]).contains("no controller is named"));
    assert!(refused(&["--host", "compute1"]).contains("no authority"));
    run("init", folder, &CLOUD).unwrap();
    let all = ["ca.pem", "ca.key", "ctl.pem", "ctl.key", "compute1.key"].map(|it| (it, before(it)));
    for words in [&CLOUD[..], &["--host", "compute3", "--host", "compute1"]] {
        let refused = refused(words);
        assert!(
            refused.contains("exists") && refused.contains("berth tls renew"),
            "{refused}"
        );
    }
    assert!(refused(&["--host", "a", "--host", "a,b"]).contains("a is named twice"));
    assert!(refused(&[]).contains("has an authority already"));
    assert!(!folder.join("compute3.pem").exists());
    assert_eq!(all, all.clone().map(|(name, _)| (name, before(name))));

    run("init", folder, &["--client", "prometheus"]).unwrap();
    let now = SystemTime::now();
    assert!(
        files(folder, "prometheus")
            .admit_own_certificate(now)
            .unwrap()
    );
    let printed = run("init", folder, &["--host", "compute3,192.0.2.13"]).unwrap();
    assert!(
        printed.contains("On compute3, copy") && !printed.contains("On compute1"),
        "{printed}"
    );
    let allowed = "allowed_clients = [\"DNS:ctl\", \"DNS:prometheus\"]";
    assert!(printed.contains(allowed), "{printed}");
    assert!(files(folder, "compute3").read(SystemTime::now()).is_ok());
    run(
        "init",
        folder,
        &["--host", "compute1,192.0.2.99", "--replace"],
    )
    .unwrap();
    assert_eq!(
        names_of(folder, "compute1"),
        ["DNS:compute1", "IP:192.0.2.99"]
    );
    assert_eq!(all[0].1, before("ca.pem"), "the authority stays");
}

#[test]
fn the_printed_configuration_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let with_addresses = [&CLOUD[..4], &["--host", "compute2,192.0.2.12"]].concat();
    let printed = run("init", folder.path(), &with_addresses).unwrap();
    let parts: Vec<&str> = printed.split("\nOn ").skip(1).collect();
    assert_eq!(parts.len(), 3, "{printed}");
    for part in parts {
        let (_, text) = part.split_once("tls.toml:\n\n").unwrap();
        let document = ConfigDocument {
            name: "tls.toml".to_owned(),
            text: text.to_owned(),
        };
        let loaded = resolve(&[document], &[]);
        let loaded = loaded.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }
}

#[test]
fn a_renewed_certificate_has_the_same_names_and_another_key() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run("init", folder, &CLOUD).unwrap();
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let (names, key, other, authority) = (
        names_of(folder, "ctl"),
        text("ctl.key"),
        text("compute1.key"),
        text("ca.pem"),
    );
    let printed = run("renew", folder, &["ctl"]).unwrap();
    assert!(
        printed.contains("renewed ctl") && !printed.contains("authority"),
        "{printed}"
    );
    assert_eq!(names_of(folder, "ctl"), names);
    assert_ne!(text("ctl.key"), key);
    assert_eq!(text("compute1.key"), other);
    assert_eq!(text("ca.pem"), authority);
    let now = SystemTime::now();
    assert!(files(folder, "ctl").admit_own_certificate(now).unwrap());
    // A certificate never outlives its authority.
    let mut out = Vec::new();
    renew(folder, &[], DAY * 3650, now + DAY, &mut out).unwrap();
    let printed = String::from_utf8(out).unwrap();
    assert!(printed.contains("renewed the authority"), "{printed}");
    assert_ne!(text("compute1.key"), other);
    assert_ne!(text("ca.pem"), authority);
    for name in ["ctl", "compute1", "compute2"] {
        assert!(files(folder, name).read(now + DAY * 3649).is_ok(), "{name}");
    }
    let unknown = run("renew", folder, &["compute9"]).unwrap_err().explain();
    assert!(unknown.contains("no certificate of compute9"), "{unknown}");
}

#[test]
fn a_revoked_certificate_is_refused_and_its_name_is_free_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run("init", folder, &CLOUD).unwrap();
    let old = files(folder, "ctl");
    let now = SystemTime::now();
    let kept = folder.join("kept");
    fs::create_dir(&kept).unwrap();
    fs::copy(&old.certificate, kept.join("ctl.pem")).unwrap();
    let stolen = TlsFiles {
        certificate: kept.join("ctl.pem"),
        ..old.clone()
    };
    assert!(stolen.admit_own_certificate(now).unwrap());
    let printed = run("revoke", folder, &["ctl"]).unwrap();
    assert!(
        printed.contains("revoked ctl") && printed.contains("revoked.pem"),
        "{printed}"
    );
    assert!(!stolen.admit_own_certificate(now).unwrap());
    assert!(!old.key.exists());
    run("init", folder, &["--controller", "ctl"]).unwrap();
    assert!(files(folder, "ctl").admit_own_certificate(now).unwrap());
    assert!(!stolen.admit_own_certificate(now).unwrap());
}

#[test]
fn certificates_are_shown_with_their_names_and_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run("init", folder, &[&CLOUD[..], &["--days", "10"]].concat()).unwrap();
    let shown = run("show", folder, &["-f", "json"]).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let items = shown["items"].as_array().unwrap();
    let column =
        |name: &str| -> Vec<String> { items.iter().map(|item| item[name].to_string()).collect() };
    assert_eq!(
        column("subject"),
        [
            "\"CN=Berth authority of ctl\"",
            "\"CN=compute1\"",
            "\"CN=compute2\"",
            "\"CN=ctl\""
        ]
    );
    assert_eq!(items[1]["names"], json!(["DNS:compute1", "IP:192.0.2.11"]));
    assert_eq!(items[3]["purposes"], json!(["server", "client"]));
    assert_eq!(column("status")[..2], ["\"valid\"", "\"expires soon\""]);
    let key = folder.join("ctl.key").display().to_string();
    let refused = run("show", folder, &[&key]).unwrap_err().explain();
    assert!(
        refused.contains("ctl.key holds no certificate"),
        "{refused}"
    );
}
