//! `berth accelerator adopt`: takes over Cyborg's device profiles and bound requests into Berth's own accelerator
//! service.

use std::collections::BTreeSet;
use std::io::Write;

use berth_client::{AcceleratorClient, AuthOptions};
use berth_config::Config;
use berth_model::Arq;
use berth_output::{ErrorCode, ExitCode, Failure, ListFormat, Listing};
use berth_wire::accelerator::{CreateDeviceProfile, DeviceProfileBody};
use serde_json::json;
use uuid::Uuid;

use super::ask::{failed, service, service_of};

/// How many requests one batch has: each batch is one body and one transaction, whatever the size of the cloud.
const AT_ONCE: usize = 500;

/// The arguments of `berth accelerator adopt`.
#[derive(Debug, clap::Args)]
pub(super) struct AdoptArguments {
    /// Cyborg's URL with its version, as catalogs have it (http://controller:6666/v2). The account of [cyborg] is used;
    /// it needs the role admin there.
    #[arg(long, value_name = "URL")]
    from: String,
    #[command(flatten)]
    format: ListFormat,
}

/// Creates Cyborg's device profiles here and takes over its bound requests. Existing objects are kept, so a repeated
/// run continues an interrupted one.
///
/// Errors: one of the two services does not answer, or refuses.
pub(super) async fn adopt(
    asked: &AdoptArguments,
    config: &Config,
    out: &mut dyn Write,
) -> Result<ExitCode, Failure> {
    if config.cyborg.auth_type.is_none() {
        return Err(
            Failure::new(ErrorCode::Missing, "no credentials for Cyborg")
                .hint("set auth_type, auth_url, username and password in [cyborg]"),
        );
    }
    let source = service_of(&AuthOptions {
        endpoint_override: Some(asked.from.clone()),
        ..config.cyborg.clone()
    })?;
    let target = service(config)?;
    let mut listing = Listing::new(&["kind", "uuid", "name", "result"]);
    let profiles = profiles(&source, &target, &mut listing).await?;
    let requests = requests(&source, &target, &mut listing).await?;
    listing.print(&asked.format, out)?;
    Ok(match profiles && requests {
        true => ExitCode::Done,
        false => ExitCode::Refused,
    })
}

/// Returns whether all profiles exist here afterwards.
async fn profiles(
    source: &AcceleratorClient,
    target: &AcceleratorClient,
    listing: &mut Listing,
) -> Result<bool, Failure> {
    let here = target.device_profiles().await;
    let here = here.map_err(|error| failed(&error))?;
    let mut all = true;
    let theirs = source.device_profiles().await;
    for profile in theirs.map_err(|error| failed(&error))? {
        let same = here.iter().find(|here| here.name == profile.name);
        let result = match same {
            Some(here) if here.groups == profile.groups => "is here".to_owned(),
            Some(_) => {
                all = false;
                "not created: a profile of this name with other groups exists".to_owned()
            }
            None => match target.create_device_profile(&wanted(&profile)).await {
                Ok(_) => "made".to_owned(),
                Err(error) if error.refusal().is_some() => {
                    all = false;
                    format!("not created: {error}")
                }
                Err(error) => return Err(failed(&error)),
            },
        };
        listing.push([
            json!("profile"),
            json!(profile.uuid),
            json!(profile.name),
            json!(result),
        ]);
    }
    Ok(all)
}

fn wanted(profile: &DeviceProfileBody) -> CreateDeviceProfile {
    CreateDeviceProfile {
        name: Some(profile.name.clone()),
        uuid: Some(profile.uuid),
        description: profile.description.clone(),
        groups: Some(profile.groups.clone()),
    }
}

/// Returns whether all bound requests are held here afterwards.
async fn requests(
    source: &AcceleratorClient,
    target: &AcceleratorClient,
    listing: &mut Listing,
) -> Result<bool, Failure> {
    let (mut bound, mut all): (Vec<Arq>, bool) = (Vec::new(), true);
    let theirs = source.arqs().await.map_err(|error| failed(&error))?;
    let mut row = |uuid: Uuid, profile: Option<&str>, result: String| {
        listing.push([json!("request"), json!(uuid), json!(profile), json!(result)]);
    };
    for reported in theirs {
        match reported.arq {
            Ok(arq) if arq.state.attach_handle().is_some() => bound.push(arq),
            Ok(arq) => {
                let state = arq.state.phase().as_str();
                let result = format!("skipped: it is {state}, and holds nothing");
                row(
                    *arq.uuid.as_uuid(),
                    Some(arq.device_profile.as_str()),
                    result,
                );
            }
            Err(error) => {
                all = false;
                let result = format!("not adopted: it cannot be read: {error}");
                row(*reported.uuid.as_uuid(), None, result);
            }
        }
    }
    for lot in bound.chunks(AT_ONCE) {
        let reported = target.adopt_arqs(lot).await;
        let reported = reported.map_err(|error| failed(&error))?;
        let adopted: BTreeSet<Uuid> = reported.adopted.into_iter().collect();
        for arq in lot {
            let uuid = *arq.uuid.as_uuid();
            let refused = reported.not_taken.iter().find(|it| it.uuid == uuid);
            let result = match (adopted.contains(&uuid), refused) {
                (true, _) => "is here".to_owned(),
                (false, refused) => {
                    all = false;
                    let why = refused.map_or("the service gave no reason", |it| &it.reason);
                    format!("not adopted: {why}")
                }
            };
            row(uuid, Some(arq.device_profile.as_str()), result);
        }
    }
    Ok(all)
}
