//! / and /v2.1: the API versions.

use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::{Value, json};

use crate::microversions::RANGE;
use crate::state::ComputeOperation;

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/", list)
            .id("listVersions")
            .summary("Lists the API versions")
            .responds("versions"),
        ComputeOperation::get("/v2.1", show)
            .id("showVersion")
            .summary("Shows the API version")
            .responds("version"),
        ComputeOperation::get("/v2.1/", show)
            .id("showVersionRoot")
            .summary("Shows the API version")
            .responds("version"),
    ]
}

fn version(call: &ApiRequest) -> Value {
    json!({
        "id": "v2.1",
        "status": "CURRENT",
        "version": RANGE.max.to_string(),
        "min_version": RANGE.min.to_string(),
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": call.absolute("/v2.1/")}],
    })
}

async fn list(call: ApiRequest) -> Result<ApiResponse, Fault> {
    ApiResponse::ok(&json!({"versions": [version(&call)]}))
}

async fn show(call: ApiRequest) -> Result<ApiResponse, Fault> {
    let mut version = version(&call);
    version["links"] = json!([
        {"rel": "self", "href": call.absolute("/v2.1/")},
        {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"},
    ]);
    version["media-types"] = json!([
        {"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"},
    ]);
    ApiResponse::ok(&json!({"version": version}))
}
