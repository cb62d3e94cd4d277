//! The database schema of the service: created if missing, refused if a newer release wrote it.

use berth_store::{Schema, SchemaError, SqlStore};

pub const VERSION: i64 = 1;

const SCHEMA: Schema = Schema {
    of: "the identity service",
    mark: "identity_schema",
    version: VERSION,
    text: include_str!("schema.sql"),
};

/// Creates the tables, or checks existing ones.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    SCHEMA.prepare(store).await
}
