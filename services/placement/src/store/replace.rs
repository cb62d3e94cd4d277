//! Writes allocations: PUT and POST /allocations, and POST /reshaper.
//!
//! Everything is one transaction. It reads all named objects in a few statements (`read`), decides in memory
//! (`ledger`), and writes the differences (`changes`, `write`) in batches. Projects, users, types and consumers are
//! inserted in the same transaction, so a refused call leaves no row behind. Concurrent claims share a transaction
//! (`claims`).

mod changes;
mod claims;
mod read;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_store::{Disposition, Retryable, SqlError, Transaction, Work};

use crate::inventory::InventoryRecord;
use crate::ledger::ProviderId;
use crate::store::providers::HostMismatch;
pub(crate) use claims::ClaimBatch;
use read::NamedObjects;
use write::AcceptedWrites;

/// The generation of a consumer that a caller expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedGeneration {
    Any,
    /// The consumer must not be there.
    Absent,
    /// The consumer must be at this generation.
    At(i64),
}

impl ExpectedGeneration {
    /// Whether the consumer may be at this generation; `None` is a consumer that is not there.
    fn admits(self, actual: Option<i64>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => actual.is_none(),
            Self::At(given) => actual == Some(given),
        }
    }
}

/// One consumer with its desired allocations.
#[derive(Debug, Clone)]
pub(crate) struct DesiredAllocations {
    pub(crate) consumer: String,
    pub(crate) project: String,
    pub(crate) user: String,
    pub(crate) generation: ExpectedGeneration,
    /// `None`: keep the type.
    pub(crate) consumer_type: Option<String>,
    /// Provider uuid, then class and amount. Empty: the consumer gives all back.
    pub(crate) allocations: Vec<(String, Vec<(String, i64)>)>,
}

/// One provider with its desired inventories.
#[derive(Debug, Clone)]
pub(crate) struct ReshapedProvider {
    pub(crate) provider: String,
    pub(crate) generation: i64,
    pub(crate) inventories: BTreeMap<String, InventoryRecord>,
}

/// Replaces the allocations of the named consumers, and the inventories of the named providers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replace {
    /// Empty in a claim.
    pub(crate) providers: Vec<ReshapedProvider>,
    pub(crate) consumers: Vec<DesiredAllocations>,
    /// The host whose account writes. It may change nothing outside the tree of its providers, and neither the project nor
    /// the user of a consumer.
    pub(crate) only_host: Option<String>,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error(
        "Resource provider {0} in inventories not found: No resource provider with uuid {0} found"
    )]
    NoSuchInventoryProvider(String),
    #[error(
        "resource provider generation conflict for provider {provider}: actual: {actual}, given: {given}"
    )]
    ProviderGeneration {
        provider: String,
        actual: i64,
        given: i64,
    },
    #[error("consumer generation conflict - expected {expected} but got {got}")]
    ConsumerGeneration { expected: String, got: String },
    #[error("Allocation for resource provider '{0}' that does not exist.")]
    NoSuchProvider(String),
    #[error("No such resource class {0}.")]
    NoSuchClass(String),
    #[error("Inventory for '{classes}' on resource provider '{provider}' invalid.")]
    NoInventory { classes: String, provider: String },
    #[error(
        "Unable to create allocation for '{class}' on resource provider '{provider}'. The requested amount would violate inventory constraints."
    )]
    Constraints { class: String, provider: String },
    #[error(
        "Unable to create allocation for '{class}' on resource provider '{provider}'. The requested amount would exceed the capacity."
    )]
    Capacity { class: String, provider: String },
    #[error("Inventory for '{classes}' on resource provider '{provider}' in use.")]
    InUse { classes: String, provider: String },
    #[error(
        "Another thread concurrently updated the resource provider data. Please retry your update"
    )]
    ConcurrentUpdate,
    #[error(transparent)]
    OtherHost(HostMismatch),
    #[error(
        "The account of host {host} may not change the project or the user of consumer {consumer}. A service of the cloud may."
    )]
    OwnerByHost { host: String, consumer: String },
    #[error("the database failed")]
    Sql(#[from] SqlError),
    /// The error of a transaction that several claims shared.
    #[error(transparent)]
    Together(Arc<Self>),
}

impl Retryable for ReplaceError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry_disposition(error),
            // The whole transaction is retried, including its reads.
            Self::ConcurrentUpdate => Disposition::Retry,
            _ => Disposition::Fatal,
        }
    }
}

impl Work for Replace {
    /// The providers that it touched.
    type Output = Vec<ProviderId>;
    type Error = ReplaceError;

    async fn run(&self, tx: &mut Transaction) -> Result<Vec<ProviderId>, ReplaceError> {
        let (read, mut ledger) = NamedObjects::of(tx, &[self]).await?;
        if let Some(refusal) = read.host_refusal(tx, self).await? {
            return Err(refusal);
        }
        self.enter(&read, &mut ledger)?;
        if let Err(refusal) = ledger.check() {
            return Err(read.explain(tx, &ledger, refusal).await?);
        }
        let mut accepted = AcceptedWrites::default();
        accepted.add(self, &read, &ledger);
        accepted.write(tx, &read, &ledger).await?;
        Ok(accepted.touched(&read))
    }
}

impl DesiredAllocations {
    fn classes(&self) -> impl Iterator<Item = &String> {
        self.allocations
            .iter()
            .flat_map(|(_, resources)| resources.iter().map(|(class, _)| class))
    }
}
