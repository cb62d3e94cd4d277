//! [`LibvirtDriver`]: the virt driver contract over libvirt.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_model::{ConsoleKind, ConsumerUuid, MacAddress, NodeName, PciAddress};
use berth_sysfs::{AttributeWrites, LastObservation, Procfs, Sysfs};
use berth_virt::guest_spec::{GuestInterfaces, GuestSpec, HostPciPlace, PortConnection};
use berth_virt::{
    ConsoleAddress, DeviceError, DeviceReset, GuestDestroyOutcome, GuestDiagnostics, GuestError,
    GuestOnHost, GuestPowerOutcome, GuestRedefineOutcome, GuestSpawnOutcome, HostCpuStats,
    HostDeviceId, HostEvents, HostView, InterfaceAddresses, InterfaceOutcome, NoLink, ObserveError,
    PowerAction, PreparedDevice, VirtDriver, WantedDevice,
};

use crate::architecture::GuestArchitecture;
use crate::connection::{LibvirtConnection, Session};
use crate::devices::{FunctionLocks, HostDevices, Task};
use crate::guest_xml::{GuestXmlOptions, Virtualisation};
use crate::guests::{self, DetachStep, PowerStep, Starts};
use crate::links;
use crate::observe;
use crate::options::{LibvirtOptions, VirtType};
use crate::watch::{KernelEvents, Subscribers, Watch};

/// The maximum duration of a change of a guest: at a start, all memory is pinned for its devices.
const CHANGE_LIMIT: Duration = Duration::from_mins(5);
/// The interval at which a graceful shutdown is checked.
const SHUTDOWN_POLL: Duration = Duration::from_millis(250);
/// How long a guest may take to release an interface before it is asked again. An operating system that is still booting
/// misses the request.
const DETACH_WAIT: Duration = Duration::from_secs(10);
/// How often a guest is asked to release an interface.
const DETACH_TRIES: u32 = 6;

/// The libvirt driver. Creating it connects to nothing; the first observation does.
#[derive(Debug)]
pub struct LibvirtDriver {
    options: Arc<LibvirtOptions>,
    subscribers: Subscribers,
    connection: LibvirtConnection,
    /// A separate connection for changes of guests, so that observations do not wait for them; `None` if two
    /// connections would see two hosts (libvirt's test driver).
    changes: Option<LibvirtConnection>,
    /// The devices for guests; `None` for libvirt's test driver, which has no real devices.
    devices: Option<HostDevices>,
    turns: FunctionLocks,
    /// The state of the offered devices at earlier observations.
    last_observation: Arc<Mutex<LastObservation>>,
    /// The guests that libvirt is known to be starting.
    starts: Starts,
}

impl LibvirtDriver {
    /// A driver with these options.
    #[must_use]
    pub fn new(options: LibvirtOptions) -> Self {
        Self::over(options, None)
    }

    /// Writes the device tree through `attributes`, for tests with a simulated kernel.
    #[must_use]
    pub fn with_attributes(options: LibvirtOptions, attributes: Arc<dyn AttributeWrites>) -> Self {
        Self::over(options, Some(attributes))
    }

    fn over(options: LibvirtOptions, attributes: Option<Arc<dyn AttributeWrites>>) -> Self {
        let subscribers = Subscribers::default();
        let uri = &options.connection_uri;
        Self {
            changes: (!uri.starts_with("test:"))
                .then(|| LibvirtConnection::new(uri, CHANGE_LIMIT, Subscribers::default())),
            connection: LibvirtConnection::new(
                &options.connection_uri,
                options.call_timeout,
                subscribers.clone(),
            ),
            devices: device_tree(&options)
                .map(|sysfs| HostDevices::new(sysfs, &options, attributes)),
            turns: FunctionLocks::default(),
            last_observation: Arc::default(),
            starts: Starts::new(&options.device_assignment.procfs),
            options: Arc::new(options),
            subscribers,
        }
    }

