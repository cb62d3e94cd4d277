//! Servers of a `berth up` that is killed by SIGKILL at any moment: three at a time, each with a device, from their requests to the
//! compute API until they run, and back. A client that hears nothing looks for its server before it asks again.
//!
//! After each batch that runs, servers, guests, allocations and accelerator requests are one to one; after each that was deleted
//! nothing is left of any of them, and every device is free. Requests that were made, and of which a kill kept the conductor from
//! hearing, hold nothing; at the end the accelerator service has deleted them, too, as it does with what nobody touches for long.
//!
//!   BERTH_BOOTS=500   so many servers (21)
//!   BERTH_BOOTS_FROM=1   the first seed; each batch has the next
//!   BERTH_BOOTS_REPORT=FILE   to which a line is added, for `make soak`: servers, kills while booting, while deleting, seconds,
//!   violations

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use berth_seam::Seeded;
use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{Answer, Ask};
use berth_tests::process::free_port;
use http::Method;
use serde_json::{Value, json};

use crate::number;

/// Servers at a time; the machine has more devices.
const BATCH: usize = 3;
const NODES: usize = 2;
const DEVICES: usize = 2;
/// A kill falls within so many milliseconds after a batch was asked for; about half of them while it is under way.
const WITHIN: usize = 1_500;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

const IMAGE: &str = "9a17439a-85d0-4c53-a3d3-0f68a2eac896";
/// The SHA-256 of 512 zeros.
const CHECKSUM: &str = "076a27c79e5ace2a3d47f9dd2e83e4ff6ea8872b3c2218f66c92b89b55f36560";

/// A machine that is killed and started again, and a client of it.
struct Machine {
    home: BerthHome,
    up: Option<RunningBerth>,
    compute: String,
    placement: String,
    accelerators: String,
    kills: BTreeMap<&'static str, usize>,
}

impl Machine {
    fn start() -> Self {
        let port = || format!("127.0.0.1:{}", free_port().expect("a port"));
        let (compute, placement, accelerators) = (port(), port(), port());
        let mut home = BerthHome::new().expect("a home");
        home.configure(&format!(
            "compute_driver = \"fake\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\n\
             [fake]\nmachine = \"@HOME@/machine.toml\"\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
             [placement_service]\nlisten = \"{placement}\"\n[accelerator_service]\nunbound_request_grace = 10\n[compute_service]\nlisten = \"{compute}\"\n\
             images_file = \"@HOME@/images.toml\"\n[image_cache]\nimage_directories = [\"@HOME@/images\"]\n"
        ))
        .expect("a configuration");
        // A home has these for any port.
        home.set_env("BERTH__ACCELERATOR_SERVICE__LISTEN", &accelerators);
        for folder in ["instances", "images"] {
            fs::create_dir(home.path(folder)).expect("a folder");
        }
        home.write("machine.toml", &machine()).expect("a file");
        let image = home.path("images/zeros.raw");
        fs::write(&image, [0; 512]).expect("a file");
        let list = format!(
            "[[image]]\nname = \"zeros\"\nid = \"{IMAGE}\"\npath = \"{}\"\nformat = \"raw\"\nchecksum = \"sha256:{CHECKSUM}\"\n",
            image.display()
        );
        home.write("images.toml", &list).expect("a file");
        let mut machine = Self {
            home,
            up: None,
            compute: format!("http://{compute}/v2.1"),
            placement: format!("http://{placement}"),
            accelerators: format!("http://{accelerators}/v2"),
            kills: BTreeMap::new(),
        };
        machine.begin();
        machine.prepare();
        machine
    }

    fn begin(&mut self) {
        let config = self.home.config_file().display().to_string();
        let up = self.home.start(["--config", &config, "up"]);
        self.up = Some(up.expect("it starts"));
    }

    /// SIGKILL, and the next start at once.
    fn strike(&mut self, phase: &'static str) {
        if let Some(mut up) = self.up.take() {
            assert!(!up.has_ended(), "it ended by itself: {}", up.stderr());
            up.kill();
        }
        *self.kills.entry(phase).or_default() += 1;
        self.begin();
    }

