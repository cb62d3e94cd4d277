//! Microversions of the Compute API, as far as this agent speaks it.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

static SERVICE: HeaderName = HeaderName::from_static("openstack-api-version");
static NOVA: HeaderName = HeaderName::from_static("x-openstack-nova-api-version");

/// 2.N, of which the lowest is 2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u16);

impl Version {
    /// The lowest, which no header means.
    pub(super) const LOWEST: Self = Self(1);
    /// Where events of power came.
    pub(super) const POWER_UPDATE: Self = Self(76);
    /// Where events of extended volumes came.
    pub(super) const VOLUME_EXTENDED: Self = Self(51);
    /// Where events of accelerator requests came: the highest spoken here.
    pub(super) const HIGHEST: Self = Self(82);
}

/// The version that a request asks for.
pub(super) fn asked(headers: &HeaderMap) -> Result<Version, String> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let modern = text(&SERVICE).and_then(|value| {
        // Several services' versions may stand side by side.
        let mut services = value.split(',').map(str::trim);
        services.find_map(|one| one.strip_prefix("compute ").map(str::trim))
    });
    let Some(wanted) = modern.or_else(|| text(&NOVA)) else {
        return Ok(Version::LOWEST);
    };
    if wanted == "latest" {
        return Ok(Version::HIGHEST);
    }
    let minor = wanted.strip_prefix("2.").filter(|minor| {
        minor.len() <= 4 && minor.bytes().all(|b| b.is_ascii_digit()) && !minor.starts_with('0')
    });
    let version = minor.and_then(|minor| minor.parse().ok()).map(Version);
    version
        .filter(|version| (Version::LOWEST..=Version::HIGHEST).contains(version))
        .ok_or_else(|| {
            let shown: String = wanted.chars().take(20).collect();
            format!(
                "Version {shown} is not supported by the API. Minimum is 2.{} and maximum is 2.{}.",
                Version::LOWEST.0,
                Version::HIGHEST.0
            )
        })
}

/// The answer with the version in force.
pub(super) fn versioned(version: Version, mut answer: Response) -> Response {
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

/// GET /v2.1: what clients look for before anything else. Its link is relative, as the agent does not know by which name it
/// was reached.
pub(super) async fn document() -> Response {
    let document: Value = json!({"version": {
        "id": "v2.1",
        "status": "CURRENT",
        "version": format!("2.{}", Version::HIGHEST.0),
        "min_version": format!("2.{}", Version::LOWEST.0),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": "/v2.1/"}],
        "media-types": [{
            "base": "application/json",
            "type": "application/vnd.openstack.compute+json;version=2.1",
        }],
    }});
    Json(document).into_response()
}
