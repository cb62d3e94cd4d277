//! The handlers of the API, one file per resource.

mod accelerator_requests;
mod adopted_requests;
mod attributes;
mod deployables;
mod device_profiles;
mod devices;
mod host_changes;
mod host_devices;
mod programmings;
mod root;

use berth_http::{ApiRequest, Fault, Microversion, OperationSet};
use berth_store::{SqlError, Transaction};
use berth_wire::accelerator::DocumentLink;
use http::StatusCode;
use uuid::Uuid;

use crate::router::AcceleratorApi;
use crate::store::{self, AcceleratorTableError, AcceleratorTables};

/// All operations of the API. The methods of a path are in the order of the `allow` header.
pub(crate) fn operations() -> OperationSet<AcceleratorApi> {
    let resources = [
        root::operations(),
        device_profiles::operations(),
        accelerator_requests::operations(),
        devices::operations(),
        deployables::operations(),
        attributes::operations(),
        adopted_requests::operations(),
        host_devices::operations(),
        host_changes::operations(),
        programmings::operations(),
    ];
    resources.into_iter().flatten().collect()
}

/// Begins a reading transaction.
pub(crate) async fn read(tables: &AcceleratorTables) -> Result<Transaction, Fault> {
    tables.read().await.map_err(sql)
}

/// Converts a database error to a response.
pub(crate) fn sql(error: SqlError) -> Fault {
    store::fault(&error.into())
}

/// Converts an error of reading a row to a response.
pub(crate) fn database(error: AcceleratorTableError) -> Fault {
    store::fault(&error)
}

/// A path of the service as a URL: below the path where it is mounted, or below the path that Cyborg uses in links.
pub(crate) fn url(call: &ApiRequest, path: &str) -> String {
    match call.is_below_prefix() {
        true => call.absolute(path),
        false => call.absolute(&format!("/accelerator{path}")),
    }
}

/// The link of a document to itself.
pub(crate) fn link(
    call: &ApiRequest,
    collection: &str,
    id: impl std::fmt::Display,
) -> DocumentLink {
    DocumentLink::own(url(call, &format!("/v2/{collection}/{id}")))
}

/// Returns 406 if the request's version does not have the feature.
pub(crate) fn require(call: &ApiRequest, feature: Microversion) -> Result<(), Fault> {
    if call.version.has(feature) {
        return Ok(());
    }
    Err(Fault::new(
        StatusCode::NOT_ACCEPTABLE,
        format!("Request not acceptable. The minimal required API version should be {feature}"),
    ))
}

/// The UUID in the path. Other text matches no object.
pub(crate) fn uuid(call: &ApiRequest, noun: &str) -> Result<Uuid, Fault> {
    let text = call.path("uuid")?;
    text.parse()
        .map_err(|_| Fault::not_found(format!("{noun} not found with uuid={text}")))
}
