//! A host with simulated cards that runs `berth up` with the real libvirtd and QEMU.

use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::HttpCall;
use berth_tests::peer::{Libvirtd, checkout};
use serde_json::{Value, json};

use crate::program::exit_codes::write;
use crate::program::hypervisor::PATIENCE;

const CARDS: [&str; 2] = ["0000:81:00.0", "0000:82:00.0"];
/// A host with libvirtd on which `berth up` runs.
pub(super) struct CardHost {
    pub(super) home: BerthHome,
    pub(super) up: RunningBerth,
    pub(super) libvirtd: Libvirtd,
}

impl CardHost {
    /// With a profile for its two cards.
    pub(super) fn start() -> Self {
        let libvirtd = Libvirtd::start_with_cards().expect("libvirtd starts");
        let cards =
            "[accelerators]\ndevice_spec = [{ vendor_id = \"1234\", product_id = \"1111\" }]";
        let mut host = Self::start_with(libvirtd, cards);
        host.wait_until_healthy();
        // Their former users are unknown.
        host.until(&["device", "list"], |all| {
            all.len() == CARDS.len() && all.iter().all(|card| card["state"] == "free")
        });
        host.done(&[
            "accelerator",
            "profile",
            "create",
            "gpu",
            "--group",
            "resources:PGPU=1",
        ]);
        host
    }

    /// With these further options of `[libvirt]` and sections of its configuration, and no wait.
    pub(super) fn start_with(libvirtd: Libvirtd, sections: &str) -> Self {
        let mut home = BerthHome::new().expect("a home");
        configure(&home, &libvirtd, sections);
        for folder in ["instances", "images"] {
            fs::create_dir(home.path(folder)).expect("a folder");
        }
        let up = up(&mut home, &libvirtd);
        Self { home, up, libvirtd }
    }

