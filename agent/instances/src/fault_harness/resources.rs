//! [`SimulatedResources`]: the devices, disks, images and secrets of a guest in the fault harness, a test environment that
//! makes the agent's calls fail or kills the agent at any call.
//!
//! It implements [`GuestResources`] in memory. The calls that can fail on a host (check, prepare, release, fetch,
//! remove) go through [`FaultHarness::inject`], which lets the call fail, or kills the agent, before or after its
//! effect. A call that would harm a tenant adds a text to `violations` of the harness's [`SimulatedWorld`]; tests check
//! that this list stays empty. A failure that a test plants ([`SimulatedFailure`]) names a PCI device by its bus
//! number.

use berth_agent_images::{DiskPlan, ImageDownload, ImageStage, InstancesPath, RecreateDisks};
use berth_agent_journal::{GuestRequest, NamedDevice as _, ReleasedDevices};
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{GuestDisks, GuestPort, GuestSpec, HostPath, ProjectId};
use berth_virt::{HostDeviceId, PowerState, WantedDevice};

use crate::fault_harness::hypervisor::device_names;
use crate::fault_harness::{
    FaultHarness, PlantedBug, SimulatedDevice, SimulatedFailure, SimulatedWorld,
};
use crate::files::GuestFiles;
use crate::resources::{GuestResources, Provision, ResourceError};
use crate::spawn_context::host_device;

/// The resources of one agent's guests.
pub struct SimulatedResources(pub FaultHarness);

/// The names of a guest's devices: PCI addresses, or UUIDs of mediated devices.
pub(crate) fn devices_of(spec: &GuestSpec) -> impl Iterator<Item = String> {
    spec.devices
        .as_slice()
        .iter()
        .map(|attached| match host_device(&attached.device) {
            HostDeviceId::Function(address) => address.to_string(),
            HostDeviceId::Mdev(uuid) => uuid.to_string(),
        })
}

/// The bus number in a PCI address: 2 for `0000:02:00.0`. Tests of planted failures use no mediated devices.
fn pci_bus(address: &str) -> u32 {
    u32::from_str_radix(&address[5..7], 16).unwrap()
}

/// The ports that are plugged into the switch.
pub(super) fn plugged_ports(spec: &GuestSpec) -> impl Iterator<Item = &GuestPort> {
    let ports = spec.interfaces.ports().map(|(_, port)| port);
    ports.filter(|port| port.network_function().is_none())
}

fn plug(world: &mut SimulatedWorld, spec: &GuestSpec) {
    for port in plugged_ports(spec) {
        let owner = world.plugged.insert(port.id(), spec.uuid);
        if owner.is_some_and(|owner| owner != spec.uuid) {
            let violation = format!("port {} was plugged for two guests", port.id());
            world.violations.push(violation);
        }
    }
}

fn unplug(world: &mut SimulatedWorld, spec: &GuestSpec) {
    for port in plugged_ports(spec) {
        let defined = world.documents.get(&spec.uuid);
        let mut interfaces = defined
            .iter()
            .flat_map(|defined| defined.interfaces.ports());
        if interfaces.any(|(_, other)| other.id() == port.id()) {
            let violation = format!("port {} was unplugged while a guest had it", port.id());
            world.violations.push(violation);
        }
        if world.bug != Some(PlantedBug::KeepsPorts) {
            world.plugged.remove(&port.id());
        }
    }
}

/// Resets a device, or lets the reset fail as planted.
fn reset(
    world: &mut SimulatedWorld,
    name: String,
    released: &mut ReleasedDevices,
) -> Result<(), ResourceError> {
    let mut guests = world.guests.iter();
    let user = guests.find(|(_, found)| device_names(found).contains(&name));
    if let Some((user, _)) = user {
        let violation = format!("{name} was reset while {user} used it");
        world.violations.push(violation);
    }
    let failures = &world.failures;
    if failures.contains(&SimulatedFailure::ResetFails(pci_bus(&name))) {
        let reason = "its configuration reads all ones".to_owned();
        released.quarantined.insert(name, reason);
    } else if failures.contains(&SimulatedFailure::ResetHangs(pci_bus(&name))) {
        return Err(ResourceError::Failed {
            what: name,
            reason: "the reset timed out".to_owned(),
        });
    } else if world.bug == Some(PlantedBug::SkipsResets) {
        // The bug: the device has no owner, but `used_by` shows that it still has the guest's data.
        world.devices.entry(name).or_default().prepared = None;
    } else {
        let clean = SimulatedDevice::default();
        world.devices.insert(name.clone(), clean);
        released.clean.insert(name);
    }
    Ok(())
}

