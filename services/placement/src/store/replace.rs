//! The write of allocations: PUT and POST /allocations, and POST /reshaper.
//!
//! One transaction for everything. It reads all that is named in a few statements (`read`), decides in
//! memory (`ledger`), and writes what differs (`changes`, `write`) in batches. Projects, users, types and consumers are made in
//! it too, so a refused call leaves no row behind. Claims that come at once share one (`claims`).

mod changes;
mod claims;
mod read;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_store::{Disposition, Retryable, SqlError, Transaction, Work};

use crate::inventory::Inventory;
use crate::ledger::ProviderId;
pub(crate) use claims::Claims;
use read::Read;
use write::Accepted;

/// The generation of a consumer that a caller expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedGeneration {
    Any,
    /// The consumer must not be there.
    Absent,
    /// The consumer must be at this generation.
    At(i64),
}

/// One consumer and all it is to hold.
#[derive(Debug, Clone)]
pub(crate) struct Wanting {
    pub(crate) consumer: String,
    pub(crate) project: String,
    pub(crate) user: String,
    pub(crate) generation: ExpectedGeneration,
    /// `None`: leave the type as it is.
    pub(crate) consumer_type: Option<String>,
    /// Provider uuid, then class and amount. Empty: the consumer gives all back.
    pub(crate) allocations: Vec<(String, Vec<(String, i64)>)>,
}

/// One provider and all it is to have.
#[derive(Debug, Clone)]
pub(crate) struct Reshaped {
    pub(crate) provider: String,
    pub(crate) generation: i64,
    pub(crate) inventories: BTreeMap<String, Inventory>,
}

/// Replaces the allocations of the named consumers, and the inventories of the named providers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replace {
    /// Empty in a claim.
    pub(crate) providers: Vec<Reshaped>,
    pub(crate) consumers: Vec<Wanting>,
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
    #[error("the database failed")]
    Sql(#[from] SqlError),
    /// What befell the transaction of several claims.
    #[error(transparent)]
    Together(Arc<Self>),
}

impl Retryable for ReplaceError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Sql(error) => super::retry(error),
            // The whole transaction again, reads included: never a second look inside it.
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
        let (read, mut ledger) = Read::of(tx, &[self]).await?;
        self.enter(&read, &mut ledger)?;
        if let Err(refusal) = ledger.check() {
            return Err(read.explain(tx, &ledger, refusal).await?);
        }
        let mut accepted = Accepted::default();
        accepted.add(self, &read, &ledger);
        accepted.write(tx, &read, &ledger).await?;
        Ok(accepted.touched(&read))
    }
}

impl Wanting {
    fn classes(&self) -> impl Iterator<Item = &String> {
        self.allocations
            .iter()
            .flat_map(|(_, resources)| resources.iter().map(|(class, _)| class))
    }
}
