//! The database schema of the service: created if missing, refused if a newer release wrote it.

use berth_store::{SCHEMA_WAIT, Schema, SchemaError, SqlError, SqlStore, Transaction, Work};

pub const VERSION: i64 = 1;

const SCHEMA: Schema = Schema {
    of: "the identity service",
    mark: "identity_schema",
    version: VERSION,
    text: include_str!("schema.sql"),
};

/// Creates the tables, or checks existing ones. Those of an earlier release get the indexes that they lack.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    SCHEMA.prepare(store).await?;
    let _lock = store.schema_lock(SCHEMA_WAIT).await?;
    Ok(store.write(&CreateMissingIndexes).await?)
}

struct CreateMissingIndexes;

impl Work for CreateMissingIndexes {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        SCHEMA.create_missing_indexes(tx).await
    }
}
