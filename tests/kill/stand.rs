//! A test stand: a Placement, a proxy in front of it, and a machine with `berth` installed. Each thread has one.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use berth_fake::Machine;
use berth_model::{ProviderUuid, Trait};
use berth_tests::berth::{BerthHome, Outcome, RunningBerth};
use berth_tests::claims::{add, claim, join, neighbours};
use berth_tests::cloud::Cloud;
use berth_tests::fault_proxy::{FaultProxy, ProxyRule};
use berth_tests::node::COMPUTE_ID;
use berth_tests::peer::{Lease, PlacementSettings, RealPlacement};
use uuid::Uuid;

use crate::kill::contents::{difference, held, lines, statements};
use crate::kill::route::route;
use crate::kill::scenario::KillScenario;

/// No start takes this long, not even on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Stand {
    pub(crate) placement: Lease,
    proxy: FaultProxy,
    home: BerthHome,
}

/// A scenario that can be started repeatedly, with its result without a kill.
pub(crate) struct PreparedScenario {
    pub(crate) scenario: KillScenario,
    /// The requests of an undisturbed start, by their routes.
    pub(crate) crossings: Vec<String>,
    statements: String,
    compute_id: Option<String>,
    expected: BTreeSet<String>,
    files: BTreeSet<String>,
}

/// A process that a closure may kill.
type Victim = Arc<Mutex<Option<RunningBerth>>>;

fn locked(victim: &Victim) -> MutexGuard<'_, Option<RunningBerth>> {
    victim.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a rule needs to kill.
#[derive(Clone)]
pub(crate) struct KillRule(Victim);

impl KillRule {
    pub(crate) fn strike(&self) {
        if let Some(berth) = locked(&self.0).as_mut() {
            berth.kill();
        }
    }
}

/// How a start ended.
pub(crate) struct StartEnd {
    pub(crate) outcome: Outcome,
    /// The requests it sent, by their routes.
    pub(crate) crossings: Vec<String>,
}

impl StartEnd {
    pub(crate) fn was_killed(&self) -> bool {
        self.outcome.code == 128 + 9
    }
}

impl Stand {
    pub(crate) fn new() -> Self {
        let placement =
            RealPlacement::lease(PlacementSettings::default()).expect("Placement starts");
        let proxy = FaultProxy::start(&placement.url()).expect("a proxy");
        let home = BerthHome::new().expect("a home");
        let way = format!(
            "auth_type = \"admin_token\"\nendpoint = \"{}\"\ntoken = \"admin\"",
            proxy.url()
        );
        home.configure(&format!(
            "compute_driver = \"fake\"\nstate_path = \"@HOME@/state\"\n\
             [agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
             [fake]\nmachine = \"@HOME@/machine.toml\"\n[placement]\n{way}\n"
        ))
        .expect("a configuration");
        Self {
            placement,
            proxy,
            home,
        }
    }

    /// Creates a scenario's world, and runs it once without a kill.
    pub(crate) fn prepare(&mut self, scenario: KillScenario) -> PreparedScenario {
        self.placement.reset().expect("an empty Placement");
        self.clear_state();
        self.seed(scenario);
        let mut prepared = PreparedScenario {
            scenario,
            crossings: Vec::new(),
            statements: statements(&self.placement),
            compute_id: self.compute_id(),
            expected: BTreeSet::new(),
            files: BTreeSet::new(),
        };
        self.put(&prepared);
        let ended = self.start(scenario, |_| Vec::new()).expect("it ends");
        assert_eq!(ended.outcome.code, 0, "{}", ended.outcome.stderr);
        prepared.crossings = ended.crossings;
        prepared.expected = lines(&self.placement);
        prepared.files = self.files();
        let wrong = difference(&held(&prepared.expected), &scenario.holdings());
        assert_eq!(wrong, Vec::<String>::new(), "{scenario:?}");
        let again = self.start(scenario, |_| Vec::new()).expect("it ends");
        let writes = again
            .crossings
            .iter()
            .filter(|route| !route.starts_with("GET "));
        assert_eq!(writes.count(), 0, "{:?}", again.crossings);
        prepared
    }

