//! A guest with a Neutron port, from the request to an SSH login: the real Neutron, OVN, Open vSwitch, libvirt and QEMU.
//!
//! The test runs itself again in namespaces of its own, because the switch's bridges are links of the host.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::HttpCall;
use berth_tests::peer::{
    KeystoneSettings, Libvirtd, PortEvents, RealChassis, RealKeystone, RealNeutron, checkout,
};
use berth_tests::scratch::Scratch;
use http::Method;
use serde_json::{Value, json};

use crate::real_neutron::cloud::NetworkCloud;

/// Set in the namespaces.
const INSIDE: &str = "BERTH_TEST_NAMESPACES";
/// The host: for Berth, for libvirt, and as OVN's chassis.
const HOST: &str = "ovn-host";
/// The project of guests that the conductor's own API creates.
const PROJECT: &str = "berth";
/// An emulated guest boots slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a connection is tried that a security group does not allow.
const CLOSED: Duration = Duration::from_secs(3);

#[test]
fn a_guest_with_a_port_gets_its_lease_answers_ssh_by_a_rule_and_leaves_nothing() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(story());
        return;
    }
    // The namespaces lead to no package mirror.
    images();
    let name = "real_neutron::guest::\
                a_guest_with_a_port_gets_its_lease_answers_ssh_by_a_rule_and_leaves_nothing";
    // sysfs shows the links of the namespace in which it was mounted. The shell stays: as the first process of its namespace it
    // reaps QEMU, which libvirt would otherwise take for alive.
    let inside = "ip link set lo up && mount -t sysfs sysfs /sys && \"$0\" --exact \"$1\" --nocapture; exit $?";
    let scratch = Scratch::new().expect("a folder");
    let status = Command::new("unshare")
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ])
        .args(["sh", "-c", inside])
        .arg(std::env::current_exe().expect("this program"))
        .arg(name)
        .env(INSIDE, "1")
        // From inside, the folders of this process and of other tests would look like those of processes that have ended.
        .env("TMPDIR", scratch.path())
        .status()
        .expect("unshare of util-linux runs");
    assert!(status.success(), "the test failed in its namespaces");
}

