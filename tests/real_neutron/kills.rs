//! Servers with Neutron ports under SIGKILLs of the shipped program: a `berth controller` with `[neutron]`, and the `berth agent`
//! of a host with the real Open vSwitch, `ovn-controller`, libvirt and QEMU. Neutron sends no events.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use berth_store::{Location, SqlError, SqlOptions, SqlStore, Transaction, Work};
use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::peer::{
    KeystoneSettings, Libvirtd, PortEvents, RealChassis, RealKeystone, RealNeutron,
};
use berth_tests::sample::up_to;
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::authority::Authority;
use crate::real_neutron::cloud::NetworkCloud;
use crate::real_neutron::namespaces::{PATIENCE, in_namespaces, ip, taps, text, until};

const HOST: &str = "ovn-host";
// Free for certain, because no other process is in the namespace.
const AGENT: &str = "127.0.0.1:9178";
const METRICS: &str = "127.0.0.1:9100";
const PLACEMENT: &str = "127.0.0.1:8778";
const ACCELERATOR: &str = "127.0.0.1:6666";
const CONDUCTOR: &str = "127.0.0.1:8785";
const COMPUTE: &str = "127.0.0.1:8774";
const API: &str = "127.0.0.1:8770";

const IMAGE: &str = "9a17439a-85d0-4c53-a3d3-0f68a2eac896";
/// The SHA-256 of 512 zeros.
const CHECKSUM: &str = "076a27c79e5ace2a3d47f9dd2e83e4ff6ea8872b3c2218f66c92b89b55f36560";

/// A kill falls within so many milliseconds after a request, which takes about as long.
const WITHIN: u64 = 2_500;

#[test]
fn servers_keep_their_ports_through_kills_and_a_host_boot() {
    let name = "real_neutron::kills::servers_keep_their_ports_through_kills_and_a_host_boot";
    in_namespaces(name, async {
        let mut site = Site::start().await;
        site.is_killed_while_servers_boot_and_go();
        site.boots_its_host_without_neutron().await;
    });
}

#[test]
#[cfg_attr(not(feature = "soak"), ignore = "make soak runs it")]
fn a_port_that_never_works_fails_its_server_in_time_or_is_not_waited_for() {
    let name = "real_neutron::kills::a_port_that_never_works_fails_its_server_in_time_or_is_not_waited_for";
    in_namespaces(name, async {
        let mut site = Site::start().await;
        site.has_no_answer_of_ovn();
    });
}

/// A `berth` process that is killed and started again.
struct KilledProcess {
    home: BerthHome,
    words: Vec<&'static str>,
    running: Option<RunningBerth>,
}

impl KilledProcess {
    fn start(&mut self) {
        let config = self.home.config_file().display().to_string();
        let words = ["--config", &config]
            .into_iter()
            .chain(self.words.iter().copied());
        self.running = Some(self.home.start(words).expect("it starts"));
    }

    fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            assert!(!running.has_ended(), "it ended: {}", running.stderr());
            running.kill();
        }
    }

    fn log(&self) -> String {
        let running = self.running.as_ref();
        running.map(RunningBerth::stderr).unwrap_or_default()
    }
}

/// Which process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Agent,
    Controller,
}

/// The processes of the cloud and of its host.
struct Site {
    agent: KilledProcess,
    controller: KilledProcess,
    libvirtd: Libvirtd,
    chassis: RealChassis,
    cloud: NetworkCloud,
    network: Uuid,
    /// A port of the tenant's for one server.
    given: Uuid,
}

