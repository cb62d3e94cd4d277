//! `berth placement migrate-compute-inventory`: the offline upgrade. With no service running, this host's node does on the
//! database what its agent's next start would do.

use std::io::Write;

use berth_agent_tracker::options::Rename;
use berth_agent_tracker::startup::{self, Preview, Started};
use berth_compose::agent::alone;
use berth_compose::nodes::{HostNodes, Intent};
use berth_compose::placement_failure::startup_failure;
use berth_compose::{database, placement_in_process};
use berth_config::{Config, Secret};
use berth_output::Failure;
use berth_output::progress::consumers;
use berth_store::SqlStore;

use super::database_choice::DatabaseChoice;
use super::database_in_use::{refuse_beside_a_service, refuse_beside_services};

/// What a hypervisor of bare metal calls itself, to Nova and here. Its nodes are machines of others, which the upgrade leaves
/// to their service, as the reshape specification of Nova says.
pub(super) const BARE_METAL: &str = "ironic";

/// The upgrade.
#[derive(Debug, clap::Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    which: DatabaseChoice,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The startup of each node, over the router in this process. The database is this process's alone: a service that has it open
/// is named, and nothing done.
///
/// # Errors
/// There is no such database, a service has it open, or a node's startup fails.
pub(super) async fn migrate(
    asked: &Migrate,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let url = asked.which.url(config)?;
    refuse_beside_a_service(&url)?;
    match asked.dry_run {
        true => show(&url, config, out).await,
        false => upgrade(&url, config, out).await,
    }
}

async fn show(url: &Secret, config: &Config, out: &mut dyn Write) -> Result<(), Failure> {
    let store = database::look(url).await?;
    refuse_beside_services(&store).await?;
    let mut host = host(&store, config, Intent::Look).await?;
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
    // Before anything of it is written.
    let looking = database::look(url).await?;
    refuse_beside_services(&looking).await?;
    looking.close().await;
    let store = database::open_existing(url).await?;
    // An agent on another Placement would go by the state folder this writes.
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
            writeln!(out, "node {}: bare metal, left alone", identity.node)?;
        }
    }
    Ok(is_bare_metal)
}

fn what_was_done(started: &Started) -> String {
    let Started {
        reshapes,
        changed,
        held,
        ..
    } = started;
    let units: u64 = held.iter().map(|held| held.used).sum();
    let held = match units {
        0 => String::new(),
        units => format!("; {units} units are held without a home"),
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
