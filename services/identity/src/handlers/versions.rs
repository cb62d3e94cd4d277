//! / and /v3: which versions there are.

use axum::extract::State;
use berth_http::{Answer, Call, Fault};
use berth_wire::identity::{
    MediaType, Version, VersionDocument, VersionLink, VersionList, VersionValues,
};
use http::{StatusCode, header};

use crate::router::Api;

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

pub(crate) async fn list(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    let url = api.url(&call, "/");
    let values = [version(url.clone())];
    let list = VersionList {
        versions: VersionValues { values },
    };
    let answer = Answer::with_body(StatusCode::MULTIPLE_CHOICES, &list)?;
    Ok(answer.with_header(header::LOCATION, &url))
}

pub(crate) async fn show(State(api): State<Api>, call: Call) -> Result<Answer, Fault> {
    Answer::ok(&VersionDocument {
        version: version(api.url(&call, "/")),
    })
}
