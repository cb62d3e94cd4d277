//! /v2/images: which images there are.

use axum::Extension;
use axum::extract::State;
use berth_http::{Answer, Call, Caller, Fault};
use serde_json::json;

use crate::listing::Listing;
use crate::policies::{GET_IMAGE, GET_IMAGES};
use crate::router::Api;
use crate::shown;

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, GET_IMAGES)?;
    let page = Listing::of(&call.query)?.page(api.list.images())?;
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
    Answer::ok(&document)
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    api.allow(&call, GET_IMAGE)?;
    Answer::ok(&shown::image(api.image(&call)?))
}

/// Where images are changed, which is for operators alone to know. The body of the request is not read: it may be an image.
pub(crate) async fn refuse(State(api): State<Api>, Extension(caller): Extension<Caller>) -> Fault {
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
