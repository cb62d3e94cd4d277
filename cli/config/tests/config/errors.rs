//! Broken configurations, and what is said of them: every message names file, line, column and key. One file to a section,
//! one line to a case.

mod accelerator_service;
mod agent;
mod api;
mod compute;
mod compute_service;
mod devices;
mod guests;
mod identity_service;
mod libvirt;
mod placement;
mod placement_service;
mod toml;
mod top;
mod variables;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use berth_config::{ConfigRefusal, LoadedConfig, Sources};
use proptest::prelude::*;

use crate::resolve;

/// A file and the problems it has, each with its place.
type Case = (&'static str, &'static [&'static str]);

/// One case to a line.
macro_rules! cases {
    ($($text:literal => [$($expected:literal),*];)*) => { &[$(($text, &[$($expected),*])),*] };
}
/// The same, of a variable and its value.
macro_rules! variable_cases {
    ($($name:literal = $value:literal => [$($expected:literal),*];)*) => {
        &[$(($name, $value, &[$($expected),*])),*]
    };
}
use {cases, variable_cases};

const FILES: &[&[Case]] = &[
    accelerator_service::CASES,
    agent::CASES,
    api::CASES,
    compute::CASES,
    devices::CASES,
    guests::CASES,
    compute_service::CASES,
    identity_service::CASES,
    libvirt::CASES,
    placement::CASES,
    placement_service::CASES,
    toml::CASES,
    top::CASES,
];

fn problems(text: &str, environment: &[(&str, &str)]) -> Vec<String> {
    match resolve(text, environment) {
        Ok(_) => vec!["accepted".to_owned()],
        Err(refused) => refused.problems().iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_broken_file_is_reported_with_file_line_column_and_key() {
    for (text, expected) in FILES.iter().copied().flatten() {
        assert_eq!(&problems(text, &[]), expected, "\n{text}");
    }
}

#[test]
fn a_socket_path_that_the_kernel_would_refuse_is_refused() {
    let longest = format!("/{}", "s".repeat(106));
    let text = |path: &str| format!("[agent]\nadmin_socket = \"{path}\"");
    resolve(&text(&longest), &[]).unwrap();
    let found = problems(&text(&format!("{longest}s")), &[]);
    assert!(
        found[0].contains("agent.admin_socket: 108 bytes"),
        "{found:?}"
    );
}

#[test]
fn many_unknown_options_are_counted() {
    let keys: String = (0..5_000).map(|n| format!("key_{n:04} = 1\n")).collect();
    let found = problems(&keys, &[]);
    assert_eq!(found.len(), 21);
    assert!(
        found[20].contains("berth.toml:21:1: 4980 further"),
        "{found:?}"
    );
}

#[test]
fn every_broken_variable_is_reported_by_its_name() {
    for (name, value, expected) in variables::CASES {
        assert_eq!(&problems("", &[(name, value)]), expected, "{name}={value}");
    }
}

#[test]
fn no_message_repeats_a_secret() {
    let secrets = ["password", "application_credential_secret", "token"];
    let shapes = [
        "\"hunter2\\n\"",
        "[\"hunter2\"]",
        "{ a = \"hunter2\" }",
        "\"hunter2",
        "hunter2",
        "'hunter2' x",
    ];
    for (key, shape) in secrets
        .iter()
        .flat_map(|key| shapes.map(|shape| (key, shape)))
    {
        let message = problems(&format!("[placement]\n{key} = {shape}"), &[]).join("\n");
        assert!(
            message.contains("berth.toml:2") && !message.contains("hunter2"),
            "{key} = {shape}: {message}"
        );
    }
}

/// Loads with `--config` and `--config-dir` as given, no environment.
fn load(file: &Path, directory: Option<&Path>) -> Result<LoadedConfig, ConfigRefusal> {
    let sources = Sources {
        file: Some(file.to_owned()),
        directory: directory.map(Path::to_owned),
        ..Sources::default()
    };
    berth_config::load(&sources)
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("latin1.toml"), b"host = \"caf\xe9\"").unwrap();
    fs::write(at("large.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    fs::create_dir(at("directory.toml")).unwrap();
    for (name, expected) in [
        ("missing.toml", "No such file"),
        ("latin1.toml", "save it as UTF-8"),
        ("large.toml", "at most 1 MiB"),
        ("directory.toml", "is a directory"),
    ] {
        let message = load(&at(name), None).unwrap_err().to_string();
        assert!(
            message.contains(name) && message.contains(expected) && message.contains("BERTH-E0106"),
            "{name}: {message}"
        );
    }
    fs::write(at("good.toml"), "").unwrap();
    let message = load(&at("good.toml"), Some(&at("missing.d")))
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        format!(
            "the configuration is refused, 1 error:\n  {}: cannot be read: No such file or directory (os error 2); name a \
             directory that exists [BERTH-E0106]\n",
            at("missing.d").display()
        )
    );
}

#[test]
fn fragments_are_read_in_order_and_errors_of_all_files_come_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let fragments = at("berth.d");
    fs::create_dir(&fragments).unwrap();
    fs::write(at("berth.toml"), "host = \"a\"\nreserved_host_cpus = 1").unwrap();
    fs::write(fragments.join("20-b.toml"), "host = \"c\"").unwrap();
    fs::write(
        fragments.join("10-a.toml"),
        "host = \"b\"\nreserved_host_disk_mb = 7",
    )
    .unwrap();
    fs::write(fragments.join(".hidden.toml"), "nonsense").unwrap();
    fs::write(fragments.join("notes.txt"), "nonsense").unwrap();
    let loaded = load(&at("berth.toml"), Some(&fragments)).unwrap();
    assert_eq!(loaded.config.host.as_deref(), Some("c"));
    assert_eq!(
        (
            loaded.config.reserved_host_cpus,
            loaded.config.reserved_host_disk_mb
        ),
        (1, 7)
    );

    fs::write(at("berth.toml"), "hots = 1").unwrap();
    fs::write(fragments.join("20-b.toml"), "reserved_host_cpus = -1").unwrap();
    let refused = load(&at("berth.toml"), Some(&fragments)).unwrap_err();
    assert_eq!(refused.problems().len(), 2, "{refused}");
}

#[test]
fn a_secret_everyone_can_read_is_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("berth.toml");
    fs::write(&file, "[placement_service]\nconnection = \"sqlite:/a\"").unwrap();
    let with_mode = |mode| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        load(&file, None)
            .unwrap()
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(with_mode(0o640), "");
    let message = with_mode(0o644);
    assert!(
        message.contains("berth.toml:2:14: placement_service.connection")
            && message.contains("chmod o-r"),
        "{message}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = problems(&text, &[]);
    }

    #[test]
    fn any_toml_like_text_is_read_or_refused(
        lines in proptest::collection::vec(
            "(\\[[a-z_]{1,12}\\]|\\[mdev_[a-z-]{0,5}\\]|[a-z_]{1,24} = (-?[0-9]{1,20}|true|\"[^\"\\n]{0,12}\"|\\[[0-9,\"a-z ]{0,10}\\]|[0-9]\\.[0-9]|\\{ a = 1 \\}))",
            0..12,
        ),
    ) {
        for line in problems(&lines.join("\n"), &[]) {
            prop_assert!(line == "accepted" || line.contains("[BERTH-E01"), "{}", line);
        }
    }

    #[test]
    fn any_value_of_any_option_is_read_or_refused_by_name(
        index in 0..berth_config::table::OPTIONS.len(),
        value in "(-?[0-9]{1,20}|[0-9]{1,3}\\.[0-9]|true|inf|nan|1979-05-27|\"[^\"\\\\]{0,20}\"|\\[\"[a-z0-9:.-]{0,12}\"\\]|\\[\\]|\\[\\[1\\]\\]|\\{ a = 1 \\})",
    ) {
        let row = &berth_config::table::OPTIONS[index];
        let section = row.section.replace("TYPE", "nvidia-35").replace("NAME", "rack_power");
        let head = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
        for line in problems(&format!("{head}{} = {value}", row.key), &[]) {
            prop_assert!(line == "accepted" || line.contains("not TOML") || line.contains(row.key) || ["placement", "cyborg", "conductor", "glance", "neutron", "scheduler_plugin_NAME"].contains(&row.section), "{}", line);
            prop_assert!(!line.contains("bug"), "{}", line);
        }
    }

    #[test]
    fn any_variable_is_read_or_refused(name in "BERTH_[A-Za-z_é-]{0,40}", value in "\\PC{0,40}") {
        let _ = problems("", &[(&name, &value)]);
    }
}
