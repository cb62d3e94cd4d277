//! The node agent as a process of this host: its locks, its options, and its errors as failures.
//!
//! [`AgentHost::take`] locks the host and its state folder; [`AgentHost::serve`] runs the agent until the stop signal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_agent::metrics::{EmbeddedMetrics, Metrics};
use berth_agent::notify::Notifier;
use berth_agent::service::{self, Agent, ExitReason, LastFailure, LiveOptions, Mode, ServiceError};
use berth_agent::triggers::Interval;
use berth_agent_api::{AdminError, AdminOptions, ReloadableTls, SocketLock};
use berth_agent_tracker::options::Rename;
use berth_client::{HostsClient, PlacementClient};
use berth_config::{Config, LoadedConfig, Public, Sources, UpdateInterval, after_reload};
use berth_output::{ErrorCode, Failure, sentence};
use berth_store::state_dir::StateDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::placement_failure::{failure_of_placement, observe_failure, placement_error_code};
use crate::plan_file::PlanFile;
use crate::state_lock::{WITH_GUESTS, state_folder};
use crate::{DEADLINE, Driver, HostGuests, audit, open_driver, tls, tracker_options};

/// Command line arguments of the agent.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct AgentRunArguments {
    /// Run one startup and one tick, then exit.
    #[arg(long)]
    pub once: bool,
    /// With --once: how long to wait for a service that is not reachable [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "once")]
    pub deadline: Option<Duration>,
    /// Follow exactly this plan (of `berth reshape plan --out`), or fail with exit code 76.
    #[arg(long, value_name = "FILE")]
    pub expect_plan: Option<PathBuf>,
    /// Accept a risk by its name.
    #[arg(long, value_name = "RISK", value_enum, value_delimiter = ',')]
    pub accept_risk: Vec<AgentRisk>,
}

/// Risks that must be accepted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum AgentRisk {
    /// The host was renamed: give its providers in Placement the new name.
    RenameHost,
}

/// The inputs of one run of the agent.
pub struct AgentRun<'a> {
    pub loaded: &'a LoadedConfig,
    /// The sources of the configuration, for a reload.
    pub sources: &'a Sources,
    /// The command line arguments.
    pub arguments: &'a AgentRunArguments,
    pub metrics: Metrics,
    /// Metrics of the other services in this process; `None` without such services.
    pub embedded_metrics: Option<Arc<dyn EmbeddedMetrics>>,
    pub shutdown: CancellationToken,
}

/// This host, locked: no other agent can start as long as this value lives.
pub struct AgentHost {
    pub driver: Arc<Driver>,
    lock: SocketLock,
    files: StateDir,
}

impl AgentHost {
    /// Locks the host and its state folder, and opens the driver.
    ///
    /// # Errors
    /// Another agent holds the lock, the driver cannot be opened, or the folder cannot be used.
    pub fn take(loaded: &LoadedConfig, arguments: &AgentRunArguments) -> Result<Self, Failure> {
        let config = &loaded.config;
        // Before the driver, which keeps its state in it.
        state_folder(&config.state_path, WITH_GUESTS)?;
        let driver = Arc::new(open_driver(config)?);
        // Lock before anything in the state folder is changed: another agent may be writing to it.
        let lock = match arguments.once {
            true => alone(config)?,
            false => SocketLock::take(&config.agent.admin_socket)
                .map_err(|error| failed(&ServiceError::Admin(error), config))?,
        };
        let files = StateDir::open(&config.state_path).map_err(|error| {
            Failure::caused(ErrorCode::State, "the state folder (state_path)", &error)
        })?;
        Ok(Self {
            driver,
            lock,
            files,
        })
    }

