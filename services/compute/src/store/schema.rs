//! The schema of the compute API: creates it in an empty database, upgrades that of an earlier release, and refuses
//! that of a later one.

use berth_store::{Schema, SchemaError, SqlStore};

use super::upgrade;

/// The schema version. Version 2 added the owner of servers, version 3 quotas, version 4 tokens of consoles.
pub const VERSION: i64 = 4;

pub(super) const SCHEMA: Schema = Schema {
    of: "the compute API",
    mark: "compute_api_schema",
    version: VERSION,
    text: include_str!("schema.sql"),
};

/// Creates, upgrades or checks the tables.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    upgrade::upgrade(store).await?;
    SCHEMA.prepare(store).await
}
