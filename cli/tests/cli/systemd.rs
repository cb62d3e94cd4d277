//! The unit file, as systemd itself judges it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use berth_output::ExitCode;
use tempfile::TempDir;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../systemd")
        .join(name)
}

fn unit_text() -> String {
    text_of("berth-agent.service")
}

fn text_of(unit: &str) -> String {
    fs::read_to_string(shipped(unit)).unwrap()
}

/// A copy of the unit with an existing program, because systemd checks for it.
fn copy_of(unit: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("berth");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("berth-agent.service");
    fs::write(
        &path,
        unit.replace("/usr/bin/berth", program.to_str().unwrap()),
    )
    .unwrap();
    (directory, path)
}

fn analyze(arguments: &[&str], unit: &Path) -> Output {
    Command::new("systemd-analyze")
        .args(arguments)
        .arg(unit)
        .output()
        .expect("systemd-analyze is in the package systemd: apt-get install systemd")
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn systemd_has_nothing_to_say_about_the_unit() {
    let (_directory, unit) = copy_of(&unit_text());
    let output = analyze(&["verify"], &unit);
    // It ends with 0 even when it ignores keys it does not know, so silence is what counts.
    assert_eq!(output_text(&output), "");
    assert!(output.status.success());
}

#[test]
fn a_key_systemd_does_not_know_would_be_noticed() {
    let (_directory, unit) = copy_of(&unit_text().replace("UMask=", "Umaks="));
    assert!(output_text(&analyze(&["verify"], &unit)).contains("Umaks"));
}

#[test]
fn the_agents_sandbox_scores_at_most_two_and_a_half() {
    let (_directory, unit) = copy_of(&unit_text());
    let output = analyze(&["security", "--offline=true", "--threshold=25"], &unit);
    assert!(output.status.success(), "{}", output_text(&output));
}

/// The controller touches no device and asks no hypervisor.
#[test]
fn the_controllers_sandbox_scores_at_most_one_and_a_half() {
    let (_directory, unit) = copy_of(&text_of("berth-controller.service"));
    assert_eq!(output_text(&analyze(&["verify"], &unit)), "");
    let output = analyze(&["security", "--offline=true", "--threshold=15"], &unit);
    assert!(output.status.success(), "{}", output_text(&output));
}

#[test]
fn the_sandbox_check_can_fail() {
    let bare: String = unit_text()
        .lines()
        .filter(|line| !line.starts_with("Protect") && !line.starts_with("SystemCall"))
        .fold(String::new(), |text, line| text + line + "\n");
    let (_directory, unit) = copy_of(&bare.replace("CapabilityBoundingSet=", "#"));
    assert!(
        !analyze(&["security", "--offline=true", "--threshold=25"], &unit)
            .status
            .success()
    );
}

/// Passwords in a core file, or a process without limits, would outlive a fault.
#[test]
fn no_unit_writes_core_files_or_is_without_limits_and_the_controller_is_not_root() {
    for unit in ["berth-agent.service", "berth-controller.service"] {
        let value = |key| values_in(&text_of(unit), key);
        assert_eq!(value("LimitCORE"), ["0"], "{unit}");
        assert_eq!(value("ProtectKernelTunables"), ["yes"], "{unit}");
        for key in ["MemoryMax", "TasksMax"] {
            assert_eq!(value(key).len(), 1, "{unit} {key}");
        }
    }
    let controller = text_of("berth-controller.service");
    let user = &values_in(&controller, "User")[0];
    let users = text_of("berth.sysusers");
    assert!(
        users
            .lines()
            .any(|line| line.starts_with(&format!("u {user} ")))
    );
    // The group of the conductor's socket may use an agent's, too.
    assert_eq!(values_in(&controller, "InaccessiblePaths"), ["-/run/berth"]);
}

/// The values of a key, in order.
fn values(key: &str) -> Vec<String> {
    values_in(&unit_text(), key)
}

fn values_in(text: &str, key: &str) -> Vec<String> {
    let found = text
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    found.map(str::to_owned).collect()
}

#[test]
fn only_codes_that_a_restart_cannot_repair_prevent_it() {
    let codes = [
        ExitCode::Usage,
        ExitCode::ReshapeFailed,
        ExitCode::Configuration,
    ];
    let wanted = codes.map(|code| code.number().to_string()).join(" ");
    assert_eq!(values("RestartPreventExitStatus"), [wanted]);
    assert_eq!(values("Restart"), ["always"]);
}

#[test]
fn the_unit_speaks_to_systemd_252() {
    assert_eq!(values("Type"), ["notify"]);
    assert_eq!(values("NotifyAccess"), ["main"]);
    assert!(
        values("ExecReload")
            .iter()
            .any(|line| line.ends_with("-HUP $MAINPID"))
    );
    assert_eq!(values("WatchdogSec").len(), 1);
}

#[test]
fn the_stop_timeout_is_longer_than_the_graceful_end() {
    let config = berth_config::resolve(&[], &[]).unwrap().config;
    let seconds: u64 = values("TimeoutStopSec")[0]
        .trim_end_matches('s')
        .parse()
        .unwrap();
    assert!(seconds > config.graceful_shutdown_timeout.as_secs());
}

#[test]
fn directories_and_group_are_those_of_the_default_configuration() {
    let config = berth_config::resolve(&[], &[]).unwrap().config;
    assert_eq!(
        config.state_path,
        Path::new("/var/lib").join(&values("StateDirectory")[0])
    );
    assert_eq!(
        config.agent.admin_socket.parent(),
        Some(
            Path::new("/run")
                .join(&values("RuntimeDirectory")[0])
                .as_path()
        )
    );
    assert_eq!(
        values("Group"),
        std::slice::from_ref(&config.agent.admin_group)
    );
    let sysusers = fs::read_to_string(shipped("berth.sysusers")).unwrap();
    assert!(
        sysusers
            .lines()
            .any(|line| line.starts_with(&format!("g {} ", config.agent.admin_group)))
    );
    let tmpfiles = fs::read_to_string(shipped("berth.tmpfiles")).unwrap();
    for path in [
        config.state_path.to_str().unwrap(),
        "/run/berth",
        "/etc/berth",
        berth_config::DIRECTORY,
    ] {
        assert!(
            tmpfiles
                .lines()
                .any(|line| line.starts_with(&format!("d {path} "))),
            "{path}"
        );
    }
}

#[test]
fn systemd_reads_the_users_and_the_directories() {
    let sysusers = Command::new("systemd-sysusers")
        .arg("--dry-run")
        .arg(shipped("berth.sysusers"))
        .output()
        .unwrap();
    assert!(sysusers.status.success(), "{}", output_text(&sysusers));
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("etc")).unwrap();
    let groups = "root:x:0:\nberth:x:990:\nberth-controller:x:991:\n";
    fs::write(root.path().join("etc/group"), groups).unwrap();
    fs::write(
        root.path().join("etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\n",
    )
    .unwrap();
    let tmpfiles = Command::new("systemd-tmpfiles")
        .arg("--create")
        .arg(format!("--root={}", root.path().display()))
        .arg(shipped("berth.tmpfiles"))
        .output()
        .unwrap();
    assert!(tmpfiles.status.success(), "{}", output_text(&tmpfiles));
    assert!(root.path().join("var/lib/berth").is_dir());
}