    /// A profile and a flavor with one device.
    fn prepare(&self) {
        let profile = json!([{"name": "gpu", "groups": [{"resources:PGPU": "1"}]}]);
        let profiles = format!("{}/device_profiles", self.accelerators);
        let flavor =
            json!({"flavor": {"id": "1", "name": "tiny", "vcpus": 1, "ram": 64, "disk": 0}});
        let specs = json!({"extra_specs": {"accel:device_profile": "gpu"}});
        let flavors = format!("{}/flavors", self.compute);
        let of_flavor = format!("{flavors}/1/os-extra_specs");
        for (url, body) in [
            (&profiles, profile),
            (&flavors, flavor),
            (&of_flavor, specs),
        ] {
            until("the services answer", || {
                let answer = ask(Method::POST, url, Some(&body))?;
                answer.status.is_success().then_some(())
            });
        }
        self.until_devices_are_free();
    }

    fn servers(&self) -> Option<BTreeMap<String, Value>> {
        let answer = ask(
            Method::GET,
            &format!("{}/servers/detail", self.compute),
            None,
        )?;
        let body: Value = serde_json::from_str(&answer.text()).ok()?;
        let servers = body["servers"].as_array()?.iter();
        Some(
            servers
                .map(|server| (text(&server["id"]), server.clone()))
                .collect(),
        )
    }

    /// Asks for these servers as far as they are not there; whether all of them are decided.
    fn ask_for(&self, names: &[String]) -> Option<bool> {
        let servers = self.servers()?;
        let mut decided = true;
        for name in names {
            let mut found = servers.values().filter(|server| server["name"] == **name);
            let Some(server) = found.next() else {
                let server =
                    json!({"name": name, "flavorRef": "1", "imageRef": IMAGE, "networks": "none"});
                let body = json!({ "server": server });
                drop(ask(
                    Method::POST,
                    &format!("{}/servers", self.compute),
                    Some(&body),
                ));
                decided = false;
                continue;
            };
            decided &= server["status"] == "ACTIVE" || server["status"] == "ERROR";
        }
        Some(decided)
    }

    /// Asks for the end of all servers; whether there is none.
    fn delete_all(&self) -> Option<bool> {
        let servers = self.servers()?;
        for id in servers.keys() {
            drop(ask(
                Method::DELETE,
                &format!("{}/servers/{id}", self.compute),
                None,
            ));
        }
        Some(servers.is_empty())
    }

    /// Goes on until it is done, with a kill on the way.
    fn through_a_kill(
        &mut self,
        seeded: &mut Seeded,
        phase: &'static str,
        step: impl Fn(&Self) -> Option<bool>,
    ) {
        let kill_at = Instant::now() + Duration::from_millis(seeded.below(WITHIN) as u64);
        let mut killed = false;
        let begun = Instant::now();
        loop {
            if !killed && Instant::now() >= kill_at {
                self.strike(phase);
                killed = true;
            }
            // Where it is quicker than the kill, that falls on what rests.
            if step(self) == Some(true) && killed {
                return;
            }
            let log = || {
                self.up
                    .as_ref()
                    .map(RunningBerth::stderr)
                    .unwrap_or_default()
            };
            assert!(
                begun.elapsed() < PATIENCE,
                "{phase}: not in time: {}",
                log()
            );
            thread::sleep(LOOK);
        }
    }

