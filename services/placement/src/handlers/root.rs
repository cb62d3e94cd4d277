//! / : the version document.

use axum::extract::State;
use berth_http::{ApiRequest, ApiResponse, Fault};
use berth_wire::placement as wire;
use serde_json::json;

use super::modified;
use crate::microversions::RANGE;
use crate::router::{Placement, PlacementOperation};

pub(super) fn operations() -> Vec<PlacementOperation> {
    vec![
        PlacementOperation::get("/", show)
            .id("versions")
            .summary("Lists the supported microversions. No token is needed.")
            .returns::<wire::VersionDocument>(200, "The current state."),
    ]
}

async fn show(_: State<Placement>, call: ApiRequest) -> Result<ApiResponse, Fault> {
    let document = json!({"versions": [{
        "id": format!("v{}", RANGE.min),
        "max_version": RANGE.max.to_string(),
        "min_version": RANGE.min.to_string(),
        "status": "CURRENT",
        // Relative, so that it works behind any URL prefix.
        "links": [{"rel": "self", "href": ""}],
    }]});
    Ok(modified(ApiResponse::ok(&document)?, &call, None))
}
