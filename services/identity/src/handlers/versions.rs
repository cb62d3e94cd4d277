//! / and /v3: the version documents.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::identity::{
    MediaType, Version, VersionDocument, VersionLink, VersionList, VersionValues,
};
use http::{StatusCode, header};

use crate::router::{IdentityApi, IdentityOperation};

pub(super) fn operations() -> Vec<IdentityOperation> {
    vec![
        IdentityOperation::get("/", list)
            .id("listVersions")
            .summary("List API versions")
            .statuses(&[300])
            .responds("versions"),
        IdentityOperation::get("/v3", show)
            .id("showVersion")
            .summary("Show the API version")
            .responds("version"),
        IdentityOperation::get("/v3/", show)
            .id("showVersionRoot")
            .summary("Show the API version")
            .responds("version"),
    ]
}

fn version(url: String) -> Version {
    Version {
        id: "v3.14",
        status: "stable",
        updated: "2020-04-07T00:00:00Z",
        links: [VersionLink {
            rel: "self",
            href: url,
        }],
        media_types: [MediaType {
            base: "application/json",
            media_type: "application/vnd.openstack.identity-v3+json",
        }],
    }
}

async fn list(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let url = api.url(&call, "/");
    let values = [version(url.clone())];
    let list = VersionList {
        versions: VersionValues { values },
    };
    let answer = ApiResponse::with_body(StatusCode::MULTIPLE_CHOICES, &list)?;
    Ok(answer.with_header(header::LOCATION, &url))
}

async fn show(State(api): State<IdentityApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&VersionDocument {
        version: version(api.url(&call, "/")),
    })
}
