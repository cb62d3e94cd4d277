//! /v2/images/{id}/file: the bytes of an image.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use berth_http::{Answer, Call, Fault};
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::data::{Asked, DataBody};
use crate::image::{Image, Place};
use crate::policies::DOWNLOAD_IMAGE;
use crate::router::Api;

static CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

pub(crate) async fn download(State(api): State<Api>, call: Call) -> Result<Response, Fault> {
    api.allow(&call, DOWNLOAD_IMAGE)?;
    let image = api.image(&call)?;
    let Place::Here(data) = &image.place else {
        // Its bytes are with the hosts, or at a URL.
        return Ok(Answer::no_content().into_response());
    };
    let asked = Asked::of(call.header("range"), data.length).map_err(|_| {
        let status = StatusCode::RANGE_NOT_SATISFIABLE;
        let said = call.header("range").unwrap_or_default();
        Fault::new(
            status,
            format!("{said} is no range of {} bytes.", data.length),
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

fn answer(image: &Image, asked: Asked, (body, length): (DataBody, u64)) -> Response {
    let left = body.left();
    let mut response = Response::new(Body::new(body));
    let octets = HeaderValue::from_static("application/octet-stream");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, octets);
    headers.insert(header::CONTENT_LENGTH, left.into());
    match asked {
        Asked::Whole => {
            // Hexadecimal digits, as Glance writes it.
            if let Some(Ok(md5)) = image.md5.as_deref().map(HeaderValue::from_str) {
                headers.insert(CONTENT_MD5.clone(), md5);
            }
        }
        Asked::Range(first, last) => {
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
