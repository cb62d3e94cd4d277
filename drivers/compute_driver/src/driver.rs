//! Implements [`VirtDriver`] for [`Driver`]: each call goes to the driver inside.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    Allocation, Allocations, ConsoleKind, ConsumerUuid, DesiredTree, Homes, MacAddress, NodeName,
    ProviderTree,
};
use berth_virt::guest_spec::{GuestInterfaces, GuestSpec, HostPciPlace};
use berth_virt::{
    ConsoleAddress, DeviceError, DeviceReset, GuestDestroyOutcome, GuestDiagnostics, GuestError,
    GuestOnHost, GuestPowerOutcome, GuestRedefineOutcome, GuestSpawnOutcome, HostCpuStats,
    HostEvents, HostView, InterfaceAddresses, InterfaceOutcome, NoLink, ObserveError, PowerAction,
    PreparedDevice, ProviderTreeError, TreePair, VirtDriver, WantedDevice,
};

use crate::{Driver, on_driver};

// A method that is missing here would have the contract's default instead of the driver's answer.
#[deny(clippy::missing_trait_methods)]
impl VirtDriver for Driver {
    fn name(&self) -> &'static str {
        on_driver!(self, driver => driver.name())
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        on_driver!(self, driver => driver.observe().await)
    }

    async fn host_cpu_stats(&self) -> Result<Option<HostCpuStats>, ObserveError> {
        on_driver!(self, driver => driver.host_cpu_stats().await)
    }

    fn watch(&self) -> HostEvents {
        on_driver!(self, driver => driver.watch())
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        on_driver!(self, driver => driver.spawn(spec).await)
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
        on_driver!(self, driver => driver.destroy(uuid).await)
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        on_driver!(self, driver => driver.guests().await)
    }

    async fn guest(&self, uuid: ConsumerUuid) -> Result<Option<GuestOnHost>, GuestError> {
        on_driver!(self, driver => driver.guest(uuid).await)
    }

    async fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> Result<GuestPowerOutcome, GuestError> {
        on_driver!(self, driver => driver.power(uuid, action).await)
    }

    async fn redefine(&self, spec: &GuestSpec) -> Result<GuestRedefineOutcome, GuestError> {
        on_driver!(self, driver => driver.redefine(spec).await)
    }

    async fn attach_interface(
        &self,
        spec: &GuestSpec,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        on_driver!(self, driver => driver.attach_interface(spec, mac).await)
    }

    async fn detach_interface(
        &self,
        uuid: ConsumerUuid,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        on_driver!(self, driver => driver.detach_interface(uuid, mac).await)
    }

    async fn no_link(&self, interfaces: &GuestInterfaces) -> Result<Option<NoLink>, GuestError> {
        on_driver!(self, driver => driver.no_link(interfaces).await)
    }

    async fn interface_addresses(
        &self,
        guests: BTreeSet<ConsumerUuid>,
    ) -> Result<InterfaceAddresses, GuestError> {
        on_driver!(self, driver => driver.interface_addresses(guests).await)
    }

    async fn diagnostics(
        &self,
        uuid: ConsumerUuid,
    ) -> Result<Option<GuestDiagnostics>, GuestError> {
        on_driver!(self, driver => driver.diagnostics(uuid).await)
    }

    async fn console(
        &self,
        uuid: ConsumerUuid,
        kind: ConsoleKind,
    ) -> Result<ConsoleAddress, GuestError> {
        on_driver!(self, driver => driver.console(uuid, kind).await)
    }

    async fn suspend(&self, uuid: ConsumerUuid) -> Result<GuestPowerOutcome, GuestError> {
        on_driver!(self, driver => driver.suspend(uuid).await)
    }

    async fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        destination: &NodeName,
    ) -> Result<(), GuestError> {
        on_driver!(self, driver => driver.live_migrate(uuid, destination).await)
    }

    async fn prepare_host(&self) -> Vec<DeviceError> {
        on_driver!(self, driver => driver.prepare_host().await)
    }

    async fn check_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        on_driver!(self, driver => driver.check_device(wanted).await)
    }

    async fn pci_place(&self, wanted: &WantedDevice) -> Result<Option<HostPciPlace>, DeviceError> {
        on_driver!(self, driver => driver.pci_place(wanted).await)
    }

    async fn prepare_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        on_driver!(self, driver => driver.prepare_device(wanted).await)
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        on_driver!(self, driver => driver.prepared_devices().await)
    }

    async fn reset_device(&self, wanted: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        on_driver!(self, driver => driver.reset_device(wanted).await)
    }

    fn devices_not_supported(&self) -> DeviceError {
        on_driver!(self, driver => driver.devices_not_supported())
    }

    fn guests_not_supported(&self) -> GuestError {
        on_driver!(self, driver => driver.guests_not_supported())
    }

    fn update_provider_tree(
        &self,
        view: &HostView,
        current: &ProviderTree,
        node: &NodeName,
    ) -> Result<DesiredTree, ProviderTreeError> {
        on_driver!(self, driver => driver.update_provider_tree(view, current, node))
    }

    fn homes(
        &self,
        view: &HostView,
        node: &NodeName,
        trees: TreePair<'_>,
        allocation: &Allocation,
        all: &Allocations,
    ) -> Homes {
        on_driver!(self, driver => driver.homes(view, node, trees, allocation, all))
    }
}