    /// A command's answer as JSON.
    fn listed(&mut self, words: &[&str]) -> Value {
        let config = self.home.config_file().display().to_string();
        let words = [&["--config", &config], words, &["-f", "json"]].concat();
        let outcome = self.home.run(&words).expect("it ends");
        assert_eq!(outcome.code, 0, "{words:?}: {}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).expect("JSON")
    }

    fn arqs(&self) -> Vec<Value> {
        let url = format!("{}/accelerator_requests", self.accelerators);
        let answer = until("the accelerator service answers", || {
            ask(Method::GET, &url, None)
        });
        answer.json()["arqs"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// Those that may hold anything.
    fn holding(&self) -> Vec<Value> {
        let mut arqs = self.arqs();
        arqs.retain(|arq| arq["state"] != "Initial" || arq["instance_uuid"] != Value::Null);
        arqs
    }

    /// Who holds allocations, each with the number of devices.
    fn holders(&self) -> BTreeMap<String, u64> {
        let url = format!("{}/resource_providers", self.placement);
        let answer = until("Placement answers", || ask(Method::GET, &url, None));
        let mut holders = BTreeMap::new();
        for provider in answer.json()["resource_providers"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let url = format!("{url}/{}/allocations", text(&provider["uuid"]));
            let answer = until("Placement answers", || ask(Method::GET, &url, None));
            let held = answer.json();
            for (consumer, of) in held["allocations"].as_object().into_iter().flatten() {
                let devices = of["resources"]["PGPU"].as_u64().unwrap_or_default();
                *holders.entry(consumer.clone()).or_default() += devices;
            }
        }
        holders
    }

    /// The guests in the fake driver's book, each once.
    fn guests(&self) -> Vec<String> {
        let book = fs::read_to_string(self.home.state_dir().join("fake-guests"));
        let book: Value = serde_json::from_str(&book.unwrap_or_default()).unwrap_or_default();
        let guests = book["guests"].as_array().into_iter().flatten();
        let guests = guests.map(|guest| match &guest["uuid"] {
            Value::Null => text(&guest["spec"]["uuid"]),
            uuid => text(uuid),
        });
        guests.collect()
    }

    fn until_devices_are_free(&self) {
        until("every device is free", || {
            let url = format!("{}/allocation_candidates?resources=PGPU:1", self.placement);
            let free = ask(Method::GET, &url, None)?.json();
            let free = free["allocation_requests"].as_array()?.len();
            (free == NODES * DEVICES).then_some(())
        });
    }

    /// What is not one to one among those that run.
    fn wrong_of_running(&self, names: &[String]) -> Vec<String> {
        let mut wrong = Vec::new();
        let servers = until("the compute API answers", || self.servers());
        let named: BTreeSet<String> = servers.values().map(|it| text(&it["name"])).collect();
        if servers.len() != names.len() || named.len() != names.len() {
            wrong.push(format!(
                "{names:?} were asked for, there are {named:?} in {} servers",
                servers.len()
            ));
        }
        for (id, server) in &servers {
            if server["status"] != "ACTIVE" {
                wrong.push(format!("{id} is {}: {}", server["status"], server["fault"]));
            }
        }
        let ids: BTreeSet<String> = servers.into_keys().collect();
        let guests = self.guests();
        if guests.len() != ids.len() || guests.iter().cloned().collect::<BTreeSet<_>>() != ids {
            wrong.push(format!("{ids:?} run, the host has {guests:?}"));
        }
        let one_each: BTreeMap<String, u64> = ids.iter().map(|id| (id.clone(), 1)).collect();
        let holders = self.holders();
        if holders != one_each {
            wrong.push(format!("{ids:?} run, devices are allocated to {holders:?}"));
        }
        let arqs = self.holding();
        let bound = arqs.iter().filter(|arq| arq["state"] == "Bound");
        let instances: BTreeSet<String> = bound.map(|arq| text(&arq["instance_uuid"])).collect();
        let handles: BTreeSet<String> = arqs
            .iter()
            .map(|arq| arq["attach_handle_info"].to_string())
            .collect();
        if arqs.len() != ids.len() || instances != ids || handles.len() != ids.len() {
            wrong.push(format!("{ids:?} run, the requests are {arqs:?}"));
        }
        wrong
    }

    /// What there is of guests, where there is to be none.
    fn left(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        let mut is_none = |what: &str, found: String, is_empty: bool| {
            if !is_empty {
                left.push(format!("{what}: {found}"));
            }
        };
        let (guests, holders, arqs) = (self.guests(), self.holders(), self.holding());
        is_none(
            "guests of the host",
            format!("{guests:?}"),
            guests.is_empty(),
        );
        is_none("allocations", format!("{holders:?}"), holders.is_empty());
        is_none("accelerator requests", format!("{arqs:?}"), arqs.is_empty());
        let journal = self.listed(&["guest", "list"]).to_string();
        is_none(
            "the journals' guests",
            journal.clone(),
            !journal.contains("uuid"),
        );
        let differs = self.listed(&["reconcile", "--dry-run"]).to_string();
        is_none(
            "the reconciler's findings",
            differs.clone(),
            !differs.contains("code"),
        );
        left
    }
}

fn ask(method: Method, url: &str, body: Option<&Value>) -> Option<Answer> {
    let service = match url.contains("/v2.1") {
        true => "compute 2.82",
        false if url.contains("/v2/") => "accelerator 2.3",
        false => "placement 1.39",
    };
    let mut ask = Ask::new(method, url)
        .header("x-auth-token", "admin")
        .header("openstack-api-version", service);
    if let Some(body) = body {
        ask = ask.json(body);
    }
    // Where it is away it is asked again.
    ask.send().ok()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(LOOK);
    }
}

fn machine() -> String {
    let mut machine = "[model]\nvgpu = \"per-gpu\"\nnuma = \"flat\"\npcpu = \"vcpu\"\n".to_owned();
    for node in 0..NODES {
        let name = format!("boots-{node}");
        let head =
            format!("\n[[node]]\nname = \"{name}\"\nmemory_mib = 65536\ndisk = 500\ntraits = []\n");
        // Writing to a String cannot fail.
        let _ = writeln!(machine, "{head}cpus = {{ online = \"0-31\" }}");
        for device in 0..DEVICES {
            let address = format!("{node:04x}:{:02x}:00.0", 0x21 + device);
            let of = "vendor = \"10de\"\nproduct = \"1eb8\"";
            let _ = writeln!(machine, "\n[[node.device]]\naddress = \"{address}\"\n{of}");
        }
    }
    machine
}

#[test]
fn servers_of_a_machine_that_is_killed_all_the_time_are_whole_and_leave_nothing() {
    let servers = usize::try_from(number("BERTH_BOOTS").unwrap_or(21)).expect("a number");
    let first = number("BERTH_BOOTS_FROM").unwrap_or(1);
    let begun = Instant::now();
    let mut machine = Machine::start();
    let mut violations = Vec::new();
    for (seed, made) in (first..).zip((0..servers).step_by(BATCH)) {
        let mut seeded = Seeded::new(seed);
        let names: Vec<String> = (made..servers.min(made + BATCH))
            .map(|n| format!("vm{n}"))
            .collect();
        machine.through_a_kill(&mut seeded, "boot", |machine| machine.ask_for(&names));
        let mut wrong = machine.wrong_of_running(&names);
        machine.through_a_kill(&mut seeded, "delete", Machine::delete_all);
        machine.until_devices_are_free();
        wrong.extend(machine.left());
        if !wrong.is_empty() {
            println!("seed {seed}: {wrong:#?}");
        }
        violations.extend(wrong.iter().map(|line| format!("seed {seed}: {line}")));
    }
    until("requests that nobody heard of are deleted", || {
        machine.arqs().is_empty().then_some(())
    });
    let kills = |phase| machine.kills.get(phase).copied().unwrap_or_default();
    let (boots, deletes) = (kills("boot"), kills("delete"));
    let (seconds, wrong) = (begun.elapsed().as_secs(), violations.len());
    println!("| servers | kills while booting | while deleting | seconds | violations |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    println!("| {servers} | {boots} | {deletes} | {seconds} | {wrong} |");
    println!("{} kills", boots + deletes);
    if let Some(file) = env::var_os("BERTH_BOOTS_REPORT") {
        let file = fs::OpenOptions::new().create(true).append(true).open(file);
        let line = format!("{servers}\t{boots}\t{deletes}\t{seconds}\t{wrong}");
        writeln!(file.expect("a file"), "{line}").expect("room on the disk");
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// A judge that never says no is worth nothing.
#[test]
fn what_is_left_of_a_server_is_seen_wherever_it_is() {
    let mut machine = Machine::start();
    assert_eq!(machine.left(), Vec::<String>::new());
    let names = ["vm1".to_owned()];
    until("it runs", || machine.ask_for(&names)?.then_some(()));
    assert_eq!(machine.wrong_of_running(&names), Vec::<String>::new());
    let left = machine.left();
    for what in [
        "guests of the host",
        "allocations",
        "accelerator requests",
        "the journals' guests",
    ] {
        assert!(
            left.iter().any(|it| it.starts_with(what)),
            "{what}: {left:?}"
        );
    }
    // And what is missing, or one too many.
    let others = ["vm1".to_owned(), "vm2".to_owned()];
    assert_eq!(machine.wrong_of_running(&others).len(), 1);
    assert_eq!(machine.wrong_of_running(&[]).len(), 1);
}
