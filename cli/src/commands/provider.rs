//! `berth provider tree`: reads the provider trees of this host from Placement and prints them.
//!
//! The driver may report several nodes for one host, and each node has its own tree. Without options, the trees are drawn
//! with lines; with a format, columns or traits, they are a list with one row for each provider and resource class.

use std::io::Write;

use berth_compose::nodes::trees_of_host;
use berth_compose::placement_for_commands;
use berth_model::{Provider, ProviderTree, Usages};
use berth_output::{ExitCode, Failure, FormatKind, ListFormat, Listing};
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
        after_help = "Examples:\n  berth provider tree\n  berth provider tree --uuid\n  berth provider tree -f json\n  \
                            berth provider tree -f value -c provider -c resource_class -c used"
    )]
    Tree {
        /// Also list the traits of each provider.
        #[arg(long)]
        traits: bool,
        /// Show the UUID of each provider in the drawing; lists always have it.
        #[arg(long)]
        uuid: bool,
        #[command(flatten)]
        format: ListFormat,
    },
}

pub fn run(
    arguments: &ProviderArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let ProviderCommand::Tree {
        traits,
        uuid,
        format,
    } = &arguments.command;
    let config = context.load()?.config;
    let placement = placement_for_commands(&config)?;
    let trees = context.block_on(trees_of_host(&config, &placement))??;
    let columns = [
        "provider",
        "parent",
        "resource_class",
        "total",
        "reserved",
        "used",
        "ratio",
        "uuid",
        "traits",
    ];
    let mut listing = Listing::new(&columns[..if *traits { 9 } else { 8 }]);
    let is_drawn = format.format == FormatKind::Table && format.columns.is_empty() && !traits;
    for (tree, usages) in &trees {
        if is_drawn {
            write!(out, "{}", drawn(tree, usages, NameStyle::of(*uuid)))?;
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
    let uuid = json!(provider.uuid().to_string());
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
            uuid.clone(),
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
            uuid.clone(),
            traits.clone(),
        ]);
    }
}

/// The tree drawn with lines, for a terminal.
#[must_use]
pub fn picture(tree: &ProviderTree, usages: &Usages) -> String {
    drawn(tree, usages, NameStyle::Name)
}

/// How a provider is named in the drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameStyle {
    Name,
    NameAndUuid,
}

impl NameStyle {
    fn of(uuid: bool) -> Self {
        match uuid {
            true => Self::NameAndUuid,
            false => Self::Name,
        }
    }
}

fn drawn(tree: &ProviderTree, usages: &Usages, style: NameStyle) -> String {
    let mut drawing = TreeDrawing {
        text: String::new(),
        tree,
        usages,
        style,
    };
    drawing.draw(tree.root(), "", "");
    for sharing in tree.sharing() {
        drawing.draw(sharing, "(shared) ", "         ");
    }
    drawing.text
}

struct TreeDrawing<'a> {
    text: String,
    tree: &'a ProviderTree,
    usages: &'a Usages,
    style: NameStyle,
}

impl TreeDrawing<'_> {
    /// Draws a provider and, below it, its children. `first` precedes its own line, `rest` the lines of its children.
    fn draw(&mut self, provider: &Provider, first: &str, rest: &str) {
        use std::fmt::Write as _;
        let mut line = format!("{first}{}", provider.name);
        if self.style == NameStyle::NameAndUuid {
            let _ = write!(line, " ({})", provider.uuid());
        }
        for (class, inventory) in &provider.inventories {
            let used = self.usages.get(&(provider.uuid(), class.clone()));
            let used = used.copied().unwrap_or(0);
            let _ = write!(line, "  {class} {used}/{}", inventory.total);
            if inventory.reserved > 0 {
                let _ = write!(line, " ({} reserved)", inventory.reserved);
            }
        }
        let _ = writeln!(self.text, "{line}");
        let children = self.tree.children(provider.uuid());
        let last = children.len();
        for (n, child) in children.into_iter().enumerate() {
            let (first, below) = match n + 1 == last {
                true => ("└─ ", "   "),
                false => ("├─ ", "│  "),
            };
            self.draw(child, &format!("{rest}{first}"), &format!("{rest}{below}"));
        }
    }
}
