//! The driver contract: [`VirtDriver`], the trait that every hypervisor driver implements.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, ready};
use std::pin::Pin;

use berth_model::{
    Allocation, Allocations, ConsoleKind, ConsumerUuid, DesiredTree, Homes, MacAddress, NodeName,
    ProviderTree,
};
use futures_core::Stream;

use crate::guest_spec::{GuestInterfaces, GuestSpec, HostPciPlace};
use crate::{
    ConsoleAddress, DeviceError, DeviceReset, GuestDestroyOutcome, GuestDiagnostics, GuestError,
    GuestOnHost, GuestPowerOutcome, GuestRedefineOutcome, GuestSpawnOutcome, HostCpuStats,
    HostView, InterfaceAddresses, InterfaceOutcome, NoLink, ObserveError, PowerAction,
    PreparedDevice, ProviderTreeError, TreePair, WantedDevice,
};

/// Notification of a change on the host. The agent responds with a tick; the next `observe` finds the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostEvent {
    /// Devices appeared, disappeared or changed.
    Devices,
    /// Guests were defined, started, stopped or removed.
    Guests,
    /// Events or the connection to the hypervisor were lost: everything may have changed.
    Unknown,
}

/// A driver's events. The stream ends only with the driver.
pub type HostEvents = Pin<Box<dyn Stream<Item = HostEvent> + Send>>;

