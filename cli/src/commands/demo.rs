//! `berth demo`, which `make run` shows: prints this host's provider tree through the libvirt driver, then upgrades a
//! simulated eight-GPU machine with running guests and checks every allocation. It uses a temporary folder and a
//! Placement in this process.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use berth_agent_tracker::complete::Service;
use berth_agent_tracker::options::Rename;
use berth_agent_tracker::startup;
use berth_agent_tracker::tick::{self, TickError};
use berth_client::PlacementClient;
use berth_compose::database::{open_failure, schema_failure};
use berth_compose::nodes::{HostNodes, Intent};
use berth_compose::placement_failure::{placement_failure, startup_failure};
use berth_compose::placement_in_process;
use berth_config::{ComputeDriver, Config};
use berth_fake::{Machine, initial_allocations};
use berth_model::{Allocations, ConsumerUuid, NodeName, ProviderTree, ProviderUuid, ResourceClass};
use berth_output::{ErrorCode, ExitCode, Failure};
use berth_store::SqlStore;
use berth_virt::{GuestView, HostView};
use tokio::time::Instant;

use crate::commands::provider::picture;
use crate::commands::up;
use crate::context::Context;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  berth demo --once\n  berth demo --skip-host --once      without libvirt"
)]
pub struct DemoArguments {
    /// Exit after the demo; otherwise this host stays up as a node until Ctrl-C.
    #[arg(long)]
    once: bool,
    /// Skip this host, and show only the upgrade of the eight-GPU machine.
    #[arg(long)]
    skip_host: bool,
}

const MACHINE: &str = "eight-gpu-flat";
const OLD_WORD: &str = "vgpu = \"root\"";
const NEW_WORD: &str = "vgpu = \"per-gpu\"";

pub fn run(
    arguments: &DemoArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let config = context.load()?.config;
    // The name is unpredictable and the folder private to this user, because its contents are trusted.
    let folder = tempfile::Builder::new()
        .prefix("berth-demo-")
        .tempdir()
        .map_err(|error| file_failure(&std::env::temp_dir(), &error))?;
    let shown = context.block_on(async {
        if !arguments.skip_host {
            show_host(&config, &folder.path().join("host"), out).await?;
        }
        show_upgrade(&config, &folder.path().join("upgrade"), out).await
    });
    // The demo's files are not needed afterwards.
    drop(folder);
    shown??;
    if arguments.once || arguments.skip_host {
        return Ok(ExitCode::Done);
    }
    writeln!(
        out,
        "\n== this host stays up as a node; stop it with Ctrl-C"
    )?;
    up::run(&up::UpArguments::default(), context, out)
}

fn file_failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::caused(
        ErrorCode::File,
        format!("cannot write {}", path.display()),
        error,
    )
}

/// The configuration of a node that simulates the machine in this file.
fn as_machine(config: &Config, file: &Path, state: &Path) -> Config {
    let mut config = config.clone().with_machine(file);
    state.clone_into(&mut config.state_path);
    config
}

async fn placement() -> Result<PlacementClient, Failure> {
    let store = SqlStore::in_memory().await.map_err(open_failure)?;
    berth_placement::prepare(&store)
        .await
        .map_err(schema_failure)?;
    placement_in_process(store, None)
}

/// Reports this host, observed through libvirt, to an empty Placement.
async fn show_host(config: &Config, state: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let mut config = config.clone();
    config.compute_driver = ComputeDriver::Libvirt;
    state.clone_into(&mut config.state_path);
    let uri = config.libvirt.connection_uri();
    writeln!(
        out,
        "== this host, as libvirt ({uri}) and sysfs show it, reported to Placement\n"
    )?;
    let placement = placement().await?;
    let seen = HostNodes::observe(&config, &placement, Rename::Refuse, Intent::Act).await;
    let mut host = seen.map_err(|failure| match failure.code() {
        ErrorCode::Unavailable => failure.hint("berth demo --skip-host"),
        _ => failure,
    })?;
    let hypervisor = host.view.hypervisor.clone();
    writeln!(
        out,
        "   {} {} on {}",
        hypervisor.kind, hypervisor.version, hypervisor.hostname
    )?;
    for (_, tracker) in &mut host.nodes {
        let now = Instant::now();
        startup::reconcile(tracker, &host.view, Service::Enabled, now, None, &|_, _| {})
            .await
            .map_err(|error| startup_failure(&error))?;
        let (tree, usages) = tracker
            .tree_with_usages(now)
            .await
            .map_err(|error| away(&error))?;
        indented(out, &picture(&tree, &usages))?;
        let traits = tree.root().traits.len();
        writeln!(
            out,
            "   with {traits} traits; `berth provider tree --traits` lists them"
        )?;
    }
    Ok(())
}

