//! /v2.1/os-keypairs: the key pairs of a user. From 2.10 on an operator may name another user.

use axum::extract::State;
use berth_http::fields::{BodyFields, invalid_field};
use berth_http::{ApiRequest, ApiResponse, Fault};
use http::StatusCode;
use serde_json::{Value, json};

use crate::key_pairs::{KeyPairError, NewKeyPair};
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
            .summary("Stores a public key")
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
        &["name", "public_key"],
        [
            ("name", text(1, 255)),
            ("public_key", text(0, 16_384)),
            ("type", json!({"enum": ["ssh"]})),
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
    if call.version.has(KEY_PAIR_TYPE)
        && let Some(kind) = fields.value("type")
        && kind != "ssh"
    {
        return Err(invalid_field("type", kind, "only ssh is offered"));
    }
    let named = if call.version.has(KEY_PAIR_USER) {
        fields.text("user_id", 1..=255)?
    } else {
        None
    };
    fields.end()?;
    let user = user(&api, &call, named)?;
    let public_key = public_key.ok_or_else(|| {
        Fault::bad_request(
            "public_key is missing: this service generates no private keys (nor does Nova since 2.92); create a pair with \
             ssh-keygen and send its public key",
        )
    })?;
    let key = NewKeyPair::new(user, name, public_key).map_err(fault)?;
    let project = call.caller.project_id().unwrap_or_default();
    let key = api.compute.create_key_pair(key, project).await;
    let key = key.map_err(fault)?;
    let status = by_version(&call, StatusCode::CREATED, StatusCode::OK);
    ApiResponse::with_body(status, &json!({"keypair": created(&call, &key)}))
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
