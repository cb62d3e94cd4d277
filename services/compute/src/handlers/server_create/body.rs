//! Parses the body of a request for servers, by microversion.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_http::fields::{self, BodyFields, MAX_INTEGER, invalid_field};
use berth_http::{ApiRequest, Fault};
use berth_networks::NetworkWish;
use berth_wire::conductor::RequestedNetwork;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::handlers::server_query::last_part;
use crate::handlers::servers::DESCRIPTION;
use crate::microversions::{
    CERTIFICATES, CREATE_TAGS, NETWORK_TAGS, NETWORKS, NO_PERSONALITY, REQUESTED_HOST,
    SERVER_DESCRIPTION,
};
use crate::servers::{MOST_TAGS, check_metadata, check_tag};

/// The maximum length of user data in base64 characters.
const USER_DATA: usize = 65_535;

/// The maximum number of networks of a server.
const MAX_NETWORKS: usize = 64;
/// The maximum length of an interface's tag in characters.
const MAX_TAG_LENGTH: usize = 60;

/// The keys of scheduler hints.
const HINTS: [&str; 2] = ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"];

/// A parsed request for servers.
#[derive(Debug, Clone)]
pub(super) struct ServerCreateRequest {
    pub(super) name: String,
    pub(super) image: Uuid,
    pub(super) flavor: String,
    /// The least and the largest number of servers.
    pub(super) counts: (u32, u32),
    pub(super) return_reservation: bool,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) networks: NetworkWish,
    /// Names or UUIDs.
    pub(super) security_groups: Vec<String>,
    pub(super) disk_config: String,
    pub(super) access_ip_v4: Option<String>,
    pub(super) access_ip_v6: Option<String>,
    pub(super) key_name: Option<String>,
    /// `zone`, `zone:host` or `zone:host:node`.
    pub(super) zone: Option<String>,
    pub(super) user_data: Option<String>,
    pub(super) description: Option<String>,
    pub(super) tags: BTreeSet<String>,
    pub(super) host: Option<String>,
    pub(super) node: Option<String>,
    pub(super) hints: BTreeMap<String, Vec<String>>,
}

pub(super) fn parse(call: &ApiRequest, body: &Value) -> Result<ServerCreateRequest, Fault> {
    let mut outer = BodyFields::of("body", body)?;
    let server = outer.value("server");
    let server = outer.required("server", server)?;
    let mut hints = BTreeMap::new();
    for key in HINTS {
        if let Some(value) = outer.value(key) {
            hints.extend(hints_of(key, value)?);
        }
    }
    outer.end()?;
    let mut fields = BodyFields::of("server", server)?;
    let request = ServerCreateRequest {
        hints,
        ..of_server(call, &mut fields)?
    };
    refuse_unsupported(call, &mut fields, request.image)?;
    fields.end()?;
    Ok(request)
}

fn of_server(call: &ApiRequest, fields: &mut BodyFields<'_>) -> Result<ServerCreateRequest, Fault> {
    let name = fields.name("name")?;
    let name = fields.required("name", name)?.to_owned();
    let flavor = fields.value("flavorRef");
    let flavor = flavor_ref(fields.required("flavorRef", flavor)?)?;
    let (counts, return_reservation) = counts(fields)?;
    let since = |version| call.version.has(version);
    Ok(ServerCreateRequest {
        name,
        image: image_ref(fields)?,
        flavor,
        counts,
        return_reservation,
        metadata: match fields.value("metadata") {
            None => BTreeMap::new(),
            Some(metadata) => metadata_of("metadata", metadata)?,
        },
        networks: networks(call, fields)?,
        security_groups: match fields.value("security_groups") {
            None => Vec::new(),
            Some(groups) => security_groups(groups)?,
        },
        disk_config: disk_config(fields)?.unwrap_or_else(|| "MANUAL".to_owned()),
        access_ip_v4: access_ip(fields, "accessIPv4")?.flatten(),
        access_ip_v6: access_ip(fields, "accessIPv6")?.flatten(),
        key_name: fields.text_or_null("key_name", 255)?.map(str::to_owned),
        zone: fields
            .text_or_null("availability_zone", 255)?
            .map(str::to_owned),
        user_data: user_data(fields)?,
        description: match since(SERVER_DESCRIPTION) {
            true => fields
                .printable_or_null("description", DESCRIPTION)?
                .map(str::to_owned),
            false => None,
        },
        tags: match since(CREATE_TAGS).then(|| fields.value("tags")).flatten() {
            None => BTreeSet::new(),
            Some(tags) => tags_of(tags)?,
        },
        host: requested(call, fields, "host")?,
        node: requested(call, fields, "hypervisor_hostname")?,
        hints: BTreeMap::new(),
    })
}

fn flavor_ref(value: &Value) -> Result<String, Fault> {
    match value {
        Value::Number(number) if number.is_u64() => Ok(number.to_string()),
        value => Ok(last_part(fields::text("flavorRef", value, 1..=2_048)?)),
    }
}

