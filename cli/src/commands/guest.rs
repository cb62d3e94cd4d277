//! `berth guest`: boots and manages guests. The conductor creates and deletes them; the agent of a host controls their
//! power and lists what the host has.

mod act;
mod change;
mod clients;
mod create;
mod decisions;
mod image;
mod rescue;
mod show;
mod size;

use std::io::Write;

use berth_compose::AgentAt;
use berth_output::{ExitCode, Failure, ListFormat};

use crate::context::Context;
use change::GuestChange;
use clients::GuestClients;
use create::CreateArguments;
use rescue::{RebuildArguments, RescueArguments};

pub(crate) use decisions::decisions_of;

/// The longest grace period in seconds.
const LONGEST_GRACE: u16 = 600;

fn grace(text: &str) -> Result<u16, String> {
    let seconds = text.parse().ok();
    seconds
        .filter(|seconds| *seconds <= LONGEST_GRACE)
        .ok_or_else(|| format!("grace must be a whole number of seconds from 0 to {LONGEST_GRACE}"))
}

#[derive(Debug, clap::Args)]
pub struct GuestArguments {
    #[command(flatten)]
    agent: AgentAt,
    #[command(subcommand)]
    command: GuestCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GuestCommand {
    /// Boot a guest: claim its resources, bind its accelerators, and let the host's agent build it.
    #[command(after_help = "Examples:
  berth guest create web --vcpus 2 --ram 2G --disk 10 --image /srv/images/debian.qcow2
  berth guest create job --vcpus 4 --ram 8G --kernel /srv/images/vmlinuz --ramdisk /srv/images/initrd --device-profile gpu --wait
  berth guest create big --vcpus 8 --ram 16384 --image debian.raw --property hw:cpu_policy=dedicated --property hw:numa_nodes=2
  berth guest create web --vcpus 2 --ram 2048 --image debian.qcow2 --network default --ssh-key ~/.ssh/id_ed25519.pub
  berth guest create web --vcpus 2 --ram 2048 --image debian.qcow2 --image-property hw_firmware_type=uefi
  berth guest create web --vcpus 2 --ram 2048 --image debian.qcow2 --no-wait -f json
  berth guest create web --vcpus 2 --ram 2048 --device-profile gpu --dry-run      what would be asked of Placement?
  berth guest create --spec guest.json                                        straight to the agent, nothing claimed")]
    Create(Box<CreateArguments>),
    /// List the guests of this host, and guests that failed to boot.
    #[command(
        after_help = "Examples:\n  berth guest list\n  berth guest list -f value -c uuid -c status\n  berth guest list --agent https://compute2:9178"
    )]
    List {
        #[command(flatten)]
        format: ListFormat,
    },
    /// Show one guest: its devices, each step of its boot, and why it failed or is blocked.
    #[command(after_help = "Examples:\n  berth guest show web\n  berth guest show web -f json")]
    Show {
        #[command(flatten)]
        guest: GuestChoice,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Switch a guest off.
    #[command(after_help = "Examples:\n  berth guest stop web\n  berth guest stop web --grace 60")]
    Stop {
        #[command(flatten)]
        change: GuestChange,
        /// Ask the guest to shut down first, and wait for this many seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = grace, allow_hyphen_values = true)]
        grace: u16,
    },
    /// Switch a guest on, with its devices.
    #[command(after_help = "Examples:\n  berth guest start web\n  berth guest start web -f json")]
    Start {
        #[command(flatten)]
        change: GuestChange,
    },
    /// Restart a guest, gracefully by default.
    #[command(after_help = "Examples:\n  berth guest reboot web\n  berth guest reboot web --hard")]
    Reboot {
        #[command(flatten)]
        change: GuestChange,
        /// Switch it off and on again without asking the guest.
        #[arg(long)]
        hard: bool,
    },
    /// Suspend a guest's CPUs; its memory stays in RAM.
    #[command(after_help = "Examples:\n  berth guest pause web")]
    Pause {
        #[command(flatten)]
        change: GuestChange,
    },
    /// Resume a paused guest.
    #[command(after_help = "Examples:\n  berth guest unpause web")]
    Unpause {
        #[command(flatten)]
        change: GuestChange,
    },
    /// Boot a guest from a rescue image or kernel, with its root disk as a second disk; it keeps its devices.
    #[command(after_help = "Examples:
  berth guest rescue web --image /srv/images/debian.qcow2
  berth guest rescue web --kernel /srv/images/vmlinuz --ramdisk /srv/images/initrd --cmdline console=ttyS0")]
    Rescue(Box<RescueArguments>),
    /// Boot a rescued guest from its own root disk again.
    #[command(after_help = "Examples:\n  berth guest unrescue web")]
    Unrescue {
        #[command(flatten)]
        change: GuestChange,
    },
    /// Replace a guest's root disk with a new image; its data is lost, its devices stay assigned.
    #[command(after_help = "Examples:
  berth guest rebuild web --image /srv/images/debian.qcow2
  berth guest rebuild web --image debian.raw --preserve-ephemeral")]
    Rebuild(Box<RebuildArguments>),
    /// Write a guest's memory to disk and switch it off; `start` resumes it. Guests with devices are refused.
    #[command(after_help = "Examples:\n  berth guest suspend web")]
    Suspend {
        #[command(flatten)]
        change: GuestChange,
    },
    /// Delete a guest with its disks, its accelerator requests and its allocation.
    #[command(
        after_help = "Examples:\n  berth guest delete web --wait\n  berth guest delete web --at-agent"
    )]
    Delete {
        #[command(flatten)]
        change: GuestChange,
        /// Wait until the guest is deleted.
        #[arg(long)]
        wait: bool,
        /// The time limit of --wait.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5m", requires = "wait")]
        timeout: std::time::Duration,
        /// Delete it only at the agent; for a guest that no conductor created. An allocation in Placement is kept.
        #[arg(long)]
        at_agent: bool,
    },
    /// Show the output of a guest's console.
    Console {
        #[command(subcommand)]
        command: ConsoleCommand,
    },
}