fn away(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::caused(ErrorCode::Unavailable, "Placement did not answer", error)
}

fn indented(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    for line in text.lines() {
        writeln!(out, "   {line}")?;
    }
    Ok(())
}

async fn show_upgrade(config: &Config, state: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let shipped = berth_fake::machines()
        .into_iter()
        .find(|(name, _)| *name == MACHINE);
    let Some((_, text)) = shipped else {
        return Err(Failure::new(
            ErrorCode::Bug,
            format!("{MACHINE} is not shipped"),
        ));
    };
    berth_files::make_folders(state, 0o711).map_err(|error| file_failure(state, &error))?;
    let file = state.join(format!("{MACHINE}.toml"));
    berth_files::replace(&file, text.as_bytes(), 0o600)
        .map_err(|error| file_failure(&file, &error))?;
    let config = as_machine(config, &file, state);
    let machine = Machine::from_text(MACHINE, text)
        .map_err(|error| Failure::caused(ErrorCode::Bug, "the shipped machine", &error))?;
    let placement = placement().await?;

    writeln!(
        out,
        "\n== a machine with eight GPUs, modelled the old way: all VGPUs on the root\n"
    )?;
    let mut host = HostNodes::observe(&config, &placement, Rename::Refuse, Intent::Act).await?;
    let view = host.view.clone();
    let Some((identity, tracker)) = host.nodes.first_mut() else {
        return Err(Failure::new(
            ErrorCode::Bug,
            "the shipped machine has no node",
        ));
    };
    let (node, now) = (identity.node.clone(), Instant::now());
    let quiet = |_: usize, _: usize| {};
    startup::reconcile(tracker, &view, Service::Enabled, now, None, &quiet)
        .await
        .map_err(|error| startup_failure(&error))?;
    let (tree, _) = tracker
        .tree_with_usages(now)
        .await
        .map_err(|error| away(&error))?;
    let before = initial_allocations(&machine, &node, &tree);
    for (consumer, held) in before.consumers() {
        placement
            .put_allocations(*consumer, held)
            .await
            .map_err(placement_failure)?;
    }
    tracker.forget();
    let (tree, usages) = tracker
        .tree_with_usages(now)
        .await
        .map_err(|error| away(&error))?;
    indented(out, &picture(&tree, &usages))?;
    let guests = view
        .nodes
        .values()
        .map(|seen| seen.guests.len())
        .sum::<usize>();
    writeln!(
        out,
        "   {guests} guests run, {} consumers hold allocations",
        before.len()
    )?;

    writeln!(
        out,
        "\n== the upgrade: one setting of the machine changes from {OLD_WORD} to {NEW_WORD}\n"
    )?;
    let edited = text.replace(OLD_WORD, NEW_WORD);
    berth_files::replace(&file, edited.as_bytes(), 0o600)
        .map_err(|error| file_failure(&file, &error))?;
    let mut host = HostNodes::observe(&config, &placement, Rename::Refuse, Intent::Act).await?;
    let view = host.view.clone();
    let Some((_, tracker)) = host.nodes.first_mut() else {
        return Err(Failure::new(
            ErrorCode::Bug,
            "the shipped machine has no node",
        ));
    };
    match tick::reconcile(tracker, &view, Service::Enabled, now).await {
        Err(TickError::ReshapeNeeded(_)) => writeln!(
            out,
            "   the tick of a running agent returns ReshapeNeeded; the service exits with code 75,\n   \
             systemd restarts it, and the start makes this change:\n"
        )?,
        other => {
            let what = format!("the tick should have found a reshape, not {other:?}");
            return Err(Failure::new(ErrorCode::Bug, what));
        }
    }
    let started = startup::reconcile(tracker, &view, Service::Enabled, now, None, &quiet)
        .await
        .map_err(|error| startup_failure(&error))?;
    for reshape in &started.reshapes {
        indented(out, &reshape.to_string())?;
    }
    writeln!(out, "\n== the tree afterwards\n")?;
    let (tree, usages) = tracker
        .tree_with_usages(now)
        .await
        .map_err(|error| away(&error))?;
    indented(out, &picture(&tree, &usages))?;
    writeln!(
        out,
        "\n== every unit, checked in Placement against the GPUs its guest has\n"
    )?;
    let guests = guests_of(&machine, &view, &node);
    check(&placement, &guests, &node, &tree, &before, out).await
}

