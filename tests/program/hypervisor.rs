//! A machine with `berth` installed: the shipped machine files, a configuration, and a state directory.

use std::fs;
use std::time::Duration;

use berth_tests::berth::{BerthHome, Outcome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::peer::checkout;
use berth_tests::port::free_port;

use crate::program::service_manager::ServiceManager;

/// Nothing that is to happen takes this long, not even on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Hypervisor {
    /// Where it all is.
    pub(crate) home: BerthHome,
    metrics: u16,
}

impl Hypervisor {
    /// This shipped machine, its node with a name of its own, and this way to Placement (the `[placement]` section's lines).
    pub(crate) fn new(machine: &str, node: &str, placement: &str) -> Self {
        let file = checkout().join(format!("drivers/fake/machines/{machine}.toml"));
        let text = fs::read_to_string(file).expect("a shipped machine");
        let name = text
            .lines()
            .find_map(|line| line.strip_prefix("name = "))
            .expect("a node with a name");
        let (old, new) = (format!("\nname = {name}"), format!("\nname = \"{node}\""));
        let text = text.replacen(&old, &new, 1);
        let home = BerthHome::new().expect("a home");
        home.write("machine.toml", &text).expect("a file");
        let this = Self {
            home,
            metrics: free_port().expect("a port"),
        };
        this.configure(placement, "");
        this
    }

    /// Writes its configuration: the way to Placement, and further lines for the top level.
    pub(crate) fn configure(&self, placement: &str, top: &str) {
        let metrics = self.metrics;
        let text = format!(
            "compute_driver = \"fake\"\nstate_path = \"@HOME@/state\"\nupdate_resources_interval = 1\n\
             periodic_fuzzy_delay = 0\n{top}\n\
             [compute]\nresource_provider_association_refresh = 1\n\
             [agent]\nadmin_socket = \"@HOME@/agent.sock\"\nmetrics_listen = \"127.0.0.1:{metrics}\"\n\
             [fake]\nmachine = \"@HOME@/machine.toml\"\n\
             [placement]\n{placement}\n"
        );
        self.home.configure(&text).expect("a configuration");
    }

    /// Replaces words of the machine file; each must be there.
    pub(crate) fn edit(&self, old: &str, new: &str) {
        let file = self.home.path("machine.toml");
        let text = fs::read_to_string(&file).expect("the machine");
        assert!(text.contains(old), "{old} is not in the machine");
        // At once, as editors do: half a machine is another machine.
        let next = self
            .home
            .write("machine.new", &text.replace(old, new))
            .expect("a file");
        fs::rename(next, file).expect("the machine is replaced");
    }

    /// Runs a command with its configuration to its end.
    pub(crate) fn run(&mut self, arguments: &[&str]) -> Outcome {
        let config = self.home.config_file().display().to_string();
        let arguments = [&["--config", &config], arguments].concat();
        self.home.run(arguments).expect("berth ends")
    }

    /// Starts a command with its configuration.
    pub(crate) fn start(&mut self, arguments: &[&str]) -> RunningBerth {
        let config = self.home.config_file().display().to_string();
        let arguments = [&["--config", &config], arguments].concat();
        self.home.start(arguments).expect("berth starts")
    }

    /// One startup and one tick.
    pub(crate) fn once(&mut self) -> Outcome {
        self.run(&["agent", "--once", "--deadline", "60s"])
    }

    /// Lets the runs to come talk to a service manager.
    pub(crate) fn managed(&mut self) -> ServiceManager {
        let path = self.home.path("notify");
        let manager = ServiceManager::listen(&path);
        self.home.set_env("NOTIFY_SOCKET", path);
        manager
    }

    /// Reads metrics or health from the port; none if it refuses connections.
    pub(crate) fn ask(&self, path: &str) -> Option<HttpAnswer> {
        HttpCall::get(format!("http://127.0.0.1:{}{path}", self.metrics))
            .send()
            .ok()
    }

    /// Waits until its health is good.
    pub(crate) fn wait_until_healthy(&self, agent: &mut RunningBerth) {
        let well = || self.ask("/healthz").is_some_and(|it| it.status == 200);
        agent.wait_until(PATIENCE, well).expect("it is well");
    }

    /// The value of a metric without labels, or of the first series that begins so.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let text = self.ask("/metrics")?.text();
        let line = text.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// The UUID of its root provider.
    pub(crate) fn root(&self) -> String {
        let file = self.home.state_dir().join("compute_id");
        fs::read_to_string(file)
            .expect("a node that was reported")
            .trim()
            .to_owned()
    }

    /// Everything it keeps in its state folder, as text, with the files' names.
    pub(crate) fn state_files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.home.state_dir()).expect("a state folder");
        entries
            .flatten()
            .filter(|entry| entry.path().is_file())
            .map(|entry| {
                let content = fs::read(entry.path()).unwrap_or_default();
                (entry.file_name().to_string_lossy().into_owned(), content)
            })
            .collect()
    }
}
