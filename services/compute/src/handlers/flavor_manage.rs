//! /v2.1/flavors: creates, describes and deletes flavors, for operators.

use axum::extract::State;
use berth_http::fields::{self, BodyFields, MAX_INTEGER, invalid_field};
use berth_http::request_id::random_uuid;
use berth_http::{ApiRequest, ApiResponse, Fault};
use http::StatusCode;
use serde_json::{Value, json};

use super::flavors::{fault, specs};
use crate::flavors::NewFlavor;
use crate::microversions::FLAVOR_DESCRIPTION;
use crate::openapi::schemas::{in_key, integer, object, text, text_or_null};
use crate::policies::admin;
use crate::state::{ComputeApi, ComputeOperation};
use crate::views::flavor::document;

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::post("/v2.1/flavors", create)
            .rule(admin("os_compute_api:os-flavor-manage:create"))
            .extension("os-flavor-manage", "FlavorManage")
            .id("createFlavor")
            .summary("Creates a flavor")
            .body(|| in_key("flavor", flavor_schema()))
            .responds("flavor"),
        ComputeOperation::put("/v2.1/flavors/{flavor}", update)
            .rule(admin("os_compute_api:os-flavor-manage:update"))
            .since(FLAVOR_DESCRIPTION)
            .id("updateFlavor")
            .summary("Changes the description of a flavor")
            .body(|| {
                in_key(
                    "flavor",
                    object(&["description"], [("description", text_or_null(0, 65_535))]),
                )
            })
            .responds("flavor"),
        ComputeOperation::delete("/v2.1/flavors/{flavor}", delete)
            .rule(admin("os_compute_api:os-flavor-manage:delete"))
            .id("deleteFlavor")
            .summary("Deletes a flavor")
            .statuses(&[202]),
    ]
}

fn flavor_schema() -> Value {
    object(
        &["name", "ram", "vcpus", "disk"],
        [
            ("name", text(1, 255)),
            (
                "id",
                json!({"type": ["string", "null"], "pattern": "^[a-zA-Z0-9_.-]{1,255}$"}),
            ),
            ("ram", integer(1)),
            ("vcpus", integer(1)),
            ("disk", integer(0)),
            ("OS-FLV-EXT-DATA:ephemeral", integer(0)),
            ("swap", integer(0)),
            (
                "rxtx_factor",
                json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1000}),
            ),
            ("os-flavor-access:is_public", json!({"type": "boolean"})),
            ("description", text_or_null(0, 65_535)),
        ],
    )
}

/// The maximum length of a description in characters.
const DESCRIPTION: usize = 65_535;

const RXTX_FACTOR: f64 = 1.0;

/// The maximum of Nova's column.
const MOST_RXTX: f64 = 3.402_82e38;

fn flavorid(value: Option<&Value>) -> Result<String, Fault> {
    let key = "id";
    let given = match value {
        None | Some(Value::Null) => return Ok(random_uuid().to_string()),
        Some(value @ Value::Number(number)) => {
            let number = number.as_i64().filter(|number| *number >= 0);
            number
                .ok_or_else(|| invalid_field(key, value, "it is not a whole number"))?
                .to_string()
        }
        Some(value) => fields::text(key, value, 1..=255)?.to_owned(),
    };
    if given == "auto" {
        return Ok(random_uuid().to_string());
    }
    let plain = |one: char| one.is_ascii_alphanumeric() || "-_. ".contains(one);
    if given.trim() == given && given.chars().all(plain) {
        return Ok(given);
    }
    let reason = "letters, digits, blanks, -, _ and . are allowed, with no blanks at the ends";
    Err(invalid_field(key, &Value::String(given), reason))
}

fn rxtx_factor(value: Option<&Value>) -> Result<f64, Fault> {
    let Some(value) = value else {
        return Ok(RXTX_FACTOR);
    };
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let lawful =
        number.filter(|number| number.is_finite() && *number > 0.0 && *number <= MOST_RXTX);
    lawful.ok_or_else(|| invalid_field("rxtx_factor", value, "it is not a number above 0"))
}

fn parse_flavor(call: &ApiRequest) -> Result<NewFlavor, Fault> {
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of_body(&body, "flavor")?;
    let name = fields.name("name")?;
    let (ram, vcpus) = (
        fields.integer("ram", 1..=MAX_INTEGER)?,
        fields.integer("vcpus", 1..=MAX_INTEGER)?,
    );
    let disk = fields.integer("disk", 0..=MAX_INTEGER)?;
    let flavor = NewFlavor {
        flavorid: flavorid(fields.value("id"))?,
        name: fields.required("name", name)?.to_owned(),
        memory_mb: fields.required("ram", ram)?,
        vcpus: fields.required("vcpus", vcpus)?,
        root_gb: fields.required("disk", disk)?,
        ephemeral_gb: fields
            .integer("OS-FLV-EXT-DATA:ephemeral", 0..=MAX_INTEGER)?
            .unwrap_or(0),
        swap: fields.integer("swap", 0..=MAX_INTEGER)?.unwrap_or(0),
        rxtx_factor: rxtx_factor(fields.value("rxtx_factor"))?,
        is_public: fields
            .boolean("os-flavor-access:is_public")?
            .unwrap_or(true),
        description: if call.version.has(FLAVOR_DESCRIPTION) {
            fields
                .printable_or_null("description", DESCRIPTION)?
                .map(str::to_owned)
        } else {
            None
        },
    };
    fields.end()?;
    Ok(flavor)
}

async fn create(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let flavor = api.compute.create_flavor(parse_flavor(&call)?).await;
    let flavor = flavor.map_err(fault)?;
    ApiResponse::ok(&json!({"flavor": document(&call, &flavor, specs(&api, &call))}))
}

async fn update(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let body: Value = call.typed()?;
    let mut fields = BodyFields::of_body(&body, "flavor")?;
    let description = fields.printable_or_null("description", DESCRIPTION)?;
    let given = fields.value("description");
    fields.required("description", given)?;
    fields.end()?;
    let description = description.map(str::to_owned);
    let flavor = api
        .compute
        .describe_flavor(call.path("flavor")?, description)
        .await;
    let flavor = flavor.map_err(fault)?;
    ApiResponse::ok(&json!({"flavor": document(&call, &flavor, specs(&api, &call))}))
}

async fn delete(State(api): State<ComputeApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let deleted = api.compute.delete_flavor(call.path("flavor")?).await;
    deleted.map_err(fault)?;
    Ok(ApiResponse::empty(StatusCode::ACCEPTED))
}
