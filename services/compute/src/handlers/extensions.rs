//! /v2.1/extensions: the list of API extensions from before microversions. Old clients read it to find out what is
//! supported; it no longer grows.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use berth_http::fields::bounded;
use berth_http::{ApiRequest, ApiResponse, Fault};
use serde_json::{Value, json};

use crate::state::ComputeOperation;

pub(super) fn operations() -> Vec<ComputeOperation> {
    vec![
        ComputeOperation::get("/v2.1/extensions", list)
            .id("listExtensions")
            .summary("Lists the supported extensions, for old clients")
            .responds("extensions"),
        ComputeOperation::get("/v2.1/extensions/{alias}", show)
            .id("showExtension")
            .summary("Shows an extension")
            .responds("extension"),
    ]
}

/// Name by alias of the extensions that operations declare.
static SUPPORTED: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let operations = super::operations();
    let declared = operations.declarations().flat_map(|one| &one.extensions);
    declared.copied().collect()
});

fn shown((alias, name): (&&str, &&str)) -> Value {
    json!({"alias": alias, "name": name, "description": "", "links": [],
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml", "updated": "2014-12-03T00:00:00Z"})
}

async fn list(_: ApiRequest) -> Result<ApiResponse, Fault> {
    let all: Vec<Value> = SUPPORTED.iter().map(shown).collect();
    ApiResponse::ok(&json!({ "extensions": all }))
}

async fn show(call: ApiRequest) -> Result<ApiResponse, Fault> {
    let alias = call.path("alias")?;
    let found = SUPPORTED.get_key_value(alias);
    let found = found.ok_or_else(|| {
        let alias = bounded(alias);
        Fault::not_found(format!("Extension {alias} could not be found."))
    })?;
    ApiResponse::ok(&json!({"extension": shown(found)}))
}
