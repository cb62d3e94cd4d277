//! The version documents.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::accelerator::{Link, RootDocument, VersionBody};

use super::url;
use crate::microversions::RANGE;
use crate::router::Accelerator;

fn version(id: &str, href: String) -> VersionBody {
    VersionBody {
        id: id.to_owned(),
        status: "CURRENT".to_owned(),
        max_version: RANGE.max.to_string(),
        min_version: RANGE.min.to_string(),
        links: vec![Link::own(href)],
    }
}

pub(crate) async fn show(_: State<Accelerator>, call: Call) -> Result<Answer, Fault> {
    let version = version("v2", url(&call, "/v2"));
    Answer::ok(&RootDocument {
        name: "OpenStack Cyborg API".to_owned(),
        description: "Life cycle of hardware accelerators, as Cyborg's API has it.".to_owned(),
        versions: vec![version.clone()],
        default_version: version,
    })
}

pub(crate) async fn show_v2(_: State<Accelerator>, call: Call) -> Result<Answer, Fault> {
    Answer::ok(&version("v2.0", url(&call, "/v2/")))
}
