//! Servers with Neutron ports, from `openstack server create` to an SSH login: the real Neutron, OVN, Open vSwitch, libvirt and QEMU.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::HttpCall;
use berth_tests::peer::{
    AcceleratorPlugin, KeystoneSettings, Libvirtd, OpenStackShell, PortEvents, RealChassis,
    RealGlance, RealKeystone, RealNeutron, checkout, installed, output,
};
use berth_tests::scratch::Scratch;
use http::Method;
use serde_json::{Value, json};

use crate::real_cyborg::card_host::{authtoken, login};
use crate::real_neutron::cloud::NetworkCloud;
use crate::real_neutron::namespaces::{PATIENCE, in_namespaces, ip, taps, text, until};

/// The host: for Berth, for libvirt, and as OVN's chassis.
const HOST: &str = "ovn-host";
/// Free for certain, because no other process is in the namespace.
const METRICS: &str = "127.0.0.1:9100";
const PLACEMENT: &str = "http://127.0.0.1:8778";
const COMPUTE: &str = "http://127.0.0.1:8774/v2.1";
/// How long a connection is tried that a security group does not allow.
const CLOSED: Duration = Duration::from_secs(3);
/// How long one is tried that must work.
const OPEN: Duration = Duration::from_secs(10);
const READ_NETWORK_DATA: &str = "mount -r -t iso9660 /dev/sr0 /mnt && cat /mnt/openstack/latest/network_data.json && umount /mnt";

#[test]
fn a_guest_with_a_port_gets_its_lease_answers_ssh_by_a_rule_and_leaves_nothing() {
    // The namespaces lead to no package mirror.
    images();
    let name = "real_neutron::guest::\
                a_guest_with_a_port_gets_its_lease_answers_ssh_by_a_rule_and_leaves_nothing";
    in_namespaces(name, story());
}