    fn last_observation(&self) -> MutexGuard<'_, LastObservation> {
        self.last_observation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on a guest on the thread for changes. Refused for a stuck guest, which would block all others.
    async fn change<T: Send + 'static>(
        &self,
        uuid: ConsumerUuid,
        call: &'static str,
        work: impl FnOnce(&Session) -> Result<T, GuestError> + Send + 'static,
    ) -> Result<T, GuestError> {
        let connection = self.changes.as_ref().unwrap_or(&self.connection);
        let starts = self.starts.clone();
        let answer = connection.call(call, move |session| {
            starts.refuse(session.connect(), uuid)?;
            match work(session) {
                Ok(done) => guests::check_reliable(session, call, done),
                Err(error) => {
                    // It may have become stuck while the call waited.
                    let stuck = starts.refuse(session.connect(), uuid).err();
                    Err(stuck.unwrap_or_else(|| guests::map_unreliable(session, error)))
                }
            }
        });
        answer.await?
    }

    /// The device tree of guests' devices.
    fn sysfs(&self) -> Option<Sysfs> {
        device_tree(&self.options)
    }

    /// Runs `work` on a device, on a thread of its own.
    async fn with_devices<T, F>(
        &self,
        wanted: &WantedDevice,
        call: &'static str,
        work: impl FnOnce(HostDevices, WantedDevice) -> F + Send + 'static,
    ) -> Result<T, DeviceError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, DeviceError>>,
    {
        let devices = self
            .devices
            .clone()
            .ok_or_else(|| self.devices_not_supported())?;
        let task = Task {
            device: Some(wanted.host_device()),
            function: wanted.function().map(|function| devices.lock_key(function)),
            call,
            limit: devices.limit(),
        };
        let wanted = wanted.clone();
        self.turns.run(task, move || work(devices, wanted)).await
    }

    /// Refuses a device that a guest has, running or not. Returns the functions of all guests.
    async fn check_unused(
        &self,
        device: HostDeviceId,
    ) -> Result<BTreeSet<PciAddress>, DeviceError> {
        let (mut functions, mut unread) = (BTreeSet::new(), None);
        for (uuid, guest) in self.holders(device).await? {
            if guest.devices.iter().any(|held| held.device == device) {
                let reason = format!("it belongs to guest {uuid}, which is {}", guest.state);
                return Err(DeviceError::InUse { device, reason });
            }
            functions.extend(held_functions(&guest));
            unread = unread.or(guest.is_readable(uuid).err());
        }
        unread.map_or(Ok(functions), |error| Err(holder_unknown(device, &error)))
    }

    /// Refuses a device if another guest has a member of its IOMMU group. If a guest has the device itself, that is the
    /// guest it is for, because others were refused earlier.
    async fn check_unshared(
        &self,
        device: HostDeviceId,
        companions: &BTreeSet<PciAddress>,
    ) -> Result<(), DeviceError> {
        if companions.is_empty() {
            return Ok(());
        }
        for (uuid, guest) in self.holders(device).await? {
            if guest.devices.iter().any(|held| held.device == device) {
                continue;
            }
            guest
                .is_readable(uuid)
                .map_err(|error| holder_unknown(device, &error))?;
            if let Some(shared) = held_functions(&guest).find(|held| companions.contains(held)) {
                let reason = format!(
                    "its IOMMU group is given to one guest as a whole, and PCI function {shared} of it belongs to guest {uuid}, which is {}",
                    guest.state
                );
                return Err(DeviceError::InUse { device, reason });
            }
        }
        Ok(())
    }

    /// The guests, for checking which of them has a device.
    async fn holders(
        &self,
        device: HostDeviceId,
    ) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, DeviceError> {
        let guests = self.guests().await;
        guests.map_err(|error| holder_unknown(device, &error))
    }

    fn guest_xml_options(&self) -> GuestXmlOptions {
        GuestXmlOptions {
            virtualisation: match self.options.virt_type {
                VirtType::Kvm => Virtualisation::Kvm,
                VirtType::Qemu => Virtualisation::Qemu,
            },
            // The host's is read when a guest is written.
            architecture: GuestArchitecture::default(),
            disk_cache: self.options.disk_cache,
            emulator: self.options.emulator.clone(),
            nwfilter: self.options.nwfilter.clone(),
            port_isolation: self.options.port_isolation,
            unfilterable: BTreeSet::new(),
            function_links: BTreeMap::new(),
            pcie_root_ports: self.options.pcie_root_ports,
            memory_statistics_s: self.options.memory_statistics_s,
            queue_sizes: self.options.queue_sizes,
            vnc_listen: self.options.vnc.map(|vnc| vnc.listen),
        }
    }

    /// Waits for a running guest to release an interface; `false` if it did not in [`DETACH_WAIT`].
    async fn wait_for_release(
        &self,
        uuid: ConsumerUuid,
        mac: MacAddress,
    ) -> Result<bool, GuestError> {
        let end = tokio::time::Instant::now() + DETACH_WAIT;
        while tokio::time::Instant::now() < end {
            let has = move |session: &Session| guests::has_interface(session.connect(), uuid, mac);
            if !self.change(uuid, "observing a guest", has).await? {
                return Ok(true);
            }
            tokio::time::sleep(SHUTDOWN_POLL).await;
        }
        Ok(false)
    }

    /// Waits until a guest has shut down, and powers it off after the grace period.
    async fn wait_for_end(
        &self,
        uuid: ConsumerUuid,
        grace: Duration,
    ) -> Result<GuestPowerOutcome, GuestError> {
        let end = tokio::time::Instant::now() + grace;
        while tokio::time::Instant::now() < end {
            let is_off = move |session: &Session| guests::is_off(session.connect(), uuid);
            if self.change(uuid, "observing a guest", is_off).await? {
                return Ok(GuestPowerOutcome::Done);
            }
            tokio::time::sleep(SHUTDOWN_POLL).await;
        }
        let at_once = PowerAction::Stop {
            grace: Duration::ZERO,
        };
        let off = move |session: &Session| guests::power(session.connect(), uuid, at_once, None);
        // The guest is off, either by the shutdown or powered off.
        self.change(uuid, "switching a guest off", off)
            .await
            .map(|_| GuestPowerOutcome::Done)
    }
}

