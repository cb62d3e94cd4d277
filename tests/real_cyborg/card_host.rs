//! A host with libvirtd and QEMU and the real Cyborg: `berth agent` as a process, and guests with the cards that
//! Cyborg's PCI driver finds and binds. The cards are simulated by files; the rest is real.

use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use berth_client::{AcceleratorClient, HttpService, TransportOptions};
use berth_conductor::{Conductor, GuestRunOutcome};
use berth_model::{ConsumerUuid, ProviderUuid};
use berth_tests::berth::{BerthHome, Outcome, RunningBerth};
use berth_tests::boot::asked;
use berth_tests::peer::{
    Credentials, CyborgAgent, CyborgSettings, Libvirtd, PciFunction, RealKeystone, checkout,
};
use berth_tests::port::free_port;
use serde_json::json;

use crate::real_cyborg::cloud::{Cloud, named, new_guest, of_provider};
use crate::real_cyborg::conductor::{assert_nothing_left, body, conductor_of, end};
use crate::real_cyborg::nova::EventDelivery;

const HOST: &str = "card-host";
pub(crate) const CARDS: [PciFunction; 2] = [
    PciFunction {
        address: "0000:81:00.0",
        ids: "1234:1111",
    },
    PciFunction {
        address: "0000:82:00.0",
        ids: "1234:1111",
    },
];
/// Nothing that is to happen takes this long, not even on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct CardHost {
    cloud: &'static Cloud,
    node: &'static str,
    home: BerthHome,
    pub(crate) agent: RunningBerth,
    pub(crate) conductor: Conductor,
    events: u16,
    cyborg: Option<CyborgAgent>,
    service: Option<RunningBerth>,
    pub(crate) libvirtd: Libvirtd,
}

/// The cards are Cyborg's to report.
const WITH_CYBORG: &str = "[pci]\ndevice_spec = [{ vendor_id = \"1234\", product_id = \"1111\" }]";
const OWN: &str = "[accelerators]\ndevice_spec = [{ vendor_id = \"1234\", product_id = \"1111\" }]";

impl CardHost {
    /// With Cyborg's agent, which reports its devices below the node's root provider.
    pub(crate) async fn start(cloud: &'static Cloud, cyborg: &CyborgSettings) -> Self {
        let mut host = tokio::task::block_in_place(|| Processes::start(cloud, cyborg.root));
        let cyborg = tokio::task::block_in_place(|| {
            let root = root(cloud, &mut host.agent, cyborg.root);
            let cyborg = cloud.cyborg.another_host(cyborg);
            let cyborg = cyborg.expect("Cyborg finds the cards");
            offers_accelerators(cloud, &mut host.agent, root);
            cyborg
        });
        let socket = host.home.path("agent.sock");
        let agent_api = HttpService::unix(&socket, &TransportOptions::default());
        let agent_api = agent_api.expect("a socket");
        let conductor = conductor_of(cloud, agent_api, cloud.accelerators()).await;
        Self {
            cloud,
            node: host.node,
            home: host.home,
            agent: host.agent,
            conductor,
            events: host.events,
            cyborg: Some(cyborg),
            service: None,
            libvirtd: host.libvirtd,
        }
    }

    /// Stops Cyborg's agent, and restarts Berth's as the one that reports the cards; Cyborg's API and conductor
    /// continue.
    pub(crate) fn take_over(&mut self) {
        self.cyborg = None;
        self.start_agent_with(OWN, "");
    }

    /// Starts Berth's accelerator service, and restarts the agent with it; returns its URL with the version.
    pub(crate) fn leave_cyborg(&mut self) -> String {
        // Keystone's account of these tests reports for every host.
        let policy = "berth:host_devices:update: role:service\n";
        let policy = self.home.write("policy.yaml", policy).expect("a file");
        let lists = format!(
            "{OWN}\n[accelerator_service]\nauth_strategy = \"keystone\"\npolicy_file = \"{}\"",
            policy.display()
        );
        self.start_agent_with(&lists, "");
        let config = self.home.config_file().display().to_string();
        let arguments = ["--config", &config, "accelerator", "serve"];
        let mut service = self.home.start(arguments).expect("it starts");
        let url = tokio::task::block_in_place(|| {
            await_it(&mut service, |service| {
                let output = service.stdout();
                let url = output
                    .lines()
                    .find_map(|it| it.strip_prefix("Accelerator at "));
                url.map(str::to_owned)
            })
        });
        self.service = Some(service);
        self.start_agent_with(&lists, &format!("endpoint_override = \"{url}\""));
        url
    }

