//! The version document.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use serde_json::json;

use super::modified;
use crate::microversions::RANGE;
use crate::router::Placement;

pub(crate) async fn show(_: State<Placement>, call: Call) -> Result<Answer, Fault> {
    let document = json!({"versions": [{
        "id": format!("v{}", RANGE.min),
        "max_version": RANGE.max.to_string(),
        "min_version": RANGE.min.to_string(),
        "status": "CURRENT",
        // Relative: the caller's own URL of this service, whatever stands before it.
        "links": [{"rel": "self", "href": ""}],
    }]});
    Ok(modified(Answer::ok(&document)?, &call, None))
}
