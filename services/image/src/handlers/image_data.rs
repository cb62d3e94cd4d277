//! GET /v2/images/{id}/file: the bytes of an image.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use berth_http::{ApiRequest, ApiResponse, Fault};
use http::{HeaderName, HeaderValue, StatusCode, header};

use super::images;
use crate::data::{DataBody, DataRange};
use crate::image::{CatalogImage, ImageDataLocation};
use crate::policies::member;
use crate::router::{ImageApi, ImageOperation};

pub(super) fn operations() -> Vec<ImageOperation> {
    vec![
        ImageOperation::get("/v2/images/{image_id}/file", download).rule(member("download_image")),
        images::refused("/v2/images/{image_id}/file"),
    ]
}

static CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

async fn download(State(api): State<ImageApi>, call: ApiRequest) -> Result<Response, Fault> {
    api.allow(&call)?;
    let image = api.image(&call)?;
    let ImageDataLocation::Local(data) = &image.place else {
        // Its bytes are with the hosts, or at a URL.
        return Ok(ApiResponse::no_content().into_response());
    };
    let asked = DataRange::of(call.header("range"), data.length).map_err(|_| {
        let status = StatusCode::RANGE_NOT_SATISFIABLE;
        let range = call.header("range").unwrap_or_default();
        Fault::new(
            status,
            format!("{range} is no range of {} bytes.", data.length),
        )
    })?;
    let body = data.body(asked).await.map_err(|error| {
        let path = data.path.display();
        tracing::warn!(image = %image.id, %path, %error, "the data of an image cannot be read");
        Fault::unavailable(format!(
            "The data of image {} cannot be read: {error}. Start berth again once they are as they should be.",
            image.id
        ))
    })?;
    Ok(answer(image, asked, (body, data.length)))
}

fn answer(image: &CatalogImage, asked: DataRange, (body, length): (DataBody, u64)) -> Response {
    let left = body.left();
    let mut response = Response::new(Body::new(body));
    let octets = HeaderValue::from_static("application/octet-stream");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, octets);
    headers.insert(header::CONTENT_LENGTH, left.into());
    match asked {
        DataRange::Whole => {
            // Hexadecimal digits, as in Glance.
            if let Some(Ok(md5)) = image.md5.as_deref().map(HeaderValue::from_str) {
                headers.insert(CONTENT_MD5.clone(), md5);
            }
        }
        DataRange::Range(first, last) => {
            let range = format!("bytes {first}-{last}/{length}");
            // Digits are header text.
            if let Ok(range) = HeaderValue::from_str(&range) {
                headers.insert(header::CONTENT_RANGE, range);
            }
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
    }
    response
}
