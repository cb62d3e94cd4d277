//! /v2/images: list and show images. Changes are refused.

use axum::Extension;
use axum::extract::State;
use axum::routing::post;
use berth_http::{ApiRequest, ApiResponse, Caller, Fault};
use serde_json::json;

use crate::listing::ImageQuery;
use crate::policies::reader;
use crate::router::{ImageApi, ImageOperation};
use crate::shown;

pub(super) fn operations() -> Vec<ImageOperation> {
    vec![
        ImageOperation::get("/v2/images", list).rule(reader("get_images")),
        refused("/v2/images"),
        ImageOperation::get("/v2/images/{image_id}", show).rule(reader("get_image")),
        refused("/v2/images/{image_id}"),
    ]
}

/// Refuses the methods that would change something at the path. Operators see the path of the image list.
pub(super) fn refused(path: &'static str) -> ImageOperation {
    let methods = post(refuse).put(refuse).patch(refuse).delete(refuse);
    ImageOperation::refused(path, methods)
}

async fn list(State(api): State<ImageApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
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

async fn show(State(api): State<ImageApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    api.allow(&call)?;
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
