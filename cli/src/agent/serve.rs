//! The agent as a service: this host taken, its options, its end as a failure.

use std::sync::Arc;

use berth_agent::metrics::{Metrics, MetricsBeside};
use berth_agent::notify::Notifier;
use berth_agent::service::{self, Agent, ExitReason, LiveOptions, Mode, ServiceError};
use berth_agent::triggers::Interval;
use berth_agent_api::{AdminError, AdminOptions, SocketLock, TlsDoor};
use berth_agent_tracker::options::Rename;
use berth_client::{HostsClient, PlacementClient};
use berth_store::state_dir::StateDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Risk, RunArguments};
use crate::compose::{
    DEADLINE, Driver, HostGuests, accelerators_over_network, hosts_over_network,
    placement_over_network, tls_door, tracker_options,
};
use crate::config::{Config, Loaded, Public, Sources, UpdateInterval, after_reload};
use crate::failure::{ErrorCode, Failure, sentence};
use crate::reshape::PlanFile;
use crate::signals;

/// The agent beside the services that the configuration names, until it is told to end.
pub(super) async fn alone_on_this_host(
    loaded: &Loaded,
    sources: &Sources,
    arguments: &RunArguments,
) -> Result<(), Failure> {
    let end = signals::end();
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let placement = placement_over_network(&loaded.config, Some(Arc::new(metrics.clone())))?;
    let accelerators = accelerators_over_network(&loaded.config)?;
    let hosts = hosts_over_network(&loaded.config)?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let waiting = tokio::spawn(async move {
        end.await;
        stop.cancel();
    });
    let begin = async {
        let host = OwnHost::take(loaded, arguments)?;
        let config = &loaded.config;
        let guests =
            HostGuests::open(config, &host.driver, accelerators, placement.clone(), None).await?;
        let run = Run {
            loaded,
            sources,
            arguments,
            metrics,
            metrics_beside: None,
            shutdown,
        };
        let ended = host.serve(run, placement, &guests, hosts, None, drop).await;
        guests.close().await;
        ended
    };
    let ended = begin.await;
    waiting.abort();
    ended
}

/// How an agent runs, from its start to its end.
pub struct Run<'a> {
    pub loaded: &'a Loaded,
    /// Where it is read again.
    pub sources: &'a Sources,
    /// What the command line says.
    pub arguments: &'a RunArguments,
    pub metrics: Metrics,
    /// What this process's other services count; none where there are none.
    pub metrics_beside: Option<Arc<dyn MetricsBeside>>,
    pub shutdown: CancellationToken,
}

/// This host, taken: no other agent has it as long as this lives.
pub struct OwnHost {
    pub driver: Arc<Driver>,
    lock: SocketLock,
    files: StateDir,
}

