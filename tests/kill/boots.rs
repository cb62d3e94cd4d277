//! Servers under SIGKILL at random times: of a `berth up`, or of a `berth controller` and two `berth agent`s, one of
//! which is drawn for each kill. Three servers at a time, each with a device, are created and deleted over the compute
//! API. A client without an answer looks for its server before it repeats the request.
//!
//! After each batch that runs, servers, guests, allocations and accelerator requests must match one to one. After each
//! deleted batch nothing may be left of any of them, and every device must be free. Requests whose answer the conductor
//! lost in a kill hold nothing; at the end the accelerator service must have deleted them as idle requests.
//!
//!   BERTH_BOOTS=500   the number of servers (21 for `berth up`, 9 for separate processes)
//!   BERTH_BOOTS_FROM=1   the first seed; each batch has the next
//!   BERTH_BOOTS_REPORT=FILE   a file to which a line is added, for `make soak`: servers, kills during boots, kills during deletes, seconds,
//!   violations, what was killed

mod judge;
mod stand;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use berth_model::SeededRng;
use berth_tests::exchange::{HttpAnswer, HttpCall};
use http::Method;
use serde_json::{Value, json};

use crate::kill::number;
use stand::Stand;

/// Servers at a time; there are more devices.
const BATCH: usize = 3;
const NODES: usize = 2;
const DEVICES: usize = 2;
/// A kill falls within so many milliseconds after a batch was asked for; about half of them while it is under way.
const WITHIN: usize = 1_500;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const IMAGE: &str = "9a17439a-85d0-4c53-a3d3-0f68a2eac896";

/// The processes that are killed and restarted, and a client of their services.
struct Machine {
    stand: Stand,
    kills: BTreeMap<&'static str, usize>,
}

impl Machine {
    fn start(stand: Stand) -> Self {
        let machine = Self {
            stand,
            kills: BTreeMap::new(),
        };
        machine.prepare();
        machine
    }

    /// Kills one of the processes, restarts it at once, and counts the kill under this phase.
    fn strike(&mut self, seeded: &mut SeededRng, phase: &'static str) {
        self.stand.kill_and_restart_one(seeded);
        *self.kills.entry(phase).or_default() += 1;
    }

    /// A profile and a flavor with one device.
    fn prepare(&self) {
        let profile = json!([{"name": "gpu", "groups": [{"resources:PGPU": "1"}]}]);
        let profiles = format!("{}/device_profiles", self.stand.accelerators);
        let flavor =
            json!({"flavor": {"id": "1", "name": "tiny", "vcpus": 1, "ram": 64, "disk": 0}});
        let specs = json!({"extra_specs": {"accel:device_profile": "gpu"}});
        let flavors = format!("{}/flavors", self.stand.compute);
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
            &format!("{}/servers/detail", self.stand.compute),
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
                    &format!("{}/servers", self.stand.compute),
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
                &format!("{}/servers/{id}", self.stand.compute),
                None,
            ));
        }
        Some(servers.is_empty())
    }

    /// Repeats a step until it is done, with a kill during it.
    fn through_a_kill(
        &mut self,
        seeded: &mut SeededRng,
        phase: &'static str,
        step: impl Fn(&Self) -> Option<bool>,
    ) {
        let kill_at = Instant::now() + Duration::from_millis(seeded.below(WITHIN) as u64);
        let mut killed = false;
        let begun = Instant::now();
        loop {
            if !killed && Instant::now() >= kill_at {
                self.strike(seeded, phase);
                killed = true;
            }
            // Where it is quicker than the kill, that falls on what rests.
            if step(self) == Some(true) && killed {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{phase}: not in time: {}",
                self.stand.log()
            );
            thread::sleep(POLL_INTERVAL);
        }
    }
}

fn ask(method: Method, url: &str, body: Option<&Value>) -> Option<HttpAnswer> {
    let service = match url.contains("/v2.1") {
        true => "compute 2.82",
        false if url.contains("/v2/") => "accelerator 2.3",
        false => "placement 1.39",
    };
    let mut ask = HttpCall::new(method, url)
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

fn until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(POLL_INTERVAL);
    }
}

#[test]
fn servers_survive_kills_of_a_single_process_and_leave_nothing() {
    through_kills(Stand::single_process(), 21);
}

#[test]
fn servers_survive_kills_of_a_controller_and_agents_and_leave_nothing() {
    through_kills(Stand::controller_and_agents(), 9);
}

/// `servers` is the default number of servers.
fn through_kills(stand: Stand, servers: usize) {
    let servers = number("BERTH_BOOTS").map_or(servers, |n| usize::try_from(n).expect("a number"));
    let first = number("BERTH_BOOTS_FROM").unwrap_or(1);
    let begun = Instant::now();
    let mut machine = Machine::start(stand);
    let mut violations = Vec::new();
    for (seed, made) in (first..).zip((0..servers).step_by(BATCH)) {
        let mut seeded = SeededRng::new(seed);
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
    until("idle requests are deleted", || {
        machine.arqs().is_empty().then_some(())
    });
    report(&machine, servers, begun, violations.len());
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

fn report(machine: &Machine, servers: usize, begun: Instant, wrong: usize) {
    let kills = |phase| machine.kills.get(phase).copied().unwrap_or_default();
    let (boots, deletes) = (kills("boot"), kills("delete"));
    let (seconds, what) = (begun.elapsed().as_secs(), machine.stand.what);
    println!(
        "| processes | servers | kills while booting | while deleting | seconds | violations |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    println!("| {what} | {servers} | {boots} | {deletes} | {seconds} | {wrong} |");
    println!("{} kills", boots + deletes);
    if let Some(file) = env::var_os("BERTH_BOOTS_REPORT") {
        let file = fs::OpenOptions::new().create(true).append(true).open(file);
        let line = format!("{servers}\t{boots}\t{deletes}\t{seconds}\t{wrong}\t{what}");
        writeln!(file.expect("a file"), "{line}").expect("room on the disk");
    }
}

/// A judge that never says no is worth nothing.
#[test]
fn leftovers_of_a_server_are_found_in_every_service() {
    let mut machine = Machine::start(Stand::single_process());
    // The first resets of its devices are findings until they are done; all else is empty at once.
    until("a fresh machine has nothing", || {
        let left = machine.left();
        let is_reset = |it: &String| it.starts_with("the reconciler's findings");
        assert!(left.iter().all(is_reset), "{left:?}");
        left.is_empty().then_some(())
    });
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
