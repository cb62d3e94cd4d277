//! The command line, as clap reads it.

use std::path::PathBuf;

use berth_config::Sources;
use clap::{Parser, Subcommand};

use crate::commands::{
    accelerator, agent, completion, compute, config, controller, demo, device, doctor, guest,
    identity, man, placement, provider, reconcile, reshape, scheduler, up,
};
use crate::context::Context;
use crate::logging::{LevelFilter, LogArguments};

const EXAMPLES: &str = "\
Examples:
  berth up                                    Placement and the agent, in the foreground
  berth agent status                          how is the running agent?
  berth reshape plan                          what would the next start do?
  berth provider tree                         what does Placement have of this host?
  berth guest list                            which guests are there, and how are they?
  berth device list                           which devices can guests have, and who has them?
  berth reconcile --dry-run                   what do journal, hypervisor and services disagree about?
  berth doctor                                is this host able to be a compute node?
  berth config check                          is the configuration right?
  berth config show --origin                  what is in force, and where does it come from?
  berth config diff                           what would a reload change?
  berth completion bash > /etc/bash_completion.d/berth

Exit codes: 0 done, 1 refused, 64 usage, 69 a service is away, 70 a bug,
73 held by another, 74 disk, 75 reshape needed, 76 reshape failed, 78 configuration.";

/// The compute-node agent: it owns the node's truth and keeps OpenStack Placement in step with it.
#[derive(Debug, Parser)]
#[command(name = "berth", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = false)]
#[command(disable_help_subcommand = false, infer_subcommands = false)]
pub struct Cli {
    /// Read this configuration file instead of /etc/berth/berth.toml and /etc/berth/berth.d/*.toml.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        help_heading = "Configuration"
    )]
    pub config: Option<PathBuf>,
    /// Read the *.toml of this directory, too, in the order of their names.
    #[arg(
        long,
        value_name = "DIRECTORY",
        global = true,
        help_heading = "Configuration"
    )]
    pub config_dir: Option<PathBuf>,
    /// Be the machine this file describes (the fake driver), not this host; wins over the configuration.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        help_heading = "Configuration"
    )]
    pub machine: Option<PathBuf>,
    /// Keep all state in this folder, the admin socket too; wins over the configuration.
    #[arg(
        long,
        value_name = "FOLDER",
        global = true,
        help_heading = "Configuration"
    )]
    pub state_dir: Option<PathBuf>,
    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogArguments,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// What the subcommands need of the global options.
    #[must_use]
    pub fn context(&self) -> Context {
        Context {
            sources: Sources {
                machine: self.machine.clone(),
                state_dir: self.state_dir.clone(),
                ..Sources::of_process(self.config.clone(), self.config_dir.clone())
            },
        }
    }
}

/// Every subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Everything on this machine, in the foreground: Placement on loopback and the agent.
    Up(up::UpArguments),
    /// Everything that is not on a hypervisor, in the foreground: all APIs behind one listener, scheduler and conductor; the agents are
    /// on other hosts.
    Controller(controller::ControllerArguments),
    /// Run the node agent, or talk to the one that runs.
    Agent(agent::AgentArguments),
    /// Serve the built-in Placement, or upgrade its database offline.
    Placement(placement::PlacementArguments),
    /// Serve the Identity API (a minimal Keystone v3) for one machine or a small cloud; look at its file of users.
    Identity(identity::IdentityArguments),
    /// Serve the compute API (Nova's) with its conductor: flavors, key pairs, servers.
    Compute(compute::ComputeArguments),
    /// Serve the accelerator API: device profiles, accelerator requests and their binding.
    Accelerator(accelerator::AcceleratorArguments),
    /// Ask the filter scheduler: which hosts, in which order, and why not the others.
    Scheduler(scheduler::SchedulerArguments),
    /// Boot, show, switch and delete guests.
    Guest(guest::GuestArguments),
    /// Show this host's devices for guests; reset them, set them aside, take them back.
    Device(device::DeviceArguments),
    /// Compare guests, hypervisor, devices, accelerator requests and allocations, and mend what can be mended.
    Reconcile(reconcile::ReconcileArguments),
    /// Show what a startup would do.
    Reshape(reshape::ReshapeArguments),
    /// Show this host's provider tree.
    Provider(provider::ProviderArguments),
    /// Show this host, then an upgrade of a machine with eight GPUs and running guests.
    Demo(demo::DemoArguments),
    /// Check and show the configuration.
    Config(config::ConfigArguments),
    /// Look whether this host can be a compute node, and say how to mend what it lacks.
    Doctor(doctor::DoctorArguments),
    /// Print the completion script of a shell.
    Completion(completion::CompletionArguments),
    /// Write the manual pages.
    Man(man::ManArguments),
}

impl Command {
    /// What is logged unless something else is asked for: services say what they do, short commands only what is wrong.
    #[must_use]
    pub fn default_log_level(&self) -> LevelFilter {
        match self {
            Command::Up(_) | Command::Controller(_) => LevelFilter::INFO,
            Command::Placement(_)
            | Command::Accelerator(_)
            | Command::Identity(_)
            | Command::Compute(_) => LevelFilter::INFO,
            Command::Agent(arguments) if arguments.is_service() => LevelFilter::INFO,
            Command::Agent(_)
            | Command::Device(_)
            | Command::Guest(_)
            | Command::Reconcile(_)
            | Command::Reshape(_)
            | Command::Scheduler(_)
            | Command::Provider(_)
            | Command::Demo(_)
            | Command::Config(_)
            | Command::Doctor(_)
            | Command::Completion(_)
            | Command::Man(_) => LevelFilter::WARN,
        }
    }
}
