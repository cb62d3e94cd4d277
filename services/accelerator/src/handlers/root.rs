//! The version documents.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::accelerator::{DocumentLink, RootDocument, VersionBody};

use super::url;
use crate::microversions::RANGE;
use crate::router::{AcceleratorApi, AcceleratorOperation};

pub(super) fn operations() -> Vec<AcceleratorOperation> {
    vec![
        AcceleratorOperation::get("/", show),
        AcceleratorOperation::get("/v2", show_v2),
        AcceleratorOperation::get("/v2/", show_v2),
    ]
}

fn version(id: &str, href: String) -> VersionBody {
    VersionBody {
        id: id.to_owned(),
        status: "CURRENT".to_owned(),
        max_version: RANGE.max.to_string(),
        min_version: RANGE.min.to_string(),
        links: vec![DocumentLink::own(href)],
    }
}

async fn show(_: State<AcceleratorApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let version = version("v2", url(&call, "/v2"));
    ApiResponse::ok(&RootDocument {
        name: "OpenStack Cyborg API".to_owned(),
        description: "Life cycle management of hardware accelerators (Cyborg's API).".to_owned(),
        versions: vec![version.clone()],
        default_version: version,
    })
}

async fn show_v2(_: State<AcceleratorApi>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&version("v2.0", url(&call, "/v2/")))
}