async fn story() {
    let keystone = RealKeystone::start(KeystoneSettings::default()).expect("Keystone starts");
    let compute = keystone.set_compute_endpoint(COMPUTE);
    compute.expect("an endpoint");
    // Without its events a server would not show its floating address.
    let neutron = RealNeutron::start(&keystone, PortEvents::Sent).expect("Neutron starts");
    let chassis = RealChassis::start(&neutron.ovn, HOST).expect("a chassis");
    until("OVN knows the chassis", || {
        let hosts = neutron
            .ovn
            .southbound(&["--bare", "--columns=hostname", "list", "chassis"]);
        hosts.is_ok_and(|hosts| hosts.contains(HOST))
    });
    let cloud = NetworkCloud { keystone, neutron };
    let libvirtd = Libvirtd::start().expect("libvirtd starts");
    let mut home = BerthHome::new().expect("a home");
    let _glance = RealGlance::start(&cloud.keystone).expect("Glance starts");
    let up = berth_up(&mut home, &cloud, &libvirtd, &chassis);
    let mut clients = Clients::start(&cloud, &home);
    let disk = images().join("disk.img");
    // The guest's kernel has no driver for SATA, the usual bus of a config drive.
    clients.admin(&format!(
        "image create --public --disk-format raw --container-format bare --property hw_cdrom_bus=scsi \
         --property hw_scsi_model=virtio-scsi --file {} berth-guest",
        disk.display()
    ));
    let networks = networks(&mut clients);
    // What a host on the tenant's network reaches, and what a floating address adds.
    join_network(&cloud, &chassis, &networks.private);

    clients.tenant("keypair create --public-key key.pub key");
    clients.admin("flavor create tiny --ram 256 --vcpus 1 --disk 1");
    let group = clients.made("security group create guests");
    // No rule lets anything in.
    let closed = clients.made("security group create closed");
    let fixed = clients.made(
        "port create --network private --fixed-ip ip-address=10.11.0.77 --security-group closed second",
    );
    let create = "server create --flavor tiny --image berth-guest --key-name key";
    let web = clients.made(&format!(
        "{create} --network private --security-group guests --wait web"
    ));
    let second = clients.made(&format!("{create} --nic port-id={fixed} --wait second"));
    let port = clients.tenant(&format!("port list --server {web}"));
    let (port, mac) = (text(&port[0]["ID"]), text(&port[0]["MAC Address"]));
    assert_eq!(
        clients.tenant(&format!("port show {port}"))["status"],
        "ACTIVE"
    );
    let shown = clients.tenant("server show second");
    assert_eq!(shown["addresses"]["private"], json!(["10.11.0.77"]));

    let address = lease(&home, &web);
    assert_eq!(lease(&home, &second), "10.11.0.77");
    let rule = |group: &str| {
        format!("security group rule create --ingress --protocol tcp --dst-port 22 {group}")
    };
    let floating = clients.tenant("floating ip create public");
    let floating = text(&floating["floating_ip_address"]);
    clients.tenant(&format!("server add floating ip web {floating}"));
    assert!(!clients.ssh(&address, "true", CLOSED), "no rule allows ssh");
    clients.tenant(&rule(&group));
    until("the guest answers ssh at its floating address", || {
        clients.ssh(&floating, "true", OPEN)
    });
    // What cloud-init reads in the guest is its interface and its network.
    let read = clients.ssh_output(&floating, READ_NETWORK_DATA, OPEN);
    let read: Value = serde_json::from_str(&read).unwrap_or_else(|error| panic!("{error}: {read}"));
    let link = &read["links"][0];
    assert_eq!(link["vif_id"], port.as_str(), "{read}");
    assert_eq!(link["ethernet_mac_address"], mac.as_str(), "{read}");
    let own = clients.ssh_output(&floating, "cat /sys/class/net/eth0/address", OPEN);
    assert_eq!(own.trim(), mac);
    let network = &read["networks"][0];
    assert_eq!(network["network_id"], networks.private.as_str(), "{read}");
    assert_eq!(
        (&network["type"], &network["link"]),
        (&json!("ipv4_dhcp"), &link["id"])
    );
    assert_eq!(
        (&read["links"][1], &read["networks"][1]),
        (&Value::Null, &Value::Null)
    );
    // The rule is of one group only.
    assert!(!clients.ssh("10.11.0.77", "true", CLOSED));
    clients.tenant(&rule(&closed));
    until("the second guest answers ssh", || {
        clients.ssh("10.11.0.77", "true", OPEN)
    });

    // Ports of a guest that runs: a new one, and a given one.
    let has_link = |mac: &str| format!("grep -q {mac} /sys/class/net/*/address");
    clients.tenant("server add network web backend");
    let added = clients.tenant(&format!("port list --server {web} --network backend"));
    let (added, mac) = (text(&added[0]["ID"]), text(&added[0]["MAC Address"]));
    until("the guest has the new interface", || {
        clients.ssh(&floating, &has_link(&mac), OPEN)
    });
    clients.tenant(&format!("server remove port web {added}"));
    until("the port is deleted", || {
        let ports = clients.tenant(&format!("port list --server {web}"));
        ports.as_array().is_some_and(|ports| ports.len() == 1)
    });
    assert!(!clients.ssh(&floating, &has_link(&mac), OPEN));
    assert!(clients.ssh(&floating, "true", OPEN), "the guest runs on");
    let given = clients.tenant("port create --network backend given");
    let (given, mac) = (text(&given["id"]), text(&given["mac_address"]));
    clients.tenant(&format!("server add port web {given}"));
    assert!(clients.ssh(&floating, &has_link(&mac), OPEN));
    assert_eq!(taps().len(), 3, "{:?}", taps());

    sdk(&clients);
    ansible(&clients);
    terraform(&clients);

    // Nothing is left, and the given ports are free.
    clients.tenant("server delete --wait web second");
    assert_eq!(taps(), Vec::<String>::new());
    let on_switch = chassis.vsctl(&["list-ports", "br-int"]);
    let on_switch = on_switch.expect("the switch answers");
    assert!(!on_switch.contains("tap"), "{on_switch}");
    for port in [&fixed, &given] {
        let shown = clients.admin(&format!("port show {port}"));
        assert_eq!(shown["device_id"], "", "{shown}");
        assert_eq!(shown["binding_vif_type"], "unbound", "{shown}");
    }
    for guest in [&web, &second] {
        let path = format!("/v2.0/ports?device_id={guest}");
        let ports = cloud.ask(Method::GET, &path, &Value::Null);
        assert_eq!(ports["ports"], json!([]));
        let call = HttpCall::get(format!("{PLACEMENT}/allocations/{guest}"));
        let held = call.header("x-auth-token", "admin").send();
        assert_eq!(held.expect("an answer").json()["allocations"], json!({}));
    }
    up.stop(PATIENCE).expect("it ends");
}

