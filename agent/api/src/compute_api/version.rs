//! Microversions of the compute API that the agent supports.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

static SERVICE: HeaderName = HeaderName::from_static("openstack-api-version");
static NOVA: HeaderName = HeaderName::from_static("x-openstack-nova-api-version");

/// Microversion 2.N; the lowest is 2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ComputeMicroversion(u16);

impl ComputeMicroversion {
    /// Lowest version; the default without a header.
    pub(super) const LOWEST: Self = Self(1);
    /// First version with power-update events.
    pub(super) const POWER_UPDATE: Self = Self(76);
    /// First version with volume-extended events.
    pub(super) const VOLUME_EXTENDED: Self = Self(51);
    /// First version with accelerator-request-bound events; the highest supported version.
    pub(super) const HIGHEST: Self = Self(82);
}

/// Reads the requested version from the headers. The error is a message for the client.
pub(super) fn requested_version(headers: &HeaderMap) -> Result<ComputeMicroversion, String> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let modern = text(&SERVICE).and_then(|value| {
        // The header may list the versions of several services.
        let mut services = value.split(',').map(str::trim);
        services.find_map(|one| one.strip_prefix("compute ").map(str::trim))
    });
    let Some(wanted) = modern.or_else(|| text(&NOVA)) else {
        return Ok(ComputeMicroversion::LOWEST);
    };
    if wanted == "latest" {
        return Ok(ComputeMicroversion::HIGHEST);
    }
    let minor = wanted.strip_prefix("2.").filter(|minor| {
        minor.len() <= 4 && minor.bytes().all(|b| b.is_ascii_digit()) && !minor.starts_with('0')
    });
    let version = minor
        .and_then(|minor| minor.parse().ok())
        .map(ComputeMicroversion);
    version
        .filter(|version| {
            (ComputeMicroversion::LOWEST..=ComputeMicroversion::HIGHEST).contains(version)
        })
        .ok_or_else(|| {
            let shown: String = wanted.chars().take(20).collect();
            format!(
                "Version {shown} is not supported by the API. Minimum is 2.{} and maximum is 2.{}.",
                ComputeMicroversion::LOWEST.0,
                ComputeMicroversion::HIGHEST.0
            )
        })
}

/// Adds the headers that report the version in effect.
pub(super) fn with_version_headers(version: ComputeMicroversion, mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    for (name, value) in [
        (&SERVICE, format!("compute 2.{}", version.0)),
        (&NOVA, format!("2.{}", version.0)),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
        headers.append(header::VARY, HeaderValue::from_name(name.clone()));
    }
    answer
}

/// GET /v2.1: the version document that clients request first. Its link is relative, because the agent does not know
/// the host name that the client used.
pub(super) async fn document() -> Response {
    let document: Value = json!({"version": {
        "id": "v2.1",
        "status": "CURRENT",
        "version": format!("2.{}", ComputeMicroversion::HIGHEST.0),
        "min_version": format!("2.{}", ComputeMicroversion::LOWEST.0),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": "/v2.1/"}],
        "media-types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.compute+json;version=2.1",
        }],
    }});
    Json(document).into_response()
}
