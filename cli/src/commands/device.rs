//! `berth device`: lists, resets, quarantines and releases the running agent's devices for guests.

use std::io::Write;

use berth_agent_api::client::AdminClient;
use berth_agent_api::devices::body::{DeviceAction, HostDeviceBody};
use berth_agent_api::devices::client::DeviceVerb;
use berth_agent_devices::Risk;
use berth_compose::{AgentAt, admin_failure};
use berth_output::{ExitCode, Failure, ListFormat, Listing};
use serde_json::json;

use crate::context::Context;

#[derive(Debug, clap::Args)]
pub struct DeviceArguments {
    #[command(flatten)]
    agent: AgentAt,
    #[command(subcommand)]
    command: DeviceCommand,
}

/// Risks that an operator must accept by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AcceptedRisk {
    /// The next guest may read data that the last guest left in the device.
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
    /// List the devices that this host offers to guests, and the guests that use them.
    #[command(
        after_help = "Examples:\n  berth device list\n  berth device list -f value -c name -c state\n  berth device list --agent https://compute2:9178"
    )]
    List {
        #[command(flatten)]
        format: ListFormat,
    },
    /// Show one device, or everything that a card offers.
    #[command(after_help = "Examples:\n  berth device show 0000:84:00.0 -f yaml")]
    Show {
        /// A PCI address, or the UUID of a mediated device.
        device: String,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Reset an unused device, and verify the reset; a device in use is refused.
    #[command(after_help = "Examples:\n  berth device reset 0000:84:00.0 --dry-run")]
    Reset {
        /// A PCI address, or the UUID of a mediated device; a card's address stands for everything that it offers.
        device: String,
        /// Print what would change, without changing it.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Reset a device and take it out of quarantine; if the reset fails, it stays in quarantine.
    #[command(after_help = "Examples:\n  berth device release 0000:84:00.0\n  \
                            berth device release 0000:84:00.0 --accept-risk unclean-device")]
    Release {
        /// A PCI address, or the UUID of a mediated device; a card's address stands for everything that it offers.
        device: String,
        /// Print what would change, without changing it.
        #[arg(long)]
        dry_run: bool,
        /// Accept a named risk instead of the reset.
        #[arg(long, value_name = "RISK", value_enum, value_delimiter = ',')]
        accept_risk: Vec<AcceptedRisk>,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Quarantine a device: it is not assigned to guests until it is released. A guest that uses it keeps it.
    #[command(
        after_help = "Examples:\n  berth device quarantine 0000:84:00.0 --reason 'fan is loud'"
    )]
    Quarantine {
        /// A PCI address, or the UUID of a mediated device; a card's address stands for everything that it offers.
        device: String,
        /// The reason, shown to other operators.
        #[arg(long)]
        reason: String,
        /// Print what would change, without changing it.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: ListFormat,
    },
}

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

fn listed(devices: &[HostDeviceBody]) -> Listing {
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
    ])
    .or_say("no devices; [accelerators] device_spec and [pci] device_spec list them");
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

fn whole(devices: &[HostDeviceBody]) -> Listing {
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
