//! The contract itself.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::pin::Pin;

use berth_model::{Allocation, Allocations, ConsumerUuid, Desired, Homes, NodeName, ProviderTree};
use futures_core::Stream;

use crate::guest_spec::{GuestInterfaces, GuestSpec};
use crate::{
    Destroyed, DeviceError, DeviceReset, GuestError, GuestOnHost, HostCpuStats, HostView, NoLink,
    ObserveError, PowerAction, Powered, PreparedDevice, ProviderTreeError, Redefined, Spawned,
    Trees, WantedDevice,
};

/// Something changed on the host; the agent answers with a tick. What exactly is for the next `observe` to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostEvent {
    /// Devices came, went or changed.
    Devices,
    /// Guests were defined, started, stopped or removed.
    Guests,
    /// Events were lost, or the hypervisor's connection was: look at everything.
    Unknown,
}

/// A driver's events. The stream ends only with the driver.
pub type HostEvents = Pin<Box<dyn Stream<Item = HostEvent> + Send>>;

/// What a hypervisor's driver must be able to do. One driver per process; it may have several nodes, and every method
/// that takes a node is called for each on its own.
pub trait VirtDriver: Send + Sync + 'static {
    /// The driver's name, by `compute_driver`.
    fn name(&self) -> &'static str;

    /// Everything the driver can see, in one value. Changes nothing.
    fn observe(&self) -> impl Future<Output = Result<HostView, ObserveError>> + Send;

    /// What the host's CPUs have done since it was booted (Nova's `cpu.virt_driver` monitor); none where the driver does not
    /// measure it.
    ///
    /// # Errors
    /// [`ObserveError`]; nothing else of the host is in doubt for it.
    fn host_cpu_stats(
        &self,
    ) -> impl Future<Output = Result<Option<HostCpuStats>, ObserveError>> + Send {
        ready(Ok(None))
    }

    /// A stream of "something changed".
    fn watch(&self) -> HostEvents;

    /// Brings a guest to what its spec says: defines it where it is not there, and starts it where it should run. One that is
    /// there, is off and has other hardware than its spec says is given its own before it starts, unless its memory was written
    /// to disk. A guest that could not be started may be left defined, for the caller to destroy.
    ///
    /// # Errors
    /// [`GuestError`]; among them that the hypervisor has another guest of this UUID, which is then left alone.
    fn spawn(&self, spec: &GuestSpec) -> impl Future<Output = Result<Spawned, GuestError>> + Send {
        let _ = spec;
        ready(Err(self.makes_no_guests()))
    }

    /// Ends a guest at once and leaves nothing of it on the hypervisor; its disks are the caller's. (To let it end by itself
    /// first, stop it with a grace.)
    ///
    /// # Errors
    /// [`GuestError`].
    fn destroy(
        &self,
        uuid: ConsumerUuid,
    ) -> impl Future<Output = Result<Destroyed, GuestError>> + Send {
        let _ = uuid;
        ready(Err(self.makes_no_guests()))
    }

    /// All guests of the hypervisor, whoever made them.
    ///
    /// # Errors
    /// [`GuestError`].
    fn guests(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError>> + Send {
        ready(Err(self.makes_no_guests()))
    }

    /// The guest of this UUID, as [`VirtDriver::guests`] has it; none where it has none. Asked far more often than for all.
    ///
    /// # Errors
    /// [`GuestError`].
    fn guest(
        &self,
        uuid: ConsumerUuid,
    ) -> impl Future<Output = Result<Option<GuestOnHost>, GuestError>> + Send {
        async move { Ok(self.guests().await?.remove(&uuid)) }
    }

    /// Does this with a guest's power.
    ///
    /// # Errors
    /// [`GuestError`].
    fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> impl Future<Output = Result<Powered, GuestError>> + Send {
        let _ = (uuid, action);
        ready(Err(self.makes_no_guests()))
    }

    /// The first of a guest's interfaces that cannot be plugged in on this host; none where all can, or where nobody can say.
    ///
    /// # Errors
    /// [`GuestError`].
    fn no_link(
        &self,
        interfaces: &GuestInterfaces,
    ) -> impl Future<Output = Result<Option<NoLink>, GuestError>> + Send {
        let _ = interfaces;
        ready(Ok(None))
    }

    /// Gives a guest that is off another document: other disks (rescue, rebuild), another firmware or kernel. Whose it is, its
    /// name and its devices stay. It is not started.
    ///
    /// # Errors
    /// [`GuestError`]; among them that the guest is not off, or that it is another one.
    fn redefine(
        &self,
        spec: &GuestSpec,
    ) -> impl Future<Output = Result<Redefined, GuestError>> + Send {
        let _ = spec;
        ready(Err(self.makes_no_guests()))
    }

    /// Writes a running guest's memory to disk and switches it off; its next start goes on from there.
    ///
    /// # Errors
    /// [`GuestError`]; among them that the guest holds devices, whose state nobody can write down.
    fn suspend(
        &self,
        uuid: ConsumerUuid,
    ) -> impl Future<Output = Result<Powered, GuestError>> + Send {
        let _ = uuid;
        ready(Err(self.makes_no_guests()))
    }

    /// Moves a guest to another host while it runs.
    ///
    /// # Errors
    /// [`GuestError`]; among them that the guest holds devices, which cannot come along.
    fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        destination: &NodeName,
    ) -> impl Future<Output = Result<(), GuestError>> + Send {
        let _ = (uuid, destination);
        ready(Err(self.makes_no_guests()))
    }

    /// Makes of the host what the configuration wants it to be before it is looked at first: virtual functions. To be asked at
    /// each start and whenever the host's devices change; what is so already stays so. Each error is one device's, and is no
    /// reason not to look at the host.
    fn prepare_host(&self) -> impl Future<Output = Vec<DeviceError>> + Send {
        ready(Vec::new())
    }

    /// Whether a device may go to a guest now: an allow-list means it, the host does not use it, its IOMMU group is whole and no
    /// other guest's, it is well. Changes nothing. A device that was made ready for a guest may still go to it.
    ///
    /// # Errors
    /// [`DeviceError`], saying why not.
    fn check_device(
        &self,
        wanted: &WantedDevice,
    ) -> impl Future<Output = Result<(), DeviceError>> + Send {
        let _ = wanted;
        ready(Err(self.gives_no_devices()))
    }

    /// Makes a device ready for a guest that is not yet started: a mediated device is made, also again after the host was
    /// started anew; a function that the hypervisor takes from its driver by itself is left where it is, and what shares its IOMMU
    /// group is brought along.
    ///
    /// # Errors
    /// [`DeviceError`]; the device may be ready partly, and is to be reset.
    fn prepare_device(
        &self,
        wanted: &WantedDevice,
    ) -> impl Future<Output = Result<(), DeviceError>> + Send {
        let _ = wanted;
        ready(Err(self.gives_no_devices()))
    }

    /// Takes a device back whose guest is off and gone: a function goes to the driver it rests on, is reset, and the reset
    /// verified, and what was brought along goes back as well; a mediated device is removed. Whoever asks for it knows that no
    /// guest has the device; where the hypervisor knows of one, nothing is touched.
    ///
    /// # Errors
    /// [`DeviceError`]; whatever it is, the device is not known to be clean.
    fn reset_device(
        &self,
        wanted: &WantedDevice,
    ) -> impl Future<Output = Result<DeviceReset, DeviceError>> + Send {
        let _ = wanted;
        ready(Err(self.gives_no_devices()))
    }

    /// What is out of the host's hands for guests, whether one has it or not: every mediated device that exists, and each function
    /// that was taken off the driver it rests on. Changes nothing. What a driver does not keep is not told.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn prepared_devices(
        &self,
    ) -> impl Future<Output = Result<Vec<PreparedDevice>, DeviceError>> + Send {
        ready(Ok(Vec::new()))
    }

    /// What a driver says that gives guests no devices.
    #[doc(hidden)]
    fn gives_no_devices(&self) -> DeviceError {
        DeviceError::NotSupported {
            driver: self.name(),
        }
    }

    /// What a driver says that only observes.
    #[doc(hidden)]
    fn makes_no_guests(&self) -> GuestError {
        GuestError::NotSupported {
            driver: self.name(),
        }
    }

    /// The tree the node should have, given the tree Placement has (in which foreign children and sharing providers stay
    /// as they are). Pure. The spec's method of the same name edits the tree in place; this one returns it.
    ///
    /// # Errors
    /// The view makes no tree: a name is too long, an amount out of range, the node unknown.
    fn update_provider_tree(
        &self,
        view: &HostView,
        current: &ProviderTree,
        node: &NodeName,
    ) -> Result<Desired, ProviderTreeError> {
        crate::provider_tree(view, current, node)
    }

    /// Where an allocation goes whose inventory moves. Pure, and asked only with all allocations of the tree in hand.
    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: Trees<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        crate::homes(view, node, trees, allocation, all)
    }
}
