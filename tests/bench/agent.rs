//! Runs `berth agent` or `berth up` as a process, with the benchmark as its service manager: READY=1 marks the time of
//! its first report.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use berth_agent_api::client::AdminClient;
use berth_tests::berth::{BerthHome, RunningBerth};

use crate::Outcome;
use crate::meter::{Meter, MeterReading, MeterSpan};
use crate::placement::PATIENCE;

/// What a home's configuration starts with; `[placement]` or `[placement_service]` follows.
const CONFIGURATION: &str = r#"
compute_driver = "fake"
state_path = "@HOME@/state"
reserved_host_memory_mb = 0
[fake]
machine = "@HOME@/machine.toml"
[agent]
admin_socket = "@HOME@/agent.sock"
"#;

/// A home for an agent that reports to the Placement at this URL.
pub(crate) fn home_reporting_to(url: &str) -> Outcome<BerthHome> {
    home(&format!(
        "{CONFIGURATION}\n[placement]\nauth_type = \"admin_token\"\nendpoint = \"{url}\"\ntoken = \"admin\"\n"
    ))
}

/// A home for `berth up` with a Placement at this address.
pub(crate) fn home_with_placement(listen: &str) -> Outcome<BerthHome> {
    home(&format!(
        "{CONFIGURATION}\n[placement_service]\nlisten = \"{listen}\"\nauth_strategy = \"noauth2\"\n"
    ))
}

/// A home with this configuration.
pub(crate) fn home(configuration: &str) -> Outcome<BerthHome> {
    let mut home = BerthHome::new()?;
    home.configure(configuration)?;
    let socket = home.path("notify");
    home.set_env("NOTIFY_SOCKET", socket);
    Ok(home)
}

/// An agent after its first report.
pub(crate) struct RunningAgent {
    berth: RunningBerth,
    admin: AdminClient,
    runtime: tokio::runtime::Runtime,
    /// From its start until it was ready.
    pub(crate) startup: MeterSpan,
}

impl RunningAgent {
    /// Starts `berth COMMAND` and waits until it says READY.
    pub(crate) fn start(home: &mut BerthHome, command: &str) -> Outcome<Self> {
        let socket = home.path("notify");
        // Of the run before.
        let _ = std::fs::remove_file(&socket);
        let manager = UnixDatagram::bind(&socket)?;
        let config = home.config_file();
        let arguments = [command.as_ref(), "--config".as_ref(), config.as_os_str()];
        let began = Instant::now();
        let mut berth = home.start(arguments)?;
        let wall = wait_for_ready(&manager, &mut berth, began)?;
        let cpu = Meter::of_process(berth.pid())
            .since(&MeterReading::zero())
            .cpu;
        Ok(Self {
            berth,
            admin: AdminClient::new(&home.path("agent.sock"))?,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
            startup: MeterSpan { wall, cpu },
        })
    }

    pub(crate) fn meter(&self) -> Meter {
        Meter::of_process(self.berth.pid())
    }

    /// Asks for a tick and waits for its end.
    pub(crate) fn tick(&self) -> Outcome<()> {
        self.runtime.block_on(self.admin.tick())?;
        Ok(())
    }

    /// How many requests it has sent to Placement.
    pub(crate) fn requests(&self) -> Outcome<f64> {
        let text = self.runtime.block_on(self.admin.metrics())?;
        let counters = text
            .lines()
            .filter(|line| line.starts_with("berth_placement_requests_total{"));
        Ok(counters
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum())
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn stop(self) -> Outcome<()> {
        self.berth.stop(PATIENCE)?;
        Ok(())
    }
}

fn wait_for_ready(
    manager: &UnixDatagram,
    berth: &mut RunningBerth,
    began: Instant,
) -> Outcome<Duration> {
    manager.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut message = [0; 4096];
    while began.elapsed() < 2 * PATIENCE {
        let Ok(length) = manager.recv(&mut message) else {
            if berth.has_ended() {
                return Err(format!("berth ended before it was ready:\n{}", berth.stderr()).into());
            }
            continue;
        };
        let reported = String::from_utf8_lossy(&message[..length]);
        if reported.lines().any(|line| line == "READY=1") {
            return Ok(began.elapsed());
        }
    }
    Err(format!("berth was not ready in time:\n{}", berth.stderr()).into())
}
