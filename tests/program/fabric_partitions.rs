//! Partitions of an NVSwitch fabric, with a stand-in for Fabric Manager: a guest never runs without its partition, and no
//! partition stays active after its guest, through kills and a boot of the host.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use berth_tests::exchange::HttpCall;
use berth_tests::scratch::Scratch;
use serde_json::{Value, json};

use crate::program::exit_codes::write;
use crate::program::guests::Host;
use crate::program::hypervisor::PATIENCE;

/// The GPUs that flavors request. Partition 1 has all of them, 2 and 3 have two each.
const GPUS: [&str; 4] = [
    "0000:a1:00.0",
    "0000:a2:00.0",
    "0000:a3:00.0",
    "0000:a4:00.0",
];
/// The GPUs of the accelerator service: partition 9.
const ACCELERATORS: [&str; 2] = ["0000:17:00.0", "0000:65:00.0"];

const HOOK: &str = r#"#!/bin/sh
cd FOLDER || exit 2
echo "$1 $2" >> calls
while [ -e hold ]; do sleep 0.02; done
[ ! -e "fails-$1" ] || { echo "partition $2 has no trained links" >&2; exit 1; }
case $1 in
    activate) : > "active/$2" ;;
    deactivate) rm -f "active/$2" ;;
esac
"#;

struct FabricHost {
    name: &'static str,
    host: Host,
    /// What the stand-in knows: the files in `active` are the active partitions.
    fabric: Scratch,
}

impl FabricHost {
    fn start(name: &'static str) -> Self {
        let fabric = Scratch::new().expect("a folder");
        fs::create_dir(fabric.join("active")).expect("a folder");
        let hook = fabric.join("hook");
        let text = HOOK.replace("FOLDER", &fabric.path().display().to_string());
        fs::write(&hook, text).expect("a program");
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a program");
        let partitions = json!([
            { "id": 1, "devices": GPUS },
            { "id": 2, "devices": GPUS[..2] },
            { "id": 3, "devices": GPUS[2..] },
            { "id": 9, "devices": ACCELERATORS },
        ]);
        let environment = [
            ("BERTH__FABRIC__PARTITIONS", partitions.to_string()),
            ("BERTH__FABRIC__PARTITION_HOOK", hook.display().to_string()),
        ];
        let environment = environment
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let host = Host::start_with(name, &environment);
        let gpus = GPUS.map(|address| {
            format!(
                "[[node.device]]\naddress = \"{address}\"\nvendor = \"10de\"\nproduct = \"2330\"\nowner = \"compute\"\n\
                 type = \"GPU\"\n\n"
            )
        });
        let guest = "[[node.guest]]";
        host.node.edit(guest, &format!("{}{guest}", gpus.concat()));
        let mut this = Self { name, host, fabric };
        this.until("partitions in Placement", |this| {
            this.reserved() == Some([0, 0, 0])
        });
        this
    }

