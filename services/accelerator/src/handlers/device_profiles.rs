//! `/v2/device_profiles`: creates, lists, shows and deletes device profiles.
//!
//! In the paths with `{uuid}`, the last segment may be the UUID or the name of a profile ([`ProfileKey`]).

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_wire::accelerator::{
    CreateDeviceProfile, DeviceProfileBody, DeviceProfileDocument, DeviceProfileList,
};
use http::StatusCode;

use super::{database, link, read, require};
use crate::microversions;
use crate::policies::{admin, reader};
use crate::router::{AcceleratorApi, AcceleratorOperation};
use crate::store::device_profiles::{
    self, CreateProfile, DeleteProfile, ProfileError, ProfileKey, ProfileRow,
};

const DELETE: RuleDefault = admin("cyborg:device_profile:delete");

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![
        AcceleratorOperation::get("/v2/device_profiles", list)
            .rule(reader("cyborg:device_profile:get_all")),
        AcceleratorOperation::post("/v2/device_profiles", create)
            .rule(admin("cyborg:device_profile:create")),
        AcceleratorOperation::delete("/v2/device_profiles", delete_several).rule(DELETE),
        AcceleratorOperation::get("/v2/device_profiles/{uuid}", show)
            .rule(reader("cyborg:device_profile:get_one")),
        AcceleratorOperation::delete("/v2/device_profiles/{uuid}", delete_one).rule(DELETE),
    ]
}

/// The maximum length of a profile's `description`, in characters.
const LONGEST_DESCRIPTION: usize = 4096;

pub(crate) fn fault(error: ProfileError) -> Fault {
    match error {
        ProfileError::NotFound(_) => Fault::not_found(error.to_string()),
        ProfileError::NameTaken(_) | ProfileError::UuidTaken(_) | ProfileError::InUse { .. } => {
            Fault::conflict(error.to_string())
        }
        ProfileError::Read(error) => database(error),
    }
}

fn body(call: &ApiRequest, profile: ProfileRow) -> DeviceProfileBody {
    let links = vec![link(call, "device_profiles", profile.body.uuid)];
    DeviceProfileBody {
        links,
        ..profile.body
    }
}

/// Splits a list with commas; sorted, without empty and duplicate entries.
fn split_list(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = text
        .split(',')
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect();
    parts.sort();
    parts.dedup();
    parts
}

async fn list(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let names = call.query.last("name").map(split_list);
    let mut tx = read(&accelerator.tables).await?;
    let found = device_profiles::list(&mut tx, names.as_deref())
        .await
        .map_err(database)?;
    let device_profiles = found
        .into_iter()
        .map(|profile| body(&call, profile))
        .collect();
    ApiResponse::ok(&DeviceProfileList { device_profiles })
}

async fn create(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let mut requested: Vec<CreateDeviceProfile> = call.typed()?;
    let (Some(requested), true) = (requested.pop(), requested.is_empty()) else {
        return Err(Fault::bad_request(
            "Only one device profile allowed per POST request for now.",
        ));
    };
    let uuid = requested.uuid;
    let description = requested.description.clone();
    if description
        .as_ref()
        .is_some_and(|text| text.chars().count() > LONGEST_DESCRIPTION)
    {
        return Err(Fault::bad_request(format!(
            "A description has at most {LONGEST_DESCRIPTION} characters."
        )));
    }
    let (name, groups) = requested
        .into_profile()
        .map_err(|error| Fault::bad_request(error.to_string()))?;
    let create = CreateProfile {
        uuid,
        name,
        description,
        groups,
    };
    let made = accelerator.tables.write(&create).await.map_err(fault)?;
    ApiResponse::with_body(StatusCode::CREATED, &body(&call, made))
}

async fn show(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let key = ProfileKey::of(call.path("uuid")?);
    if matches!(key, ProfileKey::Name(_)) {
        require(&call, microversions::PROFILE_BY_NAME)?;
    }
    let mut tx = read(&accelerator.tables).await?;
    let found = device_profiles::get(&mut tx, &key).await.map_err(fault)?;
    ApiResponse::ok(&DeviceProfileDocument {
        device_profile: body(&call, found),
    })
}

async fn delete_one(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let keys = vec![ProfileKey::of(call.path("uuid")?)];
    accelerator
        .tables
        .write(&DeleteProfile { keys })
        .await
        .map_err(fault)?;
    Ok(ApiResponse::no_content())
}

async fn delete_several(
    State(accelerator): State<AcceleratorApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    accelerator.allow(&call)?;
    let value = call.query.last("value").unwrap_or_default();
    let keys: Vec<ProfileKey> = split_list(value)
        .iter()
        .map(|text| ProfileKey::of(text))
        .collect();
    if keys.is_empty() {
        return Err(Fault::bad_request(
            "Name the device profiles to delete: ?value=NAME,NAME",
        ));
    }
    accelerator
        .tables
        .write(&DeleteProfile { keys })
        .await
        .map_err(fault)?;
    Ok(ApiResponse::no_content())
}
