//! `berth agent`: runs the node agent, or talks to the one that runs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_agent::admin::body::STATE_FILES;
use berth_agent::admin::client::{AdminClient, AdminClientError};
use berth_agent::admin::{AdminError, AdminOptions, SocketLock, TlsDoor};
use berth_agent::metrics::Metrics;
use berth_agent::notify::Notifier;
use berth_agent::options::Rename;
use berth_agent::service::{self, Agent, ExitReason, LiveOptions, Mode, ServiceError};
use berth_agent::triggers::Interval;
use berth_client::PlacementClient;
use berth_store::state_dir::StateDir;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::compose::{
    DEADLINE, Driver, HostGuests, accelerators_over_network, placement_over_network, tls_door,
    tracker_options,
};
use crate::config::{Config, Loaded, Public, Sources, UpdateInterval, after_reload};
use crate::context::Context;
use crate::exit::ExitCode;
use crate::failure::{ErrorCode, Failure, sentence};
use crate::listing::{Format, FormatKind, Listing};
use crate::reshape::PlanFile;
use crate::signals;

/// `berth agent`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  berth agent                                       run, as the unit does
  berth agent --once                                one startup and one tick, then end
  berth agent --expect-plan plan.json               do exactly the reviewed plan, or refuse
  berth agent status
  berth agent disable --reason 'memory is replaced' no new guests here
  berth agent enable"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

/// How the agent runs.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RunArguments {
    /// One startup and one tick, then end.
    #[arg(long)]
    pub once: bool,
    /// With --once: how long a service that is away is waited for [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "once")]
    pub deadline: Option<Duration>,
    /// Do exactly what this plan (of `berth reshape plan --out`) says, or refuse with 76.
    #[arg(long, value_name = "FILE")]
    pub expect_plan: Option<PathBuf>,
    /// Take a risk by its name.
    #[arg(long, value_name = "RISK", value_enum, value_delimiter = ',')]
    pub accept_risk: Vec<Risk>,
}

/// Risks that must be accepted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Risk {
    /// The host was renamed: give its providers in Placement the new name.
    RenameHost,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Say how the running agent is.
    Status {
        #[command(flatten)]
        format: Format,
        /// How long the agent may take to answer.
        #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
    },
    /// Let schedulers pass this host over (COMPUTE_STATUS_DISABLED); its guests go on.
    #[command(after_help = "Examples:\n  berth agent disable --reason 'memory is replaced'")]
    Disable {
        /// Why, for those who wonder later.
        #[arg(long)]
        reason: String,
        /// Say what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Let schedulers use this host again.
    Enable {
        /// Say what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Make the running agent look now, and say what came of it.
    Tick,
}

impl Arguments {
    /// Whether the agent itself is to run.
    #[must_use]
    pub fn is_service(&self) -> bool {
        self.command.is_none()
    }
}

/// Runs `berth agent`.
///
/// # Errors
/// As the agent's, each with its exit code.
pub fn run(
    arguments: &Arguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    match &arguments.command {
        None => {
            let run = alone_on_this_host(&loaded, &context.sources, &arguments.run);
            context.serve(run)??;
        }
        Some(command) => {
            let socket = &loaded.config.agent.admin_socket;
            context.block_on(talk(command, socket, out))??;
        }
    }
    Ok(ExitCode::Done)
}

/// The agent beside the services that the configuration names, until it is told to end.
async fn alone_on_this_host(
    loaded: &Loaded,
    sources: &Sources,
    arguments: &RunArguments,
) -> Result<(), Failure> {
    let end = signals::end();
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let placement = placement_over_network(&loaded.config, Some(Arc::new(metrics.clone())))?;
    let accelerators = accelerators_over_network(&loaded.config)?;
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
            HostGuests::open(config, &host.driver, accelerators, placement.clone()).await?;
        let run = Run {
            loaded,
            sources,
            arguments,
            metrics,
            shutdown,
        };
        let ended = host.serve(run, placement, &guests, None, drop).await;
        guests.close().await;
        ended
    };
    let ended = begin.await;
    waiting.abort();
    ended
}

/// How an agent runs, from its start to its end.
pub struct Run<'a> {
    /// The configuration.
    pub loaded: &'a Loaded,
    /// Where it is read again.
    pub sources: &'a Sources,
    /// What the command line says.
    pub arguments: &'a RunArguments,
    /// What is counted.
    pub metrics: Metrics,
    /// Ends it.
    pub shutdown: CancellationToken,
}

