//! The configuration: reading, checking, showing; and `berth config check|show|diff`.
//!
//! [`load`] gives the composition root a [`Config`] or every error at once, each with file, line, column and key.
//! The options are rows of [`table`]; the reference page and the default file are written from them.

mod authtoken;
mod command_line;
mod environment;
mod file;
mod kind;
mod load;
mod login;
mod named_files;
mod option;
mod pattern;
mod problem;
pub mod reference;
mod rules;
mod running;
mod scheduling;
mod secret;
mod sections;
mod services_files;
mod setting;
mod sources;
pub mod table;
mod view;

use std::io::Write;
use std::path::{Path, PathBuf};

use berth_sysfs::Sysfs;
use serde_json::{Value as Json, json};

pub use authtoken::KeystoneAuthtoken;
pub use file::Document;
pub use kind::Kind;
pub use load::{Loaded, load, resolve};
pub use option::{Default, Effect, OptionRow};
pub use problem::{Problem, Refused};
pub(crate) use rules::SNAPSHOT_BESIDE_OTHERS;
pub use running::{RunningError, running_config};
pub use secret::{MASK, Secret};
pub use sections::{
    AcceleratorService, Accelerators, Agent, AgentClient, AllocationCandidatesFrom, Api,
    AuthStrategy, CacheMode, Compute, ComputeDriver, ComputeService, ConductorService, Config,
    ConfigDriveLayout, Cors, CpuMode, Devices, Fake, HOST_PART, IdentityService, ImageCache,
    Libvirt, MdevType, Model, Pci, PlacementService, ScrubPolicy, TrustedComputing, UpdateInterval,
    VirtType, catalog_entry,
};
pub use sources::{DIRECTORY, FILE, Sources};
pub use view::{Change, Effective, Public, after_reload, changes};

use crate::accelerator;
use crate::compose::provider_configs;
use crate::compute;
use crate::context::Context;
use crate::exit::ExitCode;
use crate::failure::{ErrorCode, Failure};
use crate::listing::{Format, Listing};
use crate::placement;
use crate::policy_file::PolicyRefused;

/// `berth config`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check the configuration; every error is named with file, line, column and key.
    #[command(
        after_help = "Examples:\n  berth config check\n  berth config check --offline --config ./berth.toml"
    )]
    Check {
        /// Look at the text alone, not at the files, groups and CPUs it names on this host.
        #[arg(long)]
        offline: bool,
        /// Refuse what is only doubtful, too.
        #[arg(long)]
        deny_warnings: bool,
    },
    /// Print every option in force; secrets as ***.
    #[command(
        after_help = "Examples:\n  berth config show --origin\n  berth config show --set -f json"
    )]
    Show {
        /// Say where each value comes from: file and line, variable, or default.
        #[arg(long)]
        origin: bool,
        /// Only the options somebody set.
        #[arg(long)]
        set: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Compare the running agent with the files: what a reload changes, and what needs a restart.
    #[command(
        after_help = "Examples:\n  berth config diff\n  berth config diff -f value -c option"
    )]
    Diff {
        /// The agent's admin socket; the one in the configuration unless given.
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        #[command(flatten)]
        format: Format,
    },
}

/// Runs `berth config`.
///
/// # Errors
/// The configuration is refused, the agent does not answer, or the output cannot be written.
pub fn run(
    arguments: &Arguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::Check {
            offline,
            deny_warnings,
        } => check(context, *offline, *deny_warnings, out),
        Command::Show {
            origin,
            set,
            format,
        } => {
            let loaded = context.load()?;
            show(&loaded, *origin, *set).print(format, out)?;
            Ok(ExitCode::Done)
        }
        Command::Diff { socket, format } => {
            let loaded = context.load()?;
            let socket = socket.as_ref().unwrap_or(&loaded.config.agent.admin_socket);
            let running = context.block_on(running_config(socket))??;
            differences(&changes(&running, &loaded.public())).print(format, out)?;
            Ok(ExitCode::Done)
        }
    }
}

fn check(
    context: &Context,
    offline: bool,
    deny_warnings: bool,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let mut loaded = context.load()?;
    if !offline {
        let mut missing = rules::on_this_host(&loaded);
        missing.extend(provider_files(&loaded));
        missing.extend(policy_files(&loaded));
        missing.extend(named_files::refused(&loaded));
        missing.extend(rules::refused_devices(&loaded, &Sysfs::at("/sys")));
        let scheduling = context.block_on(scheduling::judge(&loaded))?;
        missing.extend(scheduling.errors);
        if !missing.is_empty() {
            return Err(Refused::new(missing).into());
        }
        let kvm = rules::without_kvm(&loaded, Path::new("/dev/kvm"));
        loaded.warnings.extend(kvm);
        loaded.warnings.extend(named_files::doubtful(&loaded));
        loaded.warnings.extend(services_files::doubtful(&loaded));
        loaded.warnings.extend(scheduling.warnings);
    }
    loaded.warnings.sort();
    if deny_warnings && !loaded.warnings.is_empty() {
        return Err(Refused::new(loaded.warnings).into());
    }
    for warning in &loaded.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    if loaded.files.is_empty() {
        writeln!(out, "{}", context.sources.without_files())?;
    }
    let set = loaded.effective.iter().filter(|each| each.is_set()).count();
    writeln!(
        out,
        "the configuration is good: {set} options set, {} warnings",
        loaded.warnings.len()
    )?;
    Ok(ExitCode::Done)
}

/// Where an option was set.
fn origin_of(loaded: &Loaded, name: &str) -> String {
    let mut all = loaded.effective.iter();
    let option = all.find(|each| each.name == name);
    option.map_or_else(|| "default".to_owned(), |each| each.origin.clone())
}

/// What is wrong with the rules of the services.
fn policy_files(loaded: &Loaded) -> Vec<Problem> {
    let read = [
        (
            "accelerator_service.policy_file",
            accelerator::policy_of(&loaded.config),
        ),
        (
            "compute_service.policy_file",
            compute::policy_of(&loaded.config),
        ),
        (
            "placement_service.policy_file",
            placement::policy_of(&loaded.config),
        ),
    ];
    let refused = read
        .into_iter()
        .filter_map(|(key, read)| Some((key, read.err()?)));
    let problem = |(key, refused): (&str, PolicyRefused)| Problem {
        at: origin_of(loaded, key),
        key: key.to_owned(),
        wrong: refused.to_string(),
        right: String::new(),
        code: refused.code(),
    };
    refused.map(problem).collect()
}

/// What is wrong with the files that add to providers.
fn provider_files(loaded: &Loaded) -> Vec<Problem> {
    let directory = &loaded.config.compute.provider_config_location;
    let name = "compute.provider_config_location";
    let problem = |wrong| Problem {
        at: origin_of(loaded, name),
        key: name.to_owned(),
        wrong,
        right: String::new(),
        code: ErrorCode::BadValue,
    };
    let wrong = provider_configs(directory).err().unwrap_or_default();
    wrong.into_iter().map(problem).collect()
}

fn show(loaded: &Loaded, origin: bool, set: bool) -> Listing {
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

fn differences(changes: &[Change]) -> Listing {
    let mut listing = Listing::new(&["option", "running", "file", "takes_effect"]);
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

impl From<RunningError> for Failure {
    fn from(error: RunningError) -> Self {
        let code = match error {
            RunningError::Away { .. } => ErrorCode::AgentAway,
            RunningError::Answer { .. } | RunningError::Refused { .. } => ErrorCode::AgentAnswer,
        };
        Failure::from_error(code, &error).mend("systemctl status berth-agent")
    }
}
