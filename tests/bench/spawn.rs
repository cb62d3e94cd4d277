//! Benchmarks the agent's own time to spawn and destroy a guest: the driver is the fake one, so no hypervisor or image
//! is involved.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use berth_client::{AdapterOptions, Auth, GuestClient, HttpService, TransportOptions};
use berth_model::ConsumerUuid;
use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::port::free_port;
use berth_wire::guest::GuestBuild;
use http::Method;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::agent::{self, RunningAgent};
use crate::meter::{Meter, MeterSpan, ms};
use crate::placement::{PATIENCE, Placement};
use crate::table::{Figure, Row, Section};
use crate::{Outcome, log};

const NODE: &str = "bench";
/// How many devices the host has.
const DEVICES: usize = 8;
/// How many guests come and go, one after the other.
const GUESTS: usize = 40;
/// How often it is looked whether a guest is there, or gone: the looking is part of the agent's figure.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) fn measure() -> Outcome<Section> {
    log("spawns");
    let placement = Placement::built_in()?;
    let accelerators = Accelerators::start()?;
    let mut home = agent::home(&format!(
        "compute_driver = \"fake\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\n\
         [fake]\nmachine = \"@HOME@/machine.toml\"\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
         [placement]\nauth_type = \"admin_token\"\nendpoint = \"{}\"\ntoken = \"admin\"\n\
         [cyborg]\nauth_type = \"admin_token\"\nendpoint = \"{}\"\ntoken = \"admin\"\n",
        placement.api().url,
        accelerators.url
    ))?;
    std::fs::create_dir(home.path("instances"))?;
    home.write("machine.toml", &machine())?;
    let agent = RunningAgent::start(&mut home, "agent")?;
    let host = Host::of(&home, agent.meter())?;
    let providers = accelerators.providers()?;
    let mut rows = Vec::new();
    for with_device in [false, true] {
        let (mut spawn, mut destroy) = (MeterSpan::default(), MeterSpan::default());
        // The first one warms up.
        for n in 0..=GUESTS {
            let guest = Uuid::new_v4();
            let arqs = match with_device {
                true => vec![accelerators.bound(guest, &providers[n % providers.len()])?],
                false => Vec::new(),
            };
            let (spawned, destroyed) = host.run_lifecycle(guest, &arqs)?;
            if n > 0 {
                add(&mut spawn, spawned);
                add(&mut destroy, destroyed);
            }
        }
        let what = if with_device {
            "with a bound device"
        } else {
            "without devices"
        };
        rows.extend(rows_of(&format!("spawn {what}"), spawn));
        rows.extend(rows_of(&format!("destroy {what}"), destroy));
    }
    agent.stop()?;
    Ok(Section {
        title: "Spawn and destroy, the agent's part",
        note: "`berth agent` alone, with the fake driver and without images: from the request on its admin socket until the \
               guest is active, and until it is gone; per guest, one after the other. What remains is the journal, the place on \
               the host, the requests to the accelerator service and the looks of who waits. The device of the one before is \
               reset meanwhile, which is in the figures with devices.",
        rows,
    })
}

fn rows_of(what: &str, spent: MeterSpan) -> [Row; 2] {
    let guests = u32::try_from(GUESTS).unwrap_or(u32::MAX);
    let row = |kind: &str, of: Duration| Row {
        what: format!("{what}: {kind}"),
        peer: None,
        ours: Figure::Ms(ms(of / guests)),
        goal: None,
    };
    [row("CPU", spent.cpu), row("wall", spent.wall)]
}

fn add(all: &mut MeterSpan, one: MeterSpan) {
    all.wall += one.wall;
    all.cpu += one.cpu;
}

fn machine() -> String {
    let mut text = format!(
        "[model]\nvgpu = \"per-gpu\"\nnuma = \"flat\"\npcpu = \"vcpu\"\n\n[[node]]\nname = \"{NODE}\"\nmemory_mib = 65536\n\
         disk = 500\ntraits = []\ncpus = {{ online = \"0-31\" }}\n"
    );
    for n in 0..DEVICES {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[[node.device]]\naddress = \"0000:{:02x}:00.0\"\nvendor = \"10de\"\nproduct = \"1eb8\"\n",
            0x21 + n
        );
    }
    text
}

/// The host's agent as its operator asks it.
struct Host {
    client: GuestClient,
    runtime: Runtime,
    meter: Meter,
}