/// The error if it is unknown which guest has the device.
fn holder_unknown(device: HostDeviceId, error: &GuestError) -> DeviceError {
    DeviceError::Unfinished {
        device,
        call: "looking for the guest that has it",
        reason: error.to_string(),
    }
}

fn held_functions(guest: &GuestOnHost) -> impl Iterator<Item = PciAddress> {
    let devices = guest.devices.iter();
    devices.filter_map(|held| match held.device {
        HostDeviceId::Function(address) => Some(address),
        HostDeviceId::Mdev(_) => None,
    })
}

/// `None` for libvirt's test driver, which has no real devices.
fn device_tree(options: &LibvirtOptions) -> Option<Sysfs> {
    let is_test = options.connection_uri.starts_with("test:");
    let root = options.sysfs.as_ref().filter(|_| !is_test);
    root.map(Sysfs::at)
}

/// The guest, with devices handled as the lists require, and the options with the network interfaces of its macvtaps.
fn as_listed(
    devices: Option<&HostDevices>,
    mut spec: GuestSpec,
    mut options: GuestXmlOptions,
) -> Result<(GuestSpec, GuestXmlOptions), GuestError> {
    let Some(devices) = devices else {
        return Ok((spec, options));
    };
    let listed = devices.as_listed(&spec.devices);
    spec.devices = listed.map_err(|error| GuestError::Malformed {
        origin: "the kernel's device tree".to_owned(),
        reason: error.to_string(),
    })?;
    for (_, port) in spec.interfaces.ports() {
        if let PortConnection::Macvtap { address, .. } = port.connection() {
            let link = devices.link_of(*address);
            let link = link.map_err(|error| GuestError::DeviceBusy {
                uuid: spec.uuid,
                reason: error.to_string(),
            })?;
            options.function_links.insert(*address, link);
        }
    }
    Ok((spec, options))
}

