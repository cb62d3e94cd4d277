//! A file per noun: what each method of each path does, and what is told when it cannot.

pub(crate) mod accelerator_requests;
pub(crate) mod adopted_requests;
pub(crate) mod attributes;
pub(crate) mod deployables;
pub(crate) mod device_profiles;
pub(crate) mod devices;
pub(crate) mod host_changes;
pub(crate) mod host_devices;
pub(crate) mod programmings;
pub(crate) mod root;

use berth_http::{Call, Fault, Microversion};
use berth_store::{SqlError, Transaction};
use berth_wire::accelerator::Link;
use http::StatusCode;
use uuid::Uuid;

use crate::store::{self, ReadError, Tables};

/// Begins a reading transaction.
pub(crate) async fn read(tables: &Tables) -> Result<Transaction, Fault> {
    tables.read().await.map_err(sql)
}

/// The database's error as the caller sees it.
pub(crate) fn sql(error: SqlError) -> Fault {
    store::fault(&error.into())
}

/// The same, of a row that could not be read.
pub(crate) fn database(error: ReadError) -> Fault {
    store::fault(&error)
}

/// A path of the service as a URL: below the path at which it stands, and else below the one under which Cyborg's links are written
/// wherever it stands.
pub(crate) fn url(call: &Call, path: &str) -> String {
    match call.is_below_prefix() {
        true => call.absolute(path),
        false => call.absolute(&format!("/accelerator{path}")),
    }
}

/// The link of a document to itself.
pub(crate) fn link(call: &Call, collection: &str, id: impl std::fmt::Display) -> Link {
    Link::own(url(call, &format!("/v2/{collection}/{id}")))
}

/// 406 for what the version does not have yet.
pub(crate) fn require(call: &Call, feature: Microversion) -> Result<(), Fault> {
    if call.version.has(feature) {
        return Ok(());
    }
    Err(Fault::new(
        StatusCode::NOT_ACCEPTABLE,
        format!("Request not acceptable. The minimal required API version should be {feature}"),
    ))
}

/// The UUID in the path. What is none names nothing.
pub(crate) fn uuid(call: &Call, noun: &str) -> Result<Uuid, Fault> {
    let text = call.path("uuid")?;
    text.parse()
        .map_err(|_| Fault::not_found(format!("{noun} not found with uuid={text}")))
}
