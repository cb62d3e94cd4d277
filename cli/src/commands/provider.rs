//! `berth provider tree`: reads the provider trees of this host from Placement and prints them.
//!
//! The driver may report several nodes for one host, and each node has its own tree. Without options, the trees are drawn
//! with lines; with a format, columns or traits, they are a list with one row for each provider and resource class.

use std::io::Write;

use berth_agent_tracker::options::Rename;
use berth_compose::nodes::{HostNodes, Intent};
use berth_compose::placement_failure::placement_error_code;
use berth_compose::placement_for_commands;
use berth_model::{Provider, ProviderTree, Usages};
use berth_output::{ErrorCode, ExitCode, Failure, FormatKind, ListFormat, Listing};
use serde_json::{Value, json};

use crate::context::Context;

#[derive(Debug, clap::Args)]
pub struct ProviderArguments {
    #[command(subcommand)]
    command: ProviderCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ProviderCommand {
    /// Show this host's provider tree: each class with its total, reserved and used amounts.
    #[command(
        after_help = "Examples:\n  berth provider tree\n  berth provider tree -f json\n  \
                            berth provider tree -f value -c provider -c resource_class -c used"
    )]
    Tree {
        /// Also list the traits of each provider.
        #[arg(long)]
        traits: bool,
        #[command(flatten)]
        format: ListFormat,
    },
}

pub fn run(
    arguments: &ProviderArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let ProviderCommand::Tree { traits, format } = &arguments.command;
    let config = context.load()?.config;
    let placement = placement_for_commands(&config)?;
    let trees = context.block_on(async {
        // The command only reads. If a node's provider has another name than the node, observing fails: the command
        // neither renames the provider nor shows a tree that may belong to another host.
        let mut host =
            HostNodes::observe(&config, &placement, Rename::Refuse, Intent::Observe).await?;
        let mut trees = Vec::new();
        for (identity, tracker) in &mut host.nodes {
            let (tree, usages) = tracker
                .tree_with_usages(tokio::time::Instant::now())
                .await
                .map_err(|error| {
                    let code = error.placement().map(placement_error_code);
                    Failure::caused(
                        code.unwrap_or(ErrorCode::Unavailable),
                        format!("node {}", identity.node),
                        &error,
                    )
                })?;
            trees.push((tree, usages));
        }
        Ok::<_, Failure>(trees)
    })??;
    let columns = [
        "provider",
        "parent",
        "resource_class",
        "total",
        "reserved",
        "used",
        "ratio",
        "traits",
    ];
    let mut listing = Listing::new(&columns[..if *traits { 8 } else { 7 }]);
    let is_drawn = format.format == FormatKind::Table && format.columns.is_empty() && !traits;
    for (tree, usages) in &trees {
        if is_drawn {
            write!(out, "{}", picture(tree, usages))?;
            continue;
        }
        for provider in tree.all() {
            add_rows(&mut listing, tree, provider, usages);
        }
    }
    if !is_drawn {
        listing.print(format, out)?;
    }
    Ok(ExitCode::Done)
}

/// Adds a row for each inventory of a provider; one row without amounts if it has none.
fn add_rows(listing: &mut Listing, tree: &ProviderTree, provider: &Provider, usages: &Usages) {
    let parent = provider.parent().and_then(|parent| tree.get(parent));
    let parent = parent.map_or(Value::Null, |parent| json!(parent.name.as_str()));
    let traits: Vec<&str> = provider
        .traits
        .iter()
        .map(berth_model::Trait::as_str)
        .collect();
    let traits = json!(traits.join(" "));
    let name = json!(provider.name.as_str());
    if provider.inventories.is_empty() {
        let nothing = || Value::Null;
        listing.push([
            name.clone(),
            parent.clone(),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            traits.clone(),
        ]);
    }
    for (class, inventory) in &provider.inventories {
        let used = usages
            .get(&(provider.uuid(), class.clone()))
            .copied()
            .unwrap_or(0);
        listing.push([
            name.clone(),
            parent.clone(),
            json!(class.as_str()),
            json!(inventory.total),
            json!(inventory.reserved),
            json!(used),
            json!(inventory.allocation_ratio.as_f64()),
            traits.clone(),
        ]);
    }
}

/// The tree drawn with lines, for a terminal.
#[must_use]
pub fn picture(tree: &ProviderTree, usages: &Usages) -> String {
    let mut text = String::new();
    draw(&mut text, tree, tree.root(), usages, "", "");
    for sharing in tree.sharing() {
        draw(&mut text, tree, sharing, usages, "(shared) ", "         ");
    }
    text
}

/// Draws a provider and, below it, its children. `first` precedes its own line, `rest` the lines of its children.
fn draw(
    text: &mut String,
    tree: &ProviderTree,
    provider: &Provider,
    usages: &Usages,
    first: &str,
    rest: &str,
) {
    use std::fmt::Write as _;
    let mut line = format!("{first}{}", provider.name);
    for (class, inventory) in &provider.inventories {
        let used = usages
            .get(&(provider.uuid(), class.clone()))
            .copied()
            .unwrap_or(0);
        let _ = write!(line, "  {class} {used}/{}", inventory.total);
        if inventory.reserved > 0 {
            let _ = write!(line, " ({} reserved)", inventory.reserved);
        }
    }
    let _ = writeln!(text, "{line}");
    let children = tree.children(provider.uuid());
    let last = children.len();
    for (n, child) in children.into_iter().enumerate() {
        let (first, below) = if n + 1 == last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        draw(
            text,
            tree,
            child,
            usages,
            &format!("{rest}{first}"),
            &format!("{rest}{below}"),
        );
    }
}
