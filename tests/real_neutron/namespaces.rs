//! Tests that run themselves again in namespaces of their own, because the bridges of the switch are links of the host.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use berth_tests::scratch::Scratch;
use serde_json::Value;

/// Set in the namespaces.
const INSIDE: &str = "BERTH_TEST_NAMESPACES";
/// An emulated guest boots slowly on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the test of this name again in namespaces, where it runs the story.
pub(super) fn in_namespaces(name: &str, story: impl Future<Output = ()>) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(story);
        return;
    }
    // sysfs shows the links of the namespace in which it was mounted. The shell stays: as the first process of its namespace it
    // reaps QEMU, which libvirt would otherwise take for alive.
    let inside = "ip link set lo up && mount -t sysfs sysfs /sys && \"$0\" --exact \"$1\" --nocapture; exit $?";
    let scratch = Scratch::new().expect("a folder");
    let status = Command::new("unshare")
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .args(["sh", "-c", inside])
        .arg(std::env::current_exe().expect("this program"))
        .arg(name)
        .env(INSIDE, "1")
        // From inside, the folders of this process and of other tests would look like those of processes that have ended.
        .env("TMPDIR", scratch.path())
        .status()
        .expect("unshare of util-linux runs");
    assert!(status.success(), "the test failed in its namespaces");
}

pub(super) fn text(value: &Value) -> String {
    let text = value.as_str();
    text.unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

/// The taps of the host.
pub(super) fn taps() -> Vec<String> {
    let links = std::fs::read_dir("/sys/class/net").expect("links");
    let links = links.filter_map(|link| link.expect("a link").file_name().into_string().ok());
    links.filter(|name| name.starts_with("tap")).collect()
}

pub(super) fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(status.expect("ip runs").success(), "ip {words}");
}

pub(super) fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "timed out waiting: {what}");
        sleep(Duration::from_millis(200));
    }
}
