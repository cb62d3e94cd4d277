//! Plugs ports into the real Open vSwitch, with its userspace datapath, in a network namespace of its own.
//!
//! Each test runs itself again in new network, mount and process namespaces ([`in_namespaces`]). The namespaces end with the
//! test, and with them all of its processes and links.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use berth_model::Disposition;
use berth_net::{HostNetwork, NetworkPaths, PortError, PortSpec};
use berth_ovsdb::{OvsdbClient, OvsdbEndpoint};
use berth_virt::guest_spec::{
    GuestInterface, GuestPort, InterfaceSource, Label, LinkName, PlugSignal, PortConnection,
};
use uuid::Uuid;

/// Set in the namespaces.
const INSIDE: &str = "BERTH_TEST_NAMESPACES";

const NODE: &str = "node-1";
const WAIT: Duration = Duration::from_secs(60);

/// Runs a test's body in namespaces of its own.
fn in_namespaces(test: &str, body: impl AsyncFnOnce(Switch)) {
    if std::env::var_os(INSIDE).is_none() {
        let status = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"])
            // sysfs shows the links of the namespace in which it was mounted.
            .arg("ip link set lo up && mount -t sysfs sysfs /sys && exec \"$0\" --exact \"$1\" --nocapture")
            .arg(std::env::current_exe().unwrap())
            .arg(test)
            .env(INSIDE, "1")
            .status()
            .expect("unshare of util-linux runs");
        assert!(status.success(), "{test} failed in its namespaces");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { body(Switch::start()).await });
}

/// Open vSwitch with a bridge `br-int`.
struct Switch {
    folder: tempfile::TempDir,
    processes: Vec<Child>,
}

impl Drop for Switch {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

impl Switch {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut switch = Self {
            folder,
            processes: Vec::new(),
        };
        let database = switch.path("conf.db");
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        let created = Command::new("ovsdb-tool")
            .arg("create")
            .arg(&database)
            .arg(schema)
            .status();
        let created = created
            .expect("ovsdb-tool runs (packaging/scripts/need.sh installs openvswitch-switch)");
        assert!(created.success());
        let socket = switch.socket();
        switch.start_database();
        switch.vsctl(&["--no-wait", "init"]);
        switch.run("ovs-vswitchd", &[&format!("unix:{}", socket.display())]);
        switch.vsctl(&[
            "add-br",
            "br-int",
            "--",
            "set",
            "bridge",
            "br-int",
            "datapath_type=netdev",
        ]);
        switch
    }

    /// Starts `ovsdb-server`, and waits for its socket.
    fn start_database(&mut self) {
        let database = self.path("conf.db").display().to_string();
        let remote = format!("--remote=punix:{}", self.socket().display());
        self.run("ovsdb-server", &[&remote, &database]);
        self.wait("the socket of ovsdb-server", |switch| {
            std::os::unix::net::UnixStream::connect(switch.socket()).is_ok()
        });
        // It is the first of the processes.
        let server = self.processes.pop();
        self.processes.splice(0..0, server);
    }

    /// Kills `ovsdb-server`.
    fn stop_database(&mut self) {
        let mut server = self.processes.remove(0);
        server.kill().unwrap();
        server.wait().unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("db.sock")
    }

