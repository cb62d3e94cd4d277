//! The reasons why a reshape is refused.

use crate::{
    ConsumerUuid, Disposition, Inventory, InventoryError, ProviderName, ProviderUuid, ResourceClass,
};

/// No lawful reshape exists, or the driver returned wrong homes. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReshapeRefused {
    /// A sharing provider would offer less than its consumers use; consumers that hold only there cannot be found.
    #[error(
        "{class} on sharing provider {provider} would shrink to {capacity} although {used} are in use"
    )]
    SharingProviderShrinks {
        /// The name of the sharing provider that would shrink.
        provider: ProviderName,
        /// The resource class of the refused units.
        class: ResourceClass,
        /// Units in use by the consumers that are known.
        used: u64,
        /// The capacity that the desired inventory would have.
        capacity: u64,
    },
    /// The driver returned a home on a provider that its own tree does not have.
    #[error(
        "the driver sends {class} of consumer {consumer} to provider {provider}, which is not in its tree"
    )]
    UnknownHome {
        /// The consumer (instance or migration) that is affected.
        consumer: ConsumerUuid,
        /// The resource class of the refused units.
        class: ResourceClass,
        /// The provider that the driver returned as the home.
        provider: ProviderUuid,
    },
    /// The driver returned a home with a class that is not in the move.
    #[error(
        "the driver sends {from} of consumer {consumer} to class {to}, which the move does not name"
    )]
    ForeignClass {
        /// The consumer (instance or migration) that is affected.
        consumer: ConsumerUuid,
        /// The class of the consumer's present allocation.
        from: ResourceClass,
        /// The class that the driver returned for the home.
        to: ResourceClass,
    },
    /// The driver returned homes for more units than the consumer has.
    #[error(
        "the driver finds homes for {given} {class} of consumer {consumer}, which holds {amount}"
    )]
    MoreThanHeld {
        /// The consumer (instance or migration) that is affected.
        consumer: ConsumerUuid,
        /// The resource class of the refused units.
        class: ResourceClass,
        /// Units that the consumer has allocated.
        amount: u64,
        /// Units for which the driver returned a home.
        given: u64,
    },
    /// An amount changed: the proof caught a bug.
    #[error("consumer {consumer} would hold {after} {class} instead of {before}")]
    NotConserved {
        /// The consumer (instance or migration) that is affected.
        consumer: ConsumerUuid,
        /// The class, after renames.
        class: ResourceClass,
        /// Units that the consumer has before the reshape.
        before: u64,
        /// Units that it would have after the reshape.
        after: u64,
    },
    /// An allocation outside the moves changed: the proof caught a bug.
    #[error(
        "{class} of consumer {consumer} on {provider} would go from {before} to {after}, but no move permits it"
    )]
    OutsideTheMoves {
        /// The consumer (instance or migration) that is affected.
        consumer: ConsumerUuid,
        /// The provider, by name where it is known.
        provider: String,
        /// The resource class of the refused units.
        class: ResourceClass,
        /// Units that the consumer has before the reshape.
        before: u64,
        /// Units that it would have after the reshape.
        after: u64,
    },
    /// A consumer's project, user or generation changed, or it held nothing before: the proof caught a bug.
    #[error("consumer {consumer} differs from the state that was read")]
    ConsumerChanged {
        /// The consumer (instance or migration) that is affected.
        consumer: ConsumerUuid,
    },
    /// The inventories to be sent are not the planned tree's, or belong to a provider that is not ours to write: the
    /// proof caught a bug.
    #[error("the inventory of {provider} would not be what was planned")]
    NotAsPlanned {
        /// The provider with the unexpected inventory.
        provider: ProviderUuid,
    },
    /// A consumer that has to be in the call has an amount that the inventory does not allow.
    #[error(
        "consumer {consumer} holds {amount} {class} on {provider}, which takes {inventory} (min_unit, max_unit, step_size)"
    )]
    UnitSize {
        /// The consumer (instance or migration) that is affected.
        consumer: ConsumerUuid,
        /// The name of the provider with the inventory that does not fit.
        provider: ProviderName,
        /// The resource class of the refused units.
        class: ResourceClass,
        /// Units that the consumer has allocated.
        amount: u64,
        /// The inventory with the unit sizes that refuse the amount.
        inventory: Inventory,
    },
    /// All users of a provider's class together would exceed it.
    #[error("{used} {class} on {provider} would be in use, but only {capacity} fit")]
    OverCapacity {
        /// The name of the provider with the inventory that does not fit.
        provider: ProviderName,
        /// The resource class of the refused units.
        class: ResourceClass,
        /// Units in use afterwards.
        used: u64,
        /// The capacity: (total - reserved) x allocation ratio.
        capacity: u64,
    },
    /// The units to be held exceed the maximum of an inventory.
    #[error("{class} on {provider} cannot be held: {source}")]
    CannotHold {
        /// The name of the provider with the inventory that does not fit.
        provider: ProviderName,
        /// The resource class of the refused units.
        class: ResourceClass,
        /// The limit of an inventory that is exceeded.
        source: InventoryError,
    },
}

impl ReshapeRefused {
    /// Retrying cannot help: the driver or the configuration must change.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        Disposition::Fatal
    }
}