impl OwnHost {
    /// Takes the host and its state folder.
    ///
    /// # Errors
    /// Another agent has it, the driver cannot be made, or the folder cannot be used.
    pub fn take(loaded: &Loaded, arguments: &RunArguments) -> Result<Self, Failure> {
        let config = &loaded.config;
        let driver = Arc::new(Driver::of(config)?);
        // Before anything is touched in the state folder, which another agent may be writing to.
        let lock = match arguments.once {
            true => alone(config)?,
            false => SocketLock::take(&config.agent.admin_socket)
                .map_err(|error| failed(&ServiceError::Admin(error)))?,
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

    /// Runs the agent against a Placement until `shutdown`. `hosts` is where the scheduler is told of this host; none: nobody is
    /// told. `beside` are the journals of this process's other services, each
    /// with what tells why it cannot be used; `ready` is given what tells when the agent's first inventory landed.
    pub async fn serve(
        self,
        run: Run<'_>,
        placement: PlacementClient,
        guests: &HostGuests,
        hosts: Option<HostsClient>,
        beside: impl IntoIterator<Item = (&'static str, watch::Receiver<Option<String>>)>,
        ready: impl FnOnce(watch::Receiver<bool>),
    ) -> Result<(), Failure> {
        let (loaded, arguments) = (run.loaded, run.arguments);
        let config = &loaded.config;
        let rename = rename(arguments);
        let mut agent = Agent::new(self.driver, placement, Arc::new(self.files));
        agent.live = live(loaded, loaded.public(), rename)?;
        let tls = match arguments.once {
            true => None,
            false => tls_door::open(config)?,
        };
        let door = tls.as_ref().map(|listen| listen.door.clone());
        agent.reload = Some(reload(run.sources.clone(), loaded.public(), rename, door));
        agent.mode = match arguments.once {
            true => Mode::Once {
                deadline: arguments.deadline.unwrap_or(DEADLINE),
            },
            false => Mode::Serve,
        };
        agent.admin = (!arguments.once).then(|| AdminOptions {
            socket: config.agent.admin_socket.clone(),
            group: config.agent.admin_group.clone(),
            metrics_listen: config.agent.metrics_listen,
            tls,
        });
        agent.lock = Some(self.lock);
        agent.metrics = run.metrics;
        agent.metrics_beside = run.metrics_beside;
        agent.notifier = notifier();
        ready(agent.notifier.readiness());
        agent.reviewed = match &arguments.expect_plan {
            Some(file) => Some(PlanFile::read(file)?.reviewed()?),
            None => None,
        };
        agent.devices = Some(guests.devices());
        agent.trees = guests.trees();
        let host_state = hosts.map(|client| guests.host_state(config, client));
        agent.host_state = host_state.transpose()?;
        agent.beside = beside.into_iter().collect();
        agent.guests = (!arguments.once).then(|| guests.guests());
        let events = match arguments.once {
            true => None,
            false => guests.serve_events(config, &run.shutdown).await?,
        };
        let shutdown = run.shutdown.clone();
        let ended = service::run(agent, run.shutdown)
            .await
            .map_err(|error| failed(&error));
        shutdown.cancel();
        if let Some(events) = events {
            // A panic in it has been told already.
            let _ = events.await;
        }
        ended
    }
}

/// The service manager. One that cannot be told is done without, as sd_notify(3) recommends: a variable inherited from
/// somewhere must not take the node down, and a unit of `Type=notify` finds by its own timeout that READY is missing.
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

/// Keeps agents away for as long as the lock lives: for commands that act on the node without serving.
pub(crate) fn alone(config: &Config) -> Result<SocketLock, Failure> {
    let socket = &config.agent.admin_socket;
    SocketLock::take(socket).map_err(|error| match &error {
        AdminError::Held { .. } => Failure::new(
            ErrorCode::Held,
            format!(
                "an agent of this node runs (it holds {}.lock)",
                socket.display()
            ),
        )
        .mend("stop it first: systemctl stop berth-agent"),
        _ => Failure::caused(
            ErrorCode::File,
            format!(
                "the lock {}.lock, which keeps a second agent away, cannot be taken",
                socket.display()
            ),
            &error,
        )
        .mend("run it as the agent's user (root), or set [agent] admin_socket"),
    })
}

fn rename(arguments: &RunArguments) -> Rename {
    if arguments.accept_risk.contains(&Risk::RenameHost) {
        Rename::Accept
    } else {
        Rename::Refuse
    }
}

fn live(loaded: &Loaded, shown: Public, rename: Rename) -> Result<LiveOptions, Failure> {
    let config = &loaded.config;
    let config_shown = serde_json::to_value(shown).map_err(|error| {
        Failure::caused(ErrorCode::Bug, "the configuration cannot be shown", &error)
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

/// What SIGHUP does: the configuration and the files of TLS are read and checked whole before any of it is taken.
fn reload(
    sources: Sources,
    started: Public,
    rename: Rename,
    door: Option<TlsDoor>,
) -> service::Reload {
    Arc::new(move || {
        let loaded = crate::config::load(&sources).map_err(|error| sentence(&error))?;
        let shown = after_reload(&started, &loaded.public());
        let live = live(&loaded, shown, rename).map_err(|failure| failure.explain())?;
        if let Some(door) = &door {
            tls_door::read_again(door)?;
        }
        Ok(live)
    })
}

/// The agent's error as a failure: the one place that gives each reason its code.
fn failed(error: &ServiceError) -> Failure {
    let code = match error.reason() {
        ExitReason::ReshapeNeeded => ErrorCode::ReshapeNeeded,
        ExitReason::ReshapeFailed => ErrorCode::ReshapeFailed,
        ExitReason::Configuration | ExitReason::DependencyGone => match error {
            ServiceError::Start { source, .. } => source
                .placement()
                .map_or(ErrorCode::Identity, ErrorCode::of_placement),
            ServiceError::Observe(_) => ErrorCode::Driver,
            ServiceError::DeadlinePassed { .. } => ErrorCode::Unavailable,
            _ => ErrorCode::BadValue,
        },
        ExitReason::Disk => ErrorCode::State,
        ExitReason::HeldByAnother => ErrorCode::Held,
        ExitReason::Bug => ErrorCode::Bug,
    };
    Failure::caused(code, "the agent ended", error)
}
