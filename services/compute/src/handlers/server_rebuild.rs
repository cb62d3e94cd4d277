//! Rescue and rebuild: the server actions that need an image. A rebuild writes the config drive again, with the server's
//! name, metadata, key and user data.

use std::collections::BTreeMap;

use berth_http::fields::{BodyFields, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault, RuleDefault};
use berth_model::{ConsumerUuid, GuestMachine, with_image_placement};
use berth_wire::guest::{
    ConfigDriveChangeBody, GuestAction, ImageBody, PublicKeyBody, UserDataChange,
};
use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::server_actions::GRACE;
use super::server_create::{access_ip, disk_config, metadata_of, user_data};
use super::server_query::last_part;
use super::servers::DESCRIPTION;
use crate::images::FoundImage;
use crate::microversions::{CERTIFICATES, NO_PERSONALITY, REBUILD_KEY, SERVER_DESCRIPTION};
use crate::policies::member;
use crate::servers::{ActionChanges, ServerRecord, ServerUpdate};
use crate::state::ComputeApi;
use crate::views::server::Within;

pub(super) const RESCUE: RuleDefault = member("os_compute_api:os-rescue");
pub(super) const REBUILD: RuleDefault = member("os_compute_api:servers:rebuild");

/// The maximum length of a key pair's name.
const KEY_NAME: usize = 255;
const CERTIFICATES_KEY: &str = "trusted_image_certificates";

pub(super) async fn rescue(
    api: &ComputeApi,
    call: &ApiRequest,
    value: &Value,
) -> Result<ApiResponse, Fault> {
    let known = api.server_with_status_for(call, RESCUE).await?;
    let mut image = known.server.image;
    if !value.is_null() {
        let mut fields = BodyFields::of("rescue", value)?;
        no_password(&mut fields)?;
        if let Some(text) = fields.text("rescue_image_ref", 1..=2_048)? {
            image = Some(uuid_of(text)?);
        }
        fields.end()?;
    }
    let image = image.ok_or_else(|| Fault::bad_request("rescue_image_ref is missing"))?;
    let found = api.image_of(image, &known.server.project_id).await?;
    let image = api.image_of_machine(&known.server, found, MachineParts::Firmware);
    let action = GuestAction::Rescue {
        image: Some(image.await?),
        kernel: None,
        grace_seconds: GRACE,
    };
    api.start_action(call, &known, &action, ActionChanges::default())
        .await?;
    // Nova returns the password that it generated. Berth generates none.
    ApiResponse::ok(&json!({}))
}

pub(super) async fn rebuild(
    api: &ComputeApi,
    call: &ApiRequest,
    value: &Value,
) -> Result<ApiResponse, Fault> {
    let known = api.server_with_status_for(call, REBUILD).await?;
    let uuid = known.server.uuid;
    let mut fields = BodyFields::of("rebuild", value)?;
    let image = fields.text("imageRef", 1..=2_048)?;
    let image = uuid_of(fields.required("imageRef", image)?)?;
    let preserve_ephemeral = fields.boolean("preserve_ephemeral")?.unwrap_or(false);
    let mut update = ServerUpdate {
        name: fields.name("name")?.map(str::to_owned),
        disk_config: disk_config(&mut fields)?,
        access_ip_v4: access_ip(&mut fields, "accessIPv4")?,
        access_ip_v6: access_ip(&mut fields, "accessIPv6")?,
        ..ServerUpdate::default()
    };
    if call.version.has(SERVER_DESCRIPTION) {
        let given = fields.printable_or_null("description", DESCRIPTION)?;
        let is_given = fields.value("description").is_some();
        update.description = is_given.then(|| given.map(str::to_owned));
    }
    let metadata = fields.value("metadata");
    let metadata = metadata.map(|it| metadata_of("metadata", it)).transpose()?;
    let mut drive = ConfigDriveChangeBody::default();
    if call.version.has(NO_PERSONALITY) && fields.value("user_data").is_some() {
        let given = user_data(&mut fields)?;
        drive.user_data = Some(given.map_or(UserDataChange::Remove, UserDataChange::Set));
    }
    if call.version.has(REBUILD_KEY) && fields.value("key_name").is_some() {
        let name = fields.text_or_null("key_name", KEY_NAME)?;
        let key = api.key_of(call, name).await?;
        let keys = key.map(|key| PublicKeyBody {
            name: key.name,
            public_key: key.public_key,
        });
        update.key_name = Some(name.map(str::to_owned));
        drive.ssh_keys = Some(keys.into_iter().collect());
    }
    no_password(&mut fields)?;
    refuse_unsupported(call, &mut fields)?;
    fields.end()?;
    let found = api.image_of(image, &known.server.project_id).await?;
    api.check_image_fits(call, &known.server.flavor.body, &found)?;
    // As when the server was created: properties that place the guest are extra specs for the agent.
    let extra_specs = with_image_placement(
        &known.server.flavor.body.extra_specs,
        &found.body.properties,
    );
    let new = api.image_of_machine(&known.server, found, MachineParts::All);
    let action = GuestAction::Rebuild {
        image: new.await?,
        preserve_ephemeral,
        extra_specs: Some(extra_specs),
    };
    let changes = ActionChanges {
        image: Some(image),
        update,
        metadata,
        drive,
    };
    api.start_action(call, &known, &action, changes).await?;
    let shown = api.shown(call, uuid, Within::Rebuild).await?;
    let answer = ApiResponse::with_body(StatusCode::ACCEPTED, &shown)?;
    Ok(answer.located(call, &format!("/v2.1/servers/{uuid}")))
}