    /// Restarts Berth's agent with these additional variables; Cyborg's continues.
    pub(crate) fn restart_agent(&mut self, environment: &[(String, String)]) {
        for (key, value) in environment {
            self.home.set_env(key, value);
        }
        self.start_agent_with(WITH_CYBORG, "");
    }

    fn start_agent_with(&mut self, lists: &str, cyborg: &str) {
        let (cloud, node, events) = (self.cloud, self.node, self.events);
        tokio::task::block_in_place(|| {
            self.agent.kill();
            let libvirtd = &self.libvirtd;
            configure(&self.home, cloud, libvirtd, node, events, lists, cyborg);
            self.agent = agent(&mut self.home, libvirtd);
        });
    }

    /// A conductor that asks the host's agent and this accelerator service.
    pub(crate) async fn conductor_with(&self, accelerators: AcceleratorClient) -> Conductor {
        let socket = self.home.path("agent.sock");
        let agent_api = HttpService::unix(&socket, &TransportOptions::default());
        let agent_api = agent_api.expect("a socket");
        conductor_of(self.cloud, agent_api, accelerators).await
    }

    /// What a command of `berth` on this host says.
    #[track_caller]
    pub(crate) fn berth(&mut self, arguments: &[&str]) -> String {
        let output = self.outcome(arguments);
        assert_eq!(output.code, 0, "{}", output.stderr);
        output.stdout
    }

    /// The same, however it ends.
    #[track_caller]
    pub(crate) fn outcome(&mut self, arguments: &[&str]) -> Outcome {
        let config = self.home.config_file().display().to_string();
        let arguments = ["--config", &config]
            .into_iter()
            .chain(arguments.iter().copied());
        let output = tokio::task::block_in_place(|| self.home.run(arguments));
        output.expect("it runs")
    }

    /// Waits for something of the agent's doing.
    pub(crate) fn await_it<T>(&mut self, mut poll: impl FnMut() -> Option<T>) -> T {
        tokio::task::block_in_place(|| await_it(&mut self.agent, |_| poll()))
    }
}

/// What runs on the host but Cyborg's agent.
struct Processes {
    node: &'static str,
    home: BerthHome,
    agent: RunningBerth,
    events: u16,
    libvirtd: Libvirtd,
}

impl Processes {
    fn start(cloud: &Cloud, node: &'static str) -> Self {
        let libvirtd = Libvirtd::start_with_cards().expect("libvirtd starts");
        let mut home = BerthHome::new().expect("a home");
        let events = free_port().expect("a port");
        configure(&home, cloud, &libvirtd, node, events, WITH_CYBORG, "");
        fs::create_dir(home.path("instances")).expect("a folder");
        let agent = agent(&mut home, &libvirtd);
        Self {
            node,
            home,
            agent,
            events,
            libvirtd,
        }
    }
}

/// The agent's configuration with these lists of devices.
fn configure(
    home: &BerthHome,
    cloud: &Cloud,
    libvirtd: &Libvirtd,
    node: &str,
    events: u16,
    lists: &str,
    cyborg: &str,
) {
    let keystone = cloud.cyborg.keystone();
    let login = login(keystone);
    let (uri, images) = (libvirtd.uri(), images());
    let images = images.display();
    let emulator = libvirtd.emulator().expect("an emulator");
    let emulator = emulator.display();
    home.configure(&format!(
            "host = \"{node}\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\n\
             reconcile_interval = 1\nupdate_resources_interval = 1\nperiodic_fuzzy_delay = 0\n\
             [compute]\nresource_provider_association_refresh = 1\n\
             [libvirt]\nconnection_uri = \"{uri}\"\nvirt_type = \"qemu\"\nemulator = \"{emulator}\"\n\
             {lists}\n\
             [image_cache]\nimage_directories = [\"{images}\"]\n\
             [agent]\nadmin_socket = \"@HOME@/agent.sock\"\nevents_listen = \"127.0.0.1:{events}\"\n\
             [placement]\n{login}\n[cyborg]\n{login}\n{cyborg}\n[keystone_authtoken]\n{}\n",
            authtoken(keystone)
        ))
        .expect("a configuration");
}

