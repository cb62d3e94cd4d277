//! `berth device reset` and `release`: an operator lets the running agent clean and release devices, and gets the
//! reason if it refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use serde_json::Value;

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::{Api, way};

/// An unused device.
const FREE: &str = "0000:17:00.0";
/// A device of the machine's guest.
const HELD: &str = "0000:65:00.0";
const GUEST: &str = "6b1d9f0a-5a3e-5c0e-9c42-52f6c8f0a1d7";
/// A card of four mediated devices.
const PARTED: &str = "0000:ca:00.0";

impl Hypervisor {
    /// What `berth device` says when it is done.
    #[track_caller]
    fn device(&mut self, words: &[&str]) -> String {
        let outcome = self.run(&[&["device"], words].concat());
        assert_eq!(outcome.code, 0, "{words:?}: {}", outcome.stderr);
        outcome.stdout
    }

    /// Why it refuses: with 1, and nothing on standard output.
    #[track_caller]
    fn refused_device(&mut self, words: &[&str]) -> String {
        let outcome = self.run(&[&["device"], words].concat());
        assert_eq!(outcome.code, 1, "{words:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{words:?}");
        outcome.stderr
    }

    fn state(&mut self, device: &str) -> String {
        let shown = self.device(&["show", device, "-f", "value", "-c", "state"]);
        shown.trim().to_owned()
    }
}

#[test]
fn an_unused_device_is_reset_by_a_command_and_a_used_one_is_not() {
    let api = Api::lease();
    let mut node = Hypervisor::new("accelerators", "devices-1", &way(&api.placement.url()));
    let guest = format!("uuid = \"{GUEST}\"");
    node.edit(&guest, &format!("{guest}\nfunctions = [\"{HELD}\"]"));
    let mut agent = node.start(&["agent"]);
    node.wait_until_healthy(&mut agent);

    let would = node.device(&["reset", FREE, "--dry-run"]);
    assert_eq!(would, format!("would be reset: {FREE}\n"));
    let done = node.device(&["reset", FREE]);
    assert_eq!(done, format!("reset and verified: {FREE}\n"));
    assert_eq!(node.state(FREE), "free");
    let card: Value =
        serde_json::from_str(&node.device(&["reset", PARTED, "-f", "json"])).expect("JSON");
    let row = &card["items"][0];
    assert_eq!(
        (&row["device"], &row["action"]),
        (&PARTED.into(), &"reset".into())
    );
    assert_eq!(row["dry_run"], false, "{card}");
    let sentence = row["said"].as_str().expect("a sentence");
    assert!(sentence.starts_with("reset and verified: "), "{sentence}");
    assert_eq!(sentence.split(", ").count(), 4, "{sentence}");

    for dry_run in [&["reset", HELD][..], &["reset", HELD, "--dry-run"]] {
        let why = node.refused_device(dry_run);
        let whose = format!("device {HELD} is in use by guest {GUEST}: delete that guest first");
        assert!(why.contains(&whose), "{why}");
    }
    for nowhere in ["0000:ff:00.0", "nonsense", "../agent"] {
        for verb in ["reset", "release"] {
            let why = node.refused_device(&[verb, nowhere]);
            assert!(why.contains("this host offers no device"), "{why}");
            assert!(why.contains("berth device list"), "{why}");
        }
    }
    agent.stop(PATIENCE).expect("it ends");
}

