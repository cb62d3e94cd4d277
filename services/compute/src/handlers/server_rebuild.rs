//! Actions that need an image: rescue and rebuild.

use berth_http::{Answer, Call, Fault};
use berth_wire::guest::GuestAction;
use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::server_actions::GRACE;
use super::server_create::{access_ip, disk_config, metadata_of};
use super::server_query::last_part;
use super::servers::DESCRIPTION;
use crate::fields::{Fields, wrong};
use crate::microversions::{CERTIFICATES, NO_PERSONALITY, REBUILD_KEY, SERVER_DESCRIPTION};
use crate::policies;
use crate::router::Api;
use crate::servers::{Besides, ServerUpdate};
use crate::views::server::Within;

const CERTIFICATES_KEY: &str = "trusted_image_certificates";

pub(super) async fn rescue(api: &Api, call: &Call, value: &Value) -> Result<Answer, Fault> {
    let known = api.known_server(call, policies::RESCUE).await?;
    let mut image = known.server.image;
    if !value.is_null() {
        let mut fields = Fields::of("rescue", value)?;
        no_password(&mut fields)?;
        if let Some(text) = fields.text("rescue_image_ref", 1..=2_048)? {
            image = Some(uuid_of(text)?);
        }
        fields.end()?;
    }
    let image = image.ok_or_else(|| Fault::bad_request("rescue_image_ref is missing"))?;
    let found = api.image_of(image, &known.server.project_id).await?;
    let ask = GuestAction::Rescue {
        image: Some(found.body.of_machine()),
        kernel: None,
        grace_seconds: GRACE,
    };
    api.begin(call, &known, &ask, Besides::default()).await?;
    // Nova tells a password that it made; none is made here.
    Answer::ok(&json!({}))
}

pub(super) async fn rebuild(api: &Api, call: &Call, value: &Value) -> Result<Answer, Fault> {
    let known = api.known_server(call, policies::SERVER_REBUILD).await?;
    let uuid = known.server.uuid;
    let mut fields = Fields::of("rebuild", value)?;
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
    no_password(&mut fields)?;
    not_here(call, &mut fields, known.server.key_name.as_deref())?;
    fields.end()?;
    let found = api.image_of(image, &known.server.project_id).await?;
    api.check_room(call, &known.server.flavor.body, &found)?;
    let ask = GuestAction::Rebuild {
        image: found.body.of_machine(),
        preserve_ephemeral,
    };
    let besides = Besides {
        image: Some(image),
        update,
        metadata,
    };
    api.begin(call, &known, &ask, besides).await?;
    let shown = api.shown(call, uuid, Within::Rebuild).await?;
    let answer = Answer::with_body(StatusCode::ACCEPTED, &shown)?;
    Ok(answer.located(call, &format!("/v2.1/servers/{uuid}")))
}

/// What Nova takes with a new root disk and there is nothing for here: a word that asks for nothing passes, as each version has it.
fn not_here(call: &Call, fields: &mut Fields<'_>, key_name: Option<&str>) -> Result<(), Fault> {
    let since = |version| call.version.has(version);
    let drive = "a guest keeps the config drive that it was made with";
    let signatures = "no signatures of images are looked at here";
    for (key, reason, is_known) in [
        ("key_name", drive, since(REBUILD_KEY)),
        ("user_data", drive, since(NO_PERSONALITY)),
        ("personality", drive, !since(NO_PERSONALITY)),
        (CERTIFICATES_KEY, signatures, since(CERTIFICATES)),
    ] {
        if !is_known {
            continue;
        }
        match fields.value(key) {
            None => {}
            // With a key, null takes it away.
            Some(Value::Null) if key != "key_name" || key_name.is_none() => {}
            Some(Value::Array(all)) if all.is_empty() && is_list(key) => {}
            Some(value) => return Err(wrong(key, value, reason)),
        }
    }
    Ok(())
}

fn is_list(key: &str) -> bool {
    matches!(key, "personality" | CERTIFICATES_KEY)
}

fn no_password(fields: &mut Fields<'_>) -> Result<(), Fault> {
    match fields.value("adminPass") {
        None => Ok(()),
        Some(value) => {
            let reason = "no password is set in guests here";
            Err(wrong("adminPass", value, reason))
        }
    }
}

fn uuid_of(text: &str) -> Result<Uuid, Fault> {
    let uuid = Uuid::try_parse(&last_part(text));
    uuid.map_err(|_| Fault::bad_request("Invalid imageRef provided."))
}