impl CardHost {
    /// SIGKILL, and another life over the same state.
    fn kill_agent(&mut self) {
        tokio::task::block_in_place(|| {
            self.agent.kill();
            self.agent = agent(&mut self.home, &self.libvirtd);
        });
    }

    /// A guest from Debian's kernel, with a card.
    pub(crate) async fn create(&self) -> ConsumerUuid {
        self.create_by(&self.conductor).await
    }

    /// The same, asked of another conductor.
    pub(crate) async fn create_by(&self, conductor: &Conductor) -> ConsumerUuid {
        let guest = new_guest();
        let url = format!("http://127.0.0.1:{}", self.events);
        self.cloud.nova.deliver(guest, EventDelivery::At(url));
        let images = images();
        let file = |name: &str| images.join(name).display().to_string();
        let mut body = body(guest, self.node, "card");
        body["kernel"] = json!({
            "kernel": file("vmlinuz"),
            "ramdisk": file("initrd.gz"),
            "command_line": "console=ttyS0 quiet no_timer_check",
        });
        let taken = conductor.create(&asked(&body)).await;
        taken.expect("it is taken");
        guest
    }

    /// The card that libvirt gave the guest.
    #[track_caller]
    pub(crate) fn card_of(&self, guest: ConsumerUuid) -> PciFunction {
        let name = guest.to_string();
        let given = self.virsh(&["dumpxml", &name, "--xpath", "//hostdev/source/address/@bus"]);
        let card = CARDS.iter().find(|card| {
            let bus = &card.address[5..7];
            given.contains(&format!("0x{bus}"))
        });
        let card = card.unwrap_or_else(|| panic!("no card: {given}"));
        let driver = self.libvirtd.driver(card.address);
        assert_eq!(driver.as_deref(), Some("vfio-pci"));
        *card
    }

    #[track_caller]
    pub(crate) fn virsh(&self, arguments: &[&str]) -> String {
        let output = tokio::task::block_in_place(|| self.libvirtd.virsh(arguments));
        output.expect("libvirtd answers")
    }
}

#[track_caller]
pub(crate) fn active(host: &CardHost, end: &GuestRunOutcome) {
    assert!(
        matches!(end, GuestRunOutcome::Active),
        "{end:?}\n{}",
        host.agent.stderr()
    );
}

