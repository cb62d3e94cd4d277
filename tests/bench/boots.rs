//! Benchmarks the complete boot of a server: `POST /servers`, the scheduler, Placement, the accelerator service, the
//! conductor and the agents of the hosts, all in one `berth up`. The driver is the fake one, so no hypervisor is
//! involved.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use berth_agent_api::client::AdminClient;
use berth_tests::berth::BerthHome;
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::port::free_port;
use http::Method;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::agent::{self, RunningAgent};
use crate::meter::{Meter, MeterSpan, ms};
use crate::placement::PATIENCE;
use crate::table::{Figure, Row, Section};
use crate::{Outcome, log};

/// How many servers there are when the last of a batch runs.
const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
/// How many of them are measured.
const BATCH: usize = 100;
/// How many others are booted at a time.
const FILL: usize = 200;
/// The number of concurrent requests.
const CLIENTS: usize = 8;
const NODES: usize = 50;
/// Devices of each node.
const DEVICES: usize = 2;
/// How often the number of running guests is read from a page of metrics; the figure includes these reads.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a batch may take.
const LONG: Duration = Duration::from_secs(1200);

const IMAGE: &str = "9a17439a-85d0-4c53-a3d3-0f68a2eac896";
/// The SHA-256 of 512 zeros.
const CHECKSUM: &str = "076a27c79e5ace2a3d47f9dd2e83e4ff6ea8872b3c2218f66c92b89b55f36560";

/// The stages of a boot, as the conductor's metrics name them, with what they are.
const STAGES: [(&str, &str); 4] = [
    ("place", "search and claim"),
    ("provide", "accelerator requests made"),
    ("bind", "requests bound"),
    ("build", "built by the agent, looks included"),
];

/// Measures it. `BENCH_SERVERS=10,100` makes a shorter run.
pub(crate) fn measure() -> Outcome<Section> {
    log("complete boots");
    let cloud = BootCloud::start()?;
    let mut rows = Vec::new();
    let devices = cloud.batch("gpu", BATCH.min(NODES * DEVICES))?;
    rows.extend(rows_of("with a device each, 100 servers", &devices));
    cloud.empty()?;
    let mut there = 0;
    for size in sizes()? {
        log(&format!("boots: {size} servers"));
        let measured = size.min(BATCH);
        while there + measured < size {
            there += cloud
                .batch("plain", FILL.min(size - there - measured))?
                .servers;
        }
        let batch = cloud.batch("plain", measured)?;
        rows.extend(rows_of(&format!("{size} servers"), &batch));
        there = size;
    }
    cloud.running.stop()?;
    Ok(Section {
        title: "Complete boots",
        note: "`berth up` with 50 nodes of the fake driver: `POST /v2.1/servers` by 8 clients, until the last of the batch runs; \
               the last 100 of so many servers (of 10: all). The stages are means over the batch by \
               `berth_conductor_boot_stage_duration_seconds`, and overlap between servers. CPU is that of the one process: API, \
               scheduler, Placement, accelerator service, conductor, and all 50 agents' work.",
        rows,
    })
}

fn sizes() -> Outcome<Vec<usize>> {
    match std::env::var("BENCH_SERVERS") {
        Ok(list) => Ok(list
            .split(',')
            .map(|n| n.trim().parse())
            .collect::<Result<_, _>>()?),
        Err(_) => Ok(SIZES.to_vec()),
    }
}

/// What a batch of boots took.
struct Batch {
    servers: usize,
    spent: MeterSpan,
    /// The mean time of each stage.
    stages: Vec<Duration>,
}

#[expect(clippy::cast_precision_loss, reason = "a figure of two digits")]
fn rows_of(what: &str, batch: &Batch) -> Vec<Row> {
    let row = |kind: String, ours| Row {
        what: format!("{what}: {kind}"),
        peer: None,
        ours,
        goal: None,
    };
    let rate = batch.servers as f64 / batch.spent.wall.as_secs_f64();
    let each = batch
        .spent
        .each_of(u32::try_from(batch.servers).unwrap_or(u32::MAX));
    let mut rows = vec![
        row("boots per second".to_owned(), Figure::Count(rate)),
        row("CPU of a boot".to_owned(), Figure::Ms(ms(each.cpu))),
    ];
    let stages = STAGES.iter().zip(&batch.stages);
    rows.extend(
        stages.map(|((stage, is), took)| row(format!("{stage}, {is}"), Figure::Ms(ms(*took)))),
    );
    rows
}