async fn story() {
    let keystone = RealKeystone::start(KeystoneSettings::default()).expect("Keystone starts");
    let neutron = RealNeutron::start(&keystone, PortEvents::NotSent).expect("Neutron starts");
    let chassis = RealChassis::start(&neutron.ovn, HOST).expect("a chassis");
    until("OVN knows the chassis", || {
        let hosts = neutron
            .ovn
            .southbound(&["--bare", "--columns=hostname", "list", "chassis"]);
        hosts.is_ok_and(|hosts| hosts.contains(HOST))
    });
    let cloud = NetworkCloud { keystone, neutron };
    let (network, subnet) = cloud.network(PROJECT, "private", "192.0.2.0/24").await;
    let group = json!({"security_group": {"name": "guests", "tenant_id": PROJECT}});
    let group = cloud.ask(Method::POST, "/v2.0/security-groups", &group);
    let group = group["security_group"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    join_network(&cloud, &chassis, &network.id.to_string());

    let libvirtd = Libvirtd::start().expect("libvirtd starts");
    let mut home = BerthHome::new().expect("a home");
    let images = images();
    let up = berth_up(&mut home, &cloud, &libvirtd, &chassis, &images);
    let key = ssh_key(&home);
    let endpoint = std::fs::read_to_string(home.state_dir().join("conductor.endpoint"));
    let conductor = endpoint
        .expect("berth up says where the conductor is")
        .trim()
        .to_owned();
    let conductor_call = |method, path: &str| {
        HttpCall::new(method, format!("{conductor}{path}")).header("x-auth-token", "admin")
    };
    let body = guest(&images, &key, &network.id.to_string(), &group);
    let made = conductor_call(Method::POST, "/v1/guests")
        .json(&body)
        .send();
    let made = made.expect("an answer");
    assert!(made.status.is_success(), "{}", made.text());
    let uuid = made.json()["uuid"].as_str().expect("a UUID").to_owned();
    let path = format!("/v1/guests/{uuid}");
    until("the guest is active", || {
        let guest = conductor_call(Method::GET, &path)
            .send()
            .expect("an answer")
            .json();
        assert_ne!(guest["status"], "error", "{guest}");
        guest["status"] == "active"
    });
    // The lease.
    let log = home.path(&format!("instances/{uuid}/console.log"));
    until("the guest has its lease", || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.contains("eth0 has the address 192.0.2.")
    });
    let text = std::fs::read_to_string(&log).expect("the console's log");
    let (_, address) = text
        .split_once("eth0 has the address ")
        .expect("an address");
    let address = address
        .split_whitespace()
        .next()
        .expect("an address")
        .to_owned();
    let port = port_of(&cloud, &uuid);
    assert_eq!(port["fixed_ips"][0]["ip_address"], address.as_str());
    assert_eq!(port["status"], "ACTIVE");
    // A security group lets in what its rules say, and nothing else.
    assert!(!ssh(&key, &address, CLOSED), "no rule allows ssh yet");
    let rule = json!({"security_group_rule": {"security_group_id": group, "direction": "ingress",
        "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "tenant_id": PROJECT}});
    cloud.ask(Method::POST, "/v2.0/security-group-rules", &rule);
    until("the guest answers ssh", || {
        ssh(&key, &address, Duration::from_secs(10))
    });
    // From outside, by a floating address.
    let floating = floating_address(&cloud, &port, &subnet.id.to_string());
    until("the guest answers ssh at its floating address", || {
        ssh(&key, &floating, Duration::from_secs(10))
    });
    // Nothing is left.
    let deleted = conductor_call(Method::DELETE, &path)
        .send()
        .expect("an answer");
    assert!(deleted.status.is_success(), "{}", deleted.text());
    until("the guest is deleted", || {
        let shown = conductor_call(Method::GET, &path)
            .send()
            .expect("an answer");
        shown.status == 404
    });
    let ports = chassis
        .vsctl(&["list-ports", "br-int"])
        .expect("the switch answers");
    assert!(!ports.contains("tap"), "{ports}");
    let links = std::fs::read_dir("/sys/class/net").expect("links");
    let taps: Vec<_> = links
        .filter_map(|link| link.expect("a link").file_name().into_string().ok())
        .filter(|name| name.starts_with("tap"))
        .collect();
    assert!(taps.is_empty(), "{taps:?}");
    let devices = cloud.ask(
        Method::GET,
        &format!("/v2.0/ports?device_id={uuid}"),
        &Value::Null,
    );
    assert_eq!(devices["ports"], json!([]));
    up.stop(PATIENCE).expect("it ends");
}

/// Puts this host into the network, as a machine on it: an internal interface of the switch, for a port of Neutron's.
fn join_network(cloud: &NetworkCloud, chassis: &RealChassis, network: &str) {
    let port = json!({"port": {"network_id": network, "tenant_id": PROJECT, "device_owner": "network:test",
        "binding:host_id": HOST, "port_security_enabled": false}});
    let port = cloud.ask(Method::POST, "/v2.0/ports", &port);
    let port = &port["port"];
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let (id, mac) = (text(&port["id"]), text(&port["mac_address"]));
    let address = text(&port["fixed_ips"][0]["ip_address"]);
    let (mac_setting, id_setting) = (
        format!("mac=\"{mac}\""),
        format!("external-ids:iface-id={id}"),
    );
    let words = [
        "add-port",
        "br-int",
        "host0",
        "--",
        "set",
        "interface",
        "host0",
        "type=internal",
    ];
    let words = [words.as_slice(), &[&mac_setting, &id_setting]].concat();
    chassis.vsctl(&words).expect("an interface");
    until("the switch makes host0", || {
        Path::new("/sys/class/net/host0").exists()
    });
    ip(&format!("address add {address}/24 dev host0"));
    ip("link set host0 up");
}

/// An external network on `br-ex` with this host as its gateway, a router, and a floating address of the port.
fn floating_address(cloud: &NetworkCloud, port: &Value, subnet: &str) -> String {
    let make = |kind: &str, body: Value| {
        let path = format!("/v2.0/{}s", kind.replace('_', "-"));
        let made = cloud.ask(Method::POST, &path, &json!({ kind: body }));
        let id = made[kind]["id"].as_str().expect("an id").to_owned();
        (made, id)
    };
    let (_, network) = make(
        "network",
        json!({"name": "public", "router:external": true,
        "provider:network_type": "flat", "provider:physical_network": "public"}),
    );
    make(
        "subnet",
        json!({"network_id": network, "cidr": "203.0.113.0/24", "ip_version": 4,
        "gateway_ip": "203.0.113.1", "enable_dhcp": false}),
    );
    let (_, router) = make(
        "router",
        json!({"name": "out", "external_gateway_info": {"network_id": network}}),
    );
    let path = format!("/v2.0/routers/{router}/add_router_interface");
    cloud.ask(Method::PUT, &path, &json!({"subnet_id": subnet}));
    let (made, _) = make(
        "floatingip",
        json!({"floating_network_id": network, "port_id": port["id"]}),
    );
    ip("address add 203.0.113.1/24 dev br-ex");
    ip("link set br-ex up");
    let address = &made["floatingip"]["floating_ip_address"];
    address.as_str().expect("an address").to_owned()
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(status.expect("ip runs").success(), "ip {words}");
}

fn berth_up(
    home: &mut BerthHome,
    cloud: &NetworkCloud,
    libvirtd: &Libvirtd,
    chassis: &RealChassis,
    images: &Path,
) -> RunningBerth {
    std::fs::create_dir(home.path("instances")).expect("a folder");
    let open = "listen = \"127.0.0.1:0\"\nauth_strategy = \"noauth2\"\n";
    home.configure(&format!(
        "host = \"{HOST}\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\nperiodic_fuzzy_delay = 0\n\
         [libvirt]\nconnection_uri = \"{}\"\nvirt_type = \"qemu\"\n\
         [os_vif_ovs]\novsdb_connection = \"unix:{}\"\n\
         [image_cache]\nimage_directories = [\"{}\"]\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
         [neutron]\nauth_type = \"password\"\nauth_url = \"{}\"\nusername = \"berth\"\npassword = \"test-only\"\n\
         user_domain_name = \"Default\"\nproject_name = \"service\"\nproject_domain_name = \"Default\"\nregion_name = \"{}\"\n\
         [placement_service]\n{open}[accelerator_service]\n{open}[conductor_service]\n{open}",
        libvirtd.uri(),
        chassis.socket().display(),
        images.display(),
        cloud.keystone.url(),
        cloud.keystone.region(),
    ))
    .expect("a configuration");
    let config = home.config_file().display().to_string();
    let up = home.start(["--config", &config, "up"]).expect("it starts");
    let endpoint = home.state_dir().join("conductor.endpoint");
    until("berth up", || endpoint.exists());
    up
}

fn guest(images: &Path, key: &Path, network: &str, group: &str) -> Value {
    let file = |name: &str| images.join(name).display().to_string();
    let public = std::fs::read_to_string(key.with_extension("pub")).expect("the public key");
    let described = std::fs::read_to_string(images.join("images.toml")).expect("the image");
    let (_, checksum) = described.split_once("checksum = \"").expect("a checksum");
    let checksum = checksum.split('"').next().expect("a checksum");
    json!({
        "name": "web",
        "flavor": {"name": "tiny", "vcpus": 1, "ram_mb": 256},
        "image": {"location": {"path": file("disk.img")}, "format": "raw", "checksum": checksum,
            // The guest's kernel has no driver for SATA, the usual bus of a config drive.
            "properties": {"hw_cdrom_bus": "scsi", "hw_scsi_model": "virtio-scsi"}},
        "kernel": {"kernel": file("vmlinuz"), "ramdisk": file("initrd.gz"),
            "command_line": "console=ttyS0 quiet no_timer_check"},
        "config_drive": {"ssh_keys": [{"name": "key", "public_key": public.trim()}]},
        "requested_networks": [{"uuid": network}],
        "security_groups": [group],
    })
}

fn port_of(cloud: &NetworkCloud, guest: &str) -> Value {
    let ports = cloud.ask(
        Method::GET,
        &format!("/v2.0/ports?device_id={guest}"),
        &Value::Null,
    );
    ports["ports"][0].clone()
}

fn ssh_key(home: &BerthHome) -> PathBuf {
    let key = home.path("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .status();
    assert!(made.expect("ssh-keygen runs").success());
    key
}

/// Whether the guest takes the key and runs a command.
fn ssh(key: &Path, address: &str, limit: Duration) -> bool {
    let output = Command::new("ssh")
        .args([
            "-n",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ])
        .args(["-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o"])
        .arg(format!("ConnectTimeout={}", limit.as_secs()))
        .arg("-i")
        .arg(key)
        .arg(format!("root@{address}"))
        .arg("hostname")
        .output();
    let output = output.expect("ssh runs");
    output.status.success() && output.stdout == b"web\n"
}

/// The folder with the guest.
fn images() -> PathBuf {
    let images = checkout().join("target/guest-image");
    let script = checkout().join("packaging/scripts/guest-image.sh");
    let made = Command::new(script).arg(&images).output();
    let made = made.expect("the script runs");
    let printed = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{printed}");
    images
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "timed out waiting: {what}");
        sleep(Duration::from_millis(200));
    }
}
