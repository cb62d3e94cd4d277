//! Guests with devices on the real libvirtd and QEMU, through `berth up`, its kills and libvirtd's. The cards are files; the
//! rest is what runs on a host.

use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::Ask;
use berth_tests::peer::{Libvirtd, checkout};
use serde_json::{Value, json};

use crate::hypervisor::PATIENCE;

const CARDS: [&str; 2] = ["0000:81:00.0", "0000:82:00.0"];
const CARDS_IDS: &str = "1234:1111";

/// A host with libvirtd on which `berth up` runs, with a profile for its cards.
struct CardHost {
    home: BerthHome,
    up: RunningBerth,
    libvirtd: Libvirtd,
}

impl CardHost {
    fn start() -> Self {
        let libvirtd = Libvirtd::start_with_cards().expect("libvirtd starts");
        let images = images();
        let (uri, images) = (libvirtd.uri(), images.display());
        let emulator = libvirtd.emulator().expect("an emulator");
        let emulator = emulator.display();
        let mut home = BerthHome::new().expect("a home");
        home.configure(&format!(
            "host = \"card-host\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\n\
             reconcile_interval = 1\nperiodic_fuzzy_delay = 0\n\
             [libvirt]\nconnection_uri = \"{uri}\"\nvirt_type = \"qemu\"\nemulator = \"{emulator}\"\n\
             [accelerators]\ndevice_spec = [{{ vendor_id = \"1234\", product_id = \"1111\" }}]\n\
             [image_cache]\nimage_directories = [\"{images}\"]\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
             [placement_service]\nlisten = \"127.0.0.1:0\"\n"
        ))
        .expect("a configuration");
        fs::create_dir(home.path("instances")).expect("a folder");
        let up = up(&mut home, &libvirtd);
        let mut host = Self { home, up, libvirtd };
        host.wait_until_well();
        // Nobody knows who had them before.
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

    fn wait_until_well(&mut self) {
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
    fn kill_berth(&mut self) {
        self.up.kill();
        self.up = up(&mut self.home, &self.libvirtd);
        self.wait_until_well();
    }

    /// SIGKILL, and another life: guests run on meanwhile.
    fn kill_libvirtd(&mut self) {
        self.libvirtd.kill();
        self.libvirtd.restart().expect("libvirtd starts again");
    }

    fn run(&mut self, arguments: &[&str]) -> Result<String, String> {
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
    fn done(&mut self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        outcome.unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}", self.up.stderr()))
    }

    /// Asks again and again until what is listed is so.
    #[track_caller]
    fn until(&mut self, arguments: &[&str], wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        let asked = [arguments, &["-f", "json"]].concat();
        loop {
            // While libvirtd is away, an answer may be too.
            let said = self.run(&asked);
            let listed = said.as_ref().ok().map(|text| items(text));
            match listed {
                Some(listed) if wanted(&listed) => return listed,
                _ => {}
            }
            let log = self.up.stderr();
            assert!(begun.elapsed() < PATIENCE, "{arguments:?}: {said:?}\n{log}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn create(&mut self, name: &str) {
        let images = images();
        let file = |name: &str| images.join(name).display().to_string();
        let (kernel, ramdisk) = (file("vmlinuz"), file("initrd.gz"));
        self.done(&[
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
            "console=ttyS0 quiet",
            "--device-profile",
            "gpu",
        ]);
    }

    /// The only guest runs with a card, for libvirt, the services and Placement alike; its UUID.
    #[track_caller]
    fn assert_runs_with_card(&mut self, name: &str) -> String {
        let guests = self.until(&["guest", "list"], |guests| {
            guests.iter().any(|guest| guest["status"] == "active")
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
        assert_eq!(self.libvirtd.driver(card).as_deref(), Some("vfio-pci"));
        assert!(guest["devices"].to_string().contains(card), "{guest}");
        let held = self.allocations(&uuid).to_string();
        assert!(held.contains("PGPU"), "{held}");
        let requests = self.until(&["accelerator", "request", "list"], |all| !all.is_empty());
        assert!(
            requests.len() == 1 && requests[0]["state"] == "Bound",
            "{requests:?}"
        );
        uuid
    }

    #[track_caller]
    fn delete(&mut self, uuid: &str) {
        self.done(&["guest", "delete", uuid, "--wait"]);
        self.assert_nothing_left(uuid);
    }

    /// Nothing of the guest is anywhere, and both cards are free.
    #[track_caller]
    fn assert_nothing_left(&mut self, uuid: &str) {
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
        let said = self.done(&["reconcile", "--dry-run"]);
        assert!(said.contains("nothing differs"), "{said}");
    }

    #[track_caller]
    fn virsh(&self, arguments: &[&str]) -> String {
        self.libvirtd.virsh(arguments).expect("libvirtd answers")
    }

    /// What Placement has of allocations of this consumer.
    fn allocations(&self, consumer: &str) -> Value {
        let endpoint = self.home.state_dir().join("placement.endpoint");
        let endpoint = fs::read_to_string(endpoint).expect("up says where Placement is");
        let url = format!("{}/allocations/{consumer}", endpoint.trim());
        let answer = Ask::get(url).header("x-auth-token", "admin").send();
        answer.expect("Placement answers").json()["allocations"].clone()
    }
}

/// `berth up` where it sees the cards.
fn up(home: &mut BerthHome, libvirtd: &Libvirtd) -> RunningBerth {
    let config = home.config_file().display().to_string();
    home.run_within(libvirtd.beside());
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
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    images
}

#[test]
fn a_guest_runs_on_libvirt_with_its_card_through_kills_of_berth_and_its_delete_leaves_nothing() {
    let mut host = CardHost::start();
    // The kill falls at another step of the boot each time.
    for (round, pause) in [50, 300, 900].into_iter().enumerate() {
        let name = format!("job-{round}");
        host.create(&name);
        thread::sleep(Duration::from_millis(pause));
        host.kill_berth();
        let uuid = host.assert_runs_with_card(&name);
        let life = host.virsh(&["domid", &name]);
        if round == 0 {
            host.kill_berth();
            assert_eq!(host.assert_runs_with_card(&name), uuid);
            let now = host.virsh(&["domid", &name]);
            assert_eq!(now, life, "a guest that runs is left running");
            let begun = Instant::now();
            let console = loop {
                let said = host.run(&["guest", "console", "log", &uuid]);
                if let Some(said) = said.ok().filter(|said| said.contains("berth-guest: ready")) {
                    break said;
                }
                assert!(begun.elapsed() < PATIENCE, "{}", host.up.stderr());
                thread::sleep(Duration::from_millis(300));
            };
            let sees =
                |line: &str| line.starts_with("berth-guest: pci") && line.contains(CARDS_IDS);
            assert!(console.lines().any(sees), "{console}");
        }
        host.done(&["guest", "delete", &uuid]);
        if round > 0 {
            thread::sleep(Duration::from_millis(pause / 3));
            host.kill_berth();
        }
        host.assert_nothing_left(&uuid);
    }
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}

#[test]
fn a_libvirtd_that_is_killed_leaves_a_guest_with_its_card_or_none_of_either() {
    let mut host = CardHost::start();
    for (round, pause) in [150, 700].into_iter().enumerate() {
        let name = format!("job-{round}");
        host.create(&name);
        thread::sleep(Duration::from_millis(pause));
        host.kill_libvirtd();
        let guests = host.until(&["guest", "list"], |guests| {
            let settled = |guest: &Value| guest["status"] == "active" || guest["status"] == "error";
            !guests.is_empty() && guests.iter().all(settled)
        });
        let uuid = guests[0]["uuid"].as_str().expect("a UUID").to_owned();
        if guests[0]["status"] == "active" {
            host.assert_runs_with_card(&name);
            let life = host.virsh(&["domid", &name]);
            host.kill_libvirtd();
            assert_eq!(host.assert_runs_with_card(&name), uuid);
            assert_eq!(host.virsh(&["domid", &name]), life);
        }
        host.delete(&uuid);
    }
    assert_eq!(host.up.stop(PATIENCE).expect("it ends").code, 0);
}
