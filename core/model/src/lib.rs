//! The nouns of Berth and its pure decisions: provider trees, their diff and plan, reshapes, request groups, device profiles, ARQs.
//!
//! No clock, I/O, runtime, logging or randomness from outside. Values explain themselves by `Display`, which is the log line, the
//! `--dry-run` output and the test snapshot.
//!
//! ```text
//! facts (driver's view) -> DesiredTree ---+
//!                                         +-> plan() -> Plan::InSync
//! current tree (Placement) ---------------+          -> Plan::Update(diff)
//!                                                    -> Plan::ReshapeNeeded(PendingReshape)
//!                                                         -> resolve(allocations, homes) -> ReshapeRequest
//! ```
//!
//! Callers: the agent (startup, tick), the drivers (they build trees), and the services.
//!
//! # Glossary: OpenStack's words
//!
//! | word | meaning |
//! |---|---|
//! | resource provider | [`Provider`]: a node of the tree with inventory, traits and aggregates |
//! | provider tree | [`ProviderTree`]: the host's own root with its descendants, and the sharing providers |
//! | sharing provider | a provider outside the own tree, joined by aggregate, with `MISC_SHARES_VIA_AGGREGATE` |
//! | inventory | [`Inventory`]: total, reserved, min_unit, max_unit, step_size, allocation_ratio of one class |
//! | resource class, trait | [`ResourceClass`], [`Trait`]: the quantitative and the qualitative name |
//! | allocation, consumer | [`Allocations`]: the amounts of a provider's class that a consumer uses; a consumer is an instance or a migration |
//! | generation | [`Generation`]: Placement's optimistic-lock counter; only an answer of Placement makes one |
//! | reshape | [`PendingReshape`] resolved to a [`ReshapeRequest`]: inventory and its allocations moved in one call |
//! | device profile | [`DeviceProfileGroups`] under a [`DeviceProfileName`]: an operator's named offer of accelerators |
//! | request groups | [`RequestGroups`]: what Placement has to find for one instance, from its flavor and its device profile |
//! | accelerator request, ARQ | [`Arq`]: one unit of one group, to be bound to an instance; it has an [`AttachHandle`] only while bound |
//! | bind, unbind | give an ARQ a device of a host for an instance, and take the device back |
//! | claim | the allocations that the conductor creates for an instance before it goes to its host |
//! | alternate | another host that was chosen together with the first one and is tried if the first one fails |
//! | instance | Nova's object, known by its UUID on every side |
//! | server | an instance as the compute API shows it |
//! | guest | an instance as a hypervisor runs it: a domain with its disks and devices |
//! | power state | [`PowerState`] as a hypervisor reports it, [`DesiredPower`] as it should be |
//! | node, host | a node is a hypervisor with one root provider; a host is a machine with an agent and has one or more nodes |
//!
//! # Glossary: Berth's words
//!
//! | word | meaning |
//! |---|---|
//! | held | inventory with total = reserved = usage, marked by a max_unit above it ([`Inventory::is_held`], [`HeldUnits`]): its units have no new home, and nothing can be claimed from it |
//! | link group | [`LinkGroupName`]: devices of one node that a fast link connects; a provider between the root and these devices |
//! | home | [`Home`]: where an allocation goes when its inventory moves |
//! | desired state | what should be: a tree, a guest, its power. It is computed from configuration and requests, and written down before anybody acts on it |
//! | observe | read the state of the machine or of another service into a value; never changes anything |
//! | plan | compare desired and observed state by a pure function; the result is a value that can be printed |
//! | reconcile | observe, plan, act, and repeat until the observed state is the desired state |
//! | goal | the desired end of a task: active, undone or destroyed. A change of the goal interrupts the task |
//! | step | one action of a task. Its row is written to the journal before the action, and every step can be repeated or undone |
//! | journal | the database file of an agent or conductor with goals and steps; after a kill, work continues from it |
//! | transition | a change between two stable states, such as a rebuild or rescue; it is journaled like a boot |
//! | report | send state to another party: inventory to Placement, devices to the accelerator service, host state to the scheduler |
//! | blocked | a task that cannot continue, with its reason; it is retried or waits for an operator |
//! | quarantine | a device that could not be reset is not given to another instance, and carries a trait with the reason |
//! | orphan | a row without its counterpart: an allocation, ARQ, device or guest whose instance no other part knows |
//! | disposition | [`Disposition`]: what a loop does about an error: retry, refresh or give up |
//! | backoff | [`ExponentialBackoff`]: growing pauses between retries |
//! | single-flight | concurrent identical queries share one execution; a caller never joins one that has already started reading |
//! | lease | ownership with an end: a database row that one process owns as long as it renews it |
//! | outbox | rows of messages that are written in the transaction of their cause and sent afterwards |
//! | effect | one action across a boundary of the process: a request, a driver call, a file or sysfs access, a database transaction |
//! | fault injection point | one side, before or after, of one effect, where the tests inject a fault |