fn image_ref(fields: &mut BodyFields<'_>) -> Result<Uuid, Fault> {
    let given = fields.text("imageRef", 0..=2_048)?.unwrap_or_default();
    if given.is_empty() {
        return Err(Fault::bad_request("Missing imageRef attribute"));
    }
    let uuid = Uuid::try_parse(&last_part(given));
    uuid.map_err(|_| Fault::bad_request("Invalid imageRef provided."))
}

fn counts(fields: &mut BodyFields<'_>) -> Result<((u32, u32), bool), Fault> {
    let least = fields.integer("min_count", 1..=MAX_INTEGER)?;
    let most = fields.integer("max_count", 1..=MAX_INTEGER)?;
    let count = most.or(least).unwrap_or(1);
    if least.is_some_and(|least| least > count) {
        return Err(Fault::bad_request("min_count must be <= max_count"));
    }
    let reservation = fields.boolean("return_reservation_id")?.unwrap_or(false);
    let number = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    let least = least.unwrap_or(1);
    Ok(((number(least), number(count)), reservation))
}

fn networks(call: &ApiRequest, fields: &mut BodyFields<'_>) -> Result<NetworkWish, Fault> {
    let key = "networks";
    let value = fields.value(key);
    let since = call.version.has(NETWORKS);
    match value {
        None if since => fields.required(key, None),
        None | Some(Value::Null) => Ok(NetworkWish::Unspecified),
        Some(Value::String(word)) if since && word == "auto" => Ok(NetworkWish::Auto),
        Some(Value::String(word)) if since && word == "none" => Ok(NetworkWish::None),
        Some(Value::Array(all)) if all.is_empty() => Ok(NetworkWish::Unspecified),
        Some(Value::Array(all)) if all.len() <= MAX_NETWORKS => {
            let all = all.iter().map(|one| requested_network(call, one));
            all.collect::<Result<_, _>>().map(NetworkWish::Named)
        }
        Some(value) => {
            let reason =
                "it is a list of at most 64 networks; from 2.37 on auto and none are possible, too";
            Err(invalid_field(key, value, reason))
        }
    }
}

/// One entry of `networks`.
fn requested_network(call: &ApiRequest, value: &Value) -> Result<RequestedNetwork, Fault> {
    let mut fields = BodyFields::of("networks", value)?;
    let (uuid, port) = (fields.uuid_or_null("uuid")?, fields.uuid_or_null("port")?);
    let fixed_ip = fields.text("fixed_ip", 1..=64)?.map(str::to_owned);
    let tag = match call.version.has(NETWORK_TAGS) {
        true => fields.text("tag", 1..=MAX_TAG_LENGTH)?.map(str::to_owned),
        false => None,
    };
    fields.end()?;
    match (&uuid, &port, &fixed_ip) {
        (None, None, _) => Err(Fault::bad_request(
            "Bad network format: missing 'uuid' or 'port'",
        )),
        (_, Some(port), Some(address)) => Err(Fault::bad_request(format!(
            "Specified Fixed IP '{address}' cannot be used with port '{port}': the two cannot be specified together."
        ))),
        (_, _, Some(address)) if address.parse::<IpAddr>().is_err() => Err(invalid_field(
            "fixed_ip",
            &json!(address),
            "it is not a valid address",
        )),
        _ => Ok(RequestedNetwork {
            uuid: uuid.filter(|_| port.is_none()),
            port,
            fixed_ip,
            tag,
            ..RequestedNetwork::default()
        }),
    }
}

/// `AUTO` or `MANUAL`.
pub(in crate::handlers) fn disk_config(
    fields: &mut BodyFields<'_>,
) -> Result<Option<String>, Fault> {
    let key = "OS-DCF:diskConfig";
    match fields.value(key) {
        None => Ok(None),
        Some(Value::String(word)) if word == "AUTO" || word == "MANUAL" => Ok(Some(word.clone())),
        Some(value) => Err(invalid_field(key, value, "it is AUTO or MANUAL")),
    }
}

/// Parses an access address. `Some(None)` removes it.
pub(in crate::handlers) fn access_ip(
    fields: &mut BodyFields<'_>,
    key: &'static str,
) -> Result<Option<Option<String>>, Fault> {
    let Some(value) = fields.value(key) else {
        return Ok(None);
    };
    let text = fields::text(key, value, 0..=64)?;
    let lawful = match key {
        "accessIPv4" => text.parse::<Ipv4Addr>().is_ok(),
        _ => text.parse::<Ipv6Addr>().is_ok(),
    };
    match text {
        "" => Ok(Some(None)),
        text if lawful => Ok(Some(Some(text.to_owned()))),
        _ => Err(invalid_field(key, value, "it is not a valid address")),
    }
}