/// openstacksdk's `create_server` waits for the server and gives it a floating address.
fn sdk(clients: &Clients) {
    let python = installed().expect("the peers").join("venv/bin/python");
    let mut command = Command::new(python);
    command
        .args(["-c", SDK])
        .env("OS_CLIENT_CONFIG_FILE", &clients.clouds)
        .env_remove("PYTHONPATH");
    let printed = output(&mut command).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(printed, "ACTIVE 10.11.0. 203.0.113. True\n");
}

/// Ansible's `openstack.cloud.server`, if `BERTH_ANSIBLE_PLAYBOOK` names the program `ansible-playbook`. The packages are not
/// among the peers, because they are larger than all of these.
fn ansible(clients: &Clients) {
    let Some(program) = std::env::var_os("BERTH_ANSIBLE_PLAYBOOK") else {
        return;
    };
    let playbook = checkout().join("tests/real_neutron/ansible.yml");
    let mut command = Command::new(program);
    command
        .arg(playbook)
        .env("OS_CLIENT_CONFIG_FILE", &clients.clouds)
        .env_remove("PYTHONPATH");
    let ended = command.output().expect("it starts");
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{printed}");
}

/// Terraform's OpenStack provider, if `BERTH_TERRAFORM_PROVIDER` names the folder of its program. The program `terraform` and
/// the provider are in no registry of packages that the tests use.
fn terraform(clients: &Clients) {
    let Some(provider) = std::env::var_os("BERTH_TERRAFORM_PROVIDER") else {
        return;
    };
    let scratch = Scratch::new().expect("a directory");
    let config = scratch.join("terraform.rc");
    let text = format!(
        "provider_installation {{\n  dev_overrides {{\n    \"terraform-provider-openstack/openstack\" = {provider:?}\n  }}\n}}\n"
    );
    fs::write(&config, text).expect("a file");
    let run = |arguments: &[&str]| {
        let folder = checkout().join("tests/real_neutron/terraform");
        let mut command = Command::new("terraform");
        command
            .arg(format!("-chdir={}", folder.display()))
            .args(arguments)
            .env("TF_CLI_CONFIG_FILE", &config)
            .env("TF_DATA_DIR", scratch.join("data"))
            .env("OS_CLIENT_CONFIG_FILE", &clients.clouds);
        let ended = command.output().expect("terraform starts");
        let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{arguments:?}: {printed}\n{errors}");
        printed
    };
    let state = format!("-state={}", scratch.join("terraform.tfstate").display());
    let apply = ["apply", "-auto-approve", "-no-color", &state];
    let created = run(&apply);
    assert!(
        created.contains("Apply complete! Resources: 3 added"),
        "{created}"
    );
    let address = run(&["output", "-raw", &state, "address"]);
    assert!(address.starts_with("10.11.0."), "{address}");
    let id = run(&["output", "-raw", &state, "id"]);
    let shown = clients.tenant(&format!("server show {id}"));
    assert_eq!(shown["status"], "ACTIVE", "{shown}");
    // Nothing differs, after the provider has read all again.
    run(&["plan", "-detailed-exitcode", "-no-color", &state]);
    let changed = run(&[&apply[..], &["-var", "made_by=terraform again"]].concat());
    assert!(
        changed.contains("0 added, 1 changed, 0 destroyed"),
        "{changed}"
    );
    let shown = clients.tenant(&format!("server show {id}"));
    assert!(
        shown["properties"].to_string().contains("terraform again"),
        "{shown}"
    );
    let deleted = run(&["destroy", "-auto-approve", "-no-color", &state]);
    assert!(deleted.contains("3 destroyed"), "{deleted}");
}

