//! `berth accelerator profile|request|device`: operators' commands for the accelerator service, Berth's own or Cyborg.

use std::io::Write;

use berth_client::accelerator::DeviceSwitch;
use berth_client::placement::DeleteOutcome;
use berth_client::{
    AcceleratorClient, AcceleratorError, AuthOptions, AuthType, Disposition, ReportedArq,
};
use berth_compose::{ACCELERATOR_ENDPOINT_FILE, EMBEDDED_TOKEN, trusting_own_authority};
use berth_config::{Config, Secret};
use berth_model::{ArqUuid, AttachHandleInfo};
use berth_output::{ErrorCode, Failure, ListFormat, Listing};
use berth_wire::accelerator::{CreateDeviceProfile, DeviceProfileBody, GroupBody};
use serde_json::json;
use uuid::Uuid;

/// The commands of `berth accelerator profile`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum DeviceProfileCommand {
    /// List the device profiles.
    List {
        #[command(flatten)]
        format: ListFormat,
    },
    /// Show one device profile.
    Show {
        /// The name or UUID of the profile.
        profile: String,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Create a device profile; each --group is one group of `KEY=VALUE` pairs, separated by commas.
    #[command(after_help = "Examples:
  berth accelerator profile create gpu --group resources:PGPU=1
  berth accelerator profile create pair --group resources:PGPU=1,trait:CUSTOM_NVIDIA_1EB8=required --group resources:FPGA=1")]
    Create {
        /// The name of the new profile.
        name: String,
        /// A group: resources:CLASS=AMOUNT, trait:NAME=required or forbidden, accel:KEY=VALUE.
        #[arg(long, value_name = "KEY=VALUE,…", required = true, value_parser = group)]
        group: Vec<GroupBody>,
        /// A description of the profile.
        #[arg(long)]
        description: Option<String>,
    },
    /// Delete a device profile; a profile that is in use is refused.
    Delete {
        /// The name or UUID of the profile.
        profile: String,
    },
}

/// The commands of `berth accelerator request`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum AcceleratorRequestCommand {
    /// List the accelerator requests.
    List {
        #[command(flatten)]
        format: ListFormat,
    },
    /// Show one accelerator request.
    Show {
        /// The UUID of the request.
        request: ArqUuid,
        #[command(flatten)]
        format: ListFormat,
    },
    /// Delete an accelerator request, bound or not; a bound device is released. The requests of a guest are
    /// deleted with the guest.
    Delete {
        /// The UUID of the request.
        request: ArqUuid,
    },
}

/// The commands of `berth accelerator device`.
#[derive(Debug, clap::Subcommand)]
pub(super) enum AcceleratorDeviceCommand {
    /// List the devices of all hosts.
    List {
        #[command(flatten)]
        format: ListFormat,
    },
    /// Allow new bindings to a device again.
    Enable {
        /// The UUID of the device.
        device: Uuid,
    },
    /// Stop new bindings to a device; its host reserves it in Placement. Bound requests are not affected.
    Disable {
        /// The UUID of the device.
        device: Uuid,
    },
}

/// Parses one `--group` argument.
fn group(text: &str) -> Result<GroupBody, String> {
    let pairs = text.split(',').map(|pair| {
        pair.split_once('=')
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
            .ok_or_else(|| format!("{pair:?} is no KEY=VALUE; an example is resources:PGPU=1"))
    });
    let group = GroupBody(pairs.collect::<Result<_, _>>()?);
    group
        .clone()
        .into_group()
        .map_err(|error| format!("{text:?}: {error}"))?;
    Ok(group)
}

/// A client of the service that `[cyborg]` configures; without it, of the service that `berth up` runs on this machine.
pub(super) fn service(config: &Config) -> Result<AcceleratorClient, Failure> {
    let local;
    let options = if config.cyborg.auth_type.is_some() {
        &config.cyborg
    } else {
        let recorded = std::fs::read_to_string(config.state_path.join(ACCELERATOR_ENDPOINT_FILE));
        let url = recorded.map_or_else(
            |_| {
                config
                    .accelerator_listener()
                    .url(config.accelerator_service.listen)
            },
            |url| url.trim().to_owned(),
        );
        local = AuthOptions {
            auth_type: Some(AuthType::AdminToken),
            endpoint_override: Some(url),
            token: Some(Secret::from(EMBEDDED_TOKEN)),
            ..trusting_own_authority(config, config.cyborg.clone())
        };
        &local
    };
    service_of(options)
}

/// A client of the service that these options configure.
pub(super) fn service_of(options: &AuthOptions) -> Result<AcceleratorClient, Failure> {
    AcceleratorClient::from_options(options, None).map_err(|error| {
        let what = "access to the accelerator service is not configured";
        Failure::caused(ErrorCode::Missing, what, &error).hint("see [cyborg] in the reference")
    })
}

pub(super) fn failed(error: &AcceleratorError) -> Failure {
    let code = match error.refusal().map(|refusal| refusal.status.as_u16()) {
        Some(401) => ErrorCode::Unauthorized,
        Some(403) => ErrorCode::Forbidden,
        Some(400) => ErrorCode::RequestRefused,
        Some(404 | 409 | 423) => ErrorCode::Refused,
        _ if error.disposition() == Disposition::Fatal => ErrorCode::Endpoint,
        _ => ErrorCode::Unavailable,
    };
    Failure::caused(code, "the accelerator service refused or failed", error)
}

fn unknown(what: &str, meant: &str) -> Failure {
    Failure::new(ErrorCode::Refused, format!("unknown {what} {meant}"))
}

