//! /v2.1/extensions: there have been none since microversions are there; old clients look.

use berth_http::{Answer, Call, Fault};
use serde_json::json;

pub(crate) async fn list(_: Call) -> Result<Answer, Fault> {
    Answer::ok(&json!({"extensions": []}))
}