const SDK: &str = "
import openstack
cloud = openstack.connect(cloud='tenant')
server = cloud.create_server('sdk', image='berth-guest', flavor='tiny', network='private', wait=True)
shown = cloud.get_server(server.id)
prefix = lambda address: address[:address.rindex('.') + 1]
deleted = cloud.delete_server(server.id, wait=True, delete_ips=True)
print(server.status, prefix(shown.private_v4), prefix(shown.public_v4), deleted)
";

/// `openstack` of a tenant and of an administrator, and a tenant's `ssh`.
struct Clients {
    shell: RefCell<OpenStackShell>,
    key: PathBuf,
    clouds: PathBuf,
}

impl Clients {
    fn start(cloud: &NetworkCloud, home: &BerthHome) -> Self {
        let key = home.path("key");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key)
            .status();
        assert!(made.expect("ssh-keygen runs").success());
        let keystone = &cloud.keystone;
        let account = |user: &str, project: &str| {
            json!({
                "auth": {"auth_url": keystone.url(), "username": user, "password": "test-only", "project_name": project,
                    "user_domain_id": "default", "project_domain_id": "default"},
                "region_name": keystone.region(),
            })
        };
        let clouds =
            json!({"admin": account("berth", "service"), "tenant": account("tenant", "tenant")});
        let shell = OpenStackShell::start(AcceleratorPlugin::OpenStackClient, &clouds);
        // What is JSON is YAML.
        let text = json!({ "clouds": clouds }).to_string();
        let file = home.path("clouds.yaml");
        std::fs::write(&file, text).expect("a file");
        Self {
            shell: RefCell::new(shell.expect("the shell starts")),
            key,
            clouds: file,
        }
    }

    fn run(&self, cloud: &str, words: &str) -> Value {
        let words = words.replace(
            "key.pub",
            &self.key.with_extension("pub").display().to_string(),
        );
        let is_shown = ["create", "show", "list"].iter().any(|word| {
            let word = format!(" {word} ");
            words.contains(&word)
        });
        let format = if is_shown { " -f json" } else { "" };
        let line = format!("--os-cloud {cloud} {words}{format}");
        let words: Vec<&str> = line.split(' ').collect();
        let output = self
            .shell
            .borrow_mut()
            .run(&words)
            .expect("the shell answers");
        assert_eq!(output.code, 0, "{line}: {}{}", output.out, output.err);
        output.json()
    }

    fn tenant(&self, words: &str) -> Value {
        self.run("tenant", words)
    }

    fn admin(&self, words: &str) -> Value {
        self.run("admin", words)
    }

    /// The id of what the tenant creates.
    fn made(&self, words: &str) -> String {
        text(&self.tenant(words)["id"])
    }

    /// Whether a guest takes the key and runs a command.
    fn ssh(&self, address: &str, command: &str, limit: Duration) -> bool {
        self.log_in(address, command, limit).status.success()
    }

    /// What a command prints in a guest.
    fn ssh_output(&self, address: &str, command: &str, limit: Duration) -> String {
        let output = self.log_in(address, command, limit);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {printed}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn log_in(&self, address: &str, command: &str, limit: Duration) -> Output {
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
            .arg(&self.key)
            .arg(format!("root@{address}"))
            .arg(command)
            .output();
        output.expect("ssh runs")
    }
}

struct Networks {
    private: String,
}