/// `berth up`, with flavors `plain` and `gpu`.
struct BootCloud {
    running: RunningAgent,
    meter: Meter,
    url: String,
    admin: AdminClient,
    runtime: Runtime,
    flavors: BTreeMap<&'static str, String>,
    _home: BerthHome,
}

/// Counts and sums of the stages since the start.
type StageTotals = Vec<(f64, f64)>;

impl BootCloud {
    fn start() -> Outcome<Self> {
        let port = || free_port().map(|port| format!("127.0.0.1:{port}"));
        let (compute, placement, accelerators) = (port()?, port()?, port()?);
        let mut home = agent::home(
            "compute_driver = \"fake\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\n\
             cpu_allocation_ratio = 16.0\n[fake]\nmachine = \"@HOME@/machine.toml\"\n\
             [agent]\nadmin_socket = \"@HOME@/agent.sock\"\n[compute_service]\nimages_file = \"@HOME@/images.toml\"\n\
             [conductor_service]\nheadroom_interval = 0\n[quota]\ninstances = -1\ncores = -1\nram = -1\n[image_cache]\nimage_directories = [\"@HOME@/images\"]\n",
        )?;
        home.open_to_everybody(&[
            ("PLACEMENT_SERVICE", &placement),
            ("ACCELERATOR_SERVICE", &accelerators),
            ("COMPUTE_SERVICE", &compute),
        ]);
        for folder in ["instances", "images"] {
            std::fs::create_dir(home.path(folder))?;
        }
        home.write("machine.toml", &machine())?;
        let image = home.write("images/zeros.raw", "")?;
        std::fs::write(&image, [0; 512])?;
        home.write(
            "images.toml",
            &format!(
                "[[image]]\nname = \"zeros\"\nid = \"{IMAGE}\"\npath = \"{}\"\nformat = \"raw\"\nchecksum = \"sha256:{CHECKSUM}\"\n",
                image.display()
            ),
        )?;
        let running = RunningAgent::start(&mut home, "up")?;
        let mut cloud = Self {
            meter: running.meter(),
            running,
            url: format!("http://{compute}/v2.1"),
            admin: AdminClient::new(&home.path("agent.sock"))?,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            flavors: BTreeMap::new(),
            _home: home,
        };
        cloud.prepare(&format!("http://{accelerators}/v2"))?;
        Ok(cloud)
    }

    /// Flavors and a device profile; waits until every node is known.
    fn prepare(&mut self, accelerators: &str) -> Outcome<()> {
        let group = json!([{"resources:PGPU": "1"}]);
        let profile = json!([{"name": "gpu", "groups": group}]);
        let made = HttpCall::post(format!("{accelerators}/device_profiles"))
            .header("x-auth-token", "admin")
            .json(&profile)
            .send()?;
        good(&made)?;
        for (name, specs) in [
            ("plain", json!({})),
            ("gpu", json!({"accel:device_profile": "gpu"})),
        ] {
            let flavor = json!({"flavor": {"name": name, "vcpus": 1, "ram": 64, "disk": 0}});
            let made = self.ask(Method::POST, "/flavors", Some(&flavor))?;
            let id = made["flavor"]["id"].as_str().ok_or("a flavor")?.to_owned();
            if specs != json!({}) {
                let path = format!("/flavors/{id}/os-extra_specs");
                self.ask(Method::POST, &path, Some(&json!({"extra_specs": specs})))?;
            }
            self.flavors.insert(name, id);
        }
        until(PATIENCE, "every node is known", || {
            let known = self.ask(Method::GET, "/os-hypervisors", None)?;
            Ok(known["hypervisors"].as_array().map(Vec::len) == Some(NODES))
        })
    }

    fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<Value> {
        ask(&self.url, method, path, body)
    }

