//! The `berth` program starts, and ends with the exit codes that scripts and units rely on.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;

use berth_tests::berth::BerthHome;
use berth_tests::peer::checkout;
use nix::unistd::geteuid;

use crate::program::hypervisor::PATIENCE;

fn home() -> BerthHome {
    BerthHome::new().expect("a home")
}

#[test]
fn it_prints_its_version_and_exits_with_0() {
    let outcome = home().run(["--version"]).expect("berth runs");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(
        outcome.stdout.trim(),
        concat!("berth ", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn an_unknown_command_is_a_usage_error_64() {
    let outcome = home().run(["no-such-command"]).expect("berth runs");
    assert_eq!(outcome.code, 64, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("no-such-command"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stdout, "");
}

/// The path of a machine of the fake driver.
fn machine() -> String {
    let machine = checkout().join("drivers/fake/machines/eight-gpu-flat.toml");
    machine.display().to_string()
}

/// Root's files could be overwritten through links in it.
#[test]
fn a_state_folder_of_another_user_is_refused_and_no_link_in_it_is_followed() {
    if !geteuid().is_root() {
        return;
    }
    let mut home = home();
    let (state, victim) = (home.state_dir(), home.path("victim"));
    fs::write(&victim, "precious").expect("a file");
    for name in [
        "placement.endpoint",
        "up.lock",
        "clouds.yaml",
        ".clouds.yaml.new",
    ] {
        symlink(&victim, state.join(name)).expect("a link");
    }
    chown(&state, Some(65534), Some(65534)).expect("root may");
    let folder = state.display().to_string();
    let options = ["--machine", &machine(), "--state-dir", &folder];
    // Otherwise the agent asks for its options first.
    home.set_env("BERTH__PLACEMENT__AUTH_TYPE", "none");
    home.set_env("BERTH__PLACEMENT__ENDPOINT_OVERRIDE", "http://127.0.0.1:9");
    for command in [&["up"][..], &["controller"], &["agent", "--once"]] {
        let refused = home.run(options.iter().chain(command)).expect("it runs");
        assert_eq!(refused.code, 78, "{command:?}: {}", refused.stderr);
        for words in ["BERTH-E0110", "(user 65534, mode 0755)", "chown -h root "] {
            assert!(
                refused.stderr.contains(words),
                "{words}: {}",
                refused.stderr
            );
        }
    }
    chown(&state, Some(0), Some(0)).expect("root may");
    fs::set_permissions(&state, Permissions::from_mode(0o777)).expect("it is ours");
    let refused = home.run(options.iter().chain(&["up"])).expect("it runs");
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(refused.stderr.contains("chmod go-w "), "{}", refused.stderr);
    assert_eq!(
        fs::read_to_string(&victim).expect("it is there"),
        "precious"
    );
}

#[test]
fn the_start_and_the_check_refuse_a_file_of_state_that_others_may_write_in_the_same_words() {
    let mut home = home();
    let database = home.state_dir().join("identity.sqlite");
    fs::write(&database, "").expect("a file");
    fs::set_permissions(&database, Permissions::from_mode(0o666)).expect("it is ours");
    let folder = home.state_dir().display().to_string();
    let options = ["--machine", &machine(), "--state-dir", &folder];
    let database = database.display();
    for command in [&["up"][..], &["config", "check", "--for", "up"]] {
        let refused = home.run(options.iter().chain(command)).expect("it runs");
        assert_eq!(refused.code, 78, "{command:?}: {}", refused.stderr);
        for words in [
            format!("the file of state {database} is refused"),
            "mode 0666) can be written by others than its owner".to_owned(),
            format!("chmod go-w {database}"),
        ] {
            assert!(refused.stderr.contains(&words), "{}", refused.stderr);
        }
    }
}

#[test]
fn a_new_state_folder_is_open_to_its_owner_alone_whatever_the_umask() {
    let mut home = home();
    home.run_within(["/bin/sh", "-c", "umask 0; exec \"$0\" \"$@\""]);
    let folder = home.path("new-state");
    let shown = folder.display().to_string();
    let mut up = home
        .start(["--machine", &machine(), "--state-dir", &shown, "up"])
        .expect("it starts");
    up.wait_until(PATIENCE, || folder.join("agent.sock").exists())
        .expect("it is ready");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    // The emulator's user passes through to the guests' disks.
    assert_eq!(mode(&folder), 0o711);
    for name in ["instances", "instances/_base"] {
        assert_eq!(mode(&folder.join(name)), 0o711, "{name}");
    }
    for entry in fs::read_dir(&folder).expect("a folder").flatten() {
        // The group of the operators may write to the sockets.
        let group = match entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            true => 0,
            false => 0o020,
        };
        let mode = mode(&entry.path());
        assert_eq!(
            mode & (0o002 | group),
            0,
            "{}: {mode:o}",
            entry.path().display()
        );
    }
    assert_eq!(up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_driver_that_others_can_change_is_not_run_by_root() {
    if !geteuid().is_root() {
        return;
    }
    let mut home = home();
    let ran = home.path("ran");
    let driver = home
        .write("driver", &format!("#!/bin/sh\ntouch {}\n", ran.display()))
        .expect("a file");
    fs::set_permissions(&driver, Permissions::from_mode(0o777)).expect("it is ours");
    home.configure(&format!(
        "compute_driver = \"exec:{}\"\nstate_path = \"@HOME@/state\"\n[agent]\nadmin_socket = \"@HOME@/state/agent.sock\"\n",
        driver.display()
    ))
    .expect("a configuration");
    let config = home.config_file();
    fs::set_permissions(&config, Permissions::from_mode(0o666)).expect("it is ours");
    let config = config.display().to_string();
    for command in [&["config", "check"][..], &["up"]] {
        let refused = home
            .run(["--config", &config].iter().chain(command))
            .expect("it runs");
        assert_eq!(refused.code, 78, "{}", refused.stderr);
        // Both at once.
        for path in [&driver.display().to_string(), &config] {
            let remedy = format!("chmod go-w {path}");
            assert!(
                refused.stderr.contains(&remedy),
                "{remedy}: {}",
                refused.stderr
            );
        }
    }
    assert!(!ran.exists());
}
