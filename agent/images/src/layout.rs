//! [`InstancesPath`]: the paths of instances' files, with Nova's names below `instances_path`.

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{
    BaseImage, DiskFormat, GuestDisks, GuestSpecError, HostPath, QcowDisk,
};

use crate::image_source::ImageKey;
use crate::plan::DiskPlan;

/// The folder of all instances (`instances_path`; `/var/lib/nova/instances` in Nova).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstancesPath(HostPath);

impl InstancesPath {
    #[must_use]
    pub fn new(path: HostPath) -> Self {
        Self(path)
    }

    #[must_use]
    pub fn path(&self) -> &HostPath {
        &self.0
    }

    fn below(&self, rest: &str) -> Result<HostPath, GuestSpecError> {
        HostPath::new(&format!("{}/{rest}", self.0))
    }

    /// The folder of an instance.
    pub fn guest(&self, uuid: ConsumerUuid) -> Result<HostPath, GuestSpecError> {
        self.below(&uuid.to_string())
    }

    /// The log of the guest's serial console.
    pub fn console_log(&self, uuid: ConsumerUuid) -> Result<HostPath, GuestSpecError> {
        self.below(&format!("{uuid}/console.log"))
    }

    pub(super) fn base(&self) -> Result<HostPath, GuestSpecError> {
        self.below("_base")
    }

    /// The store of config drive contents.
    pub(super) fn config_drives(&self) -> Result<HostPath, GuestSpecError> {
        self.below("_config")
    }

    /// A cached image, which is always raw.
    pub fn image(&self, key: &ImageKey) -> Result<BaseImage, GuestSpecError> {
        Ok(BaseImage {
            path: self.below(&format!("_base/{key}"))?,
            format: DiskFormat::Raw,
        })
    }

    /// The paths of an instance's disks, for its spec.
    pub fn disks(&self, uuid: ConsumerUuid, plan: &DiskPlan) -> Result<GuestDisks, GuestSpecError> {
        let file = |name: &str| self.below(&format!("{uuid}/{name}"));
        let own = match plan.has_root() {
            true => Some(QcowDisk {
                path: file("disk")?,
                base: match plan.image() {
                    Some(image) => Some(self.image(&image.key())?),
                    None => None,
                },
            }),
            false => None,
        };
        let (root, extra_root) = match plan.rescue() {
            Some(image) => {
                let path = file("disk.rescue")?;
                let base = Some(self.image(&image.key())?);
                (Some(QcowDisk { path, base }), own)
            }
            None => (own, None),
        };
        let ephemeral = (0..plan.ephemeral_gib().len()).map(|number| {
            let path = file(&format!("disk.eph{number}"))?;
            Ok(QcowDisk { path, base: None })
        });
        let swap = (plan.swap_mib() > 0).then(|| {
            let path = file("disk.swap")?;
            Ok(QcowDisk { path, base: None })
        });
        let config_drive = match plan.config_drive() {
            Some(_) => Some(file("disk.config")?),
            None => None,
        };
        let ephemeral = extra_root.map(Ok).into_iter().chain(ephemeral).chain(swap);
        let ephemeral: Result<_, GuestSpecError> = ephemeral.collect();
        GuestDisks::new(root, ephemeral?, config_drive)
    }
}