    /// Runs the agent against a Placement until `shutdown`. `hosts` gets this host's state for the scheduler; `None`:
    /// it is not reported. `error_watches` are the journals of the other services in this process, each with the error while
    /// it cannot be used. `ready` receives the signal that the agent's first inventory is stored.
    pub async fn serve(
        self,
        run: AgentRun<'_>,
        placement: PlacementClient,
        guests: &HostGuests,
        hosts: Option<HostsClient>,
        error_watches: impl IntoIterator<Item = (&'static str, watch::Receiver<Option<String>>)>,
        ready: impl FnOnce(watch::Receiver<bool>),
    ) -> Result<(), Failure> {
        let (loaded, arguments) = (run.loaded, run.arguments);
        let config = &loaded.config;
        let rename = rename(arguments);
        let mut agent = Agent::new(self.driver, placement, Arc::new(self.files));
        agent.live = live(loaded, loaded.public(), rename)?;
        let tls = match arguments.once {
            true => None,
            false => tls::open(config)?,
        };
        let tls_settings = tls.as_ref().map(|listen| listen.settings.clone());
        agent.reload = Some(reload(
            run.sources.clone(),
            loaded.public(),
            rename,
            tls_settings,
        ));
        agent.mode = match arguments.once {
            true => Mode::Once {
                deadline: arguments.deadline.unwrap_or(DEADLINE),
            },
            false => Mode::Serve,
        };
        agent.admin = match arguments.once {
            true => None,
            false => Some(AdminOptions {
                socket: config.agent.admin_socket.clone(),
                group: config.agent.admin_group.clone(),
                metrics_listen: config.agent.metrics_listen.address(),
                tls,
                audit: audit::open(config)?,
            }),
        };
        agent.lock = Some(self.lock);
        agent.metrics = run.metrics;
        agent.embedded_metrics = run.embedded_metrics;
        agent.notifier = notifier();
        ready(agent.notifier.readiness());
        agent.reviewed = match &arguments.expect_plan {
            Some(file) => Some(PlanFile::read(file)?.reviewed()?),
            None => None,
        };
        agent.devices = Some(guests.device_service());
        agent.trees = guests.provider_trees();
        let host_state = hosts.map(|client| guests.host_state_service(config, client));
        agent.host_state = host_state.transpose()?;
        agent.embedded_journals = error_watches.into_iter().collect();
        agent.guests = (!arguments.once).then(|| guests.guest_service());
        let events = match arguments.once {
            true => None,
            false => guests.serve_events(config, &run.shutdown).await?,
        };
        let shutdown = run.shutdown.clone();
        let ended = service::run(agent, run.shutdown)
            .await
            .map_err(|error| failed(&error, config));
        shutdown.cancel();
        if let Some(events) = events {
            // A panic in it has been reported already.
            let _ = events.await;
        }
        ended
    }
}

/// The service manager. Without access to it the agent runs anyway, as sd_notify(3) recommends: an inherited variable
/// must not stop the node, and a unit of `Type=notify` detects a missing READY by its own timeout.
fn notifier() -> Notifier {
    Notifier::from_environment().unwrap_or_else(|error| {
        let socket = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
        tracing::warn!(
            %error,
            socket = %socket.display(),
            "NOTIFY_SOCKET names no socket that can be used; the agent goes on, and no service manager is told how it is: \
             unset NOTIFY_SOCKET, or start the agent by its unit (systemctl start berth-agent)"
        );
        Notifier::silent()
    })
}

/// Prevents agents from starting as long as the lock lives: for commands that act on the node themselves.
pub fn alone(config: &Config) -> Result<SocketLock, Failure> {
    let socket = &config.agent.admin_socket;
    SocketLock::take(socket).map_err(|error| match &error {
        AdminError::Held { .. } => Failure::new(
            ErrorCode::Held,
            format!(
                "an agent of this node runs (it holds {}.lock)",
                socket.display()
            ),
        )
        .hint("stop it first: systemctl stop berth-agent"),
        _ => Failure::caused(
            ErrorCode::File,
            format!(
                "cannot take the lock {}.lock, which prevents a second agent",
                socket.display()
            ),
            &error,
        )
        .hint("run it as the agent's user (root), or set [agent] admin_socket"),
    })
}

fn rename(arguments: &AgentRunArguments) -> Rename {
    if arguments.accept_risk.contains(&AgentRisk::RenameHost) {
        Rename::Accept
    } else {
        Rename::Refuse
    }
}

fn live(loaded: &LoadedConfig, shown: Public, rename: Rename) -> Result<LiveOptions, Failure> {
    let config = &loaded.config;
    let config_shown = serde_json::to_value(shown).map_err(|error| {
        Failure::caused(ErrorCode::Bug, "cannot show the configuration", &error)
    })?;
    Ok(LiveOptions {
        tracker: tracker_options(config, rename)?,
        interval: match config.update_resources_interval {
            UpdateInterval::Off => Interval::Off,
            UpdateInterval::Every(period) => Interval::Every(period),
        },
        periodic_fuzzy_delay: config.periodic_fuzzy_delay,
        graceful_shutdown_timeout: config.graceful_shutdown_timeout,
        config: config_shown,
    })
}

/// Handles SIGHUP: the configuration and the TLS files are read and checked completely before any of them takes effect.
fn reload(
    sources: Sources,
    started: Public,
    rename: Rename,
    tls_settings: Option<ReloadableTls>,
) -> service::Reload {
    Arc::new(move || {
        let loaded = berth_config::load(&sources).map_err(|error| sentence(&error))?;
        let shown = after_reload(&started, &loaded.public());
        let live = live(&loaded, shown, rename).map_err(|failure| failure.explain())?;
        if let Some(settings) = &tls_settings {
            tls::reload(settings)?;
        }
        Ok(live)
    })
}

/// Converts the agent's error into a failure with its code.
fn failed(error: &ServiceError, config: &Config) -> Failure {
    let code = code_of(error);
    match error {
        ServiceError::ReshapeNeeded { .. } => {
            let preview = match config.placement.auth_type {
                Some(_) => "berth reshape plan",
                None => "berth placement migrate-compute-inventory --dry-run",
            };
            Failure::from_error(code, error).hint(format!(
                "start berth again, as systemd does by itself; the changes are shown before by: {preview}"
            ))
        }
        ServiceError::DeadlinePassed { last, .. } => last_failure(code, last).cause(error),
        ServiceError::Observe(source) => observe_failure(source),
        ServiceError::Start { source, .. } if code != ErrorCode::ReshapeFailed => {
            match source.placement() {
                Some(placement) => failure_of_placement(code, placement),
                None => Failure::from_error(code, source),
            }
        }
        _ => Failure::from_error(code, error),
    }
}

/// The failure of a run that was not done in time: what failed last.
fn last_failure(code: ErrorCode, last: &LastFailure) -> Failure {
    match last {
        LastFailure::Observe(source) => observe_failure(source),
        LastFailure::Pass { source, .. } => match source.placement() {
            Some(placement) => failure_of_placement(code, placement),
            None => Failure::from_error(code, last),
        },
        LastFailure::NoNode | LastFailure::NoAnswer => Failure::from_error(code, last),
    }
}

fn code_of(error: &ServiceError) -> ErrorCode {
    match error.reason() {
        ExitReason::ReshapeNeeded => ErrorCode::ReshapeNeeded,
        ExitReason::ReshapeFailed => ErrorCode::ReshapeFailed,
        ExitReason::Configuration | ExitReason::DependencyGone => match error {
            ServiceError::Start { source, .. } => match source.placement() {
                Some(placement) => placement_error_code(placement),
                None if source.is_of_provider_files() => ErrorCode::Contradiction,
                None => ErrorCode::Identity,
            },
            ServiceError::Observe(_) => ErrorCode::Driver,
            ServiceError::DeadlinePassed { .. } => ErrorCode::Unavailable,
            _ => ErrorCode::BadValue,
        },
        ExitReason::Disk => ErrorCode::State,
        ExitReason::HeldByAnother => ErrorCode::Held,
        ExitReason::Bug => ErrorCode::Bug,
    }
}
