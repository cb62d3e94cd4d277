//! The `berth` program starts, and ends with the exit codes that scripts and units rely on.

use berth_tests::berth::BerthHome;

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
