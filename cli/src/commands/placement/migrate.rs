//! `berth placement migrate-compute-inventory`: the offline upgrade. With no service running, it changes the database
//! as the start of this host's agent would.

use std::io::Write;

use berth_agent_tracker::options::Rename;
use berth_agent_tracker::startup::{self, Preview, StartupOutcome};
use berth_compose::agent::alone;
use berth_compose::nodes::{HostNodes, Intent};
use berth_compose::placement_failure::startup_failure;
use berth_compose::{database, placement_in_process};
use berth_config::{Config, Secret};
use berth_output::Failure;
use berth_output::progress::consumers;
use berth_store::SqlStore;

use super::database_choice::DatabaseChoice;
use super::database_in_use::{refuse_if_open_elsewhere, refuse_service_sessions};

/// The hypervisor type of bare metal, in Nova and here. The upgrade leaves such nodes to their own service, as
/// Nova's reshape specification demands.
pub(super) const BARE_METAL: &str = "ironic";

/// The arguments of the offline upgrade.
#[derive(Debug, clap::Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    which: DatabaseChoice,
    /// Print what would change, without changing it.
    #[arg(long)]
    dry_run: bool,
}

/// Runs the startup of each node against the router in this process, which has the database exclusively.
///
/// Errors: the database does not exist, a service has it open, or a node's startup fails.
pub(super) async fn migrate(
    asked: &Migrate,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let url = asked.which.url(config)?;
    refuse_if_open_elsewhere(&url)?;
    match asked.dry_run {
        true => show(&url, config, out).await,
        false => upgrade(&url, config, out).await,
    }
}

async fn show(url: &Secret, config: &Config, out: &mut dyn Write) -> Result<(), Failure> {
    let store = database::open_read_only(url).await?;
    refuse_service_sessions(&store).await?;
    let mut host = host(&store, config, Intent::Observe).await?;
    if is_bare_metal(&host, out)? {
        return Ok(());
    }
    for (identity, tracker) in &mut host.nodes {
        let bar = consumers(identity.node.as_str());
        let now = tokio::time::Instant::now();
        let (node, view, service) = (&identity.node, &host.view, host.service);
        let previewed = startup::preview(tracker, view, service, now, &*bar).await;
        let (preview, plan) = previewed.map_err(|error| startup_failure(&error))?;
        let would = match preview {
            Preview::InSync { .. } => "nothing to do",
            Preview::Update { .. } => "would be updated",
            Preview::Reshape(_) => "would be reshaped",
        };
        writeln!(out, "node {node}: {would}\n{}", plan.text)?;
    }
    store.close().await;
    Ok(())
}

async fn upgrade(url: &Secret, config: &Config, out: &mut dyn Write) -> Result<(), Failure> {
    // Must run before anything is written.
    let read_only = database::open_read_only(url).await?;
    refuse_service_sessions(&read_only).await?;
    read_only.close().await;
    let store = database::open_existing(url).await?;
    // An agent that uses another Placement would start from the state directory that this command writes.
    let _alone = alone(config)?;
    let mut host = host(&store, config, Intent::Act).await?;
    if is_bare_metal(&host, out)? {
        return Ok(());
    }
    for (identity, tracker) in &mut host.nodes {
        let bar = consumers(identity.node.as_str());
        let now = tokio::time::Instant::now();
        let (node, view, service) = (&identity.node, &host.view, host.service);
        let started = startup::reconcile(tracker, view, service, now, None, &*bar).await;
        let started = started.map_err(|error| startup_failure(&error))?;
        writeln!(out, "node {node}: {}", what_was_done(&started))?;
    }
    store.close().await;
    Ok(())
}

async fn host(store: &SqlStore, config: &Config, intent: Intent) -> Result<HostNodes, Failure> {
    let placement = placement_in_process(store.clone(), None)?;
    HostNodes::observe(config, &placement, Rename::Refuse, intent).await
}

fn is_bare_metal(host: &HostNodes, out: &mut dyn Write) -> Result<bool, Failure> {
    let is_bare_metal = host.view.hypervisor.kind == BARE_METAL;
    if is_bare_metal {
        for (identity, _) in &host.nodes {
            writeln!(out, "node {}: bare metal, not changed", identity.node)?;
        }
    }
    Ok(is_bare_metal)
}

fn what_was_done(started: &StartupOutcome) -> String {
    let StartupOutcome {
        reshapes,
        changed,
        held,
        ..
    } = started;
    let units: u64 = held.iter().map(|held| held.used).sum();
    let held = match units {
        0 => String::new(),
        units => format!("; {units} units are held without a new provider"),
    };
    if reshapes.is_empty() && changed.is_empty() {
        return format!("nothing to do{held}");
    }
    let reshapes: Vec<_> = reshapes.iter().map(ToString::to_string).collect();
    let done = match reshapes.is_empty() {
        true => "updated".to_owned(),
        false => format!("reshaped: {}", reshapes.join("; ")),
    };
    format!("{done}{held}\n{changed}")
}