    fn seed(&mut self, scenario: KillScenario) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let placement = Cloud::at(&self.placement.url()).placement();
        let neighbours = runtime.block_on(neighbours(&placement));
        let Some(machine) = scenario.machine_before() else {
            return;
        };
        self.show(&machine);
        let ended = self
            .start(KillScenario::Greenfield, |_| Vec::new())
            .expect("it ends");
        assert_eq!(ended.outcome.code, 0, "{}", ended.outcome.stderr);
        let root = self.compute_id().expect("a node that was reported");
        let root: ProviderUuid = root.parse().expect("a UUID");
        let claims = scenario.claims(root, &neighbours);
        runtime.block_on(async {
            join(&placement, root, neighbours.aggregate).await;
            let fpga = [("FPGA".parse().expect("a class"), 2)];
            let uuid = Uuid::from_u128(0xacc).into();
            add(
                &placement,
                uuid,
                "cyborgs-fpga",
                Some(root),
                &fpga,
                &[Trait::OWNER_CYBORG],
            )
            .await;
            claim(&placement, claims).await;
        });
    }

    /// Restores the world to its state before the scenario.
    pub(crate) fn put(&mut self, prepared: &PreparedScenario) {
        self.placement.reset().expect("an empty Placement");
        self.placement
            .query(&prepared.statements)
            .expect("rows that fit");
        self.clear_state();
        if let Some(root) = &prepared.compute_id {
            let file = self.home.state_dir().join(COMPUTE_ID);
            fs::write(file, format!("{root}\n")).expect("room on the disk");
        }
        self.show(&prepared.scenario.machine());
    }

    fn show(&self, machine: &Machine) {
        self.home
            .write("machine.toml", &machine.to_toml())
            .expect("room on the disk");
    }

    /// Starts `berth agent --once` with these rules on its way to Placement, until it ends by itself or by one of them.
    pub(crate) fn start(
        &mut self,
        scenario: KillScenario,
        rules: impl FnOnce(KillRule) -> Vec<ProxyRule>,
    ) -> Result<StartEnd, String> {
        let victim = Victim::default();
        self.proxy.heal();
        self.proxy.forget();
        for rule in rules(KillRule(Arc::clone(&victim))) {
            self.proxy.add_rule(rule);
        }
        let config = self.home.config_file().display().to_string();
        let arguments = ["--config", &config, "agent", "--once", "--deadline", "120s"];
        {
            // A rule that wants to kill waits until there is a process.
            let mut slot = locked(&victim);
            let arguments = arguments.iter().chain(scenario.arguments());
            let berth = self
                .home
                .start(arguments)
                .map_err(|error| error.to_string())?;
            *slot = Some(berth);
        }
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if locked(&victim).as_mut().is_none_or(RunningBerth::has_ended) {
                break;
            }
            sleep(Duration::from_millis(3));
        }
        let berth = locked(&victim).take().ok_or("nothing was started")?;
        let outcome = berth
            .wait(Duration::ZERO)
            .map_err(|error| error.to_string())?;
        let trace = self.proxy.trace();
        let crossings = trace
            .iter()
            .map(|crossing| route(&crossing.method, &crossing.path));
        Ok(StartEnd {
            outcome,
            crossings: crossings.collect(),
        })
    }

    /// What is not as an undisturbed start leaves it.
    pub(crate) fn violations(
        &self,
        prepared: &PreparedScenario,
        compute_id: Option<&str>,
    ) -> Vec<String> {
        let mut violations = difference(&lines(&self.placement), &prepared.expected);
        let files = self.files();
        if files != prepared.files {
            violations.push(format!(
                "the state folder holds {files:?}, not {:?}",
                prepared.files
            ));
        }
        let now = self.compute_id();
        if compute_id.is_some_and(|then| now.as_deref() != Some(then)) {
            violations.push(format!("compute_id was {compute_id:?} and is {now:?}"));
        }
        violations
    }

    pub(crate) fn compute_id(&self) -> Option<String> {
        let content = fs::read_to_string(self.home.state_dir().join(COMPUTE_ID)).ok()?;
        Some(content.trim().to_owned())
    }

    /// The names of the state folder's files.
    fn files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.home.state_dir()).expect("a state folder");
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    fn clear_state(&self) {
        let folder = self.home.state_dir();
        fs::remove_dir_all(&folder).expect("a state folder");
        fs::create_dir(&folder).expect("a state folder");
    }

    /// For a test of the checks: something that a kill must not leave.
    pub(crate) fn leave(&self, file: &str) {
        fs::write(self.home.state_dir().join(file), "x").expect("room on the disk");
    }
}