/// This host, taken: no other agent has it as long as this lives.
pub struct OwnHost {
    /// The driver.
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

    /// Runs the agent against a Placement until `shutdown`. `beside` are the journals of this process's other services, each
    /// with what tells why it cannot be used; `ready` is given what tells when the agent's first inventory landed.
    ///
    /// # Errors
    /// As the agent's, each with its exit code.
    pub async fn serve(
        self,
        run: Run<'_>,
        placement: PlacementClient,
        guests: &HostGuests,
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
        agent.notifier = notifier();
        ready(agent.notifier.readiness());
        agent.reviewed = match &arguments.expect_plan {
            Some(file) => Some(PlanFile::read(file)?.reviewed()?),
            None => None,
        };
        agent.devices = Some(guests.devices());
        agent.trees = guests.trees();
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
///
/// # Errors
/// An agent runs, or the lock's file cannot be made.
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
pub(crate) fn failed(error: &ServiceError) -> Failure {
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

impl From<AdminClientError> for Failure {
    fn from(error: AdminClientError) -> Self {
        let mend =
            "is it running (systemctl status berth-agent), and is [agent] admin_socket its socket?";
        match &error {
            AdminClientError::Away { .. } => {
                Failure::caused(ErrorCode::AgentAway, "the agent cannot be asked", &error)
                    .mend(mend)
            }
            AdminClientError::Refused { code, .. } if code == STATE_FILES => {
                Failure::from_error(ErrorCode::State, &error).mend(
                    "nothing was changed; free space in the state folder (df -h), then repeat",
                )
            }
            AdminClientError::Refused { .. } => Failure::from_error(ErrorCode::Refused, &error),
            AdminClientError::NotUnderstood { .. } => {
                Failure::from_error(ErrorCode::AgentAnswer, &error)
            }
        }
    }
}

async fn talk(command: &Command, socket: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let admin = AdminClient::new(socket)?;
    match command {
        Command::Status { format, timeout } => {
            let admin = admin.answering_within(Duration::from_secs(*timeout));
            status(&admin, format, out).await
        }
        Command::Disable {
            reason,
            dry_run: false,
        } => {
            admin.disable(reason).await?;
            Ok(writeln!(out, "disabled: {reason}")?)
        }
        Command::Disable { dry_run: true, .. } => {
            let before = admin.state().await?.disabled.is_some();
            let what = if before {
                "the reason would be replaced"
            } else {
                "would be disabled"
            };
            Ok(writeln!(out, "{what}")?)
        }
        Command::Enable { dry_run: false } => {
            admin.enable().await?;
            Ok(writeln!(out, "enabled")?)
        }
        Command::Enable { dry_run: true } => {
            let before = admin.state().await?.disabled.is_some();
            let what = if before {
                "would be enabled"
            } else {
                "is enabled"
            };
            Ok(writeln!(out, "{what}")?)
        }
        Command::Tick => {
            let done = admin.tick().await?;
            Ok(writeln!(
                out,
                "{}",
                serde_json::to_string_pretty(&done).unwrap_or_default()
            )?)
        }
    }
}

async fn status(admin: &AdminClient, format: &Format, out: &mut dyn Write) -> Result<(), Failure> {
    let state = admin.state().await?;
    let mut listing = Listing::new(&[
        "node",
        "phase",
        "plan",
        "root",
        "held",
        "failures",
        "last_pass",
    ]);
    for node in &state.nodes {
        let held: u64 = node.held.iter().map(|held| held.used).sum();
        let last = node
            .last_pass
            .as_ref()
            .map(|pass| format!("{} {}", pass.at, pass.result));
        listing.push([
            json!(node.name),
            json!(node.phase),
            json!(node.plan),
            json!(node.root),
            json!(held),
            json!(node.failures),
            json!(last),
        ]);
    }
    let people = format.format == FormatKind::Table && format.columns.is_empty();
    if people {
        writeln!(
            out,
            "{} ({}, berth {})",
            state.summary, state.driver, state.version
        )?;
        if let Some(disabled) = &state.disabled {
            writeln!(out, "disabled: {}", disabled.reason)?;
        }
    }
    listing.print(format, out)?;
    if people {
        let health = admin.health().await?;
        for message in &health.messages {
            writeln!(out, "{}: {}", message.severity, message.text)?;
        }
    }
    Ok(())
}
