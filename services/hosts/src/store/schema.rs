//! Creates the service's tables, or refuses a database that a later release wrote.

use berth_store::{Schema, SchemaError, SqlStore};

pub const VERSION: i64 = 2;

const SCHEMA: Schema = Schema {
    of: "the compute hosts",
    mark: "compute_hosts_schema",
    version: VERSION,
    text: include_str!("schema.sql"),
};

/// Creates missing tables and checks existing ones.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    SCHEMA.prepare(store).await
}
