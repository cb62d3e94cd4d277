//! `berth device`: the devices that guests may have, of the running agent.

use std::io::Write;

use berth_agent_api::client::AdminClient;
use berth_agent_api::devices::body::{DeviceAction, DeviceBody};
use berth_agent_api::devices::client::DeviceVerb;
use berth_agent_devices::Risk;
use berth_compose::{AgentAt, admin_failure};
use berth_output::{ExitCode, Failure, ListFormat, Listing};
use serde_json::json;

use crate::context::Context;

/// `berth device`.
#[derive(Debug, clap::Args)]
pub struct DeviceArguments {
    #[command(flatten)]
    agent: AgentAt,
    #[command(subcommand)]
    command: DeviceCommand,
}

/// Risks that must be accepted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AcceptedRisk {
    /// The next guest may find in the device what the last one left there.
    UncleanDevice,
}

impl From<AcceptedRisk> for Risk {
    fn from(risk: AcceptedRisk) -> Self {
        match risk {
            AcceptedRisk::UncleanDevice => Self::UncleanDevice,
        }
    }
}

#[derive(Debug, clap::Subcommand)]
enum DeviceCommand {
    /// List what guests can get of this host's devices, and who has it.
    #[command(
        after_help = "Examples:\n  berth device list\n  berth device list -f value -c name -c state\n  berth device list --agent https://compute2:9178"
    )]
    List {
        #[command(flatten)]
        format: ListFormat,
    },
    /// Show one device, or all that is offered of a card.
    #[command(after_help = "Examples:\n  berth device show 0000:84:00.0 -f yaml")]
    Show {
        /// An address, or a mediated device's UUID.
        device: String,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Reset a device that nobody has, and verify the reset; one that a guest has is refused.
    #[command(after_help = "Examples:\n  berth device reset 0000:84:00.0 --dry-run")]
    Reset {
        /// An address, or a mediated device's UUID; a card's address for all that is offered of it.
        device: String,
        /// Say what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Reset a device and take it out of quarantine; one whose reset fails stays there.
    #[command(after_help = "Examples:\n  berth device release 0000:84:00.0\n  \
                            berth device release 0000:84:00.0 --accept-risk unclean-device")]
    Release {
        /// An address, or a mediated device's UUID; a card's address for all that is offered of it.
        device: String,
        /// Say what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
        /// Take a risk by its name.
        #[arg(long, value_name = "RISK", value_enum, value_delimiter = ',')]
        accept_risk: Vec<AcceptedRisk>,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Set a device aside: nobody gets it until it is released. A guest that has it keeps it.
    #[command(
        after_help = "Examples:\n  berth device quarantine 0000:84:00.0 --reason 'fan is loud'"
    )]
    Quarantine {
        /// An address, or a mediated device's UUID; a card's address for all that is offered of it.
        device: String,
        /// Why, for those who wonder later.
        #[arg(long)]
        reason: String,
        /// Say what would be done, and do nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: ListFormat,
    },
}

/// Runs `berth device`.
///
/// # Errors
/// The agent is away or refuses, or the output cannot be written.
pub fn run(
    arguments: &DeviceArguments,
    context: &Context,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    let loaded = context.load()?;
    let admin = arguments.agent.admin(&loaded.config)?;
    context.block_on(talk(&arguments.command, &admin, out))??;
    Ok(ExitCode::Done)
}

async fn talk(
    command: &DeviceCommand,
    admin: &AdminClient,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (device, verb, action, format) = match command {
        DeviceCommand::List { format } => {
            let list = admin.devices().await.map_err(admin_failure)?;
            return listed(&list.devices).print(format, out);
        }
        DeviceCommand::Show { device, format } => {
            let shown = admin.device(device).await.map_err(admin_failure)?;
            return whole(&shown.devices).print(format, out);
        }
        DeviceCommand::Reset {
            device,
            dry_run,
            format,
        } => {
            let action = DeviceAction {
                dry_run: *dry_run,
                ..DeviceAction::default()
            };
            (device, DeviceVerb::Reset, action, format)
        }
        DeviceCommand::Release {
            device,
            dry_run,
            accept_risk,
            format,
        } => {
            let action = DeviceAction {
                dry_run: *dry_run,
                accept_risk: accept_risk.iter().copied().map(Into::into).collect(),
                ..DeviceAction::default()
            };
            (device, DeviceVerb::Release, action, format)
        }
        DeviceCommand::Quarantine {
            device,
            reason,
            dry_run,
            format,
        } => {
            let action = DeviceAction {
                reason: Some(reason.clone()),
                dry_run: *dry_run,
                ..DeviceAction::default()
            };
            (device, DeviceVerb::Quarantine, action, format)
        }
    };
    let acted = admin
        .act_on_device(device, verb, &action)
        .await
        .map_err(admin_failure)?;
    if format.is_for_people() {
        return Ok(writeln!(out, "{}", acted.text)?);
    }
    let mut listing = Listing::new(&["device", "action", "dry_run", "said"]);
    listing.push([
        json!(device),
        json!(verb.as_str()),
        json!(action.dry_run),
        json!(acted.text),
    ]);
    listing.print(format, out)
}

fn listed(devices: &[DeviceBody]) -> Listing {
    let mut listing = Listing::new(&[
        "name",
        "type",
        "product",
        "owner",
        "resource_class",
        "numa_node",
        "state",
        "guest",
        "reason",
    ]);
    for device in devices {
        listing.push([
            json!(device.name),
            json!(device.device_type),
            json!(device.product),
            json!(device.owner),
            json!(device.resource_class),
            json!(device.numa_node),
            json!(device.state),
            json!(device.guest),
            json!(device.reason),
        ]);
    }
    listing
}

fn whole(devices: &[DeviceBody]) -> Listing {
    let mut listing = Listing::new(&[
        "name",
        "node",
        "attach_type",
        "address",
        "mdev_type",
        "owner",
        "type",
        "product",
        "model",
        "numa_node",
        "provider",
        "resource_class",
        "state",
        "reason",
        "guest",
        "accelerator_request",
        "quarantined_since",
        "quarantined_by",
    ]);
    for device in devices {
        let quarantine = device.quarantine.as_ref();
        listing.push([
            json!(device.name),
            json!(device.node),
            json!(device.attach_type),
            json!(device.address),
            json!(device.mdev_type),
            json!(device.owner),
            json!(device.device_type),
            json!(device.product),
            json!(device.model),
            json!(device.numa_node),
            json!(device.provider),
            json!(device.resource_class),
            json!(device.state),
            json!(device.reason),
            json!(device.guest),
            json!(device.accelerator_request),
            json!(quarantine.map(|it| &it.since)),
            json!(quarantine.map(|it| &it.by)),
        ]);
    }
    listing
}