    pub(super) fn wait_until_healthy(&mut self) {
        let begun = Instant::now();
        loop {
            let status = self.run(&["agent", "status", "-f", "value", "-c", "plan"]);
            if status.is_ok_and(|plan| plan.contains("in_sync")) {
                return;
            }
            let log = self.up.stderr();
            assert!(!self.up.has_ended() && begun.elapsed() < PATIENCE, "{log}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// SIGKILL, and another life over the same state.
    pub(super) fn kill_berth(&mut self) {
        self.up.kill();
        self.start_berth();
        self.wait_until_healthy();
    }

    /// The next life finds these further sections of its configuration.
    pub(super) fn reconfigure(&self, sections: &str) {
        configure(&self.home, &self.libvirtd, sections);
    }

    /// Another life, and no wait.
    pub(super) fn start_berth(&mut self) {
        self.up = up(&mut self.home, &self.libvirtd);
    }

    /// The host loses power: nothing runs, and what ran before ran in an earlier boot.
    pub(super) fn lose_power(&mut self) {
        self.up.kill();
        self.libvirtd.lose_power().expect("nothing runs");
        let journal = self.home.state_dir().join("guests.db");
        write(
            &journal,
            "UPDATE step SET detail = 'an earlier boot' WHERE step = 'start'",
        );
        self.libvirtd.restart().expect("libvirtd starts again");
    }

    /// SIGKILL, and another life: guests run on meanwhile.
    pub(super) fn kill_libvirtd(&mut self) {
        self.libvirtd.kill();
        self.libvirtd.restart().expect("libvirtd starts again");
    }

    pub(super) fn run(&mut self, arguments: &[&str]) -> Result<String, String> {
        let config = self.home.config_file().display().to_string();
        let arguments = [&["--config", &config], arguments].concat();
        self.home.run_within(Vec::<String>::new());
        let outcome = self.home.run(arguments).expect("berth ends");
        match outcome.code {
            0 => Ok(outcome.stdout),
            code => Err(format!("{code}: {}", outcome.stderr)),
        }
    }

    #[track_caller]
    pub(super) fn done(&mut self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        outcome.unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}", self.up.stderr()))
    }

    /// Asks again and again until what is listed is so.
    #[track_caller]
    pub(super) fn until(
        &mut self,
        arguments: &[&str],
        wanted: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let begun = Instant::now();
        let asked = [arguments, &["-f", "json"]].concat();
        loop {
            // While libvirtd is away, an answer may be too.
            let output = self.run(&asked);
            let listed = output.as_ref().ok().map(|text| items(text));
            match listed {
                Some(listed) if wanted(&listed) => return listed,
                _ => {}
            }
            if begun.elapsed() >= PATIENCE {
                let states = self.libvirtd.virsh(&["domstats", "--state"]);
                let log = self.up.stderr();
                panic!("{arguments:?}: {output:?}\nlibvirt: {states:?}\n{log}");
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The guests, once each is active or has failed. A guest that libvirt blocks, because it was killed just before
    /// the start of an emulator, is repaired first, as the agent suggests.
    #[track_caller]
    pub(super) fn settled(&mut self) -> Vec<Value> {
        let is_stuck = |guest: &Value| guest["reason"].to_string().contains("is stuck");
        let is_settled = |guest: &Value| guest["status"] == "active" || guest["status"] == "error";
        loop {
            let guests = self.until(&["guest", "list"], |guests| {
                let at_rest = |guest: &Value| is_settled(guest) || is_stuck(guest);
                !guests.is_empty() && guests.iter().all(at_rest)
            });
            let Some(stuck) = guests.iter().find(|guest| !is_settled(guest)) else {
                return guests;
            };
            let name = stuck["name"].as_str().expect("a name");
            self.libvirtd.forget(name).expect("its status goes");
            self.kill_libvirtd();
            self.until(&["guest", "list"], |guests| !guests.iter().any(is_stuck));
        }
    }

    #[track_caller]
    pub(super) fn create(&mut self, name: &str, needs: &[&str]) {
        let outcome = self.try_create(name, needs);
        outcome.unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.up.stderr()));
    }

    pub(super) fn try_create(&mut self, name: &str, needs: &[&str]) -> Result<String, String> {
        let images = images();
        let file = |name: &str| images.join(name).display().to_string();
        let (kernel, ramdisk) = (file("vmlinuz"), file("initrd.gz"));
        let words = [
            "guest",
            "create",
            name,
            "--vcpus",
            "1",
            "--ram",
            "192",
            "--kernel",
            &kernel,
            "--ramdisk",
            &ramdisk,
            "--cmdline",
            "console=ttyS0 quiet no_timer_check",
        ];
        self.run(&[&words, needs].concat())
    }

    /// A guest, once it runs for libvirt, too: after a loss of power it is active before anybody has looked.
    #[track_caller]
    pub(super) fn until_running(&mut self, name: &str) -> Value {
        let runs = |guest: &&Value| guest["name"] == name && guest["status"] == "active";
        let guests = self.until(&["guest", "list"], |guests| {
            guests.iter().any(|it| runs(&it))
        });
        let begun = Instant::now();
        while self.virsh(&["domstate", name]).trim() != "running" {
            let log = self.up.stderr();
            assert!(begun.elapsed() < PATIENCE, "{name}\n{log}");
            thread::sleep(Duration::from_millis(100));
        }
        let guest = guests.iter().find(runs);
        guest.expect("it was found").clone()
    }

    /// The only guest runs with a card, for the kernel, libvirt, the services and Placement alike; its UUID, and the card.
    #[track_caller]
    pub(super) fn assert_runs_with_card(&mut self, name: &str) -> (String, &'static str) {
        let guests = self.until(&["guest", "list"], |guests| {
            let runs = |guest: &Value| guest["status"] == "active" || guest["status"] == "rescued";
            guests.iter().any(runs)
        });
        let [guest] = guests.as_slice() else {
            panic!("one guest was asked for: {guests:?}");
        };
        let uuid = guest["uuid"].as_str().expect("a UUID").to_owned();
        let state = self.virsh(&["domstate", name]);
        assert_eq!(state.trim(), "running");
        let given = self.virsh(&["dumpxml", name, "--xpath", "//hostdev/source/address/@bus"]);
        let card = CARDS.iter().find(|card| {
            let bus = &card[5..7];
            given.contains(&format!("0x{bus}"))
        });
        let card = card.unwrap_or_else(|| panic!("no card: {given}"));
        assert!(guest["devices"].to_string().contains(card), "{guest}");
        let held = self.allocations(&uuid).to_string();
        assert!(held.contains("PGPU"), "{held}");
        let requests = self.until(&["accelerator", "request", "list"], |all| !all.is_empty());
        // A kill may have lost the answer to created requests: they are unowned, hold nothing, and are deleted as idle
        // requests.
        let is_lost = |it: &&Value| it["state"] == "Initial" && it["guest"].is_null();
        let (lost, own): (Vec<_>, Vec<_>) = requests.iter().partition(is_lost);
        assert!(
            own.len() == 1 && own[0]["state"] == "Bound" && lost.len() <= 1,
            "{requests:?}"
        );
        assert_eq!(self.libvirtd.driver(card).as_deref(), Some("vfio-pci"));
        (uuid, card)
    }

    /// Waits until the guest's console is so, and answers what it says.
    #[track_caller]
    pub(super) fn console(&mut self, uuid: &str, wanted: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let output = self.run(&["guest", "console", "log", uuid]);
            match output {
                Ok(output) if wanted(&output) => return output,
                output => {
                    let log = self.up.stderr();
                    assert!(begun.elapsed() < PATIENCE, "{output:?}\n{log}");
                }
            }
            thread::sleep(Duration::from_millis(300));
        }
    }

    #[track_caller]
    pub(super) fn delete(&mut self, uuid: &str) {
        self.done(&["guest", "delete", uuid, "--wait"]);
        self.assert_nothing_left(uuid);
    }

    /// Nothing of the guest is anywhere, and both cards are free.
    #[track_caller]
    pub(super) fn assert_nothing_left(&mut self, uuid: &str) {
        self.until(&["guest", "list"], <[Value]>::is_empty);
        self.until(&["accelerator", "request", "list"], <[Value]>::is_empty);
        self.until(&["device", "list"], |all| {
            all.iter().filter(|card| card["state"] == "free").count() == CARDS.len()
        });
        assert_eq!(self.allocations(uuid), json!({}));
        assert_eq!(self.virsh(&["list", "--all", "--name"]).trim(), "");
        for card in CARDS {
            assert_eq!(self.libvirtd.driver(card), None, "{card}");
        }
        let left = fs::read_dir(self.home.path("instances")).expect("a folder");
        let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
        assert!(!left.iter().any(|name| name == uuid), "{left:?}");
        let output = self.done(&["reconcile", "--dry-run"]);
        assert!(output.contains("nothing differs"), "{output}");
    }

    #[track_caller]
    pub(super) fn virsh(&self, arguments: &[&str]) -> String {
        self.libvirtd.virsh(arguments).expect("libvirtd answers")
    }

    /// What Placement has of allocations of this consumer.
    pub(super) fn allocations(&self, consumer: &str) -> Value {
        self.placement(&format!("/allocations/{consumer}"))["allocations"].clone()
    }

    pub(super) fn placement(&self, path: &str) -> Value {
        let endpoint = self.home.state_dir().join("placement.endpoint");
        let endpoint = fs::read_to_string(endpoint).expect("up says where Placement is");
        let url = format!("{}{path}", endpoint.trim());
        let call = HttpCall::get(url).header("x-auth-token", "admin");
        let call = call.header("openstack-api-version", "placement 1.20");
        call.send().expect("Placement answers").json()
    }
}

/// With these further options of `[libvirt]`, and sections after them.
fn configure(home: &BerthHome, libvirtd: &Libvirtd, sections: &str) {
    let images = images();
    let (uri, images) = (libvirtd.uri(), images.display());
    let emulator = libvirtd.emulator().expect("an emulator");
    let emulator = emulator.display();
    home.configure(&format!(
        "host = \"card-host\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\n\
         reconcile_interval = 1\nperiodic_fuzzy_delay = 0\n\
         [accelerator_service]\nunbound_request_grace = 10\n\
         [image_cache]\nimage_directories = [\"{images}\", \"@HOME@/images\"]\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
         [placement_service]\nlisten = \"127.0.0.1:0\"\nauth_strategy = \"noauth2\"\n\
         [libvirt]\nconnection_uri = \"{uri}\"\nvirt_type = \"qemu\"\nemulator = \"{emulator}\"\n{sections}\n"
    ))
    .expect("a configuration");
}

/// `berth up` where it sees the cards.
fn up(home: &mut BerthHome, libvirtd: &Libvirtd) -> RunningBerth {
    let config = home.config_file().display().to_string();
    home.run_within(libvirtd.run_in_scope());
    home.start(["--config", &config, "up"]).expect("it starts")
}

fn items(text: &str) -> Vec<Value> {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    value["items"].as_array().cloned().unwrap_or_default()
}

/// The folder with a kernel and an initrd, which say on the console what devices they see.
fn images() -> std::path::PathBuf {
    let images = checkout().join("target/guest-image");
    let script = checkout().join("packaging/scripts/guest-image.sh");
    let made = Command::new(script).arg(&images).output();
    let made = made.expect("the script runs");
    let printed = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{printed}");
    images
}