#[derive(Debug, clap::Subcommand)]
enum ConsoleCommand {
    /// Print the output of the serial console.
    #[command(
        after_help = "Examples:\n  berth guest console log web\n  berth guest console log web --lines 20"
    )]
    Log {
        #[command(flatten)]
        guest: GuestChoice,
        /// Print only the last N lines.
        #[arg(long, value_name = "LINES")]
        lines: Option<u32>,
    },
}

#[derive(Debug, clap::Args)]
struct GuestChoice {
    /// The UUID of the guest, or its name if that is unique.
    #[arg(value_name = "GUEST")]
    guest: String,
}

pub fn run(
    arguments: &GuestArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let config = context.load()?.config;
    let clients = GuestClients::new(&config, &arguments.agent)?;
    context.block_on(talk(&arguments.command, &clients, out))??;
    Ok(ExitCode::Done)
}

async fn talk(
    command: &GuestCommand,
    clients: &GuestClients,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    use berth_wire::guest::GuestAction;
    let (change, action, done) = match command {
        GuestCommand::Create(arguments) => return create::run(arguments, clients, out).await,
        GuestCommand::List { format } => return show::list(clients, format, out).await,
        GuestCommand::Show { guest, format } => {
            return show::one(clients, &guest.guest, format, out).await;
        }
        GuestCommand::Delete {
            change,
            wait,
            timeout,
            at_agent,
        } => {
            let wait = wait.then_some(*timeout);
            return act::delete(clients, change, wait, *at_agent, out).await;
        }
        GuestCommand::Console {
            command: ConsoleCommand::Log { guest, lines },
        } => return act::console(clients, &guest.guest, *lines, out).await,
        GuestCommand::Stop { change, grace } => (
            change,
            GuestAction::Stop {
                grace_seconds: *grace,
            },
            "stopped",
        ),
        GuestCommand::Start { change } => (change, GuestAction::Start {}, "started"),
        GuestCommand::Reboot {
            change,
            hard: false,
        } => (change, GuestAction::SoftReboot {}, "rebooted"),
        GuestCommand::Reboot { change, hard: true } => {
            (change, GuestAction::HardReboot {}, "switched off and on")
        }
        GuestCommand::Pause { change } => (change, GuestAction::Pause {}, "paused"),
        GuestCommand::Unpause { change } => (change, GuestAction::Unpause {}, "unpaused"),
        GuestCommand::Rescue(arguments) => (&arguments.change, arguments.action()?, "rescued"),
        GuestCommand::Unrescue { change } => (change, GuestAction::Unrescue {}, "unrescued"),
        GuestCommand::Rebuild(arguments) => (&arguments.change, arguments.action()?, "rebuilt"),
        GuestCommand::Suspend { change } => (change, GuestAction::Suspend {}, "suspended"),
    };
    act::power(clients, change, &action, done, out).await
}