/// The contract of a hypervisor driver. A process has one driver, which may have several nodes; methods with a node
/// parameter are called for each node.
pub trait VirtDriver: Send + Sync + 'static {
    /// The driver's name, by `compute_driver`.
    fn name(&self) -> &'static str;

    /// The state of the host as one value. Changes nothing.
    fn observe(&self) -> impl Future<Output = Result<HostView, ObserveError>> + Send;

    /// The CPU statistics of the host since boot (Nova's `cpu.virt_driver` monitor); `None` if the driver does not
    /// measure them. Fails with [`ObserveError`]; it does not affect other observations.
    fn host_cpu_stats(
        &self,
    ) -> impl Future<Output = Result<Option<HostCpuStats>, ObserveError>> + Send {
        ready(Ok(None))
    }

    /// A stream of events that report changes on the host, without details.
    fn watch(&self) -> HostEvents;

    /// Brings a guest to its specification: defines it if it does not exist, and starts it if it should run. A guest
    /// that is off and has other hardware is redefined before it starts, unless its memory is saved on disk. A guest
    /// that could not be started may stay defined; the caller destroys it. Fails with [`GuestError`], for example if
    /// the hypervisor has a different guest with this UUID, which is then not changed.
    fn spawn(
        &self,
        spec: &GuestSpec,
    ) -> impl Future<Output = Result<GuestSpawnOutcome, GuestError>> + Send {
        let _ = spec;
        ready(Err(self.guests_not_supported()))
    }

    /// Destroys a guest immediately, with everything that the hypervisor stores of it. Its disks belong to the caller.
    /// For a clean shutdown, first stop it with a grace period. Fails with [`GuestError`].
    fn destroy(
        &self,
        uuid: ConsumerUuid,
    ) -> impl Future<Output = Result<GuestDestroyOutcome, GuestError>> + Send {
        let _ = uuid;
        ready(Err(self.guests_not_supported()))
    }

    /// Lists all guests of the hypervisor, also those of other creators. Fails with [`GuestError`].
    fn guests(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError>> + Send {
        ready(Err(self.guests_not_supported()))
    }

    /// Returns the guest with this UUID, as listed by [`VirtDriver::guests`]; `None` if it does not exist. Called much
    /// more often than `guests`. Fails with [`GuestError`].
    fn guest(
        &self,
        uuid: ConsumerUuid,
    ) -> impl Future<Output = Result<Option<GuestOnHost>, GuestError>> + Send {
        async move { Ok(self.guests().await?.remove(&uuid)) }
    }

    /// Executes a power operation on a guest. Fails with [`GuestError`].
    fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> impl Future<Output = Result<GuestPowerOutcome, GuestError>> + Send {
        let _ = (uuid, action);
        ready(Err(self.guests_not_supported()))
    }

    /// The first of a guest's interfaces that cannot be connected on this host; `None` if all can, or if the driver
    /// does not check this. Fails with [`GuestError`].
    fn no_link(
        &self,
        interfaces: &GuestInterfaces,
    ) -> impl Future<Output = Result<Option<NoLink>, GuestError>> + Send {
        let _ = interfaces;
        ready(Ok(None))
    }

    /// The addresses of these guests' interfaces, as far as the hypervisor knows them from DHCP leases or from traffic.
    /// Guests that are off or unknown are left out. Fails with [`GuestError`].
    fn interface_addresses(
        &self,
        guests: BTreeSet<ConsumerUuid>,
    ) -> impl Future<Output = Result<InterfaceAddresses, GuestError>> + Send {
        let _ = guests;
        ready(Ok(InterfaceAddresses::default()))
    }

    /// The statistics of a guest; `None` if it does not exist. Fails with [`GuestError`], for example if the driver has no
    /// statistics.
    fn diagnostics(
        &self,
        uuid: ConsumerUuid,
    ) -> impl Future<Output = Result<Option<GuestDiagnostics>, GuestError>> + Send {
        let _ = uuid;
        ready(Err(GuestError::Unsupported {
            driver: self.name(),
            action: "show statistics of guests",
        }))
    }

    /// Where a console of a running guest is served on this host. Fails with [`GuestError`]: [`GuestError::NoConsole`] if
    /// the guest has none of this kind now.
    fn console(
        &self,
        uuid: ConsumerUuid,
        kind: ConsoleKind,
    ) -> impl Future<Output = Result<ConsoleAddress, GuestError>> + Send {
        ready(Err(GuestError::NoConsole {
            uuid,
            kind,
            reason: "the driver of its host serves no consoles",
        }))
    }

    /// Replaces the definition of a guest that is off: other disks (rescue, rebuild), firmware or kernel. The owner,
    /// name and devices must stay the same. The guest is not started. Fails with [`GuestError`], for example if the
    /// guest is not off, or is a different one.
    fn redefine(
        &self,
        spec: &GuestSpec,
    ) -> impl Future<Output = Result<GuestRedefineOutcome, GuestError>> + Send {
        let _ = spec;
        ready(Err(self.guests_not_supported()))
    }

    /// Gives an existing guest the interface of its specification that has this Ethernet address, also while the guest runs. A
    /// guest that has the interface keeps it. The link that the interface needs must exist. Fails with [`GuestError`].
    fn attach_interface(
        &self,
        spec: &GuestSpec,
        mac: MacAddress,
    ) -> impl Future<Output = Result<InterfaceOutcome, GuestError>> + Send {
        let _ = (spec, mac);
        ready(Err(GuestError::Unsupported {
            driver: self.name(),
            action: "attach interfaces to guests",
        }))
    }

    /// Takes the interface with this Ethernet address from a guest, and waits until a running guest has released it. Fails with
    /// [`GuestError`]: [`GuestError::InterfaceInUse`] if the guest does not release it in time.
    fn detach_interface(
        &self,
        uuid: ConsumerUuid,
        mac: MacAddress,
    ) -> impl Future<Output = Result<InterfaceOutcome, GuestError>> + Send {
        let _ = (uuid, mac);
        ready(Err(GuestError::Unsupported {
            driver: self.name(),
            action: "detach interfaces from guests",
        }))
    }

    /// Saves a running guest's memory to disk and switches it off; the next start resumes it. Fails with
    /// [`GuestError`], for example if the guest has devices, because their state cannot be saved.
    fn suspend(
        &self,
        uuid: ConsumerUuid,
    ) -> impl Future<Output = Result<GuestPowerOutcome, GuestError>> + Send {
        let _ = uuid;
        ready(Err(self.guests_not_supported()))
    }

    /// Moves a running guest to another host. Fails with [`GuestError`], for example if the guest has devices,
    /// which cannot be moved.
    fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        destination: &NodeName,
    ) -> impl Future<Output = Result<(), GuestError>> + Send {
        let _ = (uuid, destination);
        ready(Err(self.guests_not_supported()))
    }

    /// Brings the host to its configured state before the first observation: creates virtual functions. Idempotent.
    /// To be called at each start and when the host's devices change. Each error concerns one device and does not
    /// prevent observing the host.
    fn prepare_host(&self) -> impl Future<Output = Vec<DeviceError>> + Send {
        ready(Vec::new())
    }

    /// Checks whether a device may be given to a guest now: an allow-list includes it, the host does not use it, its
    /// IOMMU group is complete and unused by other guests, and it is healthy. Read-only. A device prepared for a guest
    /// passes. Fails with [`DeviceError`] with the reason.
    fn check_device(
        &self,
        wanted: &WantedDevice,
    ) -> impl Future<Output = Result<(), DeviceError>> + Send {
        let _ = wanted;
        ready(Err(self.devices_not_supported()))
    }

    /// The place of a device in the host's PCI tree; `None` if the driver does not know it. Called before a device is given to a
    /// guest that requests the host's PCI topology. Read-only. Fails with [`DeviceError`], for example if the device is missing.
    fn pci_place(
        &self,
        wanted: &WantedDevice,
    ) -> impl Future<Output = Result<Option<HostPciPlace>, DeviceError>> + Send {
        let _ = wanted;
        ready(Ok(None))
    }

    /// Prepares a device for a guest that is not started yet. A mediated device is created, also after a reboot of the
    /// host. A function that the hypervisor unbinds by itself stays on its driver; the other members of its IOMMU group
    /// are prepared with it. Fails with [`DeviceError`]; the device may be half prepared and must be reset.
    fn prepare_device(
        &self,
        wanted: &WantedDevice,
    ) -> impl Future<Output = Result<(), DeviceError>> + Send {
        let _ = wanted;
        ready(Err(self.devices_not_supported()))
    }

    /// Takes back the device of a deleted guest. A function is returned to its resting driver, reset, and verified, and
    /// its companions are returned as well; a mediated device is removed. The caller guarantees that no guest has the
    /// device; if the hypervisor knows a guest that has it, nothing is changed. Fails with [`DeviceError`]; after any
    /// error the device must be considered unclean.
    fn reset_device(
        &self,
        wanted: &WantedDevice,
    ) -> impl Future<Output = Result<DeviceReset, DeviceError>> + Send {
        let _ = wanted;
        ready(Err(self.devices_not_supported()))
    }

    /// Lists the devices that are prepared for guests, in use or not: every mediated device, and each
    /// function that was unbound from its resting driver. Read-only. The list contains only what the driver
    /// stores. Fails with [`DeviceError`].
    fn prepared_devices(
        &self,
    ) -> impl Future<Output = Result<Vec<PreparedDevice>, DeviceError>> + Send {
        ready(Ok(Vec::new()))
    }

    /// The error of a driver that does not support devices.
    #[doc(hidden)]
    fn devices_not_supported(&self) -> DeviceError {
        DeviceError::NotSupported {
            driver: self.name(),
        }
    }

    /// The error of a driver that only observes.
    #[doc(hidden)]
    fn guests_not_supported(&self) -> GuestError {
        GuestError::NotSupported {
            driver: self.name(),
        }
    }

    /// The desired provider tree of a node, computed from Placement's tree. Foreign children and sharing providers stay
    /// unchanged. Pure. In Nova the method of the same name edits the tree in place. Fails if the view does not give a
    /// valid tree: a name is too long, an amount is out of range, or the node is unknown.
    fn update_provider_tree(
        &self,
        view: &HostView,
        current: &ProviderTree,
        node: &NodeName,
    ) -> Result<DesiredTree, ProviderTreeError> {
        crate::provider_tree(view, current, node)
    }

    /// Where an allocation moves when its inventory moves. Pure. Called only when all allocations of
    /// the tree are known.
    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: TreePair<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        crate::homes(view, node, trees, allocation, all)
    }
}
