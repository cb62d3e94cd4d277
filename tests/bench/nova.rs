//! Drives nova-compute, which `nova/install.sh` installs, through `nova/peer.py`, which answers with JSON.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use berth_model::ProviderUuid;
use berth_tests::peer::checkout;
use berth_tests::scratch::Scratch;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::meter::{MeterSpan, ms};
use crate::placement::Placement;
use crate::{Outcome, host};

/// How many steady ticks of Nova's are timed; a thousand guests make each five seconds long.
const TICKS: u32 = 3;
/// How long the service is left alone before its memory is read, in seconds.
const IDLE_S: u32 = 10;

/// The interpreter that has Nova.
pub(crate) struct NovaPeer {
    python: PathBuf,
}

/// What one startup or tick took.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct NovaPass {
    pub(crate) wall_ms: f64,
    pub(crate) cpu_ms: f64,
    /// Of the Placement it reports to.
    #[serde(default)]
    pub(crate) placement_cpu_ms: f64,
    #[serde(default)]
    pub(crate) requests: f64,
    /// Wall time of POST /reshaper alone, where it is known.
    #[serde(default)]
    pub(crate) reshaper_ms: f64,
}

impl NovaPass {
    /// The mean of `count` passes that together took this.
    pub(crate) fn new(agent: MeterSpan, placement: MeterSpan, requests: f64, count: u32) -> Self {
        Self {
            wall_ms: ms(agent.wall) / f64::from(count),
            cpu_ms: ms(agent.cpu) / f64::from(count),
            placement_cpu_ms: ms(placement.cpu) / f64::from(count),
            requests: requests / f64::from(count),
            reshaper_ms: 0.0,
        }
    }
}

/// Nova's tracker on the measured host.
#[derive(Debug, Deserialize)]
pub(crate) struct NovaRun {
    /// The startup with the reshape.
    pub(crate) startup: NovaPass,
    reshaped: bool,
    ticks: Vec<NovaPass>,
    pub(crate) aged: NovaPass,
    /// A new process' startup on the tree as it is.
    pub(crate) restart: NovaPass,
}

impl NovaRun {
    /// The steady tick in the middle.
    pub(crate) fn tick(&self) -> NovaPass {
        let mut ticks = self.ticks.clone();
        ticks.sort_by(|a, b| a.cpu_ms.total_cmp(&b.cpu_ms));
        ticks
            .into_iter()
            .nth(self.ticks.len() / 2)
            .unwrap_or_default()
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct NovaService {
    pub(crate) import: NovaPass,
    /// From then on until its first report has landed.
    pub(crate) start: NovaPass,
    pub(crate) idle_mib: f64,
}

impl NovaPeer {
    /// Where it is installed.
    pub(crate) fn installed() -> Outcome<Self> {
        let folder = std::env::var_os("BERTH_NOVA")
            .map_or_else(|| checkout().join("target/peers/nova"), PathBuf::from);
        let python = folder.join("bin/python");
        if folder.join("stamp").is_file() {
            Ok(Self { python })
        } else {
            Err(format!(
                "it is not in {} (tests/bench/nova/install.sh puts it there)",
                folder.display()
            )
            .into())
        }
    }

    /// Startup, ticks, aged tick and restart on the measured host.
    pub(crate) fn tracker(
        &self,
        placement: &Placement,
        guests: u32,
        root: ProviderUuid,
    ) -> Outcome<NovaRun> {
        let api = placement.api();
        let inventories = api.get(&format!("/resource_providers/{root}/inventories"))?;
        let mut on_root = inventories["inventories"].clone();
        on_root
            .as_object_mut()
            .map(|classes| classes.remove("VGPU"));
        let gpus = host::gpus(guests)?;
        let setup = json!({
            "url": api.url,
            "token": "admin",
            "placement_pids": placement.meter().pids(),
            "name": host::NAME,
            "root": root.to_string(),
            "root_inventories": on_root,
            "gpus": gpus.keys().collect::<Vec<_>>(),
            "units_per_gpu": gpus.values().next(),
            "guests": host::gpus_of_guests(guests)?,
            "ticks": TICKS,
        });
        let run: NovaRun = serde_json::from_value(self.run("tracker", &setup)?)?;
        if run.reshaped {
            Ok(run)
        } else {
            Err("nova-compute did not reshape".into())
        }
    }

    /// A complete nova-compute with its fake driver and this Placement.
    pub(crate) fn service(&self, placement: &Placement) -> Outcome<NovaService> {
        let folder = Scratch::new()?;
        let url = placement.api().url;
        let setup = json!({"url": url, "token": "admin", "dir": folder.path(), "idle_s": IDLE_S});
        Ok(serde_json::from_value(self.run("service", &setup)?)?)
    }

    fn run(&self, what: &str, setup: &Value) -> Outcome<Value> {
        let folder = Scratch::new()?;
        let file = folder.join("setup.json");
        fs::write(&file, setup.to_string())?;
        self.script("peer.py", &[what.to_owned(), file.display().to_string()])
    }

    /// The last output line of a script in the folder of `peer.py`.
    pub(crate) fn script(&self, name: &str, arguments: &[String]) -> Outcome<Value> {
        let script = checkout().join("tests/bench/nova").join(name);
        let mut command = Command::new(&self.python);
        let output = command.arg(script).args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().next_back().map(serde_json::from_str) {
            Some(Ok(results)) => Ok(results),
            _ => Err(format!(
                "nova/{name} failed:\n{}",
                String::from_utf8_lossy(&output.stderr)
            )
            .into()),
        }
    }
}
