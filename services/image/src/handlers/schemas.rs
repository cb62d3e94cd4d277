//! /v2/schemas: what documents look like.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use serde_json::{Value, json};

use crate::router::Api;

/// A text that may be missing.
fn text(description: &str) -> Value {
    json!({"type": ["null", "string"], "description": description, "maxLength": 255})
}

/// A number that may be missing and that nobody writes.
fn bytes(description: &str) -> Value {
    json!({"type": ["null", "integer"], "readOnly": true, "description": description})
}

/// A text that nobody writes.
fn told(description: &str) -> Value {
    json!({"type": "string", "readOnly": true, "description": description})
}

fn one_image() -> Value {
    json!({
        "name": "image",
        "properties": {
            "id": {"type": "string", "description": "The image's UUID",
                   "pattern": "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"},
            "name": text("Its name"),
            "status": {"type": "string", "readOnly": true, "enum": ["active"], "description": "Whether it can be used"},
            "visibility": {"type": "string", "enum": ["public"], "description": "Who sees it"},
            "protected": {"type": "boolean", "description": "Whether it cannot be deleted"},
            "os_hidden": {"type": "boolean", "description": "Whether lists leave it out that do not ask for such"},
            "checksum": text("The MD5 of its bytes"),
            "os_hash_algo": text("How os_hash_value is made"),
            "os_hash_value": text("What its bytes come to"),
            "owner": text("The project that has it"),
            "size": bytes("Its bytes"),
            "virtual_size": bytes("The bytes of its disk"),
            "container_format": {"type": ["null", "string"], "enum": [null, "bare"], "description": "What is around its disk"},
            "disk_format": {"type": ["null", "string"], "enum": [null, "raw", "qcow2"], "description": "What its bytes are"},
            "created_at": told("When it came"),
            "updated_at": told("When it was changed last"),
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 255}, "description": "Words to find it by"},
            "min_ram": {"type": "integer", "description": "The least memory of a server of it, in MiB"},
            "min_disk": {"type": "integer", "description": "The least root disk of a server of it, in GiB"},
            "self": told("Its path"),
            "file": told("The path of its bytes"),
            "schema": told("The path of this schema"),
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
            "member_id": told("The project that the image is shared with"),
            "image_id": told("The image"),
            "status": {"type": "string", "enum": ["pending", "accepted", "rejected"], "description": "What the project says to it"},
            "created_at": told("When it was shared"),
            "updated_at": told("When that was changed last"),
            "schema": told("The path of this schema"),
        },
    })
}

pub(crate) async fn image(State(_): State<Api>, _: Call) -> Result<Answer, Fault> {
    Answer::ok(&one_image())
}

pub(crate) async fn images(State(_): State<Api>, _: Call) -> Result<Answer, Fault> {
    Answer::ok(&json!({
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

pub(crate) async fn member(State(_): State<Api>, _: Call) -> Result<Answer, Fault> {
    Answer::ok(&one_member())
}

pub(crate) async fn members(State(_): State<Api>, _: Call) -> Result<Answer, Fault> {
    Answer::ok(&json!({
        "name": "members",
        "properties": {
            "members": {"type": "array", "items": one_member()},
            "schema": {"type": "string"},
        },
        "links": [{"rel": "describedby", "href": "{schema}"}],
    }))
}