/// Compares what each consumer holds with what it held, and its VGPUs with the devices of its guest.
async fn check(
    placement: &PlacementClient,
    guests: &BTreeMap<ConsumerUuid, &GuestView>,
    node: &NodeName,
    tree: &ProviderTree,
    before: &Allocations,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    for (consumer, was) in before.consumers() {
        let is = placement
            .allocations(*consumer)
            .await
            .map_err(placement_failure)?;
        let is = is.map(|held| held.resources).unwrap_or_default();
        let guest = guests.get(consumer).copied();
        let expected = expected(&was.resources, guest, node, tree);
        let name = guest.map_or("no guest", |guest| guest.name.as_str());
        let verdict = if is == expected {
            "ok"
        } else {
            "NOT AS IT WAS"
        };
        writeln!(out, "   {consumer}  {name:<12} {verdict}")?;
        for ((provider, class), amount) in &is {
            let provider = tree
                .get(*provider)
                .map_or("?", |provider| provider.name.as_str());
            if *class == ResourceClass::VGPU {
                writeln!(out, "       {amount} {class} on {provider}")?;
            }
        }
        if is != expected {
            let what = format!("{consumer} does not hold what it held");
            return Err(Failure::new(ErrorCode::Bug, what));
        }
    }
    let consumers = before.len();
    writeln!(
        out,
        "\n   every unit of {consumers} consumers is on the right provider: none lost, none duplicated"
    )?;
    Ok(())
}

type ConsumerResources = BTreeMap<(ProviderUuid, ResourceClass), u64>;

/// The allocations that a consumer should have after the upgrade: all that it had, with its VGPUs on the providers
/// of its guest's GPUs.
fn expected(
    was: &ConsumerResources,
    guest: Option<&GuestView>,
    node: &NodeName,
    tree: &ProviderTree,
) -> ConsumerResources {
    let mut expected: ConsumerResources = was
        .iter()
        .filter(|((_, class), _)| *class != ResourceClass::VGPU)
        .map(|(place, n)| (place.clone(), *n))
        .collect();
    let mdevs = guest.into_iter().flat_map(|guest| &guest.mdevs);
    for address in mdevs.filter_map(|mdev| mdev.parent) {
        let name = node.child_name(&address.nodedev_name());
        if let Some(gpu) = name.ok().and_then(|name| tree.by_name(&name)) {
            *expected
                .entry((gpu.uuid(), ResourceClass::VGPU))
                .or_insert(0) += 1;
        }
    }
    expected
}

/// The guest of each consumer's allocations: the consumer itself or, for a migration's consumer,
/// the guest that migrates.
fn guests_of<'a>(
    machine: &Machine,
    view: &'a HostView,
    node: &NodeName,
) -> BTreeMap<ConsumerUuid, &'a GuestView> {
    let Some(seen) = view.nodes.get(node) else {
        return BTreeMap::new();
    };
    let guests = machine.nodes.iter().flat_map(|node| &node.guests);
    guests
        .filter_map(|guest| {
            let holder = guest
                .migration
                .map_or(guest.uuid, |migration| migration.consumer);
            seen.guests.get(&guest.uuid).map(|view| (holder, view))
        })
        .collect()
}