#![warn(missing_docs)]

mod allocation;
mod arq;
mod attach_handle;
mod candidates_query;
mod console_kind;
mod cpu_set;
mod device_profile;
mod did_you_mean;
mod disposition;
mod error_chain;
mod exponential_backoff;
mod ids;
mod inventory;
mod key_pair_type;
mod link_group;
mod mac_address;
mod machine;
mod pci_address;
mod plan;
mod power_state;
mod printable;
mod provider_tree;
mod query_string;
mod request_group;
mod reshape;
mod resource_class;
mod rng;
mod symbol;
mod traits;
mod tree_diff;

pub use allocation::{Allocation, Allocations, ConsumerAllocations};
pub use arq::{Arq, ArqPhase, ArqState, ArqTransition, AttachHandle, Binding, TransitionRefused};
pub use attach_handle::{AttachHandleInfo, AttachHandleType};
pub use candidates_query::{CandidatesQuery, CandidatesQueryError, QueryDemand, QueryRelaxation};
pub use console_kind::{ConsoleKind, UnknownConsoleKind};
pub use cpu_set::{CpuSet, CpuSetError};
pub use device_profile::{
    DeviceProfileError, DeviceProfileGroup, DeviceProfileGroups, DeviceProfileName, MOST_REQUESTS,
    SAME_LINK_GROUP_KEY, TraitDemand,
};
pub use did_you_mean::{did_you_mean, nearest_name};
pub use disposition::Disposition;
pub use error_chain::error_chain;
pub use exponential_backoff::ExponentialBackoff;
pub use ids::{
    AggregateUuid, ArqUuid, AttachHandleUuid, ConsumerUuid, Generation, NodeName, NodeNameError,
    ProviderName, ProviderNameError, ProviderUuid, UuidError,
};
pub use inventory::{AllocationRatio, Inventory, InventoryError};
pub use key_pair_type::KeyPairType;
pub use link_group::{LinkGroupName, LinkGroupNameError};
pub use mac_address::{MacAddress, MacAddressError};
pub use machine::{
    AddressWidth, Affinity, AllowedValues, CpuLimits, CpuTopology, DiskBus, DiskLimits, DiskRate,
    DiskRates, EXTRA_SPEC_SCOPES, EmulatorThreads, FlavorExtraSpecError, FlavorPlacement,
    GuestFirmware, GuestLimits, GuestMachine, GuestMachineError, HostSupport, InputBus,
    InterfaceModel, LEGACY_IMAGE_PROPERTIES, MachineOptions, MachineType, MemoryEncryption,
    RngDevice, ScsiController, ThreadPolicy, TrafficLimit, UnsupportedKey, VideoModel, WantedCell,
    WantedPages, WatchdogAction, check_extra_spec, check_image_property, extra_spec_names,
    image_property_names, is_machine_property, known_extra_spec, known_image_property,
    with_image_placement,
};
pub use pci_address::{PciAddress, PciAddressError};
pub use plan::{DesiredTree, HeldUnits, Move, Plan, Usages, plan, usages_to_probe};
pub use power_state::{DesiredPower, PowerState};
pub use printable::printable;
pub use provider_tree::{OWNER_TRAITS, Provider, ProviderTree, TreeError};
pub use query_string::{percent_encoded, query_string};
pub use request_group::{
    DEFAULT_CANDIDATES, Flavor, FlavorError, FlavorGroups, GroupPolicy, GroupSuffix, RequestGroup,
    RequestGroups, RequestGroupsError, SkippedSpec,
};
pub use reshape::{
    Home, HomelessReason, Homes, MovedUnits, PendingReshape, ReshapeRefused, ReshapeRequest,
};
pub use resource_class::{ResourceClass, ResourceClassError};
pub use rng::SeededRng;
pub use traits::{Trait, TraitError};
pub use tree_diff::{ChangeSet, InventoryChange, ProviderChange, TreeDiff, diff};
