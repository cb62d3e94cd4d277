//! `berth up` with the sample out-of-tree driver of the documentation: its tree in Placement, a guest with a device,
//! and a kill of the driver.

use std::time::{Duration, Instant};
use std::{fs, thread};

use berth_tests::berth::{BerthHome, Outcome, RunningBerth};
use berth_tests::exchange::HttpCall;
use berth_tests::peer::checkout;
use berth_tests::port::free_port;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::program::hypervisor::PATIENCE;

const NODE: &str = "exec-1";

/// A host with the sample driver.
struct Host {
    home: BerthHome,
    metrics: u16,
}

impl Host {
    fn new(driver: &str) -> Self {
        let home = BerthHome::new().expect("a home");
        let metrics = free_port().expect("a port");
        let text = format!(
            "compute_driver = \"exec:{driver}\"\nhost = \"{NODE}\"\nstate_path = \"@HOME@/state\"\n\
             update_resources_interval = 1\nperiodic_fuzzy_delay = 0\nreconcile_interval = 1\n\
             [agent]\nadmin_socket = \"@HOME@/agent.sock\"\nmetrics_listen = \"127.0.0.1:{metrics}\"\n\
             [placement_service]\nlisten = \"127.0.0.1:0\"\nauth_strategy = \"noauth2\"\n\
             [image_cache]\nimage_directories = [\"@HOME@/images\"]\n"
        );
        home.configure(&text).expect("a configuration");
        fs::create_dir(home.path("images")).expect("a folder");
        home.write("images/vmlinuz", "a kernel, as far as the sample looks")
            .expect("a file");
        Self { home, metrics }
    }

    fn run(&mut self, arguments: &[&str]) -> Outcome {
        let config = self.home.config_file().display().to_string();
        let arguments = [&["--config", &config], arguments].concat();
        self.home.run(arguments).expect("berth ends")
    }

    #[track_caller]
    fn done(&mut self, up: &RunningBerth, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        let log = up.stderr();
        assert_eq!(outcome.code, 0, "{arguments:?}: {}\n{log}", outcome.stderr);
        outcome.stdout
    }

    fn start(&mut self) -> RunningBerth {
        let config = self.home.config_file().display().to_string();
        let mut up = self
            .home
            .start(["--config", &config, "up"])
            .expect("berth starts");
        let health = format!("http://127.0.0.1:{}/healthz", self.metrics);
        let well = || {
            HttpCall::get(&health)
                .send()
                .is_ok_and(|it| it.status == 200)
        };
        let waited = up.wait_until(PATIENCE, well);
        assert!(waited.is_ok(), "{}", up.stderr());
        up
    }

    /// What Placement says at this path.
    fn placement(&self, path: &str) -> Value {
        let endpoint = self.home.state_dir().join("placement.endpoint");
        let endpoint = fs::read_to_string(endpoint).expect("up says where Placement is");
        let url = format!("{}{path}", endpoint.trim());
        let answer = HttpCall::get(url).header("x-auth-token", "admin").send();
        answer.expect("Placement answers").json()
    }

    /// What the driver keeps of guests.
    fn book(&self) -> Value {
        let book = self.home.state_dir().join("exec-driver/guests.json");
        let text = fs::read_to_string(book).unwrap_or_else(|_| "{\"guests\": {}}".to_owned());
        serde_json::from_str(&text).expect("the sample writes JSON")
    }

    #[track_caller]
    fn until(&self, up: &RunningBerth, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}\n{}", up.stderr());
            thread::sleep(Duration::from_millis(100));
        }
    }
}

fn sample() -> String {
    let path = checkout().join("docs/examples/exec-driver/driver.py");
    path.display().to_string()
}

/// The driver's process: a child of berth's.
fn driver_of(up: &RunningBerth) -> Option<Pid> {
    let parent = format!(" {} ", up.pid());
    let mut processes = fs::read_dir("/proc").ok()?.flatten();
    let child = processes.find_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        // After the name: the state and the parent.
        let is_child = rest.get(2..)?.starts_with(&parent);
        let command = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let name = entry.file_name().into_string().ok()?;
        (is_child && command.contains("driver.py")).then_some(name)
    })?;
    child.parse().ok().map(Pid::from_raw)
}

#[test]
fn a_guest_boots_on_an_external_driver_and_survives_its_kill() {
    let mut host = Host::new(&sample());
    let mut up = host.start();
    let providers = host.placement("/resource_providers")["resource_providers"].to_string();
    for name in [NODE, "exec-1_0000:81:00.0", "exec-1_0000:82:00.0"] {
        assert!(providers.contains(&format!("\"{name}\"")), "{providers}");
    }
    host.done(
        &up,
        &[
            "accelerator",
            "profile",
            "create",
            "gpu",
            "--group",
            "resources:PGPU=1",
        ],
    );
    let kernel = host.home.path("images/vmlinuz").display().to_string();
    host.done(
        &up,
        &[
            "guest",
            "create",
            "job",
            "--vcpus",
            "1",
            "--ram",
            "256",
            "--kernel",
            &kernel,
            "--device-profile",
            "gpu",
            "--wait",
        ],
    );
    let book = host.book();
    let guests = book["guests"].as_object().expect("guests").clone();
    assert_eq!(guests.len(), 1, "{book}");
    let (uuid, guest) = guests.iter().next().expect("one");
    assert_eq!(guest["state"], "running", "{book}");
    assert!(
        guest["spec"]["devices"].to_string().contains("0000:8"),
        "{book}"
    );
    let held = host.placement(&format!("/allocations/{uuid}")).to_string();
    assert!(held.contains("PGPU"), "{held}");

    let driver = driver_of(&up).expect("the driver runs");
    kill(driver, Signal::SIGKILL).expect("it is ours");
    host.until(&up, "another driver runs", |_| {
        driver_of(&up).is_some_and(|pid| pid != driver)
    });
    host.done(&up, &["guest", "delete", "job", "--wait"]);
    host.until(&up, "the guest is gone", |host| {
        host.book()["guests"]
            .as_object()
            .is_some_and(serde_json::Map::is_empty)
    });
    assert!(!up.has_ended(), "{}", up.stderr());
    assert!(up.stderr().contains("signal: 9"), "{}", up.stderr());
    let last = driver_of(&up);
    assert_eq!(up.stop(PATIENCE).expect("it ends").code, 0);
    if let Some(last) = last {
        let command = format!("/proc/{last}/cmdline");
        host_is_quiet(&command);
    }
}

/// Waits until the driver's process has no child: it ended with berth.
fn host_is_quiet(command: &str) {
    let begun = Instant::now();
    while fs::read_to_string(command).is_ok_and(|text| text.contains("driver.py")) {
        assert!(begun.elapsed() < PATIENCE, "the driver outlived berth");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_driver_without_a_program_is_a_configuration_error() {
    for (driver, expected) in [
        ("/no/such/driver", "/no/such/driver"),
        ("/etc/hostname", "/etc/hostname"),
        ("relative/driver", "absolute path"),
    ] {
        let mut host = Host::new(driver);
        let ended = host.run(&["up"]);
        assert_eq!(ended.code, 78, "{driver}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(expected),
            "{driver}: {}",
            ended.stderr
        );
    }
}
