//! Devices and disks as the kernel has them.

use berth_agent_images::{DiskPlan, ImageDownload, ImageStage, InstancesPath, RecreateDisks};
use berth_agent_journal::{GuestRequest, ReleasedDevices};
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{GuestDisks, GuestSpec, HostPath, ProjectId};
use berth_virt::{GuestState, HostDevice};

use crate::files::GuestFiles;
use crate::resources::{GuestResources, Provision, ResourceError};
use crate::spawn_context::host_device;
use crate::stage::hypervisor::names;
use crate::stage::{Bug, Device, Mishap, Stage, World};

/// Devices as the kernel has them.
pub struct Devices(pub Stage);

pub(crate) fn devices_of(spec: &GuestSpec) -> impl Iterator<Item = String> {
    spec.devices
        .as_slice()
        .iter()
        .map(|attached| match host_device(&attached.device) {
            HostDevice::Function(address) => address.to_string(),
            HostDevice::Mdev(uuid) => uuid.to_string(),
        })
}

fn number(name: &str) -> u32 {
    u32::from_str_radix(&name[5..7], 16).unwrap()
}

impl GuestResources for Devices {
    fn files(&self) -> &GuestFiles {
        &self.0.files
    }

    async fn keep(&self, request: &GuestRequest) -> Result<(), ResourceError> {
        self.0.world().kept.insert(request.uuid());
        Ok(())
    }

    async fn discard(&self, guest: ConsumerUuid) -> Result<(), ResourceError> {
        self.0.world().kept.remove(&guest);
        Ok(())
    }

    async fn check(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut world = self.0.world();
            for name in devices_of(spec) {
                let sick = world.mishaps.contains(&Mishap::DeviceSick(number(&name)));
                let device = world.devices.entry(name.clone()).or_default();
                let other = device.prepared.is_some_and(|owner| owner != spec.uuid);
                if sick || other {
                    return Err(ResourceError::Refused {
                        what: name,
                        reason: "its link is down".to_owned(),
                    });
                }
            }
            Ok(())
        };
        self.0.cross("sysfs read check".to_owned(), effect).await
    }

    async fn prepare(&self, guest: Provision<'_>) -> Result<(), ResourceError> {
        let spec = guest.spec;
        let effect = async {
            let mut world = self.0.world();
            make_disks(&mut world, &guest);
            for name in devices_of(spec) {
                if world.mishaps.contains(&Mishap::PrepareFails(number(&name))) {
                    return Err(ResourceError::Failed {
                        what: name,
                        reason: "no such function".to_owned(),
                    });
                }
                let device = world.devices.entry(name.clone()).or_default();
                if device.prepared.is_some_and(|owner| owner != spec.uuid) {
                    world
                        .broken
                        .push(format!("S3: {name} was made ready for two guests"));
                } else {
                    device.prepared = Some(spec.uuid);
                }
            }
            Ok(())
        };
        self.0.cross("sysfs write prepare".to_owned(), effect).await
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
                    let broken = format!("{name} was reset in the hands of {holder}");
                    world.broken.push(broken);
                }
                if world.mishaps.contains(&Mishap::ResetFails(number(&name))) {
                    let reason = "its configuration reads all ones".to_owned();
                    released.spoilt.insert(name, reason);
                    continue;
                }
                if world.mishaps.contains(&Mishap::ResetHangs(number(&name))) {
                    return Err(ResourceError::Failed {
                        what: name,
                        reason: "the reset did not come back".to_owned(),
                    });
                }
                if world.bug == Some(Bug::SkipsResets) {
                    world.devices.entry(name).or_default().prepared = None;
                    continue;
                }
                world.devices.insert(name.clone(), Device::default());
                released.clean.insert(name);
            }
            Ok(released)
        };
        let released = self
            .0
            .cross("sysfs write release".to_owned(), effect)
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
            if self.0.world().mishaps.contains(&Mishap::EndlessImage) {
                std::future::pending::<()>().await;
            }
            match self.0.world().mishaps.contains(&Mishap::NoImage) {
                true => Err(ResourceError::Refused {
                    what: "an image".to_owned(),
                    reason: "its checksum is another".to_owned(),
                }),
                false => Ok(()),
            }
        };
        self.0.cross("images write fetch".to_owned(), effect).await
    }

    async fn tidy(&self, _: &[&GuestRequest]) {
        self.0.world().tidied += 1;
    }

    fn coming(&self, _: &DiskPlan) -> Option<ImageDownload> {
        let world = self.0.world();
        let comes = world.mishaps.contains(&Mishap::EndlessImage);
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
            if found.is_some_and(|found| found.state != GuestState::ShutOff) {
                world
                    .broken
                    .push("files were removed under a running guest".to_owned());
            }
            for file in files {
                world.files.remove(file.as_str());
            }
            Ok(())
        };
        self.0.cross("sysfs write remove".to_owned(), effect).await
    }
}

/// Where guests' files lie here.
pub fn instances() -> InstancesPath {
    InstancesPath::new(HostPath::new("/instances").unwrap())
}

/// Makes what is not there; what is lost is seen.
fn make_disks(world: &mut World, guest: &Provision<'_>) {
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
                .push(format!("{path} was made anew over a tenant's state"));
        }
        let base = disk.base.as_ref();
        let content = base.map_or_else(|| "empty".to_owned(), |base| base.path.to_string());
        world.files.insert(path, content);
    }
}
