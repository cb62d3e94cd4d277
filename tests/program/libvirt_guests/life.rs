//! The lifecycle of a guest on the real hypervisor, with real overlays: its boot source, the contents of its disk, and
//! its card throughout.

use std::process::Command;

use serde_json::{Value, json};

use super::card_host::CardHost;
use super::small_system;
use crate::program::hypervisor::PATIENCE;

const NAME: &str = "web";

impl CardHost {
    /// The guest started from this system, which found this on its disks.
    #[track_caller]
    fn assert_console(&mut self, uuid: &str, line: &str) {
        let line = format!("system: {line}\r\n");
        let output = self.console(uuid, |output| output.ends_with("\r\n"));
        assert_eq!(output, line);
    }

    /// The guest has these files of its own as disks, in this order.
    #[track_caller]
    fn assert_disks(&self, wanted: &[&str]) {
        let listed = self.virsh(&["domblklist", NAME]);
        let names: Vec<_> = listed
            .lines()
            .filter_map(|line| line.rsplit('/').next())
            .collect();
        assert_eq!(names, wanted, "{listed}");
    }

    #[track_caller]
    fn status(&mut self) -> Value {
        self.until(&["guest", "list"], |guests| guests.len() == 1)[0]["status"].clone()
    }

    /// What the agent answers to a request that has no command.
    fn ask(&self, path: &str, body: Option<&Value>) -> String {
        let mut ask = Command::new("curl");
        let socket = self.home.path("agent.sock");
        ask.args(["-s", "-w", " %{http_code}", "--unix-socket"])
            .arg(socket);
        if let Some(body) = body {
            ask.args(["-H", "content-type: application/json", "-d"])
                .arg(body.to_string());
        }
        ask.arg(format!("http://agent/v1/guests/{path}"));
        let answer = ask.output().expect("curl runs");
        String::from_utf8_lossy(&answer.stdout).into_owned()
    }
}

#[test]
fn a_guest_boots_from_the_requested_source_and_keeps_its_disk_and_its_card() {
    let mut host = CardHost::start();
    let images = host.home.path("images");
    let file = |name: &str| images.join(name).display().to_string();
    small_system::raw(&images.join("own.raw"), "own");
    small_system::qcow2(&images.join("rescue.qcow2"), "rescue");
    small_system::qcow2(&images.join("new.qcow2"), "new");
    host.done(&[
        "guest",
        "create",
        NAME,
        "--vcpus",
        "1",
        "--ram",
        "64",
        "--image",
        &file("own.raw"),
        "--device-profile",
        "gpu",
        "--wait",
    ]);
    let (uuid, card) = host.assert_runs_with_card(NAME);
    let whole = (uuid.clone(), card);
    let life = host.virsh(&["domid", NAME]);
    host.assert_console(&uuid, "own blank");

    let statistics = host.ask(&format!("{uuid}/diagnostics"), None);
    for words in ["\"driver\":\"libvirt\"", "\"cpu_time_ns\":", " 200"] {
        assert!(statistics.contains(words), "{statistics}");
    }

    host.done(&["guest", "pause", NAME]);
    assert_eq!(host.virsh(&["domstate", NAME]).trim(), "paused");
    assert_eq!(host.status(), "paused");
    host.done(&["guest", "unpause", NAME]);
    assert_eq!(host.assert_runs_with_card(NAME), whole);
    assert_eq!(host.virsh(&["domid", NAME]), life, "it went on");

    host.done(&["guest", "reboot", NAME, "--hard"]);
    assert_ne!(host.virsh(&["domid", NAME]), life, "it was switched off");
    host.assert_console(&uuid, "own own");
    assert_eq!(host.assert_runs_with_card(NAME), whole);

    // What cannot be done with a card is said, and nothing is done.
    let suspended = host.run(&["guest", "suspend", NAME]).expect_err("a card");
    for words in ["holds PCI function", "cannot be suspended"] {
        assert!(suspended.contains(words), "{suspended}");
    }
    let moved = json!({ "action": "live_migrate", "destination": "another" });
    let moved = host.ask(&format!("{uuid}/action"), Some(&moved));
    for words in ["holds PCI function", "cannot be moved while it runs", "409"] {
        assert!(moved.contains(words), "{moved}");
    }
    assert_eq!(host.assert_runs_with_card(NAME), whole);

    // Its own disk is the second while it is rescued, also after a kill. (A BIOS shows a system the first alone.)
    host.done(&["guest", "rescue", NAME, "--image", &file("rescue.qcow2")]);
    host.assert_console(&uuid, "rescue blank");
    host.assert_disks(&["disk.rescue", "disk"]);
    host.kill_berth();
    host.done(&["guest", "reboot", NAME, "--hard"]);
    host.assert_console(&uuid, "rescue rescue");
    assert_eq!(host.assert_runs_with_card(NAME), whole);

    host.done(&["guest", "unrescue", NAME]);
    host.assert_console(&uuid, "own own");
    host.assert_disks(&["disk"]);
    assert_eq!(host.assert_runs_with_card(NAME), whole);

    host.done(&["guest", "rebuild", NAME, "--image", &file("new.qcow2")]);
    host.assert_console(&uuid, "new blank");
    host.done(&["guest", "stop", NAME]);
    assert_eq!(host.virsh(&["domstate", NAME]).trim(), "shut off");
    host.done(&["guest", "start", NAME]);
    host.assert_console(&uuid, "new new");
    assert_eq!(host.assert_runs_with_card(NAME), whole);

    host.delete(&uuid);
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}
