//! Ten configurations, written after the documentation of the tools that make such files, with their berth.toml and report.
//!
//! `BLESS=1` writes the expected files; every line of them has to be read before they are committed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use berth_config::{ConfigProblem, Sources, examine};
use berth_import::{ConfFile, ImportedConfig, berth_toml, parse};

use crate::common::imported;

/// Each configuration: its name and its files in the order in which nova-compute reads them.
const CASES: [(&str, &[&str]); 10] = [
    ("charm", &["charm_nova_compute.conf"]),
    ("devstack", &["devstack.conf"]),
    ("hand_written", &["hand_written.conf"]),
    ("kolla_ansible", &["kolla_ansible.conf"]),
    ("openstack_ansible", &["openstack_ansible.conf"]),
    ("packstack", &["packstack.conf"]),
    ("quota_and_scheduler", &["quota_and_scheduler.conf"]),
    ("rhoso", &["rhoso.conf", "rhoso_extra.conf"]),
    (
        "ubuntu",
        &["ubuntu_default.conf", "nova_compute_conf_ubuntu.conf"],
    ),
    ("windows_line_ends", &["windows_line_ends.conf"]),
];

/// Configurations that lack something, as their reports say, and the keys that Berth's check names.
const INCOMPLETE: [(&str, &[&str]); 2] = [
    (
        "hand_written",
        &["compute.cpu_dedicated_set", "placement.password"],
    ),
    (
        "rhoso",
        &["cyborg.auth_url", "cyborg.project_name", "cyborg.username"],
    ),
];

fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(folder)
}

fn read(names: &[&str]) -> Vec<ConfFile> {
    let files = names.iter().map(|name| {
        let content = fs::read(data("nova_conf").join(name)).expect("the file is there");
        parse(name, &content).expect("the file has no wrong line")
    });
    files.collect()
}

/// The problems that Berth's own check finds in the written files.
fn problems(imported: &ImportedConfig, folder: &Path) -> Vec<ConfigProblem> {
    let file = folder.join("berth.toml");
    fs::write(&file, berth_toml(imported)).expect("the folder is new");
    for secret in &imported.secrets {
        fs::write(&secret.path, &secret.text).expect("the folder is new");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&secret.path, private).expect("the file is ours");
    }
    let sources = Sources {
        file: Some(file),
        ..Sources::default()
    };
    examine(&sources).problems
}

#[test]
fn each_configuration_gives_the_reviewed_file_and_report() {
    for (name, files) in CASES {
        let imported = imported(&read(files), Path::new("/etc/berth/secrets"));
        for (kind, text) in [
            ("toml", berth_toml(&imported)),
            ("report", imported.report.to_string()),
        ] {
            let path = data("golden").join(format!("{name}.{kind}"));
            if std::env::var_os("BLESS").is_some() {
                fs::write(&path, &text).expect("the folder is there");
            }
            let expected = fs::read_to_string(&path).expect("BLESS=1 writes the file");
            assert_eq!(text, expected, "{name}.{kind}: BLESS=1 rewrites it");
        }
    }
}

#[test]
fn berth_accepts_each_written_file() {
    for (name, files) in CASES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let imported = imported(&read(files), folder.path());
        let problems = problems(&imported, folder.path());
        let expected = INCOMPLETE.iter().find(|(it, _)| *it == name);
        let expected = expected.map_or(&[][..], |(_, keys)| keys);
        let mut keys: Vec<&str> = problems.iter().map(|it| it.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, expected, "{name}: {problems:#?}");
    }
}

#[test]
fn no_secret_is_in_a_report_or_in_the_written_file() {
    for (name, files) in CASES {
        let text: String = files
            .iter()
            .map(|file| {
                let path = data("nova_conf").join(file);
                fs::read_to_string(path).expect("the file is there")
            })
            .collect();
        assert!(text.contains("CANARY"), "{name} has a secret to lose");
        let imported = imported(&read(files), Path::new("/etc/berth/secrets"));
        let report = serde_json::to_string(&imported.report).expect("it is plain");
        for shown in [
            imported.report.to_string(),
            report,
            berth_toml(&imported),
            format!("{imported:?}"),
        ] {
            assert!(!shown.contains("CANARY"), "{name}: {shown}");
        }
    }
}

#[test]
fn each_secret_has_a_file_that_the_written_file_names() {
    let folder = Path::new("/etc/berth/secrets");
    let imported = imported(&read(&["kolla_ansible.conf"]), folder);
    let mut secrets: Vec<(&Path, &str)> = Vec::new();
    secrets.extend(
        imported
            .secrets
            .iter()
            .map(|it| (it.path.as_path(), it.text.as_str())),
    );
    assert!(secrets.contains(&(&folder.join("placement.password"), "CANARY-placement")));
    let toml = berth_toml(&imported);
    for (path, _) in secrets {
        assert!(
            toml.contains(&format!("{:?}", path.display().to_string())),
            "{path:?}"
        );
    }
}
