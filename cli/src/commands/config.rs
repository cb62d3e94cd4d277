//! `berth config`: checks the configuration, shows it, compares it with the running agent's, and imports a nova.conf.

mod check;
mod host;
mod image_properties;
mod import;
mod named_files;
mod roles;
mod running;
mod scheduling;
mod services_files;

use std::io::Write;
use std::path::PathBuf;

use berth_config::{LoadedConfig, OptionChange, changes};
use berth_output::{ExitCode, Failure, ListFormat, Listing};
use serde_json::{Value as Json, json};

use crate::context::Context;
use running::running_config;

#[derive(Debug, clap::Args)]
pub struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Check the configuration; every error is reported with file, line, column and key.
    #[command(
        after_help = "Examples:\n  berth config check --for agent\n  berth config check --offline --config ./berth.toml"
    )]
    Check(check::CheckArguments),
    /// Print all options in force; secrets are shown as ***.
    #[command(
        after_help = "Examples:\n  berth config show --origin\n  berth config show --set -f json"
    )]
    Show {
        /// Show where each value comes from: file and line, variable, or default.
        #[arg(long)]
        origin: bool,
        /// Print only the options that are set explicitly.
        #[arg(long)]
        set: bool,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Compare the running agent with the files: what a reload changes, and what needs a restart.
    #[command(
        after_help = "Examples:\n  berth config diff\n  berth config diff -f value -c option"
    )]
    Diff {
        /// The agent's admin socket; default: the one in the configuration.
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Make a berth.toml of a nova.conf, and report what became of each option.
    ///
    /// Passwords go into files of their own, which only their owner may read; the report holds none of them.
    #[command(
        after_help = "Examples:\n  berth config import --dry-run /etc/nova/nova.conf /etc/nova/nova-compute.conf\n  berth config import /etc/nova/nova.conf /etc/nova/nova.conf.d --output ./berth.toml"
    )]
    Import(import::ImportArguments),
}

pub fn run(
    arguments: &ConfigArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    match &arguments.command {
        ConfigCommand::Check(arguments) => check::check(context, arguments, out),
        ConfigCommand::Show {
            origin,
            set,
            format,
        } => {
            let loaded = context.load()?;
            show(&loaded, *origin, *set).print(format, out)?;
            Ok(ExitCode::Done)
        }
        ConfigCommand::Diff { socket, format } => {
            let loaded = context.load()?;
            let socket = socket.as_ref().unwrap_or(&loaded.config.agent.admin_socket);
            let running = context.block_on(running_config(socket))??;
            differences(&changes(&running, &loaded.public())).print(format, out)?;
            Ok(ExitCode::Done)
        }
        ConfigCommand::Import(arguments) => import::run(arguments, out),
    }
}

fn show(loaded: &LoadedConfig, origin: bool, set: bool) -> Listing {
    let chosen = loaded.effective.iter().filter(|each| !set || each.is_set());
    let mut listing = if origin {
        Listing::new(&["option", "value", "origin"])
    } else {
        Listing::new(&["option", "value"])
    };
    for each in chosen {
        // Cells beyond the columns are dropped.
        listing.push([
            json!(each.name),
            each.shown(),
            json!(each.explained_origin()),
        ]);
    }
    listing
}

fn differences(changes: &[OptionChange]) -> Listing {
    let mut listing =
        Listing::new(&["option", "running", "file", "takes_effect"]).or_say("no differences");
    for change in changes {
        let effect = Json::from(change.effect.label());
        listing.push([
            json!(change.name),
            change.running.clone(),
            change.file.clone(),
            effect,
        ]);
    }
    listing
}
