//! The command line as clap parses it: global options and one variant for each subcommand.

use std::path::PathBuf;

use berth_config::Sources;
use clap::{Parser, Subcommand};

use crate::commands::{
    accelerator, agent, completion, compute, config, controller, demo, device, doctor, explain,
    guest, identity, man, placement, provider, reconcile, reshape, scheduler, tls, up,
};
use crate::context::Context;
use crate::logging::{LevelFilter, LogArguments};

const EXAMPLES: &str = "\
Examples:
  berth up                                    Placement and the agent, in the foreground
  berth agent status                          show the state of the running agent
  berth reshape plan                          show what the next start would change
  berth provider tree                         show this host's provider tree
  berth guest list                            list the guests and their states
  berth device list                           list the devices for guests and their users
  berth reconcile --dry-run                   show differences between journal, hypervisor and services
  berth doctor                                check whether this host can be a compute node
  berth config check                          check the configuration
  berth config show --origin                  show all options and their origin
  berth config diff                           show what a reload would change
  berth explain E0301                         explain the number of an error message
  berth completion bash > /etc/bash_completion.d/berth

Exit codes: 0 done, 1 refused, 64 usage, 69 service unavailable, 70 a bug,
73 in use by another process, 74 disk, 75 reshape needed, 76 reshape failed, 78 configuration.";

/// A compute-node agent for OpenStack: it reports this host to Placement, boots guests and attaches their accelerators.
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
    /// Also read all *.toml files of this directory, sorted by name.
    #[arg(
        long,
        value_name = "DIRECTORY",
        global = true,
        help_heading = "Configuration"
    )]
    pub config_dir: Option<PathBuf>,
    /// Simulate the machine that this file describes (the fake driver) instead of using this
    /// host; overrides the configuration.
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        help_heading = "Configuration"
    )]
    pub machine: Option<PathBuf>,
    /// Keep all state, and the admin socket, in this directory; overrides the configuration.
    #[arg(
        long,
        value_name = "FOLDER",
        global = true,
        help_heading = "Configuration"
    )]
    pub state_dir: Option<PathBuf>,
    /// The options of logging.
    #[command(flatten)]
    pub log: LogArguments,
    /// The subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The global options as subcommands use them.
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

/// All subcommands of `berth`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything on this machine, in the foreground: Placement, the other services and the agent.
    Up(up::UpArguments),
    /// Run all services but no agent, in the foreground: all APIs behind one listener, scheduler and conductor. The
    /// agents run on other hosts.
    Controller(controller::ControllerArguments),
    /// Run the node agent, or control the running agent.
    Agent(agent::AgentArguments),
    /// Serve the built-in Placement, or upgrade its database offline.
    Placement(placement::PlacementArguments),
    /// Serve the Identity API (a minimal Keystone v3) for one machine or a small cloud; check its users file.
    Identity(identity::IdentityArguments),
    /// Serve the compute API (Nova's) with its conductor: flavors, key pairs, servers.
    Compute(compute::ComputeArguments),
    /// Serve the accelerator API: device profiles, accelerator requests and their binding.
    Accelerator(accelerator::AcceleratorArguments),
    /// Explain and check scheduling: which hosts, in which order, and why not the others.
    Scheduler(scheduler::SchedulerArguments),
    /// Boot, show, switch and delete guests.
    Guest(guest::GuestArguments),
    /// Show the devices that this host offers to guests; reset, quarantine and release them.
    Device(device::DeviceArguments),
    /// Compare guests, hypervisor, devices, accelerator requests and allocations, and repair the differences.
    Reconcile(reconcile::ReconcileArguments),
    /// Show what the next start of the agent would change in Placement.
    Reshape(reshape::ReshapeArguments),
    /// Show this host's provider tree.
    Provider(provider::ProviderArguments),
    /// Show this host's provider tree, then upgrade a simulated machine with eight GPUs and running guests.
    Demo(demo::DemoArguments),
    /// Check and show the configuration.
    Config(config::ConfigArguments),
    /// Make, renew, revoke and show the certificates of the controller and the hosts.
    Tls(tls::TlsArguments),
    /// Check whether this host can be a compute node, with a fix for each problem.
    Doctor(doctor::DoctorArguments),
    /// Explain the number of an error message: its cause, and what to do.
    Explain(explain::ExplainArguments),
    /// Print a shell completion script.
    Completion(completion::CompletionArguments),
    /// Write the manual pages.
    Man(man::ManArguments),
}

impl Command {
    /// The log level without `--log-level`: services log what they do, short commands only warnings.
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
            | Command::Explain(_)
            | Command::Tls(_)
            | Command::Completion(_)
            | Command::Man(_) => LevelFilter::WARN,
        }
    }
}
