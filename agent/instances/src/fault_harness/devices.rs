//! The simulated devices and disks: the harness's [`GuestResources`].

use berth_agent_images::{DiskPlan, ImageDownload, ImageStage, InstancesPath, RecreateDisks};
use berth_agent_journal::{GuestRequest, ReleasedDevices};
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{GuestDisks, GuestSpec, HostPath, ProjectId};
use berth_virt::{HostDeviceId, PowerState};

use crate::fault_harness::hypervisor::names;
use crate::fault_harness::{
    FaultHarness, PlantedBug, SimulatedDevice, SimulatedFailure, SimulatedWorld,
};
use crate::files::GuestFiles;
use crate::resources::{GuestResources, Provision, ResourceError};
use crate::spawn_context::host_device;

pub struct SimulatedDevices(pub FaultHarness);

pub(crate) fn devices_of(spec: &GuestSpec) -> impl Iterator<Item = String> {
    spec.devices
        .as_slice()
        .iter()
        .map(|attached| match host_device(&attached.device) {
            HostDeviceId::Function(address) => address.to_string(),
            HostDeviceId::Mdev(uuid) => uuid.to_string(),
        })
}

fn number(name: &str) -> u32 {
    u32::from_str_radix(&name[5..7], 16).unwrap()
}

impl GuestResources for SimulatedDevices {
    fn files(&self) -> &GuestFiles {
        &self.0.files
    }

    async fn store_secrets(&self, request: &GuestRequest) -> Result<(), ResourceError> {
        self.0.world().kept.insert(request.uuid());
        Ok(())
    }

    async fn discard_secrets(&self, guest: ConsumerUuid) -> Result<(), ResourceError> {
        self.0.world().kept.remove(&guest);
        Ok(())
    }

    async fn check(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut world = self.0.world();
            for name in devices_of(spec) {
                let unhealthy = world
                    .failures
                    .contains(&SimulatedFailure::DeviceUnhealthy(number(&name)));
                let device = world.devices.entry(name.clone()).or_default();
                let other = device.prepared.is_some_and(|owner| owner != spec.uuid);
                if unhealthy || other {
                    return Err(ResourceError::Refused {
                        what: name,
                        reason: "its link is down".to_owned(),
                    });
                }
            }
            Ok(())
        };
        self.0.inject("sysfs read check".to_owned(), effect).await
    }

    async fn prepare(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut world = self.0.world();
            make_disks(&mut world, &guest);
            for name in devices_of(spec) {
                if world
                    .failures
                    .contains(&SimulatedFailure::PrepareFails(number(&name)))
                {
                    return Err(ResourceError::Failed {
                        what: name,
                        reason: "no such function".to_owned(),
                    });
                }
                let device = world.devices.entry(name.clone()).or_default();
                if device.prepared.is_some_and(|owner| owner != spec.uuid) {
                    world
                        .broken
                        .push(format!("S3: {name} was prepared for two guests"));
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

    async fn release(&self, guest: Provision<'_>) -> Result<ReleasedDevices, ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut released = ReleasedDevices::default();
            let mut world = self.0.world();
            for name in devices_of(spec) {
                let holder = world
                    .guests
                    .iter()
                    .find(|(_, found)| names(found).contains(&name));
                if let Some((holder, _)) = holder {
                    let broken = format!("{name} was reset while {holder} used it");
                    world.broken.push(broken);
                }
                if world
                    .failures
                    .contains(&SimulatedFailure::ResetFails(number(&name)))
                {
                    let reason = "its configuration reads all ones".to_owned();
                    released.quarantined.insert(name, reason);
                    continue;
                }
                if world
                    .failures
                    .contains(&SimulatedFailure::ResetHangs(number(&name)))
                {
                    return Err(ResourceError::Failed {
                        what: name,
                        reason: "the reset timed out".to_owned(),
                    });
                }
                if world.bug == Some(PlantedBug::SkipsResets) {
                    world.devices.entry(name).or_default().prepared = None;
                    continue;
                }
                world
                    .devices
                    .insert(name.clone(), SimulatedDevice::default());
                released.clean.insert(name);
            }
            Ok(released)
        };
        let released = self
            .0
            .inject("sysfs write release".to_owned(), effect)
            .await?;
        let folder = format!("/instances/{}/", spec.uuid);
        let mut world = self.0.world();
        world.files.retain(|path, _| !path.starts_with(&folder));
        Ok(released)
    }

    fn lay_out(&self, guest: ConsumerUuid, plan: &DiskPlan) -> Result<GuestDisks, ResourceError> {
        Ok(instances().disks(guest, plan).unwrap())
    }

    async fn fetch(&self, _: &DiskPlan, _: Option<&ProjectId>) -> Result<(), ResourceError> {
        let effect = async {
            if self
                .0
                .world()
                .failures
                .contains(&SimulatedFailure::EndlessImage)
            {
                std::future::pending::<()>().await;
            }
            match self.0.world().failures.contains(&SimulatedFailure::NoImage) {
                true => Err(ResourceError::Refused {
                    what: "an image".to_owned(),
                    reason: "its checksum is another".to_owned(),
                }),
                false => Ok(()),
            }
        };
        self.0.inject("images write fetch".to_owned(), effect).await
    }

    async fn remove_unused(&self, _: &[&GuestRequest]) {
        self.0.world().tidied += 1;
    }

    fn download_progress(&self, _: &DiskPlan) -> Option<ImageDownload> {
        let world = self.0.world();
        let comes = world.failures.contains(&SimulatedFailure::EndlessImage);
        comes.then_some(ImageDownload {
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
                world
                    .broken
                    .push("files were removed under a running guest".to_owned());
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

/// Creates missing disks. A recreated disk with a tenant's data violates an invariant.
fn make_disks(world: &mut SimulatedWorld, guest: &Provision<'_>) {
    let root = guest.spec.disks.root().into_iter().map(|disk| (disk, true));
    let others = guest.spec.disks.ephemeral().iter();
    for (disk, is_root) in root.chain(others.map(|disk| (disk, false))) {
        let path = disk.path.as_str().to_owned();
        if world.files.contains_key(&path) {
            continue;
        }
        let is_new = match guest.recreate {
            RecreateDisks::None => false,
            RecreateDisks::Root => is_root,
            RecreateDisks::All => true,
        };
        if guest.has_run_before && !is_new {
            world
                .broken
                .push(format!("{path} was recreated over a tenant's data"));
        }
        let base = disk.base.as_ref();
        let content = base.map_or_else(|| "empty".to_owned(), |base| base.path.to_string());
        world.files.insert(path, content);
    }
}
