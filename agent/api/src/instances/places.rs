//! POST /v1/guests/places: previews where guests would be placed.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use berth_agent_instances::{BuildError, GuestResources, Guests};
use berth_virt::VirtDriver;
use berth_wire::guest::{Places, PlacesAsked};

use crate::body::API;
use crate::instances::{build_refusal, decode_body, guests_refusal};

pub(super) async fn places<D: VirtDriver, R: GuestResources>(
    State(guests): State<Guests<D, R>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let asked = match decode_body::<PlacesAsked>(body) {
        Ok(asked) => asked,
        Err(refusal) => return *refusal,
    };
    match guests.preview_placements(&asked).await {
        Ok(places) => {
            let api = API.to_owned();
            Json(Places { api, places }).into_response()
        }
        Err(BuildError::Guests(error)) => guests_refusal(&error),
        Err(error) => build_refusal(&error),
    }
}
