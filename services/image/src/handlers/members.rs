//! /v2/images/{id}/members: always empty, because all images are public and none is shared.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::json;

use super::images;
use crate::policies::GET_MEMBERS;
use crate::router::{ImageApi, ImageOperation};

pub(super) fn operations() -> Vec<ImageOperation> {
    vec![
        ImageOperation::get("/v2/images/{image_id}/members", list).rule(GET_MEMBERS),
        images::refused("/v2/images/{image_id}/members"),
        ImageOperation::get("/v2/images/{image_id}/members/{member_id}", show).rule(GET_MEMBERS),
        images::refused("/v2/images/{image_id}/members/{member_id}"),
    ]
}

async fn list(State(api): State<ImageApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    api.image(&call)?;
    ApiResponse::ok(&json!({"members": [], "schema": "/v2/schemas/members"}))
}

async fn show(State(api): State<ImageApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
    let (image, member) = (api.image(&call)?, call.path("member_id")?);
    Err(Fault::not_found(format!(
        "{member} not found in the member list of the image {}.",
        image.id
    )))
}