impl Host {
    fn of(home: &BerthHome, meter: Meter) -> Outcome<Self> {
        let socket = HttpService::unix(&home.path("agent.sock"), &TransportOptions::default())?;
        let auth = Auth::none("http://agent")?;
        Ok(Self {
            client: GuestClient::new(socket, auth, &AdapterOptions::default()),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            meter,
        })
    }

    /// One guest's life: what its start and its end took.
    fn run_lifecycle(&self, guest: Uuid, arqs: &[Uuid]) -> Outcome<(MeterSpan, MeterSpan)> {
        let build: GuestBuild = serde_json::from_value(json!({
            "uuid": guest, "name": format!("vm-{guest}"), "project_id": "p", "node": NODE,
            "flavor": {"name": "small", "vcpus": 1, "ram_mb": 256, "disk_gb": 0},
            "accelerator_requests": arqs,
        }))?;
        let uuid = ConsumerUuid::from(guest);
        let before = self.meter.mark();
        self.runtime.block_on(async {
            self.client.build(&build).await?;
            loop {
                let shown = self.client.guest(uuid).await?.ok_or("the guest is gone")?;
                match shown.status.as_str() {
                    "active" => return Ok::<_, Box<dyn std::error::Error>>(()),
                    "error" => return Err(format!("{shown:?}").into()),
                    _ => tokio::time::sleep(POLL_INTERVAL).await,
                }
            }
        })?;
        let spawned = self.meter.since(&before);
        let before = self.meter.mark();
        self.runtime.block_on(async {
            self.client.delete(uuid).await?;
            while self.client.guest(uuid).await?.is_some() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok::<_, Box<dyn std::error::Error>>(())
        })?;
        Ok((spawned, self.meter.since(&before)))
    }
}

/// `berth accelerator serve`, to which the agent reports its devices.
struct Accelerators {
    url: String,
    _serving: RunningBerth,
    _home: BerthHome,
}

impl Accelerators {
    fn start() -> Outcome<Self> {
        let listen = format!("127.0.0.1:{}", free_port()?);
        let mut home = BerthHome::new()?;
        home.configure(&format!(
            "state_path = \"@HOME@/state\"\n[accelerator_service]\nlisten = \"{listen}\"\n"
        ))?;
        let config = home.config_file();
        let arguments = [
            "--config".as_ref(),
            config.as_os_str(),
            "accelerator".as_ref(),
            "serve".as_ref(),
        ];
        let mut serving = home.start(arguments)?;
        let url = format!("http://{listen}");
        serving.wait_until(PATIENCE, || HttpCall::get(&url).send().is_ok())?;
        Ok(Self {
            url,
            _serving: serving,
            _home: home,
        })
    }

    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<HttpAnswer> {
        let mut ask =
            HttpCall::new(method, format!("{}/v2{path}", self.url)).header("x-auth-token", "admin");
        if let Some(body) = body {
            ask = ask.json(body);
        }
        Ok(ask.send()?)
    }

    /// The providers of the agent's devices, once all are reported.
    fn providers(&self) -> Outcome<Vec<String>> {
        let begun = Instant::now();
        loop {
            let answer = self.ask(Method::GET, "/deployables", None)?.json();
            let all = answer["deployables"].as_array().into_iter().flatten();
            let all: Vec<_> = all
                .filter_map(|it| Some(it["rp_uuid"].as_str()?.to_owned()))
                .collect();
            if all.len() == DEVICES {
                let group = json!([{"resources:PGPU": "1"}]);
                let profile = json!([{"name": "gpu", "groups": group}]);
                self.ask(Method::POST, "/device_profiles", Some(&profile))?;
                return Ok(all);
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the devices are not reported: {answer}").into());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// A new request, bound for the guest; a device that is being made ready is awaited.
    fn bound(&self, guest: Uuid, provider: &str) -> Outcome<Uuid> {
        let body = json!({"device_profile_name": "gpu"});
        let made = self
            .ask(Method::POST, "/accelerator_requests", Some(&body))?
            .json();
        let arq = made["arqs"][0]["uuid"]
            .as_str()
            .ok_or("a request")?
            .to_owned();
        let add = |path: &str, value: &str| json!({"path": path, "op": "add", "value": value});
        let steps = json!([
            add("/hostname", NODE),
            add("/device_rp_uuid", provider),
            add("/instance_uuid", &guest.to_string()),
        ]);
        let begun = Instant::now();
        loop {
            let answer = self.ask(
                Method::PATCH,
                "/accelerator_requests",
                Some(&json!({ &arq: steps })),
            )?;
            if answer.status.is_success() {
                return Ok(arq.parse()?);
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("a bind: {} {}", answer.status, answer.text()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
