//! [`Stand`]: the `berth` processes that the kill tests run and kill, in one of two topologies.
//!
//! [`Stand::single_process`] is one `berth up` for a machine with two nodes:
//!
//! ```text
//! client (test) --- HTTP, no token ---> compute, placement, accelerator API \
//!                                       both nodes                           > berth up
//! ```
//!
//! [`Stand::controller_and_agents`] is one process with the services, and one for each node:
//!
//! ```text
//! client (test) --- HTTP, no token ---> compute, placement, accelerator API \
//!                                       one address for all APIs, tokens     > berth controller
//!                                           ^                     |         /
//!                             HTTP, password|                     |TLS with client certificates
//!                                           |                     v
//!                                         berth agent 0, berth agent 1
//! ```
//!
//! In both topologies, each service also has a separate listener that checks no token; the client uses only these. Every
//! process has its own
//! [`BerthHome`] (configuration and state), and all hypervisors are the fake driver.

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::Path;

use berth_model::SeededRng;
use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::HttpCall;
use berth_tests::port::free_port;
use serde_json::{Value, json};

use super::{DEVICES, IMAGE, NODES, PATIENCE, text, until};
use crate::authority::Authority;

/// The SHA-256 of 512 zeros.
const CHECKSUM: &str = "076a27c79e5ace2a3d47f9dd2e83e4ff6ea8872b3c2218f66c92b89b55f36560";

/// A `berth` process, running or not, with its home directory.
pub(super) struct Process {
    home: BerthHome,
    /// The subcommand and its arguments.
    words: Vec<String>,
    running: Option<RunningBerth>,
    has_an_agent: bool,
}

impl Process {
    fn of(home: BerthHome, words: &[&str]) -> Self {
        Self {
            home,
            words: words.iter().map(|&word| word.to_owned()).collect(),
            running: None,
            has_an_agent: !words.contains(&"controller"),
        }
    }

    fn begin(&mut self) {
        let config = self.home.config_file().display().to_string();
        let words = ["--config", &config]
            .into_iter()
            .chain(self.words.iter().map(String::as_str));
        self.running = Some(self.home.start(words).expect("it starts"));
    }

    /// Runs a `berth` command with the configuration of this process, and returns its JSON output. Repeats it while a
    /// process that it needs is restarting.
    pub(super) fn listed(&mut self, words: &[&str]) -> Value {
        /// The exit code of a command that cannot reach its service.
        const UNAVAILABLE: i32 = 69;
        let config = self.home.config_file().display().to_string();
        let words = [&["--config", &config], words, &["-f", "json"]].concat();
        let outcome = until("a command is answered", || {
            let outcome = self.home.run(&words).expect("it ends");
            (outcome.code != UNAVAILABLE).then_some(outcome)
        });
        assert_eq!(outcome.code, 0, "{words:?}: {}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).expect("JSON")
    }

    /// The UUIDs of the guests in the fake driver's file.
    fn guests(&self) -> Vec<String> {
        let guests = self.home.fake_guests().into_iter();
        guests.map(|guest| text(&guest["spec"]["uuid"])).collect()
    }
}

/// All processes of one topology, and the URLs of its services for the client.
pub(super) struct Stand {
    /// The topology, for reports.
    pub(super) what: &'static str,
    pub(super) compute: String,
    pub(super) placement: String,
    pub(super) accelerators: String,
    processes: Vec<Process>,
}

impl Stand {
    /// Starts one `berth up` with both nodes.
    pub(super) fn single_process() -> Self {
        let addresses = Addresses::new();
        let mut home = BerthHome::new().expect("a home");
        let images = images(&home);
        let text = host("") + &format!("[image_cache]\nimage_directories = [\"{images}\"]\n");
        addresses.configure(&mut home, &text);
        write_machine(&home, 0..NODES);
        addresses.into_stand("berth up", vec![Process::of(home, &["up"])])
    }