#[test]
fn a_device_leaves_its_quarantine_by_a_command_after_a_reset_or_an_accepted_risk() {
    let api = Api::lease();
    let mut node = Hypervisor::new("accelerators", "devices-2", &way(&api.placement.url()));
    let mut agent = node.start(&["agent"]);
    node.wait_until_healthy(&mut agent);
    let why = node.refused_device(&["release", FREE]);
    let free = format!("device {FREE} is not in quarantine");
    assert!(why.contains(&free), "{why}");

    let fault = format!("[[node.fault]]\ndevice = \"{FREE}\"\nis = \"reset-fails\"\n\n");
    let broken = format!("{fault}[[node.guest]]");
    node.device(&["quarantine", FREE, "--reason", "it is loud"]);
    node.edit("[[node.guest]]", &broken);
    let would = node.device(&["release", FREE, "--dry-run"]);
    let sentence = format!("would be reset, and released if that succeeds: {FREE}\n");
    assert_eq!(would, sentence);
    for verb in ["release", "reset"] {
        let why = node.refused_device(&[verb, FREE]);
        assert!(why.contains("reset-fails"), "{why}");
        assert!(why.contains("--accept-risk unclean-device"), "{why}");
        assert_eq!(node.state(FREE), "quarantined");
    }
    let unknown = node.run(&["device", "release", FREE, "--accept-risk", "fire"]);
    assert_eq!(unknown.code, 64, "{}", unknown.stderr);
    let released = format!("out of quarantine: {FREE}\n");
    let risk = ["release", FREE, "--accept-risk", "unclean-device"];
    let would = node.device(&[&risk[..], &["--dry-run"]].concat());
    assert_eq!(
        would,
        format!("would be released without a reset: {FREE}\n")
    );
    assert_eq!(node.state(FREE), "quarantined");
    assert_eq!(node.device(&risk), released);
    assert_eq!(node.state(FREE), "free");

    node.device(&["quarantine", FREE, "--reason", "it is loud again"]);
    // A plan of this host comes from the running agent; with another Placement it shows what that would get.
    let plan = ["reshape", "plan"];
    let begun = Instant::now();
    let in_sync = |text: &str| !text.contains("reserved") && !text.contains("QUARANTINED");
    while !in_sync(&node.run(&plan).stdout) {
        assert!(begun.elapsed() < PATIENCE, "{}", node.run(&plan).stdout);
    }
    let other = Api::lease();
    node.configure(&way(&other.placement.url()), "");
    let fresh = node.run(&plan).stdout;
    assert!(fresh.contains("CUSTOM_BERTH_DEVICE_QUARANTINED"), "{fresh}");
    node.configure(&way(&api.placement.url()), "");
    node.edit(&broken, "[[node.guest]]");
    assert_eq!(node.device(&["release", FREE]), released);
    assert_eq!(node.state(FREE), "free");
    agent.stop(PATIENCE).expect("it ends");
}

#[test]
fn a_hook_that_a_killed_agent_left_is_ended_by_the_next() {
    let api = Api::lease();
    let mut node = Hypervisor::new("accelerators", "devices-3", &way(&api.placement.url()));
    let hook = node.home.path("hook");
    let pids = node.home.path("pids");
    let text = format!(
        "#!/bin/sh\necho $$ >> {}\nexec sleep 1000\n",
        pids.display()
    );
    fs::write(&hook, text).expect("a program");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a program");
    node.home
        .set_env("BERTH__ACCELERATORS__HEALTH_HOOK", hook.into_os_string());
    let started = || {
        let text = fs::read_to_string(&pids).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let is_there = |pid: &str| fs::exists(format!("/proc/{pid}/fd")).expect("/proc");
    let mut agent = node.start(&["agent"]);
    agent
        .wait_until(PATIENCE, || !started().is_empty())
        .expect("a check begins");
    agent.kill();
    drop(agent);
    let left = started();
    assert!(
        left.iter().all(|pid| is_there(pid)),
        "they are still running"
    );
    let mut agent = node.start(&["agent"]);
    agent
        .wait_until(PATIENCE, || started().len() > left.len())
        .expect("the next begins");
    // With the test for their parent, what is ended is seen off at some time.
    let gone = || left.iter().all(|pid| !is_there(pid));
    agent.wait_until(PATIENCE, gone).expect("they are gone");
    agent.stop(PATIENCE).expect("it ends");
}
