//! /v2/schemas: the JSON schemas of the API's documents.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::{Value, json};

use crate::router::{ImageApi, ImageOperation};

pub(super) fn operations() -> Vec<ImageOperation> {
    vec![
        ImageOperation::get("/v2/schemas/image", image),
        ImageOperation::get("/v2/schemas/images", images),
        ImageOperation::get("/v2/schemas/member", member),
        ImageOperation::get("/v2/schemas/members", members),
    ]
}

fn text(description: &str) -> Value {
    json!({"type": ["null", "string"], "description": description, "maxLength": 255})
}

/// An optional read-only number.
fn bytes(description: &str) -> Value {
    json!({"type": ["null", "integer"], "readOnly": true, "description": description})
}

/// An optional read-only text.
fn read_only_text(description: &str) -> Value {
    json!({"type": "string", "readOnly": true, "description": description})
}

fn one_image() -> Value {
    json!({
        "name": "image",
        "properties": {
            "id": {"type": "string", "description": "The image's UUID",
                   "pattern": "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"},
            "name": text("Its name"),
            "status": {"type": "string", "readOnly": true, "enum": ["active"], "description": "Status of the image"},
            "visibility": {"type": "string", "enum": ["public"], "description": "Who can see the image"},
            "protected": {"type": "boolean", "description": "Whether the image is protected from deletion"},
            "os_hidden": {"type": "boolean", "description": "Whether lists omit the image unless they ask for hidden images"},
            "checksum": text("The MD5 of its bytes"),
            "os_hash_algo": text("The algorithm of os_hash_value"),
            "os_hash_value": text("Hash of the image data"),
            "owner": text("The project that owns the image"),
            "size": bytes("Its bytes"),
            "virtual_size": bytes("The bytes of its disk"),
            "container_format": {"type": ["null", "string"], "enum": [null, "bare"], "description": "Format of the container"},
            "disk_format": {"type": ["null", "string"], "enum": [null, "raw", "qcow2"], "description": "Format of the disk"},
            "created_at": read_only_text("When the image was created"),
            "updated_at": read_only_text("When the image was last updated"),
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 255}, "description": "Tags of the image"},
            "min_ram": {"type": "integer", "description": "Minimum memory of a server with this image, in MiB"},
            "min_disk": {"type": "integer", "description": "Minimum root disk of a server with this image, in GiB"},
            "self": read_only_text("Its path"),
            "file": read_only_text("The path of its bytes"),
            "schema": read_only_text("The path of this schema"),
        },
        "additionalProperties": {"type": "string"},
        "links": [
            {"rel": "self", "href": "{self}"},
            {"rel": "enclosure", "href": "{file}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
    })
}

fn one_member() -> Value {
    json!({
        "name": "member",
        "properties": {
            "member_id": read_only_text("The project that the image is shared with"),
            "image_id": read_only_text("The image"),
            "status": {"type": "string", "enum": ["pending", "accepted", "rejected"], "description": "What the project says to it"},
            "created_at": read_only_text("When the image was shared"),
            "updated_at": read_only_text("When that was changed last"),
            "schema": read_only_text("The path of this schema"),
        },
    })
}

async fn image(State(_): State<ImageApi>, _: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&one_image())
}

async fn images(State(_): State<ImageApi>, _: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&json!({
        "name": "images",
        "properties": {
            "images": {"type": "array", "items": one_image()},
            "first": {"type": "string"},
            "next": {"type": "string"},
            "schema": {"type": "string"},
        },
        "links": [
            {"rel": "first", "href": "{first}"},
            {"rel": "next", "href": "{next}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
    }))
}

async fn member(State(_): State<ImageApi>, _: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&one_member())
}

async fn members(State(_): State<ImageApi>, _: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&json!({
        "name": "members",
        "properties": {
            "members": {"type": "array", "items": one_member()},
            "schema": {"type": "string"},
        },
        "links": [{"rel": "describedby", "href": "{schema}"}],
    }))
}
