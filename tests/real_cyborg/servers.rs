//! `openstack server create` in a cloud with OpenStack's other services: Keystone authenticates, Glance has the image,
//! Placement the providers, Cyborg the accelerator requests. Berth is the compute API, the scheduler, the conductor and
//! the agent of a host with libvirtd and QEMU.

use std::time::{Duration, Instant};

use berth_model::ConsumerUuid;
use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::peer::{
    AcceleratorPlugin, CommandOutput, CyborgSettings, OpenStackShell, RealGlance, RealKeystone,
};
use berth_tests::port::free_port;
use serde_json::{Value, json};

use crate::authority::Authority;
use crate::real_cyborg::card_host::{CARDS, CardHost, PATIENCE, authtoken, images, login};
use crate::real_cyborg::cloud::{Cloud, named, of_provider};
use crate::real_cyborg::conductor::assert_nothing_left;
use crate::real_cyborg::nova::ComputeNotification;

const HOST: &str = "server-host";

/// `berth compute serve` in that cloud, and its caller.
struct Compute {
    process: RunningBerth,
    operators: OpenStackShell,
    /// Cyborg's events come here.
    _notification: ComputeNotification,
    url: String,
    _home: BerthHome,
}

impl Compute {
    /// A compute API with this only host; the host's agent is restarted as one that it knows.
    fn start(cloud: &Cloud, host: &mut CardHost) -> Self {
        let keystone = cloud.cyborg.keystone();
        let mut home = BerthHome::new().expect("a home");
        let authority = Authority::new(&home.path("pki"), "ours");
        let (server, client) = (authority.server(), authority.client());
        let port = || free_port().expect("a port");
        let (agent, listen) = (
            format!("127.0.0.1:{}", port()),
            format!("127.0.0.1:{}", port()),
        );
        let (login, cafile) = (
            login(keystone),
            authority.own.certificate.display().to_string(),
        );
        // This cloud's agents share an account, as before there were accounts of hosts.
        let policy = home.write("policy.yaml", "berth:host_state:update: role:service\n");
        let policy = policy.expect("a file");
        home.configure(&format!(
            "state_path = \"@HOME@/state\"\n[placement]\n{login}\n[cyborg]\n{login}\n[glance]\n{login}\n\
             [keystone_authtoken]\n{}\n\
             [compute_service]\nlisten = \"{listen}\"\nauth_strategy = \"keystone\"\npolicy_file = \"{}\"\n\
             [conductor_service]\nagents = [\"{HOST}=https://{agent}\"]\n\
             [agent_client]\ncafile = \"{cafile}\"\ncertfile = \"{}\"\nkeyfile = \"{}\"\n",
            authtoken(keystone),
            policy.display(),
            client.certificate.display(),
            client.key.display(),
        ))
        .expect("a configuration");
        let config = home.config_file().display().to_string();
        let started = home.start(["--config", &config, "compute", "serve"]);
        let mut process = started.expect("it starts");
        let url = process
            .wait_for_line(PATIENCE, "Compute at ")
            .expect("it serves");
        let mut environment = vec![
            ("BERTH__AGENT__LISTEN".to_owned(), agent),
            (
                "BERTH__AGENT__TLS_CERT".to_owned(),
                server.certificate.display().to_string(),
            ),
            (
                "BERTH__AGENT__TLS_KEY".to_owned(),
                server.key.display().to_string(),
            ),
            ("BERTH__AGENT__CLIENT_CA".to_owned(), cafile),
            (
                "BERTH__CONDUCTOR__ENDPOINT_OVERRIDE".to_owned(),
                format!("http://{listen}"),
            ),
        ];
        for line in login.lines() {
            let (key, value) = line.split_once(" = ").expect("a setting");
            for section in ["CONDUCTOR", "GLANCE"] {
                let key = format!("BERTH__{section}__{}", key.to_uppercase());
                environment.push((key, value.trim_matches('"').to_owned()));
            }
        }
        host.restart_agent(&environment);
        Self {
            operators: operators(keystone, &url),
            _notification: cloud.nova.deliver_to_compute(&format!("http://{listen}")),
            process,
            url,
            _home: home,
        }
    }

    /// Tells what became of a bind, as a service.
    fn post_events(&self, cloud: &Cloud, events: &Value) -> HttpAnswer {
        let keystone = cloud.cyborg.keystone();
        let token = keystone.token(&keystone.berth()).expect("a token");
        let ask = HttpCall::post(format!("{}/os-server-external-events", self.url))
            .header("x-auth-token", &token)
            .header("openstack-api-version", "compute 2.82")
            .json(&json!({ "events": events }));
        ask.send().expect("an answer")
    }

