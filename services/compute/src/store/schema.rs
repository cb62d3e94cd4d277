//! The service's tables: made in a database that has none of them yet, brought to this version where an earlier release wrote them,
//! or refused where a later one did.

use berth_store::{Schema, SchemaError, SqlStore};

use super::upgrade;

/// The schema's version. 2: a server's row says whose journal knows its guest.
pub const VERSION: i64 = 2;

pub(super) const SCHEMA: Schema = Schema {
    of: "the compute API",
    mark: "compute_api_schema",
    version: VERSION,
    text: include_str!("schema.sql"),
};

/// Makes the tables where there are none, and checks them where they are.
pub async fn prepare(store: &SqlStore) -> Result<(), SchemaError> {
    upgrade::upgrade(store).await?;
    SCHEMA.prepare(store).await
}