/// The parts of a guest's machine that an image must agree with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MachineParts {
    /// Everything.
    All,
    /// How it starts.
    Firmware,
}

impl ComputeApi {
    /// The image for a new root disk of a guest, which keeps its CPUs, memory and firmware. An image that requests others is
    /// refused, because the request would be ignored.
    async fn image_of_machine(
        &self,
        server: &ServerRecord,
        found: FoundImage,
        parts: MachineParts,
    ) -> Result<ImageBody, Fault> {
        let flavor = &server.flavor.body;
        let machine = |properties: &BTreeMap<String, String>| {
            let specs = &flavor.extra_specs;
            GuestMachine::of(flavor.vcpus, flavor.ram_mb, specs, properties)
        };
        let new = machine(&found.body.properties)
            .map_err(|error| Fault::bad_request(error.to_string()))?;
        let conductor = &self.compute.inner.conductor;
        // Without a record there is no guest either: the action itself says so.
        if let Ok(record) = conductor.show(ConsumerUuid::from(server.uuid)).await
            && let Some(old) = &record.request.body().image
            && let Ok(old) = machine(&old.properties)
        {
            if parts == MachineParts::All && old.placement != new.placement {
                let sentence = "An instance's NUMA topology cannot be changed as part of a rebuild. The image provided is \
                                invalid for this instance.";
                return Err(Fault::bad_request(sentence));
            }
            if old.firmware != new.firmware {
                let sentence = "The server keeps its firmware, and the image requests another one: it must be that of the \
                                server's first image.";
                return Err(Fault::bad_request(sentence));
            }
        }
        Ok(match parts {
            MachineParts::All => found.body.of_machine(),
            MachineParts::Firmware => ImageBody {
                properties: BTreeMap::new(),
                ..found.body
            },
        })
    }
}

/// Refuses fields of Nova's rebuild that Berth does not support, unless their value has no effect.
fn refuse_unsupported(call: &ApiRequest, fields: &mut BodyFields<'_>) -> Result<(), Fault> {
    let since = |version| call.version.has(version);
    let files = "injecting files into guests is not supported: use user_data";
    let signatures = "image signatures are not supported";
    for (key, reason, is_known) in [
        ("personality", files, !since(NO_PERSONALITY)),
        (CERTIFICATES_KEY, signatures, since(CERTIFICATES)),
    ] {
        if !is_known {
            continue;
        }
        match fields.value(key) {
            None | Some(Value::Null) => {}
            Some(Value::Array(all)) if all.is_empty() => {}
            Some(value) => return Err(invalid_field(key, value, reason)),
        }
    }
    Ok(())
}

fn no_password(fields: &mut BodyFields<'_>) -> Result<(), Fault> {
    match fields.value("adminPass") {
        None => Ok(()),
        Some(value) => {
            let reason = "setting passwords in guests is not supported";
            Err(invalid_field("adminPass", value, reason))
        }
    }
}

fn uuid_of(text: &str) -> Result<Uuid, Fault> {
    let uuid = Uuid::try_parse(&last_part(text));
    uuid.map_err(|_| Fault::bad_request("Invalid imageRef provided."))
}
