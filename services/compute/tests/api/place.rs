//! The database of a test's service. The tests of this folder also run against database servers elsewhere in the
//! workspace.

use std::any::Any;
use std::sync::Arc;

use berth_store::SqlStore;

/// Returns an empty database and a guard that keeps it alive.
pub(crate) async fn fresh() -> (SqlStore, Arc<dyn Any + Send + Sync>) {
    (SqlStore::in_memory().await.unwrap(), Arc::new(()))
}
