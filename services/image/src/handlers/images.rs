//! /v2/images: list and show images. Changes are refused.

use axum::Extension;
use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Caller, Fault};
use serde_json::json;

use crate::listing::ImageQuery;
use crate::policies::{GET_IMAGE, GET_IMAGES};
use crate::router::ImageApi;
use crate::shown;

pub(crate) async fn list(
    State(api): State<ImageApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, GET_IMAGES)?;
    let page = ImageQuery::of(&call.query)?.page(api.list.images())?;
    let images: Vec<_> = page
        .images
        .iter()
        .map(|image| shown::image(image))
        .collect();
    let mut document = json!({
        "images": images,
        "first": page.first,
        "schema": "/v2/schemas/images",
    });
    if let Some(next) = page.next {
        document["next"] = next.into();
    }
    ApiResponse::ok(&document)
}

pub(crate) async fn show(
    State(api): State<ImageApi>,
    call: ApiRequest,
) -> Result<ApiResponse, Fault> {
    api.allow(&call, GET_IMAGE)?;
    ApiResponse::ok(&shown::image(api.image(&call)?))
}

/// Refuses requests that would change images. Only operators see the path of the list. The body is not read, because it
/// may be a large image.
pub(crate) async fn refuse(
    State(api): State<ImageApi>,
    Extension(caller): Extension<Caller>,
) -> Fault {
    if !caller.has_role("admin") {
        return Fault::forbidden(
            "Images are read here and not changed: ask the operator of this cloud.",
        );
    }
    Fault::forbidden(match api.list.file() {
        Some(file) => format!(
            "Images are read here and not changed: edit {} and start berth again.",
            file.display()
        ),
        None => "Images are read here and not changed: name a file of images in [compute_service] images_file and start \
                 berth again."
            .to_owned(),
    })
}
