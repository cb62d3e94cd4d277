//! The host of the cycles: a libvirtd with simulated cards, `berth up` on it, and the answers of its services.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::peer::Libvirtd;
use http::Method;
use serde_json::{Value, json};

use crate::cycles::round::PROFILES;

/// The cards of which a guest gets the whole card.
pub(crate) const CARDS: [&str; 2] = ["0000:81:00.0", "0000:82:00.0"];
/// The number of mediated devices of the third card.
pub(crate) const MDEVS: usize = 16;
pub(crate) const NODE: &str = "card-host";

/// No start takes this long, not even on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);
/// The expected duration of the first round.
const FIRST_DURATION: Duration = Duration::from_secs(4);

/// A host with libvirtd on which `berth up` runs.
pub(crate) struct Host {
    pub(crate) home: BerthHome,
    pub(crate) libvirtd: Libvirtd,
    up: RunningBerth,
    lives: usize,
    expected_duration: Duration,
}

/// `berth up` where it sees the cards.
fn up(home: &mut BerthHome, libvirtd: &Libvirtd) -> RunningBerth {
    for service in ["placement", "accelerator", "conductor"] {
        // The port of the previous run may belong to another process now.
        let _ = fs::remove_file(home.state_dir().join(format!("{service}.endpoint")));
    }
    let config = home.config_file().display().to_string();
    home.run_within(libvirtd.run_in_scope());
    home.start(["--config", &config, "up"]).expect("it starts")
}

/// A conductor that is killed before it records new requests leaves them unbound. Shorter than the wait for what guests leave.
const UNBOUND_GRACE_S: u32 = 30;

/// What a PC's firmware starts as a kernel, and what then stops its only processor: a guest that costs nothing.
fn kernel() -> Vec<u8> {
    let mut image = vec![0; 6 * 512];
    image[0x1f1] = 4;
    image[512..516].copy_from_slice(&[0xfa, 0xf4, 0xeb, 0xfd]);
    image
}

impl Host {
    /// Starts everything on empty state.
    pub(crate) fn start() -> Self {
        let libvirtd = Libvirtd::start_with_cards().expect("libvirtd starts");
        let mut home = BerthHome::new().expect("a home");
        let emulator = libvirtd.emulator().expect("an emulator");
        let open = "listen = \"127.0.0.1:0\"\nauth_strategy = \"noauth2\"\n";
        home.configure(&format!(
            "host = \"{NODE}\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\n\
             reconcile_interval = 1\nupdate_resources_interval = 1\nperiodic_fuzzy_delay = 0\n\
             [libvirt]\nconnection_uri = \"{}\"\nvirt_type = \"qemu\"\nemulator = \"{}\"\n\
             [devices]\nenabled_mdev_types = [\"virt-1\"]\n\
             [accelerators]\ndevice_spec = [{{ vendor_id = \"1234\" }}]\n\
             [image_cache]\nimage_directories = [\"@HOME@/images\"]\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
             [placement_service]\n{open}[accelerator_service]\n{open}unbound_request_grace = {UNBOUND_GRACE_S}\n\
             [conductor_service]\n{open}",
            libvirtd.uri(),
            emulator.display()
        ))
        .expect("a configuration");
        for folder in ["instances", "images"] {
            fs::create_dir(home.path(folder)).expect("a folder");
        }
        fs::write(home.path("images/vmlinuz"), kernel()).expect("a file");
        let up = up(&mut home, &libvirtd);
        let mut host = Self {
            home,
            libvirtd,
            up,
            lives: 1,
            expected_duration: FIRST_DURATION,
        };
        host.wait_until_up();
        host.wait_for_devices();
        for (name, cards, parts) in PROFILES {
            let of = |class: &str, count| {
                (0..count)
                    .map(move |_| json!({format!("resources:{class}"): "1"}))
                    .collect::<Vec<_>>()
            };
            let groups = [of("PGPU", cards), of("VGPU", parts)].concat();
            let asked = json!([{"name": name, "groups": groups}]);
            let answer = host.ask(
                "accelerator",
                Method::POST,
                "/v2/device_profiles",
                Some(&asked),
            );
            let answer = answer.expect("the service answers");
            assert!(answer.status.is_success(), "{}", answer.text());
        }
        host
    }