    fn ask(&mut self, cloud: &str, words: &str) -> CommandOutput {
        let words: Vec<&str> = ["--os-cloud", cloud]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        self.operators.run(&words).expect("the shell answers")
    }

    #[track_caller]
    fn done(&mut self, cloud: &str, words: &str) -> String {
        let text = self.ask(cloud, words);
        assert_eq!(
            text.code,
            0,
            "{words}: {}\n{}",
            text.err,
            self.process.stderr()
        );
        text.out
    }

    #[track_caller]
    fn json(&mut self, cloud: &str, words: &str) -> Value {
        let output = self.done(cloud, &format!("{words} -f json"));
        serde_json::from_str(&output).expect("JSON")
    }

    /// Repeats a command as a user of a cloud until its output satisfies a condition.
    #[track_caller]
    fn until(&mut self, cloud: &str, words: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.json(cloud, words);
            if is_so(&answer) {
                return answer;
            }
            assert!(
                Instant::now() < end,
                "{words}: {answer}\n{}",
                self.process.stderr()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The guest of `make run`, which says on its console that it is ready.
    fn upload(&mut self) {
        let file = images().join("disk.img");
        let file = file.display();
        let create = format!("image create --disk-format raw --file {file} --public berth-guest");
        self.done("admin", &create);
    }

    /// Polls the console until it has reported this many times that the guest is ready.
    #[track_caller]
    fn until_ready(&mut self, server: &str, times: usize) {
        let end = Instant::now() + PATIENCE;
        loop {
            let console = self.done("tenant", &format!("console log show {server}"));
            if console.matches("berth-guest: ready").count() == times {
                return;
            }
            assert!(Instant::now() < end, "{console}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// What the lists of those who run the cloud have of the host.
    fn is_listed(&mut self) {
        let hypervisors = self.json("admin", "hypervisor list");
        assert_eq!(hypervisors[0]["Hypervisor Hostname"], HOST, "{hypervisors}");
        let services = self.json("admin", "compute service list --service nova-compute");
        let service = (&services[0]["Host"], &services[0]["State"]);
        assert_eq!(service, (&json!(HOST), &json!("up")), "{services}");
        let providers = self.json("admin", "resource provider list");
        let names: Vec<&str> = providers
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|provider| provider["name"].as_str())
            .collect();
        assert!(names.contains(&HOST), "{providers}");
        for card in CARDS {
            let name = format!("{HOST}_{}", card.address);
            assert!(names.contains(&&*name), "{name}: {providers}");
        }
    }

    /// The accelerator requests of each server, which are bound.
    fn are_bound(&mut self, servers: &[ConsumerUuid]) {
        let arqs = self.json("admin", "accelerator arq list");
        for server in servers {
            let of_server = arqs.as_array().into_iter().flatten();
            let of_server: Vec<&Value> = of_server
                .filter(|arq| arq["instance_uuid"] == server.to_string())
                .collect();
            assert_eq!(of_server.len(), 1, "{arqs}");
            assert_eq!(of_server[0]["state"], "Bound", "{arqs}");
        }
    }
}

/// An administrator, and a member of the project `tenant`.
fn operators(keystone: &RealKeystone, compute: &str) -> OpenStackShell {
    let cloud = |user: &str, project: &str| {
        json!({
            "auth": {"auth_url": keystone.url(), "username": user, "password": "test-only", "project_name": project,
                "user_domain_id": "default", "project_domain_id": "default"},
            "region_name": keystone.region(), "compute_endpoint_override": compute,
        })
    };
    let clouds = json!({"admin": cloud("berth", "service"), "tenant": cloud("tenant", "tenant")});
    let shell = OpenStackShell::start(AcceleratorPlugin::OpenStackClient, &clouds);
    shell.expect("the shell starts")
}

fn guest_of(server: &Value) -> ConsumerUuid {
    let id = server["id"].as_str().and_then(|id| id.parse().ok());
    id.unwrap_or_else(|| panic!("no id: {server}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openstacks_client_boots_servers_with_cards_over_keystone_glance_placement_and_cyborg() {
    let cloud = Cloud::shared();
    let settings = CyborgSettings {
        host: HOST,
        root: HOST,
        functions: CARDS.to_vec(),
    };
    let mut host = CardHost::start(cloud, &settings).await;
    let (_glance, mut compute, servers) = tokio::task::block_in_place(|| {
        let glance = RealGlance::start(cloud.cyborg.keystone()).expect("Glance starts");
        let mut compute = Compute::start(cloud, &mut host);
        compute.upload();
        compute.done(
            "admin",
            "accelerator device profile create server-card --group \
             resources:CUSTOM_PCI=1,trait:CUSTOM_PCI_PRODUCT_ID_1111=required",
        );
        compute.done(
            "admin",
            "flavor create tiny --ram 192 --vcpus 1 --disk 1 --property accel:device_profile=server-card",
        );
        let is_known = |all: &Value| all.as_array().is_some_and(|all| !all.is_empty());
        let end = Instant::now() + PATIENCE;
        while !is_known(&compute.json("admin", "hypervisor list")) {
            assert!(Instant::now() < end, "{}", host.agent.stderr());
            std::thread::sleep(Duration::from_millis(200));
        }
        compute.is_listed();
        let create = |name: &str| {
            format!("server create {name} --flavor tiny --image berth-guest --no-network")
        };
        let mut servers = Vec::new();
        for name in ["web-1", "web-2"] {
            let made = compute.json("tenant", &format!("{} --wait", create(name)));
            assert_eq!(made["status"], "ACTIVE", "{made}\n{}", host.agent.stderr());
            servers.push(guest_of(&made));
        }
        compute.are_bound(&servers);
        // The host has no third card. Hosts of other tests have some, so the request names this one, as only an admin may.
        compute.done("admin", &format!("{} --host {HOST}", create("web-3")));
        let shown = compute.until("admin", "server show web-3", |shown| {
            shown["status"] == "ERROR"
        });
        let message = shown["fault"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("No valid host was found"), "{shown}");
        compute.done("admin", "server delete web-3 --wait");
        (glance, compute, servers)
    });

    // Each has a card of its own: by libvirt, by Placement, by Cyborg.
    let cards: Vec<_> = servers.iter().map(|server| host.card_of(*server)).collect();
    assert_ne!(cards[0].address, cards[1].address);
    for (server, card) in servers.iter().zip(&cards) {
        let provider = named(&format!("{HOST}_{}", card.address));
        let held = of_provider(cloud, provider, "allocations");
        assert!(
            held["allocations"][server.to_string()].is_object(),
            "{held}"
        );
        let arqs = cloud.accelerators().arqs_of_instance(*server).await;
        let arqs = arqs.expect("Cyborg answers");
        assert_eq!(arqs.len(), 1);
        let received = cloud.nova.received(*server);
        assert_eq!(received.len(), 1, "{received:?}");
        assert_eq!(received[0].microversion, "compute 2.82");
        assert_eq!(received[0].events[0]["tag"], arqs[0].uuid.to_string());
        // A card is bound at once, before its host gets the server. Nova answers 422 then, too, and Cyborg does not
        // treat that as a failure.
        assert_eq!(received[0].status, 207, "{received:?}");
        assert_eq!(received[0].answer["events"][0]["code"], 422, "{received:?}");
        // The host has it now, and the same event reaches its agent.
        let again = tokio::task::block_in_place(|| compute.post_events(cloud, &received[0].events));
        assert_eq!(again.status, 200, "{}", again.text());
        assert_eq!(again.json()["events"][0]["code"], 200);
    }

    tokio::task::block_in_place(|| {
        // A tenant sees neither hosts nor what others have.
        let refused = compute.ask("tenant", "hypervisor list");
        assert!(refused.err.contains("403"), "{}", refused.err);
        assert_eq!(compute.json("admin", "server list"), json!([]));
        let all = compute.json("admin", "server list --all-projects");
        assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
        // Its system is asked to end and starts again, with the card.
        let life = |host: &CardHost| host.virsh(&["domid", &servers[0].to_string()]);
        compute.until_ready("web-1", 1);
        let first = life(&host);
        compute.done("tenant", "server reboot web-1 --wait");
        compute.until_ready("web-1", 2);
        assert_eq!(
            life(&host),
            first,
            "its system restarted, and it was not switched off"
        );
        for (command, status) in [
            ("server stop web-1", "SHUTOFF"),
            ("server start web-1", "ACTIVE"),
            ("server reboot --hard web-1", "ACTIVE"),
        ] {
            compute.done("tenant", command);
            compute.until("tenant", "server show web-1", |shown| {
                shown["status"] == status
            });
        }
        compute.done("tenant", "server delete web-1 web-2 --wait");
        assert_eq!(compute.json("tenant", "server list"), json!([]));
        compute.done("admin", "accelerator device profile delete server-card");
    });
    for server in servers {
        assert_nothing_left(cloud, server).await;
    }
    assert_eq!(host.virsh(&["list", "--all", "--name"]).trim(), "");
}
