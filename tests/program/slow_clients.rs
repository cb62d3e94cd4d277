//! Clients that take slots of a controller's listener without making progress, and a listener for agents alone.

use std::process::Command;
use std::time::{Duration, Instant};

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::peer::{checkout, installed, output};
use berth_tests::port::free_port;
use berth_tests::wait::wait_until;
use serde_json::{Value, json};

use crate::program::cloud::password;
use crate::program::host_accounts::give_account;
use crate::program::hypervisor::{Hypervisor, PATIENCE};

const NODE: &str = "slow-there";
/// How long the slow clients are there.
const SECONDS: u64 = if cfg!(feature = "soak") { 120 } else { 10 };
/// Seconds within which callers are answered. An idle machine needs less than 2, a busy one more.
const LIMIT: u64 = if cfg!(feature = "soak") { 2 } else { 15 };
/// A host without a heartbeat for longer is down.
const DOWN: &str = "service_down_time = 8\nreport_interval = 1\n";

/// A controller, and an agent in another process that reaches it over TCP.
struct TwoHosts {
    home: BerthHome,
    node: Hypervisor,
    controller: RunningBerth,
    agent: RunningBerth,
    port: u16,
    token: String,
}

impl TwoHosts {
    /// Starts both. `internal`: the agent uses a listener of its own at this port.
    fn start(internal: Option<u16>) -> Self {
        let mut home = BerthHome::new().expect("a home");
        let port = free_port().expect("a port");
        let listen = internal.map_or_else(String::new, |port| {
            format!("internal_listen = \"127.0.0.1:{port}\"\n")
        });
        let text = format!(
            "state_path = \"@HOME@/state\"\n{DOWN}[api]\n{listen}\
             [agent]\nadmin_socket = \"@HOME@/agent.sock\"\n"
        );
        home.configure(&text).expect("a configuration");
        let config = home.config_file().display().to_string();
        let address = format!("127.0.0.1:{port}");
        let mut controller = home
            .start(["--config", &config, "controller", "--listen", &address])
            .expect("it starts");
        controller
            .wait_for_line(PATIENCE, "All APIs at ")
            .expect("it serves");
        let mut node = Hypervisor::new("pcpu", NODE, "");
        node.configure("", DOWN);
        let base = format!("http://127.0.0.1:{}", internal.unwrap_or(port));
        give_account(&mut home, &base, (NODE, &mut node));
        let mut agent = node.start(&["agent"]);
        node.wait_until_healthy(&mut agent);
        let token = token(port, &password(&home.state_dir()));
        let hosts = Self {
            home,
            node,
            controller,
            agent,
            port,
            token,
        };
        wait_until("the host is up", || match hosts.state().as_str() {
            "up" => Ok(()),
            other => Err(other.to_owned()),
        });
        hosts
    }

    fn ask(&self, port: u16, path: &str) -> HttpAnswer {
        HttpCall::get(format!("http://127.0.0.1:{port}{path}"))
            .header("x-auth-token", &self.token)
            .header("openstack-api-version", "compute 2.82")
            .send()
            .expect("an answer")
    }

    /// The state of the agent's host, as operators see it.
    fn state(&self) -> String {
        let services = self.ask(self.port, "/compute/v2.1/os-services").json();
        let services = services["services"].as_array().cloned().unwrap_or_default();
        let found = services.iter().find(|service| service["host"] == NODE);
        let state = found.map(|service| service["state"].as_str().unwrap_or_default());
        state.unwrap_or("missing").to_owned()
    }

    fn stop(self) {
        self.agent.stop(PATIENCE).expect("it ends");
        self.controller.stop(PATIENCE).expect("it ends");
        drop((self.home, self.node));
    }
}

/// A token of the first user.
fn token(port: u16, password: &str) -> String {
    let user = json!({"name": "admin", "domain": {"id": "default"}, "password": password});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
    }});
    let url = format!("http://127.0.0.1:{port}/identity/v3/auth/tokens");
    let answer = HttpCall::post(url).json(&body).send().expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.text());
    let token = answer.headers.get("x-subject-token").expect("a token");
    token.to_str().expect("text").to_owned()
}

#[test]
fn slow_bodies_from_two_addresses_delay_no_other_caller_and_the_remote_host_stays_up() {
    let hosts = TwoHosts::start(None);
    let python = installed().expect("the peers").join("venv/bin/python");
    let mut slow = Command::new(python);
    slow.arg(checkout().join("tests/program/slow_clients.py"))
        .args([
            hosts.port.to_string(),
            SECONDS.to_string(),
            "900".to_owned(),
            LIMIT.to_string(),
        ])
        .env_remove("PYTHONPATH");
    let begun = Instant::now();
    let slow = std::thread::spawn(move || output(&mut slow));
    let mut states = Vec::new();
    while !slow.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(SECONDS) + PATIENCE);
        states.push(hosts.state());
        std::thread::sleep(Duration::from_millis(500));
    }
    let printed = slow.join().expect("it does not panic").expect("it ends");
    let log = hosts.controller.stderr();
    let counts: Value = serde_json::from_str(&printed).expect("JSON");
    let of = |name: &str| counts[name].as_u64().expect("a number");
    assert!(
        of("asked") > 0 && of("answered") * 100 >= of("asked") * 95,
        "{counts}\n{log}"
    );
    let down = states.iter().filter(|state| *state != "up").count();
    assert_eq!(down, 0, "{states:?}\n{log}");
    hosts.stop();
}

#[test]
fn internal_routes_are_served_to_agents_at_their_own_listener_alone() {
    let internal = free_port().expect("a port");
    let hosts = TwoHosts::start(Some(internal));
    // The devices of a host are shown to its own account alone.
    for (path, status) in [
        ("/compute/internal/v1/hosts", 200),
        ("/accelerator/internal/v1/hosts/slow-there/devices", 403),
        (
            "/accelerator/accelerator/internal/v1/hosts/slow-there/devices",
            403,
        ),
    ] {
        assert_eq!(hosts.ask(internal, path).status, status, "{path}");
        assert_eq!(hosts.ask(hosts.port, path).status, 404, "{path}");
    }
    let catalog = hosts.ask(hosts.port, "/identity/v3/auth/catalog").json();
    let services = catalog["catalog"].as_array().expect("a list");
    for service in services {
        for endpoint in service["endpoints"].as_array().expect("a list") {
            let port = match endpoint["interface"].as_str() {
                Some("internal") => internal,
                _ => hosts.port,
            };
            let url = endpoint["url"].as_str().expect("a URL");
            assert!(url.contains(&format!(":{port}/")), "{endpoint}");
        }
    }
    hosts.stop();
}