    fn wait_until_up(&mut self) {
        let began = Instant::now();
        while self.guests().is_none() {
            let log = self.log();
            assert!(!self.up.has_ended() && began.elapsed() < PATIENCE, "{log}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until all devices are free. Their earlier users are unknown, so berth resets them first.
    fn wait_for_devices(&mut self) {
        let began = Instant::now();
        while self
            .handles()
            .iter()
            .filter(|handle| handle.contains("free"))
            .count()
            < CARDS.len() + MDEVS
        {
            let (log, handles) = (self.log(), self.handles());
            assert!(began.elapsed() < PATIENCE, "{handles:#?}\n{log}");
            sleep(Duration::from_millis(100));
        }
    }

    /// Kills berth with SIGKILL, and starts it again on the same state.
    pub(crate) fn kill(&mut self) {
        self.up.kill();
        self.up = up(&mut self.home, &self.libvirtd);
        self.lives += 1;
        self.wait_until_up();
    }

    /// Stops berth, and returns its exit code.
    pub(crate) fn stop(self) -> i32 {
        self.up.stop(PATIENCE).expect("it ends").code
    }

    /// How often berth was started.
    pub(crate) fn lives(&self) -> usize {
        self.lives
    }

    /// The last lines of the log of the running process.
    pub(crate) fn log(&self) -> String {
        let log = self.up.stderr();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// How long a round without kills takes on this machine: a moving average.
    pub(crate) fn expected_duration(&self) -> Duration {
        self.expected_duration
    }

    /// Adds the duration of a round without kills to the average.
    pub(crate) fn add_duration(&mut self, time: Duration) {
        self.expected_duration = (self.expected_duration * 3 + time) / 4;
    }

    /// The resident memory of berth, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        self.up.resident_kib()
    }

    /// The number of open file descriptors of berth.
    pub(crate) fn open_files(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.up.pid()));
        open.map_or(0, Iterator::count)
    }

    /// Where guests' kernel is.
    pub(crate) fn kernel(&self) -> PathBuf {
        self.home.path("images/vmlinuz")
    }

    /// Asks one of the services; none where it is away.
    pub(crate) fn ask(
        &self,
        service: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Option<HttpAnswer> {
        let endpoint = self.home.state_dir().join(format!("{service}.endpoint"));
        let endpoint = fs::read_to_string(endpoint).ok()?;
        let mut ask = HttpCall::new(method, format!("{}{path}", endpoint.trim()))
            .header("x-auth-token", "admin")
            .header("accept", "application/json");
        ask = match service {
            "placement" => ask.header("openstack-api-version", "placement 1.39"),
            _ => ask,
        };
        match body {
            Some(body) => ask.json(body),
            None => ask,
        }
        .send()
        .ok()
    }

    /// What a service answers to a question; none where it does not.
    pub(crate) fn get(&self, service: &str, path: &str) -> Option<Value> {
        let answer = self.ask(service, Method::GET, path, None)?;
        answer.status.is_success().then(|| answer.json())
    }

    /// All guests that the conductor knows.
    pub(crate) fn guests(&self) -> Option<Value> {
        self.get("conductor", "/v1/guests")
    }

    /// Whether a guest was asked for.
    pub(crate) fn create(&self, body: &Value) -> bool {
        let answer = self.ask("conductor", Method::POST, "/v1/guests", Some(body));
        let Some(answer) = answer else { return false };
        let status = answer.status.as_u16();
        assert!(status == 202 || status >= 500, "{status} {}", answer.text());
        status == 202
    }

    /// Asks for a guest's end; where that is not heard it is asked again.
    pub(crate) fn delete(&self, uuid: &str) {
        self.ask(
            "conductor",
            Method::DELETE,
            &format!("/v1/guests/{uuid}"),
            None,
        );
    }

    /// What is wrong with the devices that libvirt has given to a guest that runs.
    pub(crate) fn wrong_devices(
        &self,
        uuid: &str,
        (name, cards, parts): (&str, usize, usize),
    ) -> Option<String> {
        let given = match self
            .libvirtd
            .virsh(&["dumpxml", uuid, "--xpath", "//hostdev/@type"])
        {
            Ok(given) => given,
            Err(error) => return Some(format!("{uuid} is active, and libvirt says {error}")),
        };
        let count = |kind| given.matches(kind).count();
        let found = (count("\"pci\""), count("\"mdev\""));
        (found != (cards, parts))
            .then(|| format!("{uuid} has {found:?} of profile {name}: {given}"))
    }

    /// Each attach handle with its user.
    pub(crate) fn handles(&self) -> Vec<String> {
        let known = self.get("accelerator", &format!("/internal/v1/hosts/{NODE}/devices"));
        let known = known.unwrap_or_default();
        let mut handles = Vec::new();
        for device in known["devices"].as_array().into_iter().flatten() {
            for deployable in device["deployables"].as_array().into_iter().flatten() {
                for handle in deployable["attach_handles"]
                    .as_array()
                    .into_iter()
                    .flatten()
                {
                    let is_free = handle["arq_uuid"].is_null()
                        && handle["unclean"] != true
                        && handle["vanished"] != true;
                    let state = if is_free {
                        "free".to_owned()
                    } else {
                        handle.to_string()
                    };
                    handles.push(format!("handle of {}: {state}", device["name"]));
                }
            }
        }
        handles.sort();
        handles
    }

    /// Runs a command to its end; what it says.
    pub(crate) fn berth(&mut self, arguments: &[&str]) -> String {
        let config = self.home.config_file().display().to_string();
        self.home.run_within(Vec::<String>::new());
        let outcome = self.home.run([&["--config", &config], arguments].concat());
        let outcome = outcome.expect("berth ends");
        format!("{}{}", outcome.stdout, outcome.stderr)
    }

    /// The processes with this host's folder in their command line, as QEMU has.
    pub(crate) fn emulators(&self) -> Vec<String> {
        let listed = Command::new("pgrep")
            .args(["-a", "-f", "qemu-system"])
            .output();
        let listed = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned());
        let ours = self.home.path("instances").display().to_string();
        let listed = listed.unwrap_or_default();
        let of_this_host = |line: &&str| {
            line.contains(&ours) || line.contains(&self.libvirtd.folder().display().to_string())
        };
        listed
            .lines()
            .filter(of_this_host)
            .map(|line| line.chars().take(120).collect())
            .collect()
    }
}