impl GuestResources for SimulatedResources {
    fn files(&self) -> &GuestFiles {
        &self.0.files
    }

    async fn store_secrets(&self, request: &GuestRequest) -> Result<(), ResourceError> {
        self.0.world().stored_secrets.insert(request.uuid());
        Ok(())
    }

    async fn discard_secrets(&self, guest: ConsumerUuid) -> Result<(), ResourceError> {
        self.0.world().stored_secrets.remove(&guest);
        Ok(())
    }

    /// Refuses unhealthy devices and devices that are prepared for another guest.
    async fn check(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut world = self.0.world();
            for name in devices_of(spec) {
                let unhealthy = SimulatedFailure::DeviceUnhealthy(pci_bus(&name));
                let is_unhealthy = world.failures.contains(&unhealthy);
                let device = world.devices.entry(name.clone()).or_default();
                let has_other_owner = device.prepared.is_some_and(|owner| owner != spec.uuid);
                let reason = match (is_unhealthy, has_other_owner) {
                    (true, _) => "its link is down",
                    (false, true) => "it is prepared for another guest",
                    (false, false) => continue,
                };
                return Err(ResourceError::Refused {
                    what: name,
                    reason: reason.to_owned(),
                });
            }
            Ok(())
        };
        self.0.inject("sysfs read check".to_owned(), effect).await
    }

    /// Creates the guest's disks, and records the guest as the owner of each device.
    async fn prepare(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut world = self.0.world();
            create_missing_disks(&mut world, &guest);
            plug(&mut world, spec);
            for name in devices_of(spec) {
                let failure = SimulatedFailure::PrepareFails(pci_bus(&name));
                if world.failures.contains(&failure) {
                    return Err(ResourceError::Failed {
                        what: name,
                        reason: "no such function".to_owned(),
                    });
                }
                let device = world.devices.entry(name.clone()).or_default();
                if device.prepared.is_some_and(|owner| owner != spec.uuid) {
                    let violation = format!("{name} was prepared for two guests");
                    world.violations.push(violation);
                } else {
                    device.prepared = Some(spec.uuid);
                }
            }
            Ok(())
        };
        self.0
            .inject("sysfs write prepare".to_owned(), effect)
            .await
    }

    async fn check_function(&self, _: &WantedDevice) -> Result<(), ResourceError> {
        Ok(())
    }

    async fn prepare_function(
        &self,
        guest: ConsumerUuid,
        function: &WantedDevice,
    ) -> Result<(), ResourceError> {
        let effect = async {
            let mut world = self.0.world();
            let name = function.device.name();
            let device = world.devices.entry(name.clone()).or_default();
            if device.prepared.is_some_and(|owner| owner != guest) {
                let violation = format!("{name} was prepared for two guests");
                world.violations.push(violation);
            } else {
                device.prepared = Some(guest);
            }
            Ok(())
        };
        let call = "sysfs write prepare_function".to_owned();
        self.0.inject(call, effect).await
    }

    async fn release_function(
        &self,
        _: ConsumerUuid,
        function: &WantedDevice,
    ) -> Result<ReleasedDevices, ResourceError> {
        let effect = async {
            let mut released = ReleasedDevices::default();
            let mut world = self.0.world();
            reset(&mut world, function.device.name(), &mut released)?;
            Ok(released)
        };
        let call = "sysfs write release_function".to_owned();
        self.0.inject(call, effect).await
    }

    async fn plug_ports(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        let effect = async {
            plug(&mut self.0.world(), spec);
            Ok(())
        };
        self.0.inject("switch write plug".to_owned(), effect).await
    }

    async fn wait_for_ports(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        let has_ports = plugged_ports(spec).next().is_some();
        let effect = async {
            let has_failure = |failure| self.0.world().failures.contains(&failure);
            if has_failure(SimulatedFailure::PortNeverWorks) {
                std::future::pending::<()>().await;
            }
            match has_ports && has_failure(SimulatedFailure::PortTimesOut) {
                true => Err(ResourceError::Refused {
                    what: "a port".to_owned(),
                    reason: "timed out after 300 s (vif_plugging_timeout)".to_owned(),
                }),
                false => Ok(()),
            }
        };
        self.0.inject("switch read wait".to_owned(), effect).await
    }

    async fn unplug_ports(&self, spec: &GuestSpec) -> Result<(), ResourceError> {
        let effect = async {
            let mut world = self.0.world();
            if world.failures.contains(&SimulatedFailure::UnplugFails) {
                return Err(ResourceError::Failed {
                    what: "a port".to_owned(),
                    reason: "its network card does not answer".to_owned(),
                });
            }
            unplug(&mut world, spec);
            Ok(())
        };
        self.0
            .inject("switch write unplug".to_owned(), effect)
            .await
    }

    /// Resets the guest's devices, or lets the reset fail as planted, and deletes the guest's files.
    async fn release(&self, guest: Provision<'_>) -> Result<ReleasedDevices, ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut released = ReleasedDevices::default();
            let mut world = self.0.world();
            unplug(&mut world, spec);
            for name in devices_of(spec) {
                reset(&mut world, name, &mut released)?;
            }
            Ok::<_, ResourceError>(released)
        };
        let released = self
            .0
            .inject("sysfs write release".to_owned(), effect)
            .await?;
        // A release that succeeded also deletes the guest's files. No fault is injected between release and deletion.
        let folder = format!("/instances/{}/", spec.uuid);
        let mut world = self.0.world();
        world.files.retain(|path, _| !path.starts_with(&folder));
        Ok(released)
    }

    fn lay_out(&self, guest: ConsumerUuid, plan: &DiskPlan) -> Result<GuestDisks, ResourceError> {
        Ok(instances().disks(guest, plan).unwrap())
    }

    async fn fetch(&self, _: &DiskPlan, _: Option<&ProjectId>) -> Result<(), ResourceError> {
        let has_failure = |failure| self.0.world().failures.contains(&failure);
        let effect = async {
            if has_failure(SimulatedFailure::EndlessImage) {
                std::future::pending::<()>().await;
            }
            match has_failure(SimulatedFailure::NoImage) {
                true => Err(ResourceError::Refused {
                    what: "an image".to_owned(),
                    reason: "its checksum does not match".to_owned(),
                }),
                false => Ok(()),
            }
        };
        self.0.inject("images write fetch".to_owned(), effect).await
    }

    async fn remove_unused(&self, _: &[&GuestRequest]) {
        self.0.world().removals_of_unused_files += 1;
    }

    /// The progress of a download that never ends. Other downloads take no time.
    fn download_progress(&self, _: &DiskPlan) -> Option<ImageDownload> {
        let world = self.0.world();
        let is_endless = world.failures.contains(&SimulatedFailure::EndlessImage);
        is_endless.then_some(ImageDownload {
            stage: ImageStage::Fetch,
            done: 1,
            of: None,
        })
    }

    async fn remove(&self, guest: ConsumerUuid, files: &[HostPath]) -> Result<(), ResourceError> {
        let effect = async {
            let mut world = self.0.world();
            let found = world.guests.get(&guest);
            if found.is_some_and(|found| found.state != PowerState::ShutOff) {
                let violation = "files were removed under a running guest".to_owned();
                world.violations.push(violation);
            }
            for file in files {
                world.files.remove(file.as_str());
            }
            Ok(())
        };
        self.0.inject("sysfs write remove".to_owned(), effect).await
    }
}

/// The folder of the guests' files.
pub fn instances() -> InstancesPath {
    InstancesPath::new(HostPath::new("/instances").unwrap())
}

/// Creates the disks of a guest that do not exist. If the guest has run before, a missing disk held its tenant's data. To
/// create such a disk again is a violation, unless the agent was ordered to recreate it.
fn create_missing_disks(world: &mut SimulatedWorld, guest: &Provision<'_>) {
    let root = guest.spec.disks.root().into_iter().map(|disk| (disk, true));
    let others = guest.spec.disks.ephemeral().iter();
    for (disk, is_root) in root.chain(others.map(|disk| (disk, false))) {
        let path = disk.path.as_str().to_owned();
        if world.files.contains_key(&path) {
            continue;
        }
        let may_be_recreated = match guest.recreate {
            RecreateDisks::None => false,
            RecreateDisks::Root => is_root,
            RecreateDisks::All => true,
        };
        if guest.has_run_before && !may_be_recreated {
            let violation = format!("{path} was recreated over a tenant's data");
            world.violations.push(violation);
        }
        let base = disk.base.as_ref();
        let content = base.map_or_else(|| "empty".to_owned(), |base| base.path.to_string());
        world.files.insert(path, content);
    }
}