impl Site {
    async fn start() -> Self {
        let keystone = RealKeystone::start(KeystoneSettings::default()).expect("Keystone starts");
        let neutron = RealNeutron::start(&keystone, PortEvents::NotSent).expect("Neutron starts");
        let chassis = RealChassis::start(&neutron.ovn, HOST).expect("a chassis");
        until("OVN knows the chassis", || {
            let hosts =
                neutron
                    .ovn
                    .southbound(&["--bare", "--columns=hostname", "list", "chassis"]);
            hosts.is_ok_and(|hosts| hosts.contains(HOST))
        });
        let cloud = NetworkCloud { keystone, neutron };
        let (network, _) = cloud.network(cloud.tenant(), "kills", "10.21.0.0/24").await;
        let mut wanted = cloud.port_of(network.id, Uuid::nil());
        wanted.device_id = String::new();
        let given = cloud.client().create_port(&wanted).await.expect("a port");
        let libvirtd = Libvirtd::start().expect("libvirtd starts");
        let mut controller = BerthHome::new().expect("a home");
        let authority = Authority::new(&controller.path("pki"), "ours");
        configure_controller(&mut controller, &cloud, &authority);
        let mut agent = BerthHome::new().expect("a home");
        configure_agent(&mut agent, &controller, &authority, &libvirtd, &chassis);
        let process = |home, words| KilledProcess {
            home,
            words,
            running: None,
        };
        let mut site = Self {
            agent: process(agent, vec!["agent"]),
            controller: process(controller, vec!["controller", "--listen", API]),
            libvirtd,
            chassis,
            cloud,
            network: network.id,
            given: given.id,
        };
        site.controller.start();
        site.wait_for("the compute API answers", |site| {
            site.ask(Method::GET, "/flavors", None)
                .is_some_and(|answer| answer.status == 200)
        });
        site.agent.start();
        site.wait_for("the host is reported", |_| {
            let health = HttpCall::get(format!("http://{METRICS}/healthz")).send();
            health.is_ok_and(|health| health.status == 200)
        });
        let flavor =
            json!({"flavor": {"id": "1", "name": "tiny", "ram": 64, "vcpus": 1, "disk": 1}});
        let made = site.ask(Method::POST, "/flavors", Some(&flavor));
        assert!(made.is_some_and(|made| made.status == 200));
        site
    }

    /// Sends a request as an administrator in the tenant's project. Returns None if the service does not answer.
    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Option<HttpAnswer> {
        let mut call = HttpCall::new(method, format!("http://{COMPUTE}/v2.1{path}"))
            .header("x-auth-token", &format!("admin:{}", self.cloud.tenant()))
            .header("openstack-api-version", "compute 2.82");
        if let Some(body) = body {
            call = call.json(body);
        }
        call.send().ok()
    }