    fn run(&mut self, program: &str, arguments: &[&str]) {
        let path = |kind: &str| self.path(&format!("{program}.{kind}"));
        let control = format!("--unixctl={}", path("ctl").display());
        let log = std::fs::File::create(path("log")).unwrap();
        let process = Command::new(program)
            .args(arguments)
            .arg(control)
            .env("OVS_RUNDIR", self.folder.path())
            .env("OVS_LOGDIR", self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        self.processes
            .push(process.expect("Open vSwitch is installed"));
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let until = Instant::now() + WAIT;
        while !is_so(self) {
            assert!(Instant::now() < until, "timed out waiting for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn vsctl(&self, arguments: &[&str]) -> String {
        let database = format!("--db=unix:{}", self.socket().display());
        let output = Command::new("ovs-vsctl")
            .args(["--timeout=60", &database])
            .args(arguments)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ovs-vsctl {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn network(&self) -> HostNetwork {
        let endpoint = OvsdbEndpoint::Unix(self.socket());
        let client = OvsdbClient::new(endpoint, Duration::from_secs(30));
        HostNetwork::new(client, NODE.to_owned(), NetworkPaths::default())
    }
}

fn spec(guest: u128, port: u128) -> PortSpec {
    spec_with(guest, port, PlugSignal::OvnInstalled)
}

fn spec_with(guest: u128, port: u128, signal: PlugSignal) -> PortSpec {
    let port = GuestPort::new(
        Uuid::from_u128(port << 80),
        Label::new("private").unwrap(),
        Vec::new(),
        Some(1442),
        PortConnection::OpenVswitch {
            bridge: LinkName::new("br-int").unwrap(),
            signal,
        },
    )
    .unwrap();
    let interface = GuestInterface {
        mac: "fa:16:3e:54:eb:90".parse().unwrap(),
        source: InterfaceSource::Port(Box::new(port.clone())),
    };
    PortSpec::new(Uuid::from_u128(guest).into(), &interface, &port, false).unwrap()
}

fn links() -> Vec<String> {
    let links = std::fs::read_dir("/sys/class/net").unwrap();
    let names = links.map(|link| link.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("tap")).collect()
}

fn setting(tap: &str, path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{tap}: {error}"));
    text.trim().to_owned()
}

#[test]
fn a_port_is_plugged_as_nova_does_and_unplugged_without_a_trace() {
    in_namespaces(
        "a_port_is_plugged_as_nova_does_and_unplugged_without_a_trace",
        async |switch| {
            let (network, spec) = (switch.network(), spec(7, 0x88a1));
            let tap = spec.port.tap().to_string();
            network.check(&spec).await.unwrap();
            // Repeated calls change nothing.
            for _ in 0..3 {
                network.plug(&spec).await.unwrap();
                assert_eq!(switch.vsctl(&["list-ports", "br-int"]), tap);
                assert_eq!(links(), std::slice::from_ref(&tap));
            }
            let id = |key: &str| {
                let key = format!("external_ids:{key}");
                switch
                    .vsctl(&["get", "Interface", &tap, &key])
                    .replace('"', "")
            };
            assert_eq!(id("iface-id"), spec.port.id().to_string());
            assert_eq!(id("vm-uuid"), spec.guest.to_string());
            assert_eq!(id("iface-status"), "active");
            assert_eq!(id("attached-mac"), "fa:16:3e:54:eb:90");
            let link = Path::new("/sys/class/net").join(&tap);
            assert_eq!(setting(&tap, &link.join("mtu")), "1442");
            assert_eq!(setting(&tap, &link.join("address")), "fa:16:3e:54:eb:90");
            let ipv6 = Path::new("/proc/sys/net/ipv6/conf").join(&tap);
            assert_eq!(setting(&tap, &ipv6.join("disable_ipv6")), "1");
            // The switch has opened the tap.
            switch.wait("the switch to open the tap", |switch| {
                switch.vsctl(&["get", "Interface", &tap, "ofport"]) != "-1"
            });
            let plugged = network.plugged().await.unwrap();
            assert_eq!(plugged.len(), 1);
            assert_eq!(plugged[0].node.as_deref(), Some(NODE));
            for _ in 0..2 {
                network.unplug(&spec).await.unwrap();
                assert_eq!(switch.vsctl(&["list-ports", "br-int"]), "");
                assert_eq!(
                    switch.vsctl(&[
                        "--columns=name",
                        "find",
                        "Interface",
                        &format!("name={tap}")
                    ]),
                    ""
                );
                assert!(links().is_empty());
            }
            assert!(network.plugged().await.unwrap().is_empty());
        },
    );
}

#[test]
fn a_port_of_another_guest_or_program_is_refused_and_stays() {
    in_namespaces(
        "a_port_of_another_guest_or_program_is_refused_and_stays",
        async |switch| {
            let network = switch.network();
            let (own, other) = (spec(7, 0x88a1), spec(8, 0x88a1));
            network.plug(&own).await.unwrap();
            let error = network.plug(&other).await.unwrap_err();
            assert!(matches!(error, PortError::TakenByGuest { .. }), "{error}");
            network.unplug(&other).await.unwrap();
            let tap = own.port.tap().to_string();
            assert_eq!(switch.vsctl(&["list-ports", "br-int"]), tap);
            assert_eq!(links(), [tap]);
            // Another program's interface has the name of a port's tap.
            let foreign = spec(9, 0x99a1);
            let tap = foreign.port.tap().to_string();
            switch.vsctl(&[
                "add-port",
                "br-int",
                &tap,
                "--",
                "set",
                "Interface",
                &tap,
                "type=internal",
            ]);
            let error = network.plug(&foreign).await.unwrap_err();
            assert!(matches!(error, PortError::TakenByOther { .. }), "{error}");
            network.unplug(&foreign).await.unwrap();
            assert!(switch.vsctl(&["list-ports", "br-int"]).contains(&tap));
            // And so has a tap that no switch has.
            let foreign = spec(9, 0x77a1);
            let tap = foreign.port.tap().to_string();
            let created = Command::new("ip")
                .args(["tuntap", "add", &tap, "mode", "tap"])
                .status();
            assert!(created.unwrap().success());
            let error = network.plug(&foreign).await.unwrap_err();
            assert!(matches!(error, PortError::LinkInTheWay { .. }), "{error}");
            network.unplug(&foreign).await.unwrap();
            assert!(links().contains(&tap));
        },
    );
}

#[test]
fn a_host_without_the_bridge_or_without_the_switch_is_named() {
    in_namespaces(
        "a_host_without_the_bridge_or_without_the_switch_is_named",
        async |mut switch| {
            let network = switch.network();
            let spec = spec(7, 0x88a1);
            switch.vsctl(&["del-br", "br-int"]);
            let error = network.check(&spec).await.unwrap_err();
            assert!(matches!(error, PortError::NoBridge { .. }), "{error}");
            assert!(matches!(
                network.plug(&spec).await.unwrap_err(),
                PortError::NoBridge { .. }
            ));
            assert!(links().is_empty());
            for process in &mut switch.processes {
                process.kill().unwrap();
                process.wait().unwrap();
            }
            let error = network.plug(&spec).await.unwrap_err().to_string();
            assert!(
                error.contains("cannot connect to the Open vSwitch database at unix:"),
                "{error}"
            );
            std::fs::remove_file(switch.socket()).ok();
            // A host that never had a switch has no interfaces on it.
            assert!(network.plugged().await.unwrap().is_empty());
        },
    );
}

#[test]
fn a_host_boot_and_an_interrupted_unplug_are_completed() {
    in_namespaces(
        "a_host_boot_and_an_interrupted_unplug_are_completed",
        async |switch| {
            let (network, spec) = (switch.network(), spec(7, 0x88a1));
            let tap = spec.port.tap().to_string();
            network.plug(&spec).await.unwrap();
            // Taps do not survive a host boot; the switch's database does.
            let delete = || {
                Command::new("ip")
                    .args(["link", "delete", &tap])
                    .status()
                    .unwrap()
            };
            assert!(delete().success());
            network.plug(&spec).await.unwrap();
            assert_eq!(links(), std::slice::from_ref(&tap));
            // Killed between the tap and the interface.
            assert!(delete().success());
            network.unplug(&spec).await.unwrap();
            assert_eq!(switch.vsctl(&["list-ports", "br-int"]), "");
            // The port of a guest that no longer exists.
            network.plug(&spec).await.unwrap();
            let orphans = network.plugged().await.unwrap();
            network.remove_orphan(&orphans[0]).await.unwrap();
            assert!(links().is_empty() && network.plugged().await.unwrap().is_empty());
        },
    );
}

#[test]
fn a_guest_waits_until_ovn_has_installed_its_port() {
    in_namespaces(
        "a_guest_waits_until_ovn_has_installed_its_port",
        async |switch| {
            let (network, spec) = (switch.network(), spec(7, 0x88a1));
            network.plug(&spec).await.unwrap();
            let error = network
                .wait_plugged(&spec, Duration::from_millis(50))
                .await
                .unwrap_err();
            assert!(matches!(error, PortError::NotPlugged { .. }), "{error}");
            let tap = spec.port.tap().to_string();
            let waiting = tokio::spawn({
                let (network, spec) = (network.clone(), spec.clone());
                async move { network.wait_plugged(&spec, WAIT).await }
            });
            tokio::task::yield_now().await;
            switch.vsctl(&["set", "Interface", &tap, "external_ids:ovn-installed=true"]);
            waiting.await.unwrap().unwrap();
        },
    );
}

#[test]
fn a_port_that_is_reported_before_the_wait_or_twice_is_not_waited_for() {
    let name = "a_port_that_is_reported_before_the_wait_or_twice_is_not_waited_for";
    in_namespaces(name, async |switch| {
        let network = switch.network();
        for (port, signal) in [
            (0x88a1, PlugSignal::OvnInstalled),
            (0x99a1, PlugSignal::VlanTag),
        ] {
            let spec = spec_with(7, port, signal);
            network.plug(&spec).await.unwrap();
            let tap = spec.port.tap().to_string();
            for _ in 0..2 {
                let report = match signal {
                    PlugSignal::OvnInstalled => {
                        ["Interface", &tap, "external_ids:ovn-installed=true"]
                    }
                    PlugSignal::VlanTag => ["Port", &tap, "tag=7"],
                };
                switch.vsctl(&[["set"].as_slice(), report.as_slice()].concat());
                // A restarted agent plugs it again, and waits again.
                network.plug(&spec).await.unwrap();
                network.wait_plugged(&spec, WAIT).await.unwrap();
            }
            network.unplug(&spec).await.unwrap();
        }
        assert_eq!(links(), Vec::<String>::new());
    });
}

#[test]
fn a_port_is_plugged_and_unplugged_after_the_database_was_gone_in_between() {
    in_namespaces(
        "a_port_is_plugged_and_unplugged_after_the_database_was_gone_in_between",
        async |mut switch| {
            let (network, spec) = (switch.network(), spec(7, 0x88a1));
            network.plug(&spec).await.unwrap();
            let waiting = tokio::spawn({
                let (network, spec) = (network.clone(), spec.clone());
                async move { network.wait_plugged(&spec, WAIT).await }
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
            switch.stop_database();
            // Each call says that the switch is away, and may be repeated.
            let lost = waiting.await.unwrap().unwrap_err();
            let refused = network.unplug(&spec).await.unwrap_err();
            for error in [lost, refused] {
                assert!(matches!(error, PortError::Switch(_)), "{error}");
                assert_eq!(error.disposition(), Disposition::Retry, "{error}");
            }
            switch.start_database();
            network.plug(&spec).await.unwrap();
            let tap = spec.port.tap().to_string();
            switch.vsctl(&["set", "Interface", &tap, "external_ids:ovn-installed=true"]);
            network.wait_plugged(&spec, WAIT).await.unwrap();
            assert_eq!(links(), [tap]);
            switch.stop_database();
            switch.start_database();
            network.unplug(&spec).await.unwrap();
            assert_eq!(links(), Vec::<String>::new());
            assert_eq!(network.plugged().await.unwrap(), []);
        },
    );
}

/// Names the switch's socket to a child that plugs and unplugs until it is killed.
const VICTIM: &str = "BERTH_TEST_VICTIM";

/// Whether a child of a killed child still runs: `ip`, or the process that is about to become it. This process is their parent
/// then, because it is the first of its namespace.
fn has_orphans(switch: &Switch) -> bool {
    let own: Vec<u32> = switch.processes.iter().map(Child::id).collect();
    let processes = std::fs::read_dir("/proc").unwrap();
    let mut stats = processes
        .filter_map(|process| std::fs::read_to_string(process.ok()?.path().join("stat")).ok());
    // `PID (NAME) STATE PARENT ...`
    stats.any(|stat| {
        let pid = stat.split(' ').next().and_then(|pid| pid.parse().ok());
        let mut rest = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, parent) = (rest.next(), rest.next());
        parent == Some("1") && state != Some("Z") && pid.is_none_or(|pid| !own.contains(&pid))
    })
}

/// How often the child is killed. Each life is too short for many rounds, so that kills hit every step.
const KILLS: u32 = 25;

#[test]
fn a_killed_plug_or_unplug_is_completed_by_the_next_call() {
    let name = "a_killed_plug_or_unplug_is_completed_by_the_next_call";
    if let Some(socket) = std::env::var_os(VICTIM) {
        let endpoint = OvsdbEndpoint::Unix(socket.into());
        let client = OvsdbClient::new(endpoint, Duration::from_secs(30));
        let network = HostNetwork::new(client, NODE.to_owned(), NetworkPaths::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            loop {
                network.plug(&spec(7, 0x88a1)).await.unwrap();
                network.unplug(&spec(7, 0x88a1)).await.unwrap();
            }
        });
    }
    in_namespaces(name, async |switch| {
        let (network, spec) = (switch.network(), spec(7, 0x88a1));
        let tap = spec.port.tap().to_string();
        for kill in 0..KILLS {
            let mut victim = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(VICTIM, switch.socket())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            // Another moment each time: a life of 20 to 120 ms in steps that no period of the work divides.
            std::thread::sleep(Duration::from_millis(20 + u64::from(kill) * 37 % 101));
            victim.kill().unwrap();
            victim.wait().unwrap();
            // A child of the killed one may still run, and change the tap later.
            switch.wait("the end of ip", |switch| !has_orphans(switch));
            if kill % 2 == 0 {
                network.plug(&spec).await.unwrap();
                assert_eq!(switch.vsctl(&["list-ports", "br-int"]), tap);
                assert_eq!(links(), std::slice::from_ref(&tap));
                let link = Path::new("/sys/class/net").join(&tap);
                assert_eq!(setting(&tap, &link.join("mtu")), "1442");
            }
            network.unplug(&spec).await.unwrap();
            assert_eq!(
                switch.vsctl(&["list-ports", "br-int"]),
                "",
                "after kill {kill}"
            );
            assert!(links().is_empty(), "after kill {kill}");
        }
    });
}

#[test]
fn a_guest_waits_until_neutrons_agent_has_given_its_port_a_network() {
    let name = "a_guest_waits_until_neutrons_agent_has_given_its_port_a_network";
    in_namespaces(name, async |switch| {
        let (network, spec) = (switch.network(), spec_with(7, 0x88a1, PlugSignal::VlanTag));
        network.plug(&spec).await.unwrap();
        let tap = spec.port.tap().to_string();
        let short = Duration::from_millis(50);
        // Without a tag, and with that of ports without a network.
        for tag in [None, Some("tag=4095")] {
            if let Some(tag) = tag {
                switch.vsctl(&["set", "Port", &tap, tag]);
            }
            let error = network.wait_plugged(&spec, short).await.unwrap_err();
            assert!(matches!(error, PortError::NotPlugged { .. }), "{error}");
            assert!(
                error.to_string().contains("neutron-openvswitch-agent"),
                "{error}"
            );
        }
        let waiting = tokio::spawn({
            let (network, spec) = (network.clone(), spec.clone());
            async move { network.wait_plugged(&spec, WAIT).await }
        });
        tokio::task::yield_now().await;
        switch.vsctl(&["set", "Port", &tap, "tag=7"]);
        waiting.await.unwrap().unwrap();
    });
}