impl VirtDriver for LibvirtDriver {
    fn name(&self) -> &'static str {
        "libvirt"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        let options = Arc::clone(&self.options);
        let last = Arc::clone(&self.last_observation);
        self.connection
            .call("observing the host", move |session| {
                observe::observe(session, &options, &last)
            })
            .await?
    }

    async fn host_cpu_stats(&self) -> Result<Option<HostCpuStats>, ObserveError> {
        if self.sysfs().is_none() {
            // Another host is observed, so this host's CPU times do not apply.
            return Ok(None);
        }
        let procfs = Procfs::at(&self.options.device_assignment.procfs);
        self.connection
            .call("reading the CPUs' times", move |_| {
                procfs.cpu_stats().map_err(observe::unreadable)
            })
            .await?
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        let (spec, options, sysfs) = (spec.clone(), self.guest_xml_options(), self.sysfs());
        let devices = self.devices.clone();
        self.change(spec.uuid, "creating a guest", move |session| {
            let (spec, options) = as_listed(devices.as_ref(), spec, options)?;
            let is_waited_for = || session.is_waited_for();
            let connect = session.connect();
            guests::spawn(connect, &spec, &options, sysfs.as_ref(), &is_waited_for)
        })
        .await
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
        self.change(uuid, "destroying a guest", move |session| {
            guests::destroy(session.connect(), uuid)
        })
        .await
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        let (starts, sysfs) = (self.starts.clone(), self.sysfs());
        self.connection
            .call("listing the guests", move |session| {
                let listed = guests::guests(session.connect(), &starts, sysfs.as_ref());
                listed.map_err(|error| guests::map_unreliable(session, error))
            })
            .await?
    }

    async fn guest(&self, uuid: ConsumerUuid) -> Result<Option<GuestOnHost>, GuestError> {
        let (starts, sysfs) = (self.starts.clone(), self.sysfs());
        self.connection
            .call("looking for a guest", move |session| {
                let found = guests::one(session.connect(), &starts, uuid, sysfs.as_ref());
                found.map_err(|error| guests::map_unreliable(session, error))
            })
            .await?
    }

    async fn interface_addresses(
        &self,
        guests: BTreeSet<ConsumerUuid>,
    ) -> Result<InterfaceAddresses, GuestError> {
        self.connection
            .call("reading the addresses of guests", move |session| {
                let found = guests::interface_addresses(session.connect(), &guests);
                found.map_err(|error| guests::map_unreliable(session, error))
            })
            .await?
    }

    async fn diagnostics(
        &self,
        uuid: ConsumerUuid,
    ) -> Result<Option<GuestDiagnostics>, GuestError> {
        self.connection
            .call("reading the statistics of a guest", move |session| {
                let found = guests::diagnostics(session.connect(), uuid);
                found.map_err(|error| guests::map_unreliable(session, error))
            })
            .await?
    }

    async fn console(
        &self,
        uuid: ConsumerUuid,
        kind: ConsoleKind,
    ) -> Result<ConsoleAddress, GuestError> {
        let vnc = self.options.vnc;
        self.connection
            .call("looking for a console", move |session| {
                let found = guests::console(session.connect(), uuid, kind, vnc);
                found.map_err(|error| guests::map_unreliable(session, error))
            })
            .await?
    }

    async fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> Result<GuestPowerOutcome, GuestError> {
        let sysfs = self.sysfs();
        let first =
            move |session: &Session| guests::power(session.connect(), uuid, action, sysfs.as_ref());
        match (self.change(uuid, action.as_str(), first).await?, action) {
            (PowerStep::Ended(powered), _) => Ok(powered),
            (PowerStep::AskedToEnd, PowerAction::Stop { grace }) => {
                self.wait_for_end(uuid, grace).await
            }
            (PowerStep::AskedToEnd, _) => Ok(GuestPowerOutcome::Done),
        }
    }

    async fn no_link(&self, interfaces: &GuestInterfaces) -> Result<Option<NoLink>, GuestError> {
        let interfaces = interfaces.clone();
        // Only the local hypervisor is on this host's network.
        let own = self.options.sysfs.as_deref() == Some(Path::new("/sys"));
        let kernel = own.then(links::interfaces);
        let filter = self.options.nwfilter.clone();
        let found = self.connection.call("looking up networks", move |session| {
            links::no_link(session.connect(), &interfaces, kernel, filter.as_deref())
        });
        Ok(found.await?)
    }

    async fn redefine(&self, spec: &GuestSpec) -> Result<GuestRedefineOutcome, GuestError> {
        let (spec, options) = (spec.clone(), self.guest_xml_options());
        let devices = self.devices.clone();
        self.change(spec.uuid, "redefining a guest", move |session| {
            let (spec, options) = as_listed(devices.as_ref(), spec, options)?;
            guests::redefine(session.connect(), &spec, &options)
        })
        .await
    }

    async fn attach_interface(
        &self,
        spec: &GuestSpec,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        let (spec, options) = (spec.clone(), self.guest_xml_options());
        let devices = self.devices.clone();
        self.change(spec.uuid, "attaching an interface", move |session| {
            let (spec, options) = as_listed(devices.as_ref(), spec, options)?;
            guests::attach_interface(session.connect(), &spec, mac, &options)
        })
        .await
    }

    async fn detach_interface(
        &self,
        uuid: ConsumerUuid,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        for _ in 0..DETACH_TRIES {
            let detach =
                move |session: &Session| guests::detach_interface(session.connect(), uuid, mac);
            let step = self.change(uuid, "detaching an interface", detach).await?;
            if let DetachStep::Ended(outcome) = step {
                return Ok(outcome);
            }
            if self.wait_for_release(uuid, mac).await? {
                return Ok(InterfaceOutcome::Changed);
            }
        }
        Err(GuestError::InterfaceInUse {
            uuid,
            mac,
            limit: DETACH_WAIT * DETACH_TRIES,
        })
    }

    async fn suspend(&self, uuid: ConsumerUuid) -> Result<GuestPowerOutcome, GuestError> {
        self.change(uuid, "suspending a guest", move |session| {
            guests::save(session.connect(), uuid)
        })
        .await
    }

    async fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        _destination: &NodeName,
    ) -> Result<(), GuestError> {
        self.change(uuid, "moving a guest", move |session| {
            guests::live_migrate(session.connect(), uuid)
        })
        .await
    }

    async fn check_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        let check = async |devices: HostDevices, wanted: WantedDevice| devices.check(&wanted);
        let companions = self.with_devices(wanted, "checking it", check).await?;
        self.check_unshared(wanted.host_device(), &companions).await
    }

    async fn pci_place(&self, wanted: &WantedDevice) -> Result<Option<HostPciPlace>, DeviceError> {
        if self.devices.is_none() {
            return Ok(None);
        }
        let place = async |devices: HostDevices, wanted: WantedDevice| devices.pci_place(&wanted);
        let call = "looking up its place in the PCI tree";
        Ok(Some(self.with_devices(wanted, call, place).await?))
    }

    async fn prepare_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        // Check again after a possibly long wait.
        self.check_device(wanted).await?;
        self.with_devices(wanted, "preparing the device", async |devices, wanted| {
            devices.prepare(&wanted).await
        })
        .await
    }

    async fn reset_device(&self, wanted: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        let held = match &self.devices {
            Some(_) => self.check_unused(wanted.host_device()).await?,
            None => BTreeSet::new(),
        };
        let taken_back = self
            .with_devices(
                wanted,
                "resetting the device",
                async move |devices, wanted| devices.reset(&wanted, &held).await,
            )
            .await;
        if let (Ok(DeviceReset::Reset { .. }), Some(address)) = (&taken_back, wanted.function()) {
            self.last_observation().forget(address);
        }
        taken_back
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        let Some(devices) = self.devices.clone() else {
            return Ok(Vec::new());
        };
        let task = Task::of_host("listing prepared devices", devices.limit());
        let list = async move || devices.prepared();
        self.turns.run(task, list).await
    }

    async fn prepare_host(&self) -> Vec<DeviceError> {
        let Some(devices) = self.devices.clone() else {
            return Vec::new();
        };
        // The process that prepares the host is the agent, so it maintains the baselines; a one-time observer must not.
        self.last_observation().enable_baselines();
        let limit = devices.limit();
        let work = async move || {
            let mut errors = devices.make_virtual_functions().await;
            errors.extend(devices.set_vgpu_types().await);
            Ok(errors)
        };
        self.turns
            .run(Task::of_host("preparing virtual functions", limit), work)
            .await
            .unwrap_or_else(|error| vec![error])
    }

    fn watch(&self) -> HostEvents {
        let kernel = match &self.options.sysfs {
            Some(root) if root == std::path::Path::new("/sys") => KernelEvents::Watched,
            _ => KernelEvents::Ignored,
        };
        Box::pin(Watch::new(&self.subscribers, kernel))
    }
}

#[cfg(test)]
mod tests;
