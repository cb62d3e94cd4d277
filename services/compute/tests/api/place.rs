//! Where a test's service has its tables. Elsewhere in the workspace the same tests run over servers.

use std::any::Any;
use std::sync::Arc;

use berth_store::SqlStore;

/// A fresh, empty database, and what keeps it.
pub(crate) async fn fresh() -> (SqlStore, Arc<dyn Any + Send + Sync>) {
    (SqlStore::in_memory().await.unwrap(), Arc::new(()))
}