    #[track_caller]
    fn until(&mut self, what: &str, is_so: impl Fn(&mut Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            let calls = self.calls();
            let log = self.host.up.stderr();
            assert!(begun.elapsed() < PATIENCE, "{what}: {calls:?}\n{log}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn placement(&self, path: &str) -> Option<Value> {
        let endpoint = self.host.node.home.state_dir().join("placement.endpoint");
        let endpoint = fs::read_to_string(endpoint).ok()?;
        let url = format!("{}{path}", endpoint.trim());
        let call = HttpCall::get(url).header("x-auth-token", "admin");
        let call = call.header("openstack-api-version", "placement 1.30");
        Some(call.send().ok()?.json())
    }

    /// The reserved units of the partitions 1, 2 and 3 in Placement. Each has one unit.
    fn reserved(&self) -> Option<[u64; 3]> {
        let mut reserved = [0; 3];
        for (id, reserved) in (1..).zip(&mut reserved) {
            let found = self.placement(&format!(
                "/resource_providers?name={}_fabric_{id}",
                self.name
            ))?;
            let uuid = found["resource_providers"][0]["uuid"].as_str()?.to_owned();
            let inventories = self.placement(&format!("/resource_providers/{uuid}/inventories"))?;
            let inventories = inventories["inventories"].as_object()?.clone();
            let (class, inventory) = inventories.iter().next()?;
            let size = if id == 1 { 4 } else { 2 };
            assert_eq!(*class, format!("CUSTOM_FABRIC_PARTITION_{size}"));
            assert_eq!(inventory["total"], 1);
            *reserved = inventory["reserved"].as_u64()?;
        }
        Some(reserved)
    }

    fn create(&self, name: &str, needs: &[&str]) -> Vec<String> {
        let kernel = self.host.node.home.path("images").join("vmlinuz");
        let kernel = kernel.display().to_string();
        let size = ["--vcpus", "1", "--ram", "256", "--kernel", &kernel];
        let words = [&["guest", "create", name][..], &size, needs].concat();
        words.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn created(&mut self, name: &str, needs: &[&str]) {
        let words = self.create(name, needs);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        self.host.done(&words);
    }

    /// Why a guest is refused. Its record is deleted.
    #[track_caller]
    fn refused(&mut self, name: &str, needs: &[&str]) -> String {
        let needs = [needs, &["--wait"]].concat();
        let words = self.create(name, &needs);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let outcome = self.host.node.run(&words);
        let log = self.host.up.stderr();
        assert_eq!(outcome.code, 1, "{}\n{log}", outcome.stderr);
        self.host.done(&["guest", "delete", name, "--wait"]);
        outcome.stderr
    }

    fn until_active(&mut self) {
        self.host.until(&["guest", "list"], |guests| {
            guests.len() == 1 && guests[0]["status"] == "active"
        });
    }

    fn until_gone(&mut self) {
        self.host.until(&["guest", "list"], <[Value]>::is_empty);
        assert_eq!(self.active(), Vec::<String>::new());
        self.until("nothing reserved", |this| {
            this.reserved() == Some([0, 0, 0])
        });
    }

    /// The journal, the hypervisor and the allocations agree.
    #[track_caller]
    fn assert_nothing_differs(&mut self) {
        let output = self.host.done(&["reconcile", "--dry-run"]);
        assert!(output.contains("nothing differs"), "{output}");
    }

    /// The partitions that are active.
    fn active(&self) -> Vec<String> {
        let entries = fs::read_dir(self.fabric.join("active")).expect("a folder");
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = names.map(|name| name.display().to_string()).collect();
        names.sort();
        names
    }

    /// How the hook was called since [`FabricHost::forget_calls`].
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.fabric.join("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    fn forget_calls(&self) {
        let _ = fs::remove_file(self.fabric.join("calls"));
    }

    /// The hook waits before it does anything.
    fn hold(&self) {
        self.set("hold");
    }

    fn set(&self, file: &str) {
        fs::write(self.fabric.join(file), "").expect("a file");
    }

    fn unset(&self, file: &str) {
        fs::remove_file(self.fabric.join(file)).expect("a file");
    }

    /// SIGKILL while the hook waits, and another life.
    fn kill_in_the_hook(&mut self, call: &str) {
        self.until(call, |this| this.calls() == [call]);
        assert_eq!(self.guests_on_host(), 0, "{call} while a guest is there");
        self.host.up.kill();
        self.unset("hold");
        self.host.up = self.host.node.start(&["up"]);
        self.host.node.wait_until_healthy(&mut self.host.up);
    }

    fn guests_on_host(&self) -> usize {
        self.host.node.home.fake_guests().len()
    }

    /// The host boots: no guest runs, no partition is active, and what ran before ran in an earlier boot.
    fn boot(&mut self) {
        self.host.up.kill();
        let state = self.host.node.home.state_dir();
        fs::remove_file(state.join("fake-guests")).expect("the guests of the machine");
        for partition in self.active() {
            self.unset(&format!("active/{partition}"));
        }
        let journal = state.join("guests.db");
        write(
            &journal,
            "UPDATE step SET detail = 'an earlier boot' WHERE step = 'start'",
        );
        self.host.up = self.host.node.start(&["up"]);
    }
}

const PAIR: &[&str] = &["--property", "resources:CUSTOM_FABRIC_PARTITION_2=1"];
const ALL: &[&str] = &["--property", "resources:CUSTOM_FABRIC_PARTITION_4=1"];

#[test]
fn a_guest_never_runs_without_its_partition_and_none_stays_through_kills_and_a_boot_of_the_host() {
    let mut host = FabricHost::start("fabric-1");
    // A kill after the journal has the partition, and before it is active.
    host.hold();
    host.created("one", PAIR);
    host.until("an activation", |host| !host.calls().is_empty());
    let pair = host.calls()[0].replace("activate ", "");
    assert!(["2", "3"].contains(&pair.as_str()), "{pair}");
    let (activate, deactivate) = (format!("activate {pair}"), format!("deactivate {pair}"));
    host.kill_in_the_hook(&activate);
    host.until_active();
    assert_eq!(host.active(), [pair.as_str()]);
    assert_eq!(host.calls(), [activate.as_str(), &activate]);
    // The partition of all GPUs is reserved, and the other pair is not.
    host.until("the reservation", |host| host.reserved() == Some([1, 0, 0]));
    host.assert_nothing_differs();
    let refused = host.refused("two", ALL);
    assert!(refused.contains("CUSTOM_FABRIC_PARTITION_4"), "{refused}");

    // After a boot of the host the guest waits for its partition.
    host.hold();
    host.forget_calls();
    host.boot();
    host.kill_in_the_hook(&activate);
    host.until_active();
    assert_eq!((host.active(), host.guests_on_host()), (vec![pair], 1));

    // A kill during the deactivation.
    host.hold();
    host.forget_calls();
    host.host.done(&["guest", "delete", "one"]);
    host.kill_in_the_hook(&deactivate);
    host.until_gone();
    assert_eq!(host.calls(), [deactivate.as_str(), &deactivate]);

    // Now a guest can have all GPUs, and no other can have some of them.
    host.forget_calls();
    host.created("three", ALL);
    host.until_active();
    assert_eq!(host.active(), ["1"]);
    host.until("the reservation", |host| host.reserved() == Some([0, 1, 1]));
    host.assert_nothing_differs();
    let refused = host.refused("four", PAIR);
    assert!(refused.contains("CUSTOM_FABRIC_PARTITION_2"), "{refused}");
    host.host.done(&["guest", "delete", "three", "--wait"]);
    host.until_gone();
    assert_eq!(host.calls(), ["activate 1", "deactivate 1"]);
    assert_eq!(host.host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_hook_that_fails_keeps_the_guest_from_its_start_and_the_gpus_from_their_release() {
    let mut host = FabricHost::start("fabric-2");
    host.set("fails-activate");
    let refused = host.refused("one", ALL);
    let reason = "Fabric Manager partition 1: the partition hook did not activate it: it says no (exit status: 1): \
                  partition 1 has no trained links";
    assert!(refused.contains(reason), "{refused}");
    host.until_gone();
    assert_eq!(host.calls(), ["activate 1", "deactivate 1"]);
    host.unset("fails-activate");

    host.created("two", ALL);
    host.until_active();
    host.set("fails-deactivate");
    host.forget_calls();
    host.host.done(&["guest", "delete", "two"]);
    host.until("a second attempt", |host| host.calls().len() > 1);
    let log = host.host.up.stderr();
    assert!(
        log.contains("the partition hook did not deactivate it"),
        "{log}"
    );
    assert_eq!(
        (host.active(), host.guests_on_host()),
        (vec!["1".to_owned()], 0)
    );
    // No other guest gets its GPUs meanwhile.
    let refused = host.refused("three", PAIR);
    assert!(refused.contains("CUSTOM_FABRIC_PARTITION_2"), "{refused}");
    host.unset("fails-deactivate");
    host.until_gone();
    assert_eq!(host.host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_guest_with_a_part_of_a_partition_is_refused_and_one_with_all_of_it_gets_it() {
    let mut host = FabricHost::start("fabric-3");
    let one = ["--group", "resources:PGPU=1"];
    for (profile, groups) in [("one-gpu", &one[..]), ("two-gpus", &[one, one].concat())] {
        let words = [&["accelerator", "profile", "create", profile], groups].concat();
        host.host.done(&words);
    }
    let refused = host.refused("one", &["--device-profile", "one-gpu"]);
    let reason = "cannot be assigned to a guest: no entry of [fabric] partitions has exactly these GPUs; partitions with one \
                  of them are 9 (0000:17:00.0, 0000:65:00.0)";
    assert!(
        refused.contains(reason) && refused.contains("GPU 0000:"),
        "{refused}"
    );
    host.until_gone();
    assert_eq!(host.calls(), Vec::<String>::new());
    host.created("two", &["--device-profile", "two-gpus"]);
    host.until_active();
    assert_eq!(host.active(), ["9"]);
    // A start after a stop activates it once more.
    host.host.done(&["guest", "stop", "two"]);
    host.host.done(&["guest", "start", "two"]);
    assert_eq!(host.calls(), ["activate 9", "activate 9"]);
    host.host.done(&["guest", "delete", "two", "--wait"]);
    host.until_gone();
    assert_eq!(host.host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_kill_at_another_step_each_time_leaves_a_partition_active_only_with_its_guest() {
    let mut host = FabricHost::start("fabric-4");
    for pause in [0, 30, 80, 150, 250].map(Duration::from_millis) {
        host.created("one", ALL);
        thread::sleep(pause);
        host.host.kill_and_start_again();
        host.until_active();
        assert_eq!(host.active(), ["1"]);
        host.assert_nothing_differs();
        host.host.done(&["guest", "delete", "one"]);
        thread::sleep(pause / 4);
        host.host.kill_and_start_again();
        host.until_gone();
    }
    assert_eq!(host.host.up.stop(PATIENCE).expect("it ends").code, 0);
}
