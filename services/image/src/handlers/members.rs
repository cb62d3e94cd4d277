//! /v2/images/{id}/members: always empty, because all images are public and none is shared.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::json;

use crate::policies::GET_MEMBERS;
use crate::router::ImageApi;

pub(crate) async fn list(
    State(api): State<ImageApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, GET_MEMBERS)?;
    api.image(&call)?;
    ApiResponse::ok(&json!({"members": [], "schema": "/v2/schemas/members"}))
}

pub(crate) async fn show(
    State(api): State<ImageApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, GET_MEMBERS)?;
    let (image, member) = (api.image(&call)?, call.path("member_id")?);
    Err(Fault::not_found(format!(
        "{member} not found in the member list of the image {}.",
        image.id
    )))
}