/// `berth agent` where it sees the cards.
fn agent(home: &mut BerthHome, libvirtd: &Libvirtd) -> RunningBerth {
    let config = home.config_file().display().to_string();
    home.run_within(libvirtd.run_in_scope());
    let socket = home.path("agent.sock");
    let mut agent = home
        .start(["--config", &config, "agent"])
        .expect("it starts");
    let is_up = agent.wait_until(PATIENCE, || {
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    is_up.expect("the agent listens");
    agent
}

/// The host's root provider, without which Cyborg's agent ends.
fn root(cloud: &Cloud, agent: &mut RunningBerth, name: &str) -> ProviderUuid {
    await_it(agent, |_| {
        let all = cloud.cyborg.providers().expect("Placement answers");
        let root = all.iter().find(|provider| provider["name"] == name)?;
        root["uuid"].as_str()?.parse().ok()
    })
}

/// Waits until the agent has seen Cyborg's devices and says that guests with accelerators may come.
fn offers_accelerators(cloud: &Cloud, agent: &mut RunningBerth, root: ProviderUuid) {
    await_it(agent, |_| {
        let traits = of_provider(cloud, root, "traits").to_string();
        traits.contains("\"COMPUTE_ACCELERATORS\"").then_some(())
    });
}

fn await_it<T>(berth: &mut RunningBerth, mut poll: impl FnMut(&RunningBerth) -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = poll(berth) {
            return found;
        }
        let log = berth.stderr();
        assert!(!berth.has_ended() && begun.elapsed() < PATIENCE, "{log}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// `[placement]` and `[cyborg]` for `berth`.
pub(crate) fn login(keystone: &RealKeystone) -> String {
    let Credentials::Password { username, password } = keystone.berth() else {
        unreachable!("berth has a password");
    };
    format!(
        "auth_type = \"password\"\nauth_url = \"{}\"\nusername = \"{username}\"\npassword = \"{password}\"\n\
         user_domain_id = \"default\"\nproject_name = \"service\"\nproject_domain_id = \"default\"",
        keystone.url()
    )
}

/// `[keystone_authtoken]` for the same.
pub(crate) fn authtoken(keystone: &RealKeystone) -> String {
    let Credentials::Password { username, password } = keystone.berth() else {
        unreachable!("berth has a password");
    };
    format!(
        "auth_url = \"{}\"\nusername = \"{username}\"\npassword = \"{password}\"\nproject_name = \"service\"\n\
         user_domain_name = \"Default\"\nproject_domain_name = \"Default\"",
        keystone.url()
    )
}

/// The folder with a kernel and an initrd.
pub(crate) fn images() -> std::path::PathBuf {
    let images = checkout().join("target/guest-image");
    let script = checkout().join("packaging/scripts/guest-image.sh");
    let made = Command::new(script).arg(&images).output();
    let made = made.expect("the script runs");
    let printed = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{printed}");
    images
}

fn provider(card: PciFunction) -> ProviderUuid {
    named(&format!("{HOST}_{}", card.address))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guests_run_on_libvirt_with_the_cards_that_cyborgs_pci_driver_found_and_bound() {
    let cloud = Cloud::shared();
    let cyborg = CyborgSettings {
        host: HOST,
        root: HOST,
        functions: CARDS.to_vec(),
    };
    let mut host = CardHost::start(cloud, &cyborg).await;
    // The agent may attach the cards, and leaves their report to Cyborg.
    let inventories = of_provider(cloud, provider(CARDS[0]), "inventories");
    assert_eq!(inventories["inventories"]["CUSTOM_PCI"]["total"], 1);

    let first = host.create().await;
    active(&host, &end(&host.conductor, first).await);
    let card = host.card_of(first);
    let received = cloud.nova.received(first);
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0].events[0]["status"], "completed");
    let arqs = cloud.accelerators().arqs_of_instance(first).await;
    let arqs = arqs.expect("Cyborg answers");
    assert_eq!(arqs.len(), 1, "{arqs:?}");
    let held = of_provider(cloud, provider(card), "allocations");
    assert!(held["allocations"][first.to_string()].is_object(), "{held}");

    // The agent is killed while another guest is on its way to the other card.
    let second = host.create().await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let life = host.virsh(&["domid", &format!("vm-{first}")]);
    host.kill_agent();
    active(&host, &end(&host.conductor, second).await);
    assert_ne!(host.card_of(second).address, card.address);
    assert_eq!(host.virsh(&["domid", &format!("vm-{first}")]), life);

    for guest in [first, second] {
        host.conductor.delete(guest).await.expect("it is taken");
        let gone = end(&host.conductor, guest).await;
        assert!(
            matches!(gone, GuestRunOutcome::Gone),
            "{gone:?}\n{}",
            host.agent.stderr()
        );
        assert_nothing_left(cloud, guest).await;
    }
    assert_eq!(host.virsh(&["list", "--all", "--name"]).trim(), "");
    for card in CARDS {
        assert_eq!(host.libvirtd.driver(card.address), None, "{}", card.address);
        let held = of_provider(cloud, provider(card), "allocations");
        assert_eq!(held["allocations"], json!({}));
    }
}