    #[track_caller]
    fn wait_for(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(
                Instant::now() < end,
                "timed out waiting: {what}\n{}\ncontroller: {}\nagent: {}",
                self.state(),
                self.controller.log(),
                self.agent.log()
            );
            sleep(Duration::from_millis(100));
        }
    }

    /// What the switch, OVN and libvirt have, for the message of a failed test.
    fn state(&self) -> String {
        let columns = "--columns=name,external_ids,ofport,error";
        let switch = self.chassis.vsctl(&[columns, "list", "interface"]);
        let ovn = &self.cloud.neutron.ovn;
        let bindings = ovn.southbound(&["list", "port_binding"]);
        let guests = self.libvirtd.virsh(&["list", "--all", "--uuid"]);
        let servers = self.servers();
        format!("{switch:?}\n{bindings:?}\n{guests:?}\n{servers:?}")
    }

    fn servers(&self) -> Option<Vec<Value>> {
        let answer = self.ask(Method::GET, "/servers/detail", None)?;
        answer.json()["servers"].as_array().cloned()
    }

    /// Asks for a server with a new port and the given one, if there is none; its status.
    fn has_server(&self) -> Option<String> {
        let servers = self.servers()?;
        if let Some(server) = servers.first() {
            assert_eq!(servers.len(), 1, "{servers:?}");
            return Some(text(&server["status"]));
        }
        let networks = json!([{"uuid": self.network}, {"port": self.given}]);
        let server =
            json!({"name": "vm", "flavorRef": "1", "imageRef": IMAGE, "networks": networks});
        let body = json!({ "server": server });
        drop(self.ask(Method::POST, "/servers", Some(&body)));
        None
    }

    fn is_active(&self) -> bool {
        let status = self.has_server();
        let is_failed = status.as_deref() == Some("ERROR");
        assert!(!is_failed, "{:?}\n{}", self.servers(), self.agent.log());
        status.as_deref() == Some("ACTIVE")
    }

    /// Asks for the end of all servers; whether there is none.
    fn has_none(&self) -> bool {
        let Some(servers) = self.servers() else {
            return false;
        };
        for server in &servers {
            let path = format!("/servers/{}", text(&server["id"]));
            drop(self.ask(Method::DELETE, &path, None));
        }
        servers.is_empty()
    }

    fn delete_all(&self) {
        self.wait_for("all servers are gone", Self::has_none);
        self.wait_for("nothing is left", |site| site.left().is_empty());
    }

    fn ports_of(&self, server: &str) -> Vec<Value> {
        let path = format!("/v2.0/ports?device_id={server}");
        let ports = self.cloud.ask(Method::GET, &path, &Value::Null);
        ports["ports"].as_array().cloned().unwrap_or_default()
    }

    /// The ports in the integration bridge that are taps.
    fn on_switch(&self) -> BTreeSet<String> {
        let ports = self.chassis.vsctl(&["list-ports", "br-int"]);
        let ports = ports.expect("the switch answers");
        let taps = ports.lines().filter(|name| name.starts_with("tap"));
        taps.map(str::to_owned).collect()
    }

    /// What is wrong about the running server: it has two ports in Neutron, on the switch, on the host and in its guest.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let servers = self.servers().expect("an answer");
        let [server] = servers.as_slice() else {
            return vec![format!("the servers are {servers:?}")];
        };
        let id = text(&server["id"]);
        let ports = self.ports_of(&id);
        for port in &ports {
            if port["binding:host_id"] != HOST || port["binding:vif_type"] != "ovs" {
                wrong.push(format!("the port is not bound to the host: {port}"));
            }
        }
        let ids: BTreeSet<String> = ports.iter().map(|port| text(&port["id"])).collect();
        if ids.len() != 2 || !ids.contains(&self.given.to_string()) {
            wrong.push(format!("the ports of {id} are {ids:?}"));
        }
        let expected: BTreeSet<String> = ids.iter().map(|id| format!("tap{}", &id[..11])).collect();
        let in_guest = self.libvirtd.virsh(&["domiflist", &id]);
        let in_guest = in_guest.unwrap_or_else(|error| error.to_string());
        let in_guest = in_guest.split_whitespace();
        let in_guest = in_guest.filter(|word| word.starts_with("tap"));
        for (place, found) in [
            ("on the switch", self.on_switch()),
            ("on the host", taps().into_iter().collect()),
            ("in the guest", in_guest.map(str::to_owned).collect()),
        ] {
            if found != expected {
                wrong.push(format!("{id} has {expected:?}, {place} are {found:?}"));
            }
        }
        wrong
    }

    /// What there is of servers and their ports, where there is to be nothing.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (place, found) in [
            ("on the switch", self.on_switch()),
            ("on the host", taps().into_iter().collect()),
        ] {
            left.extend(found.iter().map(|tap| format!("{tap} is {place}")));
        }
        let guests = self.libvirtd.virsh(&["list", "--all", "--uuid"]);
        let guests = guests.expect("libvirtd answers");
        left.extend(
            guests
                .split_whitespace()
                .map(|uuid| format!("guest {uuid}")),
        );
        let path = format!("/v2.0/ports?network_id={}", self.network);
        let ports = self.cloud.ask(Method::GET, &path, &Value::Null);
        for port in ports["ports"].as_array().into_iter().flatten() {
            let is_networks = text(&port["device_owner"]).starts_with("network:");
            let is_given = text(&port["id"]) == self.given.to_string();
            let is_free = port["device_id"] == "" && port["binding:vif_type"] == "unbound";
            if !(is_networks || is_given && is_free) {
                left.push(format!("port {port}"));
            }
        }
        left
    }

    /// Repeats a step until it is done, and kills a process meanwhile.
    fn through_a_kill(&mut self, victim: Victim, round: u64, step: impl Fn(&Self) -> bool) {
        // Another moment each time.
        let moment = Duration::from_millis(round * 631 % WITHIN);
        let begun = Instant::now();
        while begun.elapsed() < moment {
            step(self);
            sleep(Duration::from_millis(50).min(moment.saturating_sub(begun.elapsed())));
        }
        let process = match victim {
            Victim::Agent => &mut self.agent,
            Victim::Controller => &mut self.controller,
        };
        process.kill();
        process.start();
        self.wait_for("the step is done", step);
    }

    fn is_killed_while_servers_boot_and_go(&mut self) {
        let rounds = u64::from(up_to(30, 2));
        for round in 1..=rounds {
            let victim = match round % 2 {
                0 => Victim::Controller,
                _ => Victim::Agent,
            };
            self.through_a_kill(victim, round, Self::is_active);
            assert_eq!(
                self.wrong(),
                [] as [String; 0],
                "{victim:?} in round {round}"
            );
            self.through_a_kill(victim, round + rounds, Self::has_none);
            self.wait_for("nothing is left", |site| site.left().is_empty());
        }
    }

    /// The host loses power. Its guest comes back with its ports while neither Neutron nor the controller runs.
    async fn boots_its_host_without_neutron(&mut self) {
        self.wait_for("the server is active", Self::is_active);
        let id = text(&self.servers().expect("an answer")[0]["id"]);
        self.controller.kill();
        self.agent.kill();
        self.cloud.neutron.stop();
        self.libvirtd.lose_power().expect("nothing runs");
        for tap in taps() {
            ip(&format!("link delete {tap}"));
        }
        let journal = self.agent.home.state_dir().join("guests.db");
        let earlier = "UPDATE step SET detail = 'an earlier boot' WHERE step = 'start'";
        write(&journal, earlier).await;
        self.libvirtd.restart().expect("libvirtd starts again");
        self.agent.start();
        self.wait_for("the guest runs again", |site| {
            let state = site.libvirtd.virsh(&["domstate", &id]);
            state.is_ok_and(|state| state.trim() == "running")
        });
        self.cloud.neutron.restart().expect("Neutron starts again");
        self.controller.start();
        self.wait_for("the server is active", Self::is_active);
        assert_eq!(self.wrong(), [] as [String; 0]);
        self.finds_a_leaked_tap();
        self.delete_all();
    }

    /// The judge would notice a tap that is left on the host and the switch.
    fn finds_a_leaked_tap(&self) {
        let leaked = "tap00000000-01";
        ip(&format!("tuntap add dev {leaked} mode tap"));
        let added = self.chassis.vsctl(&["add-port", "br-int", leaked]);
        added.expect("the switch takes it");
        let (wrong, left) = (self.wrong(), self.left());
        for place in ["on the switch", "on the host"] {
            let found = wrong.iter().filter(|one| one.contains(place));
            assert_eq!(found.count(), 1, "{wrong:?}");
            assert!(left.contains(&format!("{leaked} is {place}")), "{left:?}");
        }
        let removed = self.chassis.vsctl(&["del-port", "br-int", leaked]);
        removed.expect("the switch removes it");
        ip(&format!("link delete {leaked}"));
    }

    /// Restarts the agent with this option. The caller pauses `ovn-controller`, for less than 75 seconds: after that, Neutron binds
    /// no port to its host.
    fn waits_for_ovn_with(&mut self, (option, value): (&str, &str)) {
        self.agent.kill();
        self.agent.home.set_env(option, value);
        self.agent.start();
        self.wait_for("the agent answers", |_| {
            let health = HttpCall::get(format!("http://{METRICS}/healthz")).send();
            health.is_ok_and(|health| health.status == 200)
        });
        self.chassis.pause_controller();
    }

    /// OVN never reports that the ports work.
    fn has_no_answer_of_ovn(&mut self) {
        self.waits_for_ovn_with(("BERTH__VIF_PLUGGING_TIMEOUT", "2"));
        self.wait_for("the server has failed", |site| {
            site.has_server().as_deref() == Some("ERROR")
        });
        let log = self.agent.log();
        assert!(log.contains("2 s (vif_plugging_timeout)"), "{log}");
        self.wait_for("its ports are given back", |site| site.left().is_empty());
        self.chassis.resume_controller();
        self.delete_all();
        // Not fatal: the guest starts, and its ports work later.
        self.waits_for_ovn_with(("BERTH__VIF_PLUGGING_IS_FATAL", "false"));
        self.wait_for("the server is active", Self::is_active);
        assert_eq!(self.wrong(), [] as [String; 0]);
        let id = text(&self.servers().expect("an answer")[0]["id"]);
        let are = |site: &Self, status: &str| {
            let ports = site.ports_of(&id);
            ports.iter().all(|port| port["status"] == status)
        };
        assert!(are(self, "DOWN"), "{:?}", self.ports_of(&id));
        self.chassis.resume_controller();
        self.wait_for("the ports work", |site| are(site, "ACTIVE"));
        self.delete_all();
    }
}

