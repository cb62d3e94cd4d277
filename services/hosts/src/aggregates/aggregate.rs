//! [`HostAggregate`], and the changes that can be made to one.

use std::collections::{BTreeMap, BTreeSet};

use berth_store::SqlTimestamp;
use uuid::Uuid;

use crate::store::HostTableError;

/// Metadata key of the availability zone.
pub const AVAILABILITY_ZONE: &str = "availability_zone";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAggregate {
    /// ID in the compute API.
    pub id: i64,
    /// UUID, shared with the Placement aggregate.
    pub uuid: Uuid,
    pub name: String,
    /// Key-value pairs that filters and weighers read.
    pub metadata: BTreeMap<String, String>,
    pub hosts: BTreeSet<String>,
    /// Creation time, by the database's clock.
    pub created_at: SqlTimestamp,
    /// Time of the last change of name or metadata.
    pub updated_at: Option<SqlTimestamp>,
}

impl HostAggregate {
    /// The availability zone of its hosts.
    #[must_use]
    pub fn availability_zone(&self) -> Option<&str> {
        self.metadata.get(AVAILABILITY_ZONE).map(String::as_str)
    }
}

/// Changes of an aggregate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AggregateUpdate {
    pub name: Option<String>,
    /// New values by key; `None` removes the key.
    pub metadata: BTreeMap<String, Option<String>>,
}

/// Parses the metadata column.
pub(super) fn parse_metadata(text: &str) -> Result<BTreeMap<String, String>, HostTableError> {
    let read = serde_json::from_str(text);
    read.map_err(|_| crate::store::unexpected_value(text, "host_aggregates", "metadata"))
}