pub(super) async fn profile(
    asked: &DeviceProfileCommand,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let service = service(config)?;
    match asked {
        DeviceProfileCommand::List { format } => {
            let all = service.device_profiles().await;
            profiles(&all.map_err(|error| failed(&error))?).print(format, out)?;
        }
        DeviceProfileCommand::Show { profile, format } => {
            profiles(&[named(&service, profile).await?]).print(format, out)?;
        }
        DeviceProfileCommand::Create {
            name,
            group,
            description,
        } => {
            let wanted = CreateDeviceProfile {
                name: Some(name.clone()),
                uuid: None,
                description: description.clone(),
                groups: Some(group.clone()),
            };
            let made = service.create_device_profile(&wanted).await;
            let made = made.map_err(|error| failed(&error))?;
            writeln!(out, "{}", made.uuid)?;
        }
        DeviceProfileCommand::Delete { profile } => {
            let found = named(&service, profile).await?;
            match service.delete_device_profile(found.uuid).await {
                Ok(DeleteOutcome::Deleted | DeleteOutcome::AlreadyGone) => {}
                Err(error) => return Err(failed(&error)),
            }
        }
    }
    Ok(())
}

/// Finds a profile by name or UUID.
async fn named(service: &AcceleratorClient, meant: &str) -> Result<DeviceProfileBody, Failure> {
    let all = service
        .device_profiles()
        .await
        .map_err(|error| failed(&error))?;
    let uuid = meant.parse::<Uuid>().ok();
    all.into_iter()
        .find(|profile| profile.name == meant || Some(profile.uuid) == uuid)
        .ok_or_else(|| unknown("device profile", meant))
}

fn profiles(profiles: &[DeviceProfileBody]) -> Listing {
    let mut listing = Listing::new(&["uuid", "name", "groups", "description"]);
    for profile in profiles {
        let group = |group: &GroupBody| {
            let pairs = group.0.iter().map(|(key, value)| format!("{key}={value}"));
            pairs.collect::<Vec<_>>().join(",")
        };
        let groups: Vec<String> = profile.groups.iter().map(group).collect();
        listing.push([
            json!(profile.uuid),
            json!(profile.name),
            json!(groups),
            json!(profile.description),
        ]);
    }
    listing
}

pub(super) async fn request(
    asked: &AcceleratorRequestCommand,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let service = service(config)?;
    match asked {
        AcceleratorRequestCommand::List { format } => {
            let all = service.arqs().await.map_err(|error| failed(&error))?;
            requests(&all).print(format, out)?;
        }
        AcceleratorRequestCommand::Show { request, format } => {
            let found = service.arq(*request).await;
            let found = found.map_err(|error| failed(&error))?;
            let found =
                found.ok_or_else(|| unknown("accelerator request", &request.to_string()))?;
            requests(&[found]).print(format, out)?;
        }
        AcceleratorRequestCommand::Delete { request } => match service.delete_arq(*request).await {
            Ok(DeleteOutcome::Deleted) => {}
            Ok(DeleteOutcome::AlreadyGone) => {
                return Err(unknown("accelerator request", &request.to_string()));
            }
            Err(error) => return Err(failed(&error)),
        },
    }
    Ok(())
}

fn requests(all: &[ReportedArq]) -> Listing {
    let mut listing = Listing::new(&["uuid", "state", "profile", "guest", "host", "device"]);
    for reported in all {
        let row = match &reported.arq {
            Ok(arq) => {
                let binding = arq.state.binding();
                let device = arq.state.attach_handle().map(|handle| match &handle.info {
                    AttachHandleInfo::Pci { address, .. } => address.to_string(),
                    AttachHandleInfo::Mdev {
                        parent, asked_type, ..
                    } => format!("{asked_type} of {parent}"),
                    other => other.kind().as_str().to_owned(),
                });
                [
                    json!(reported.uuid.to_string()),
                    json!(arq.state.phase().as_str()),
                    json!(arq.device_profile.as_str()),
                    json!(binding.map(|binding| binding.instance.to_string())),
                    json!(binding.map(|binding| &binding.hostname)),
                    json!(device),
                ]
            }
            Err(error) => [
                json!(reported.uuid.to_string()),
                json!(format!("unreadable: {error}")),
                json!(null),
                json!(null),
                json!(null),
                json!(null),
            ],
        };
        listing.push(row);
    }
    listing
}

pub(super) async fn device(
    asked: &AcceleratorDeviceCommand,
    config: &Config,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let service = service(config)?;
    let switched = match asked {
        AcceleratorDeviceCommand::List { format } => {
            let all = service.devices().await.map_err(|error| failed(&error))?;
            let mut listing = Listing::new(&["uuid", "type", "vendor", "model", "host", "status"]);
            for device in &all {
                listing.push([
                    json!(device.uuid),
                    json!(device.device_type),
                    json!(device.vendor),
                    json!(device.model),
                    json!(device.hostname),
                    json!(device.status),
                ]);
            }
            return listing.print(format, out);
        }
        AcceleratorDeviceCommand::Enable { device } => {
            service.switch_device(*device, DeviceSwitch::Enable).await
        }
        AcceleratorDeviceCommand::Disable { device } => {
            service.switch_device(*device, DeviceSwitch::Disable).await
        }
    };
    switched.map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_or_refused_with_what_is_wrong() {
        let read = group("resources:PGPU=1, trait:CUSTOM_A=required").unwrap();
        assert_eq!(read.0.len(), 2);
        for (text, expected) in [
            ("resources:PGPU", "KEY=VALUE"),
            ("resources:PGPU=many", "resources:PGPU"),
            ("colour=red", "colour"),
        ] {
            let error = group(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