fn file(path: &Path) -> String {
    path.display().to_string()
}

fn configure_controller(home: &mut BerthHome, cloud: &NetworkCloud, authority: &Authority) {
    let images = home.path("images");
    std::fs::create_dir(&images).expect("a folder");
    let image = images.join("zeros.raw");
    std::fs::write(&image, [0; 512]).expect("a file");
    let list = format!(
        "[[image]]\nname = \"zeros\"\nid = \"{IMAGE}\"\npath = \"{}\"\nformat = \"raw\"\nchecksum = \"sha256:{CHECKSUM}\"\n",
        file(&image)
    );
    home.write("images.toml", &list).expect("a file");
    std::fs::create_dir(home.path("instances")).expect("a folder");
    let client = authority.client();
    home.configure(&format!(
        "state_path = \"@HOME@/state\"\n\
         [agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
         [conductor_service]\nagents = [\"{HOST}=https://{AGENT}\"]\n\
         [agent_client]\ncafile = \"{}\"\ncertfile = \"{}\"\nkeyfile = \"{}\"\n\
         [neutron]\nauth_type = \"password\"\nauth_url = \"{}\"\nusername = \"berth\"\npassword = \"test-only\"\n\
         user_domain_name = \"Default\"\nproject_name = \"service\"\nproject_domain_name = \"Default\"\nregion_name = \"{}\"\n\
         [compute_service]\nimages_file = \"@HOME@/images.toml\"\n",
        file(&authority.own.certificate),
        file(&client.certificate),
        file(&client.key),
        cloud.keystone.url(),
        cloud.keystone.region(),
    ))
    .expect("a configuration");
    home.open_to_everybody(&[
        ("PLACEMENT_SERVICE", PLACEMENT),
        ("ACCELERATOR_SERVICE", ACCELERATOR),
        ("CONDUCTOR_SERVICE", CONDUCTOR),
        ("COMPUTE_SERVICE", COMPUTE),
    ]);
}

fn configure_agent(
    home: &mut BerthHome,
    controller: &BerthHome,
    authority: &Authority,
    libvirtd: &Libvirtd,
    chassis: &RealChassis,
) {
    std::fs::create_dir(home.path("instances")).expect("a folder");
    let server = authority.server();
    home.configure(&format!(
        "host = \"{HOST}\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\nperiodic_fuzzy_delay = 0\n\
         [libvirt]\nconnection_uri = \"{}\"\nvirt_type = \"qemu\"\n\
         [os_vif_ovs]\novsdb_connection = \"unix:{}\"\n\
         [agent]\nadmin_socket = \"@HOME@/agent.sock\"\nmetrics_listen = \"{METRICS}\"\nlisten = \"{AGENT}\"\n\
         tls_cert = \"{}\"\ntls_key = \"{}\"\nclient_ca = \"{}\"\n\
         [image_cache]\nimage_directories = [\"{}\"]\n\
         [placement]\nauth_type = \"admin_token\"\nendpoint = \"http://{PLACEMENT}\"\ntoken = \"admin\"\n\
         [conductor]\nauth_type = \"admin_token\"\nendpoint_override = \"http://{COMPUTE}\"\ntoken = \"admin\"\n",
        libvirtd.uri(),
        file(&chassis.socket()),
        file(&server.certificate),
        file(&server.key),
        file(&authority.own.certificate),
        file(&controller.path("images")),
    ))
    .expect("a configuration");
}

/// Runs one SQL statement on a database that no process has open.
async fn write(database: &Path, sql: &'static str) {
    struct Script(&'static str);
    impl Work for Script {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            tx.script(self.0).await
        }
    }
    let location = Location::SqliteFile(database.to_owned());
    let store = SqlStore::open(&location, &SqlOptions::default()).await;
    let store = store.expect("it is free");
    store.write(&Script(sql)).await.expect("it can be done");
    store.close().await;
}
