//! The handlers of the API, one file per resource.

mod aggregates;
mod allocation_candidates;
pub(crate) mod allocations;
mod inventories;
pub(crate) mod reshaper;
mod resource_classes;
mod resource_providers;
mod root;
pub(crate) mod traits;
mod usages;

use berth_http::{ApiRequest, ApiResponse, Fault, OperationSet};
use berth_store::{SqlError, SqlStore, SqlTimestamp, Transaction};

use crate::microversions;
use crate::router::Placement;
use crate::store;
use crate::store::providers::{self, ProviderError, ProviderRow};

/// All operations of the API, for the router.
pub(crate) fn operations() -> OperationSet<Placement> {
    let resources = [
        root::operations(),
        resource_providers::operations(),
        inventories::operations(),
        usages::operations(),
        aggregates::operations(),
        allocations::operations(),
        traits::operations(),
        resource_classes::operations(),
        allocation_candidates::operations(),
        reshaper::operations(),
    ];
    resources.into_iter().flatten().collect()
}

/// The error codes that Placement defines for the field `code` of an error.
pub(crate) mod codes {
    pub(crate) const INVENTORY_INUSE: &str = "placement.inventory.inuse";
    pub(crate) const CONCURRENT_UPDATE: &str = "placement.concurrent_update";
    pub(crate) const DUPLICATE_NAME: &str = "placement.duplicate_name";
    pub(crate) const PROVIDER_IN_USE: &str = "placement.resource_provider.inuse";
    pub(crate) const CANNOT_DELETE_PARENT: &str =
        "placement.resource_provider.cannot_delete_parent";
    pub(crate) const PROVIDER_NOT_FOUND: &str = "placement.resource_provider.not_found";
    pub(crate) const DUPLICATE_KEY: &str = "placement.query.duplicate_key";
    pub(crate) const BAD_VALUE: &str = "placement.query.bad_value";
    pub(crate) const MISSING_VALUE: &str = "placement.query.missing_value";
}

/// The message of a generation conflict before error codes existed.
pub(crate) const GENERATION_CHANGED: &str = "Resource provider's generation already changed. \
     Please update the generation and try again.";

/// Adds the headers `last-modified` and `cache-control`, if the request's microversion has them.
pub(crate) fn modified(
    answer: ApiResponse,
    call: &ApiRequest,
    moment: Option<SqlTimestamp>,
) -> ApiResponse {
    if call.version.has(microversions::CACHE_HEADERS) {
        answer.modified(moment.unwrap_or_else(SqlTimestamp::now).into())
    } else {
        answer
    }
}

/// Begins a reading transaction.
pub(crate) async fn read(store: &SqlStore) -> Result<Transaction, Fault> {
    store.read().await.map_err(database)
}

/// The response to a database error of a read. Writes use [`write_error`].
pub(crate) fn database(error: SqlError) -> Fault {
    store::fault(&error)
}

/// The response to a database error of a write. Conflicts with other writers are retried first. If these retries are
/// exhausted, the response is a 409 with the code for a concurrent update, which clients retry.
pub(crate) fn write_error(error: &SqlError) -> Fault {
    match error {
        SqlError::Conflict(_) => concurrent_update(),
        other => store::fault(other),
    }
}

fn concurrent_update() -> Fault {
    Fault::conflict(
        "update conflict: Another thread concurrently updated the data. Please retry your update",
    )
    .with_code(codes::CONCURRENT_UPDATE)
}

/// The provider that the request's path names; 404 if it does not exist.
pub(crate) async fn provider_of_path(
    tx: &mut Transaction,
    uuid: &str,
) -> Result<ProviderRow, Fault> {
    providers::get(tx, uuid).await.map_err(|error| match error {
        ProviderError::NotFound(_) => Fault::not_found(format!(
            "No resource provider with uuid {uuid} found: {error}"
        )),
        other => provider_fault(other),
    })
}

/// The response to a provider error for which the operation has no message of its own.
pub(crate) fn provider_fault(error: ProviderError) -> Fault {
    match error {
        ProviderError::NotFound(_) => Fault::not_found(error.to_string()),
        ProviderError::Sql(error) => write_error(&error),
        // Another writer moved the provider to another tree during this write.
        ProviderError::Moved => concurrent_update(),
        other => Fault::bad_request(other.to_string()),
    }
}