pub(in crate::handlers) fn user_data(fields: &mut BodyFields<'_>) -> Result<Option<String>, Fault> {
    let Some(text) = fields.text_or_null("user_data", USER_DATA)? else {
        return Ok(None);
    };
    let plain: String = text.split_ascii_whitespace().collect();
    if STANDARD.decode(&plain).is_err() {
        return Err(Fault::bad_request("User data needs to be valid base 64."));
    }
    Ok((!plain.is_empty()).then_some(plain))
}

/// Parses and validates metadata.
pub(in crate::handlers) fn metadata_of(
    key: &str,
    value: &Value,
) -> Result<BTreeMap<String, String>, Fault> {
    let object = value.as_object();
    let object = object.ok_or_else(|| invalid_field(key, value, "it is not of type 'object'"))?;
    let mut metadata = BTreeMap::new();
    for (item, setting) in object {
        let text = setting
            .as_str()
            .ok_or_else(|| invalid_field(item, setting, "it is not of type 'string'"))?;
        if let Some(reason) = check_metadata(item, text) {
            return Err(invalid_field(item, setting, reason));
        }
        metadata.insert(item.clone(), text.to_owned());
    }
    Ok(metadata)
}

/// Parses and validates tags.
pub(in crate::handlers) fn tags_of(value: &Value) -> Result<BTreeSet<String>, Fault> {
    let list = value.as_array();
    let list = list.ok_or_else(|| invalid_field("tags", value, "it is not of type 'array'"))?;
    let mut tags = BTreeSet::new();
    for tag in list {
        let text = fields::text("tags", tag, 1..=usize::MAX)?;
        if let Some(reason) = check_tag(text) {
            return Err(invalid_field("tags", tag, reason));
        }
        tags.insert(text.to_owned());
    }
    if tags.len() > MOST_TAGS {
        let reason = format!("it has more than {MOST_TAGS} tags");
        return Err(invalid_field("tags", value, reason));
    }
    Ok(tags)
}

fn requested(
    call: &ApiRequest,
    fields: &mut BodyFields<'_>,
    key: &'static str,
) -> Result<Option<String>, Fault> {
    if !call.version.has(REQUESTED_HOST) {
        return Ok(None);
    }
    Ok(fields.text(key, 1..=255)?.map(str::to_owned))
}

fn hints_of(key: &str, value: &Value) -> Result<BTreeMap<String, Vec<String>>, Fault> {
    let object = value.as_object();
    let object = object.ok_or_else(|| invalid_field(key, value, "it is not of type 'object'"))?;
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let hints = object.iter().map(|(hint, value)| {
        let texts = match value {
            // The scheduler's query language is JSON, so the value is passed on unchanged.
            Value::Array(all) if hint != "query" => all.iter().map(text).collect(),
            value => vec![text(value)],
        };
        (hint.clone(), texts)
    });
    Ok(hints.collect())
}

/// Refuses fields of Nova that Berth does not support, unless their value has no effect.
fn refuse_unsupported(
    call: &ApiRequest,
    fields: &mut BodyFields<'_>,
    image: Uuid,
) -> Result<(), Fault> {
    fields.boolean_or_empty("config_drive")?;
    if let Some(value) = fields.value("block_device_mapping_v2") {
        disks(value, image)?;
    }
    let refused: [(&'static str, &str); 4] = [
        ("block_device_mapping", "volumes are not supported"),
        (
            "adminPass",
            "setting passwords in guests is not supported: use a key pair or user_data",
        ),
        (
            "personality",
            "injecting files into guests is not supported: use user_data",
        ),
        (
            "trusted_image_certificates",
            "image signatures are not supported",
        ),
    ];
    for (key, reason) in refused {
        let is_known = match key {
            "personality" => !call.version.has(NO_PERSONALITY),
            "trusted_image_certificates" => call.version.has(CERTIFICATES),
            _ => true,
        };
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

/// The names or UUIDs, without duplicates.
fn security_groups(value: &Value) -> Result<Vec<String>, Fault> {
    let key = "security_groups";
    let all = value.as_array();
    let all = all.ok_or_else(|| invalid_field(key, value, "it is not of type 'array'"))?;
    let mut names: Vec<String> = Vec::new();
    for group in all {
        let mut fields = BodyFields::of(key, group)?;
        let name = fields.text("name", 1..=255)?;
        let name = fields.required("name", name)?.to_owned();
        fields.end()?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Clients may repeat that the root disk is created from the image. Other disks are refused.
fn disks(value: &Value, image: Uuid) -> Result<(), Fault> {
    let key = "block_device_mapping_v2";
    let all = value.as_array();
    let all = all.ok_or_else(|| invalid_field(key, value, "it is not of type 'array'"))?;
    for disk in all {
        let is_root = disk["source_type"] == "image"
            && disk["destination_type"] == "local"
            && disk["uuid"].as_str().and_then(|it| it.parse().ok()) == Some(image)
            && disk["boot_index"] == 0;
        if !is_root {
            let reason =
                "only the root disk from imageRef is supported; the flavor adds an ephemeral disk";
            return Err(invalid_field(key, disk, reason));
        }
    }
    Ok(())
}