    /// Starts a `berth controller`, and a `berth agent` for each node.
    ///
    /// The controller starts first, because the agents' configuration contains the password that it generates.
    pub(super) fn controller_and_agents() -> Self {
        let addresses = Addresses::new();
        let mut home = BerthHome::new().expect("a home");
        let images = images(&home);
        let authority = Authority::new(&home.path("pki"), "ours");
        let (server, client) = (authority.server(), authority.client());
        let file = |path: &Path| path.display().to_string();
        let ca = file(&authority.own.certificate);
        let (api, conductor) = (address(), address());
        let agents: Vec<String> = (0..NODES).map(|_| address()).collect();
        let known = agents.iter().enumerate();
        let known: Vec<String> = known
            .map(|(node, agent)| format!("\"boots-{node}=https://{agent}\""))
            .collect();
        let text = format!(
            "state_path = \"@HOME@/state\"\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n[conductor_service]\nagents = [{}]\n\
             [agent_client]\ncafile = \"{ca}\"\ncertfile = \"{}\"\nkeyfile = \"{}\"\n",
            known.join(", "),
            file(&client.certificate),
            file(&client.key),
        );
        addresses.configure(&mut home, &text);
        home.open_to_everybody(&[("CONDUCTOR_SERVICE", &conductor)]);
        let mut controller = Process::of(home, &["controller", "--listen", &api]);
        controller.begin();
        let running = controller.running.as_mut().expect("it was begun");
        let served = running.wait_for_line(PATIENCE, "All APIs at ");
        let base = served.expect("it serves");
        let mut processes = vec![controller];
        for (node, agent) in agents.iter().enumerate() {
            let mut home = BerthHome::new().expect("a home");
            let listener = format!(
                "listen = \"{agent}\"\ntls_cert = \"{}\"\ntls_key = \"{}\"\nclient_ca = \"{ca}\"\n",
                file(&server.certificate),
                file(&server.key),
            );
            let mut text = host(&listener);
            text += &host_account(&mut processes[0].home, &base, &format!("boots-{node}"));
            text += &format!("[image_cache]\nimage_directories = [\"{images}\"]\n");
            prepare(&home, &text);
            // `guest list` and `reconcile` ask the conductor.
            home.set_env("BERTH__CONDUCTOR_SERVICE__LISTEN", &conductor);
            write_machine(&home, node..node + 1);
            processes.push(Process::of(home, &["agent"]));
        }
        addresses.into_stand("controller, two agents", processes)
    }

    /// Kills one process with SIGKILL and restarts it at once. `rng` selects the process if there are several.
    ///
    /// # Panics
    /// A process has exited by itself since its last start.
    pub(super) fn kill_and_restart_one(&mut self, rng: &mut SeededRng) {
        let drawn = match self.processes.len() {
            1 => 0,
            several => rng.below(several),
        };
        for process in &mut self.processes {
            let running = process.running.as_mut().expect("it was begun");
            assert!(
                !running.has_ended(),
                "it ended by itself: {}",
                running.stderr()
            );
        }
        let process = &mut self.processes[drawn];
        if let Some(mut running) = process.running.take() {
            running.kill();
        }
        process.begin();
    }

    /// The processes that run an agent, and so have guests.
    pub(super) fn with_an_agent(&mut self) -> impl Iterator<Item = &mut Process> {
        self.processes
            .iter_mut()
            .filter(|process| process.has_an_agent)
    }

    /// The UUIDs of the guests of all nodes.
    pub(super) fn guests(&self) -> Vec<String> {
        self.processes.iter().flat_map(Process::guests).collect()
    }

    /// The output of all processes so far.
    pub(super) fn log(&self) -> String {
        let running = self
            .processes
            .iter()
            .filter_map(|process| process.running.as_ref());
        let logs: Vec<String> = running.map(RunningBerth::stderr).collect();
        logs.join("\n")
    }
}

/// The addresses (`127.0.0.1:PORT`) at which the client reaches the services.
struct Addresses {
    compute: String,
    placement: String,
    accelerators: String,
}

impl Addresses {
    fn new() -> Self {
        Self {
            compute: address(),
            placement: address(),
            accelerators: address(),
        }
    }

