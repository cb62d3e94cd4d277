//! Where a guest's files lie: Nova's names below `instances_path`, so that whoever knows one knows the other.

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{
    BaseImage, DiskFormat, GuestDisks, GuestSpecError, HostPath, QcowDisk,
};

use crate::image_source::ImageKey;
use crate::plan::DiskPlan;

/// The folder of all guests (`instances_path`, `/var/lib/nova/instances` in Nova).
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

    /// A guest's own folder.
    pub fn guest(&self, uuid: ConsumerUuid) -> Result<HostPath, GuestSpecError> {
        self.below(&uuid.to_string())
    }

    /// What a guest's serial console is written to.
    pub fn console_log(&self, uuid: ConsumerUuid) -> Result<HostPath, GuestSpecError> {
        self.below(&format!("{uuid}/console.log"))
    }

    /// The folder of images.
    pub(super) fn base(&self) -> Result<HostPath, GuestSpecError> {
        self.below("_base")
    }

    /// The folder of what config drives are made of.
    pub(super) fn kept(&self) -> Result<HostPath, GuestSpecError> {
        self.below("_config")
    }

    /// An image in the cache: always raw, whatever it was.
    pub fn image(&self, key: &ImageKey) -> Result<BaseImage, GuestSpecError> {
        Ok(BaseImage {
            path: self.below(&format!("_base/{key}"))?,
            format: DiskFormat::Raw,
        })
    }

    /// The files of a guest with this plan: what its spec is to name.
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
        let (root, beside) = match plan.rescue() {
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
        let config_drive = match plan.config_drive() {
            Some(_) => Some(file("disk.config")?),
            None => None,
        };
        let ephemeral = beside.map(Ok).into_iter().chain(ephemeral);
        let ephemeral: Result<_, GuestSpecError> = ephemeral.collect();
        GuestDisks::new(root, ephemeral?, config_drive)
    }
}
