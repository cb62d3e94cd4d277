//! /v2/images/{id}/members: with whom an image is shared. All are public, and with nobody.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use serde_json::json;

use crate::policies::GET_MEMBERS;
use crate::router::Api;

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, GET_MEMBERS)?;
    api.image(&call)?;
    Answer::ok(&json!({"members": [], "schema": "/v2/schemas/members"}))
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, GET_MEMBERS)?;
    let (image, member) = (api.image(&call)?, call.path("member_id")?);
    Err(Fault::not_found(format!(
        "{member} not found in the member list of the image {}.",
        image.id
    )))
}