    /// Writes the configuration of the process that has the services: `text`, and the sections of the services.
    fn configure(&self, home: &mut BerthHome, text: &str) {
        let services = format!(
            "{text}[accelerator_service]\nunbound_request_grace = 10\n\
             [compute_service]\nimages_file = \"@HOME@/images.toml\"\n"
        );
        prepare(home, &services);
        home.open_to_everybody(&[
            ("PLACEMENT_SERVICE", &self.placement),
            ("ACCELERATOR_SERVICE", &self.accelerators),
            ("COMPUTE_SERVICE", &self.compute),
        ]);
    }

    /// Starts the processes that are not running yet, and returns the stand of all.
    fn into_stand(self, what: &'static str, mut processes: Vec<Process>) -> Stand {
        let rest = processes.iter_mut().filter(|it| it.running.is_none());
        rest.for_each(Process::begin);
        Stand {
            what,
            compute: format!("http://{}/v2.1", self.compute),
            placement: format!("http://{}", self.placement),
            accelerators: format!("http://{}/v2", self.accelerators),
            processes,
        }
    }
}

fn address() -> String {
    format!("127.0.0.1:{}", free_port().expect("a port"))
}

/// Writes the configuration and creates the folder for instances.
fn prepare(home: &BerthHome, text: &str) {
    home.configure(text).expect("a configuration");
    fs::create_dir(home.path("instances")).expect("a folder");
}

/// The configuration of a host with the fake driver. It ends inside the section `[agent]`, to which `agent` adds lines.
fn host(agent: &str) -> String {
    format!(
        "compute_driver = \"fake\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\n\
         [fake]\nmachine = \"@HOME@/machine.toml\"\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n{agent}"
    )
}

/// Makes the account of a host, and returns the sections with which its agent logs in. `base` is the URL of the
/// controller's listener.
fn host_account(controller: &mut BerthHome, base: &str, name: &str) -> String {
    let config = controller.config_file().display().to_string();
    let users = controller.state_dir().join("identity.toml");
    let (users, url) = (users.display().to_string(), format!("{base}/identity/v3"));
    let words = ["--config", &config, "identity", "host-account", name];
    let more = ["--users", &users, "--auth-url", &url];
    let made = controller.run([&words[..], &more[..]].concat());
    let made = made.expect("it ends");
    assert_eq!(made.code, 0, "{}", made.stderr);
    let password = made.stdout.lines();
    let password = password
        .filter_map(|line| line.strip_prefix("password = "))
        .next()
        .expect("a password")
        .trim_matches('"');
    let domain = json!({"name": "Default"});
    let user = json!({"name": format!("host/{name}"), "domain": domain, "password": password});
    let login =
        json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}});
    // The identity service looks for changes of the file once a second.
    until("the account is known", || {
        let call = HttpCall::post(format!("{url}/auth/tokens")).json(&login);
        let answer = call.send().expect("it answers");
        (answer.status == 201).then_some(())
    });
    made.stdout
}

/// Creates the folder `images` with one image, and the list `images.toml` that the compute service reads. Returns the
/// folder, for the option `image_directories`: an agent accepts image paths in these folders only.
fn images(home: &BerthHome) -> String {
    let folder = home.path("images");
    fs::create_dir(&folder).expect("a folder");
    let image = folder.join("zeros.raw");
    fs::write(&image, [0; 512]).expect("a file");
    let list = format!(
        "[[image]]\nname = \"zeros\"\nid = \"{IMAGE}\"\npath = \"{}\"\nformat = \"raw\"\nchecksum = \"sha256:{CHECKSUM}\"\n",
        image.display()
    );
    home.write("images.toml", &list).expect("a file");
    folder.display().to_string()
}

/// Writes `machine.toml`, which describes these nodes and their devices to the fake driver.
fn write_machine(home: &BerthHome, nodes: Range<usize>) {
    let mut machine = "[model]\nvgpu = \"per-gpu\"\nnuma = \"flat\"\npcpu = \"vcpu\"\n".to_owned();
    for node in nodes {
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
    home.write("machine.toml", &machine).expect("a file");
}