/// The tenant's networks, and a router to an external network on `br-ex` with this host as its gateway.
fn networks(clients: &mut Clients) -> Networks {
    let private = clients.made("network create private");
    clients.tenant("subnet create --network private --subnet-range 10.11.0.0/24 private");
    clients.tenant("network create backend");
    clients.tenant("subnet create --network backend --subnet-range 10.12.0.0/24 backend");
    clients.admin(
        "network create --external --provider-network-type flat --provider-physical-network public public",
    );
    clients.admin(
        "subnet create --network public --subnet-range 203.0.113.0/24 --gateway 203.0.113.1 --no-dhcp public",
    );
    clients.tenant("router create out");
    clients.tenant("router set --external-gateway public out");
    clients.tenant("router add subnet out private");
    ip("address add 203.0.113.1/24 dev br-ex");
    ip("link set br-ex up");
    Networks { private }
}

/// The address that a guest has from DHCP.
fn lease(home: &BerthHome, guest: &str) -> String {
    let log = home.path(&format!("instances/{guest}/console.log"));
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    until("the guest has its lease", || {
        read().contains("eth0 has the address ")
    });
    let text = read();
    let (_, address) = text.split_once("eth0 has the address ").expect("a lease");
    let address = address.split_whitespace().next();
    address.expect("an address").to_owned()
}

/// Puts this host into the network, as a machine on it: an internal interface of the switch, for a port of Neutron's.
fn join_network(cloud: &NetworkCloud, chassis: &RealChassis, network: &str) {
    let port = json!({"port": {"network_id": network, "tenant_id": cloud.tenant(), "device_owner": "network:test",
        "binding:host_id": HOST, "port_security_enabled": false}});
    let port = cloud.ask(Method::POST, "/v2.0/ports", &port);
    let port = &port["port"];
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

fn berth_up(
    home: &mut BerthHome,
    cloud: &NetworkCloud,
    libvirtd: &Libvirtd,
    chassis: &RealChassis,
) -> RunningBerth {
    std::fs::create_dir(home.path("instances")).expect("a folder");
    let open = "auth_strategy = \"noauth2\"\n";
    let at = |url: &str| {
        url.trim_start_matches("http://")
            .trim_end_matches("/v2.1")
            .to_owned()
    };
    home.configure(&format!(
        "host = \"{HOST}\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\nperiodic_fuzzy_delay = 0\n\
         [libvirt]\nconnection_uri = \"{}\"\nvirt_type = \"qemu\"\n\
         [os_vif_ovs]\novsdb_connection = \"unix:{}\"\n\
         [agent]\nadmin_socket = \"@HOME@/agent.sock\"\nmetrics_listen = \"{METRICS}\"\n\
         [neutron]\nauth_type = \"password\"\nauth_url = \"{}\"\nusername = \"berth\"\npassword = \"test-only\"\n\
         user_domain_name = \"Default\"\nproject_name = \"service\"\nproject_domain_name = \"Default\"\nregion_name = \"{}\"\n\
         [keystone_authtoken]\n{}\n\
         [placement_service]\nlisten = \"{}\"\n{open}[accelerator_service]\nlisten = \"127.0.0.1:0\"\n{open}\
         [conductor_service]\nlisten = \"127.0.0.1:0\"\n{open}\
         [compute_service]\nlisten = \"{}\"\nauth_strategy = \"keystone\"\n\n[glance]\n{}\n",
        libvirtd.uri(),
        chassis.socket().display(),
        cloud.keystone.url(),
        cloud.keystone.region(),
        authtoken(&cloud.keystone),
        at(PLACEMENT),
        at(COMPUTE),
        login(&cloud.keystone),
    ))
    .expect("a configuration");
    let config = home.config_file().display().to_string();
    let up = home.start(["--config", &config, "up"]).expect("it starts");
    // The conductor answers before the agent has reported the host.
    until("the host is reported", || {
        let health = HttpCall::new(Method::GET, format!("http://{METRICS}/healthz")).send();
        health.is_ok_and(|health| health.status == 200)
    });
    up
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
