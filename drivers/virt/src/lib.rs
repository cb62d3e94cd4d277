//! The virt driver contract: how a driver observes its host ([`HostView`]), which provider tree results from that,
//! where an allocation moves with its inventory, how changes are notified, and how guests are created ([`guest_spec`]).
//!
//! Most drivers only implement `observe` for this: [`provider_tree`] and [`homes`] compute the tree and the places of
//! allocations from any [`HostView`] in the same manner, so a fake machine behaves like a real one. The agent is
//! generic over [`VirtDriver`]; the composition root chooses the driver.

#![warn(missing_docs)]

#[cfg(feature = "conformance")]
pub mod conformance;
mod device_assignment;
mod driver;
mod fabric;
mod guest_allocations;
mod guest_console;
mod guest_diagnostics;
mod guest_hardware;
mod guest_lifecycle;
pub mod guest_spec;
mod homes;
mod host_device;
mod host_view;
mod node_capabilities;
mod observe_error;
mod prepared;
mod provider_tree;
mod resource_kind;
mod resource_model;
mod takeover;
mod trees;

pub use berth_model::PowerState;
pub use berth_model::{CpuSet, CpuSetError};
pub use device_assignment::{DeviceError, DeviceReset, MdevSource, WantedDevice};
pub use driver::{HostEvent, HostEvents, VirtDriver};
pub use fabric::{
    FABRIC_PARTITIONS, FabricPartition, FabricPartitionError, FabricPartitions,
    IncompletePartition, NoPartition,
};
pub use guest_allocations::{Resources, device_places, guest_allocations};
pub use guest_console::ConsoleAddress;
pub use guest_diagnostics::{
    DiskStatistics, GuestDiagnostics, InterfaceAddresses, InterfaceStatistics, TrafficStatistics,
};
pub use guest_hardware::GuestHardware;
pub use guest_lifecycle::{
    GuestDestroyOutcome, GuestError, GuestMark, GuestOnHost, GuestPowerOutcome,
    GuestRedefineOutcome, GuestSpawnOutcome, HeldDevice, HostDeviceId, InterfaceOutcome, NoLink,
    PowerAction,
};
pub use homes::{guest_behind, homes};
pub use host_device::{
    ClassOrigin, DeviceCondition, DeviceOwner, DeviceType, DeviceUnit, NetworkFunctionFacts,
    OfferedDevice, OfferedHandle, UnfitReason, vendor_name,
};
pub use host_view::{
    CustomResource, GuestCell, GuestCpuPolicy, GuestMdev, GuestView, HostNumaCell, HostView,
    HypervisorInfo, NodeCpus, NodeDisk, NodeView, OfferedMdevs, PciInPlacement, PhysicalGpu,
    UnreadableGuest, VirtualFunctions,
};
pub use node_capabilities::{
    HostCpuStats, NodeCapabilities, Processor, ProcessorTopology, SupportedInstance,
};
pub use observe_error::ObserveError;
pub use prepared::{PreparedDevice, Preparer};
pub use provider_tree::{ProviderTreeError, provider_tree};
pub use resource_model::{NumaModel, PcpuModel, ResourceModel, VgpuModel};
pub use trees::TreePair;