    /// Boots this number of servers concurrently, and waits until all run.
    fn batch(&self, flavor: &str, servers: usize) -> Outcome<Batch> {
        let flavor = self.flavors.get(flavor).ok_or("a flavor")?;
        let create = json!({"server": {"name": "bench", "flavorRef": flavor, "imageRef": IMAGE, "networks": "none"}});
        let counted = self.counted()?;
        let built = |counted: &StageTotals| counted.last().map_or(0.0, |(count, _)| *count);
        let before = self.meter.mark();
        thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (url, create) = (&self.url, &create);
                    let own = (client..servers).step_by(CLIENTS);
                    scope.spawn(move || {
                        for _ in own {
                            ask(url, Method::POST, "/servers", Some(create))
                                .map_err(|error| error.to_string())?;
                        }
                        Ok::<_, String>(())
                    })
                })
                .collect();
            for client in clients {
                client.join().map_err(|_| "a client panicked")??;
            }
            Ok::<_, Box<dyn std::error::Error>>(())
        })?;
        let mut after = StageTotals::new();
        until(LONG, "the servers run", || {
            after = self.counted()?;
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let wanted = built(&counted) + servers as f64;
            Ok(built(&after) >= wanted)
        })?;
        let spent = self.meter.since(&before);
        let stages = counted.iter().zip(&after).map(|(before, after)| {
            let seconds = (after.1 - before.1) / (after.0 - before.0).max(1.0);
            Duration::from_secs_f64(seconds.max(0.0))
        });
        Ok(Batch {
            servers,
            spent,
            stages: stages.collect(),
        })
    }

    fn counted(&self) -> Outcome<StageTotals> {
        let page = self.runtime.block_on(self.admin.metrics())?;
        let value = |kind: &str, stage: &str| {
            let series =
                format!("berth_conductor_boot_stage_duration_seconds_{kind}{{stage=\"{stage}\"}} ");
            let line = page.lines().find_map(|line| line.strip_prefix(&series));
            line.and_then(|value| value.parse().ok()).unwrap_or(0.0)
        };
        let stages = STAGES.iter();
        Ok(stages
            .map(|(stage, _)| (value("count", stage), value("sum", stage)))
            .collect())
    }

    /// Deletes all servers, and waits until nothing is left and the devices can be given again.
    fn empty(&self) -> Outcome<()> {
        let all = self.ask(Method::GET, "/servers", None)?;
        for server in all["servers"].as_array().into_iter().flatten() {
            let id = server["id"].as_str().ok_or("a server")?;
            self.ask(Method::DELETE, &format!("/servers/{id}"), None)?;
        }
        until(LONG, "the servers are gone", || {
            Ok(self.ask(Method::GET, "/servers", None)?["servers"] == json!([]))
        })
    }
}

fn ask(url: &str, method: Method, path: &str, body: Option<&Value>) -> Outcome<Value> {
    let mut ask = HttpCall::new(method, format!("{url}{path}"))
        .header("x-auth-token", "admin")
        .header("openstack-api-version", "compute 2.82");
    if let Some(body) = body {
        ask = ask.json(body);
    }
    let answer = ask.send()?;
    good(&answer)?;
    Ok(serde_json::from_str(&answer.text()).unwrap_or_default())
}

fn good(answer: &HttpAnswer) -> Outcome<()> {
    match answer.status.is_success() {
        true => Ok(()),
        false => Err(format!("{}: {}", answer.status, answer.text()).into()),
    }
}

fn until(limit: Duration, what: &str, mut poll: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
    let begun = Instant::now();
    while !poll()? {
        if begun.elapsed() > limit {
            return Err(format!("not in time: {what}").into());
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

fn machine() -> String {
    let mut text = "[model]\nvgpu = \"per-gpu\"\nnuma = \"flat\"\npcpu = \"vcpu\"\n".to_owned();
    for node in 0..NODES {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[[node]]\nname = \"bench-{node}\"\nmemory_mib = 65536\ndisk = 500\ntraits = []\ncpus = {{ online = \"0-31\" }}\n"
        );
        for device in 0..DEVICES {
            let _ = write!(
                text,
                "\n[[node.device]]\naddress = \"{node:04x}:{:02x}:00.0\"\nvendor = \"10de\"\nproduct = \"1eb8\"\n",
                0x21 + device
            );
        }
    }
    text
}
