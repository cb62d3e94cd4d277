//! The nouns of Berth and its pure decisions. No clock, I/O, runtime, logging or randomness: every value here
//! explains itself by `Display`, which is at once the log line, the dry run and the test snapshot.
//!
//! # Glossary (OpenStack's words)
//!
//! | word | here |
//! |---|---|
//! | resource provider | [`Provider`]: a node of the tree with inventory, traits and aggregates |
//! | provider tree | [`ProviderTree`]: the host's own root and its descendants, and beside them the sharing providers |
//! | sharing provider | a provider outside the own tree, joined by aggregate, with `MISC_SHARES_VIA_AGGREGATE` |
//! | inventory | [`Inventory`]: total, reserved, min_unit, max_unit, step_size, allocation_ratio of one class |
//! | resource class, trait | [`ResourceClass`], [`Trait`]: the quantitative and the qualitative name |
//! | allocation, consumer | [`Allocations`]: what consumers hold of a provider's class; a consumer is an instance or a migration |
//! | generation | [`Generation`]: Placement's optimistic-lock counter; only an answer of Placement makes one |
//! | reshape | [`PendingReshape`] resolved to a [`ReshapeRequest`]: inventory and its allocations moved in one call |
//! | device profile | [`DeviceProfileGroups`] under a [`DeviceProfileName`]: what an operator offers of accelerators |
//! | request groups | [`RequestGroups`]: what Placement is asked to find for one guest, of its flavor and its device profile |
//! | accelerator request, ARQ | [`Arq`]: one unit of one group, on its way to a guest; an [`AttachHandle`] only when bound |
//! | held | inventory with total = reserved = what is in use, marked by max_unit above it ([`Inventory::is_held`]): its units have no new home and nobody can claim more |
//!
//! The way of the data: facts (a driver's view, Placement's current tree) become a [`Desired`] tree; [`plan`] compares
//! it with the current one and says [`Plan`]; a [`PendingReshape`] becomes lawful by [`PendingReshape::resolve`].
//! Callers: the agent (startup, tick), the drivers (they build trees), the audit (tests, doctor).

#![warn(missing_docs)]

mod allocation;
mod arq;
mod attach_handle;
pub mod audit;
mod candidates_query;
mod device_profile;
mod disposition;
mod ids;
mod inventory;
mod pci_address;
mod plan;
mod printable;
mod provider_tree;
mod request_group;
mod reshape;
mod resource_class;
mod symbol;
mod traits;
mod tree_diff;

pub use allocation::{Allocation, Allocations, ConsumerAllocations};
pub use arq::{Arq, ArqPhase, ArqState, AttachHandle, Binding, Transition, TransitionRefused};
pub use attach_handle::{AttachHandleInfo, AttachHandleType};
pub use candidates_query::{CandidatesQuery, CandidatesQueryError, Demand, Relaxation};
pub use device_profile::{
    DeviceProfileError, DeviceProfileGroup, DeviceProfileGroups, DeviceProfileName, MOST_REQUESTS,
    TraitDemand,
};
pub use disposition::Disposition;
pub use ids::{
    AggregateUuid, ArqUuid, AttachHandleUuid, ConsumerUuid, Generation, NodeName, NodeNameError,
    ProviderName, ProviderNameError, ProviderUuid, UuidError,
};
pub use inventory::{AllocationRatio, Inventory, InventoryError};
pub use pci_address::{PciAddress, PciAddressError};
pub use plan::{Desired, Held, Move, Plan, Usages, plan, usages_to_probe};
pub use printable::printable;
pub use provider_tree::{OWNER_TRAITS, Provider, ProviderTree, TreeError};
pub use request_group::{
    DEFAULT_CANDIDATES, Flavor, FlavorError, FlavorGroups, GroupPolicy, GroupSuffix, RequestGroup,
    RequestGroups, RequestGroupsError, SkippedSpec,
};
pub use reshape::{
    Home, HomelessReason, Homes, MovedUnits, PendingReshape, ReshapeRefused, ReshapeRequest,
};
pub use resource_class::{ResourceClass, ResourceClassError};
pub use traits::{Trait, TraitError};
pub use tree_diff::{ChangeSet, InventoryChange, ProviderChange, TreeDiff, diff};
