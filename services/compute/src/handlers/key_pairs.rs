//! /v2.1/os-keypairs: the key pairs of a user. From 2.10 on an operator may name another user.

use axum::extract::State;
use berth_http::fields::{BodyFields, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_model::KeyPairType;
use http::StatusCode;
use serde_json::{Value, json};

use crate::key_pairs::{GeneratedKeyPair, KeyPairError, NewKeyPair};
use crate::microversions::{KEY_PAIR_PAGES, KEY_PAIR_TYPE, KEY_PAIR_USER, STRICT};
use crate::openapi::schemas::{in_key, object, text};
use crate::paging::{PageQuery, check_keys, next};
use crate::policies::user_or_admin;
use crate::state::{ComputeApi, ComputeOperation};
use crate::store;
use crate::views::key_pair::{created, document, summary};

/// The query keys of a list.
const LIST: [&str; 3] = ["user_id", "limit", "marker"];

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/os-keypairs", list)
            .rule(user_or_admin("os_compute_api:os-keypairs:index"))
            .extension("os-keypairs", "Keypairs")
            .id("listKeyPairs")
            .summary("Lists the key pairs of a user")
            .query(&LIST)
            .responds("keypairs"),
        ComputeOperation::post("/v2.1/os-keypairs", create)
            .rule(user_or_admin("os_compute_api:os-keypairs:create"))
            .id("createKeyPair")
            .summary("Stores a public key, or generates a key pair")
            .body(|| in_key("keypair", key_pair_schema()))
            .statuses(&[200, 201])
            .responds("keypair"),
        ComputeOperation::get("/v2.1/os-keypairs/{name}", show)
            .rule(user_or_admin("os_compute_api:os-keypairs:show"))
            .id("showKeyPair")
            .summary("Shows a key pair")
            .query(&["user_id"])
            .responds("keypair"),
        ComputeOperation::delete("/v2.1/os-keypairs/{name}", delete)
            .rule(user_or_admin("os_compute_api:os-keypairs:delete"))
            .id("deleteKeyPair")
            .summary("Deletes a key pair")
            .query(&["user_id"])
            .statuses(&[202, 204]),
    ]
}

fn key_pair_schema() -> Value {
    object(
        &["name"],
        [
            ("name", text(1, 255)),
            ("public_key", text(0, 16_384)),
            (
                "type",
                json!({"enum": KeyPairType::ALL.map(KeyPairType::as_str)}),
            ),
            ("user_id", text(1, 255)),
        ],
    )
}

/// The maximum length of a public key in bytes, that of Nova's column.
const PUBLIC_KEY: usize = 65_535;

pub(super) fn fault(error: KeyPairError) -> Fault {
    match error {
        KeyPairError::NotFound { .. } => Fault::not_found(error.to_string()),
        KeyPairError::Exists { .. } => Fault::conflict(error.to_string()),
        KeyPairError::TooMany => Fault::forbidden(error.to_string()),
        KeyPairError::Name | KeyPairError::PublicKey { .. } => {
            Fault::bad_request(error.to_string())
        }
        KeyPairError::NotGenerated { .. } => Fault::unavailable(error.to_string()),
        KeyPairError::Table(error) => store::fault(&error),
    }
}

/// The user of the requested key pairs: the caller or, if allowed, another user.
fn user<'a>(
    api: &ComputeApi,
    call: &'a ApiRequest,
    named: Option<&'a str>,
) -> Result<&'a str, Fault> {
    let own = call.caller.user_id.as_str();
    let user = named.unwrap_or(own);
    if user == own {
        api.allow(call)?;
    } else if !api.is_admin(call) {
        let rule = call.rule()?;
        let sentence = format!("Policy does not allow {rule} to be performed on another user's.");
        return Err(Fault::forbidden(sentence));
    }
    Ok(user)
}

/// The user in the query, if the version supports it.
fn requested_user(call: &ApiRequest) -> Option<&str> {
    let named = call.query.last("user_id");
    named.filter(|_| call.version.has(KEY_PAIR_USER))
}

/// The status since 2.2, and before.
fn by_version(call: &ApiRequest, since: StatusCode, before: StatusCode) -> StatusCode {
    if call.version.has(KEY_PAIR_TYPE) {
        since
    } else {
        before
    }
}

async fn create(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of_body(&body, "keypair")?;
    let name = fields.text("name", 1..=255)?;
    let name = fields.required("name", name)?;
    let public_key = fields.text("public_key", 0..=PUBLIC_KEY)?;
    let given = match call.version.has(KEY_PAIR_TYPE) {
        true => fields.value("type"),
        false => None,
    };
    let kind = match given {
        Some(given) => {
            let kind = given.as_str().and_then(KeyPairType::from_name);
            kind.ok_or_else(|| invalid_field("type", given, "expected ssh or x509"))?
        }
        None => KeyPairType::Ssh,
    };
    let named = if call.version.has(KEY_PAIR_USER) {
        fields.text("user_id", 1..=255)?
    } else {
        None
    };
    fields.end()?;
    let user = user(&api, &call, named)?;
    let generated = match public_key {
        Some(_) => None,
        None => Some(GeneratedKeyPair::new(kind, user).map_err(fault)?),
    };
    let own = generated.as_ref().map(|pair| pair.public_key.as_str());
    let public_key = public_key.or(own).unwrap_or_default();
    let key = NewKeyPair::new(user, name, kind, public_key).map_err(fault)?;
    let project = call.caller.project_id().unwrap_or_default();
    let key = api.compute.create_key_pair(key, project).await;
    let mut shown = created(&call, &key.map_err(fault)?);
    if let Some(pair) = &generated {
        shown["private_key"] = json!(pair.private_key);
    }
    let status = by_version(&call, StatusCode::CREATED, StatusCode::OK);
    ApiResponse::with_body(status, &json!({ "keypair": shown }))
}

async fn list(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    if call.version.has(STRICT) {
        check_keys(&call, &LIST)?;
    }
    let user = user(&api, &call, requested_user(&call))?;
    let mut keys = api.compute.key_pairs(user).await.map_err(fault)?;
    let mut full = false;
    if call.version.has(KEY_PAIR_PAGES) {
        (keys, full) = PageQuery::of(&call)?.cut(keys, |key| &key.name)?;
    }
    let one = |key| json!({"keypair": summary(&call, key)});
    let shown: Vec<Value> = keys.iter().map(one).collect();
    let mut body = json!({"keypairs": shown});
    if let Some(last) = keys.last().filter(|_| full) {
        body["keypairs_links"] = next(&call, "os-keypairs", &last.name);
    }
    ApiResponse::ok(&body)
}

async fn show(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let user = user(&api, &call, requested_user(&call))?;
    let key = api.compute.key_pair(user, call.path("name")?).await;
    ApiResponse::ok(&json!({"keypair": document(&call, &key.map_err(fault)?)}))
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let user = user(&api, &call, requested_user(&call))?;
    let deleted = api.compute.delete_key_pair(user, call.path("name")?).await;
    deleted.map_err(fault)?;
    let status = by_version(&call, StatusCode::NO_CONTENT, StatusCode::ACCEPTED);
    Ok(ApiResponse::empty(status))
}
