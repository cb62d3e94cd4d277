//! The service's tables: made in a database that has none of them yet, or refused where a later release wrote them.

use berth_store::{Schema, SchemaError, SqlStore};

pub const VERSION: i64 = 2;

const SCHEMA: Schema = Schema {
    of: "the compute hosts",
    mark: "compute_hosts_schema",
    version: VERSION,
    text: include_str!("schema.sql"),
};

/// Makes the tables where there are none, and checks them where they are.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    SCHEMA.prepare(store).await
}
