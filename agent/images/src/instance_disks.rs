//! Makes the disks of instances below `instances_path`, and removes them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{BaseImage, GuestSpec, HostPath, ProjectId, QcowDisk};
use tokio::task::spawn_blocking;

use crate::atomic_file::{self, Part};
use crate::cache::ImageCache;
use crate::config_drive::{self, ConfigDrive};
use crate::config_drive_store::Kept;
use crate::error::DiskError;
use crate::fetch::ImageSources;
use crate::image_source::ImageKey;
use crate::layout::InstancesPath;
use crate::options::DiskOptions;
use crate::plan::DiskPlan;
use crate::progress::{ImageDownload, ImageProgress};
use crate::provision::{DiskProvision, RecreateDisks};
use crate::qemu_img::QemuImg;
use crate::{inspect, iso9660};

const GIB: u64 = 1 << 30;
/// What a guest's random number generator is given, in bytes: Nova's amount.
const SEED: usize = 512;

/// Guests' disks on this host.
pub struct Disks {
    options: DiskOptions,
    cache: ImageCache,
    kept: Kept,
    qemu_img: QemuImg,
}

impl Disks {
    /// The disks below `instances_path`, which is made where it is not there, and cleaned of what an earlier life left
    /// unfinished. As long as this is there no other has it.
    pub fn open(
        options: DiskOptions,
        sources: ImageSources,
        progress: Arc<dyn ImageProgress>,
    ) -> Result<Self, DiskError> {
        let path = options.instances_path.path().as_path();
        atomic_file::outermost_folder(path, 0o711)?;
        let qemu_img = QemuImg {
            program: options.qemu_img.as_path().to_owned(),
            deadline: options.qemu_img_deadline,
        };
        let cache = ImageCache::open(
            options.instances_path.base()?.as_path(),
            sources,
            qemu_img.clone(),
            options.largest_image,
            progress,
        )?;
        let kept = Kept::open(options.instances_path.kept()?.as_path())?;
        Ok(Self {
            options,
            cache,
            kept,
            qemu_img,
        })
    }

    /// Where guests' files lie.
    #[must_use]
    pub fn instances_path(&self) -> &InstancesPath {
        &self.options.instances_path
    }

    pub fn keep(&self, guest: ConsumerUuid, drive: &ConfigDrive) -> Result<(), DiskError> {
        self.kept.keep(guest, drive)
    }

    pub fn discard(&self, guest: ConsumerUuid) -> Result<(), DiskError> {
        self.kept.discard(guest)
    }

    /// Whether the guest's disks are there, or can be made. Changes nothing.
    pub fn check(&self, guest: &DiskProvision<'_>) -> Result<(), DiskError> {
        let plan = guest.plan;
        if plan.is_none() {
            return Ok(());
        }
        let spec = guest.spec;
        if spec.disks != self.instances_path().disks(spec.uuid, plan)? {
            let folder = self.instances_path().guest(spec.uuid)?;
            return Err(DiskError::Elsewhere {
                reason: format!(
                    "its disks are made in {folder} over images in {}; ask for them there",
                    self.instances_path().base()?
                ),
            });
        }
        // A rescued guest's own root disk is among the others.
        let own = plan.rescue().and(spec.disks.ephemeral().first());
        let root = spec.disks.root().into_iter().map(|disk| {
            let is_made = matches!(guest.recreate, RecreateDisks::Root | RecreateDisks::All)
                || !guest.has_run_before;
            (disk, is_made)
        });
        let others = spec.disks.ephemeral().iter().map(|disk| {
            let is_own = plan.has_root() && own == Some(disk);
            (
                disk,
                !is_own && (guest.recreate == RecreateDisks::All || !guest.has_run_before),
            )
        });
        for (disk, is_made) in root.chain(others) {
            let path = disk.path.as_path();
            if !atomic_file::is_there(path)? && !is_made {
                let path = path.to_owned();
                return Err(DiskError::Lost { path });
            }
        }
        if let Some(image) = plan.image() {
            self.cache.check(image, self.most(plan)?)?;
        }
        if let Some(image) = plan.rescue() {
            self.cache.check(image, inspect::LARGEST)?;
        }
        match (plan.config_drive(), spec.disks.config_drive()) {
            (Some(drive), Some(path)) if !atomic_file::is_there(path.as_path())? => {
                self.kept.content(spec.uuid, drive).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Makes the guest's disks that are not there.
    pub async fn prepare(&self, guest: &DiskProvision<'_>) -> Result<(), DiskError> {
        self.check(guest)?;
        let (spec, plan) = (guest.spec, guest.plan);
        let folder = self.instances_path().guest(spec.uuid)?;
        let folder = folder.as_path();
        let logs_here = spec.console_log.as_path().parent() == Some(folder);
        if plan.is_none() && !logs_here {
            return Ok(());
        }
        // QEMU's account passes through it; its files are that account's or nobody's.
        atomic_file::folder(folder, 0o711)?;
        atomic_file::sync_folder(folder)?;
        atomic_file::clean(folder, |_| true)?;
        // A disk over it is of no use without it, also one that is there.
        let cached = match plan.image() {
            Some(image) => Some(self.cache.image(image, self.most(plan)?).await?),
            None => None,
        };
        let beside = match plan.rescue() {
            Some(image) => {
                let cached = self.cache.image(image, inspect::LARGEST).await?;
                if let Some(root) = spec.disks.root() {
                    self.disk(root, cached.size).await?;
                }
                // It is there, or the check above has said so.
                usize::from(plan.has_root())
            }
            None => 0,
        };
        let is_own = plan.has_root() && plan.rescue().is_none();
        if let Some(root) = spec.disks.root().filter(|_| is_own) {
            let image = cached.as_ref().map_or(0, |cached| cached.size);
            let size = match plan.root_gib() {
                0 => image,
                gib => gib * GIB,
            };
            self.disk(root, size).await?;
        }
        let ephemeral = spec.disks.ephemeral().iter().skip(beside);
        for (disk, gib) in ephemeral.zip(plan.ephemeral_gib()) {
            self.disk(disk, gib * GIB).await?;
        }
        if let (Some(drive), Some(path)) = (plan.config_drive(), spec.disks.config_drive()) {
            self.config_drive(drive, spec, path.as_path()).await?;
        }
        Ok(())
    }

    async fn disk(&self, disk: &QcowDisk, size: u64) -> Result<(), DiskError> {
        let path = disk.path.as_path();
        if atomic_file::is_there(path)? {
            return Ok(());
        }
        atomic_file::room(path.parent().unwrap_or(path), 0)?;
        let part = Part::of(path);
        part.create()?;
        let base: Option<&BaseImage> = disk.base.as_ref();
        self.qemu_img.create(part.path(), base, size).await?;
        finished(part).await
    }

    async fn config_drive(
        &self,
        drive: &ConfigDrive,
        spec: &GuestSpec,
        path: &Path,
    ) -> Result<(), DiskError> {
        if atomic_file::is_there(path)? {
            return Ok(());
        }
        let content = self.kept.content(spec.uuid, drive)?;
        let mut seed = vec![0; SEED];
        let random = Path::new("/dev/urandom");
        fs::File::open(random)
            .and_then(|mut file| file.read_exact(&mut seed))
            .map_err(|error| DiskError::io("reading", random, error))?;
        let files = config_drive::files(content.parts(), spec, &seed);
        let image = iso9660::iso9660(self.options.config_drive_format.label(), &files)?;
        atomic_file::room(path.parent().unwrap_or(path), image.len() as u64)?;
        let path = path.to_owned();
        let written = spawn_blocking({
            let path = path.clone();
            move || atomic_file::write(&path, &image)
        });
        written
            .await
            .map_err(|error| DiskError::io("writing", &path, std::io::Error::other(error)))?
    }

    /// Removes the guest's folder. Where its disks were not made here, only what was: the folder itself and the console's log.
    pub async fn release(&self, guest: &DiskProvision<'_>) -> Result<(), DiskError> {
        let folder = self.instances_path().guest(guest.spec.uuid)?;
        let folder = folder.as_path().to_owned();
        let log = guest.spec.console_log.as_path().to_owned();
        let is_planned = !guest.plan.is_none();
        let removed = spawn_blocking({
            let folder = folder.clone();
            move || {
                if is_planned {
                    return atomic_file::remove_folder(&folder);
                }
                if log.parent() != Some(&folder)
                    || atomic_file::kind(&folder)? != Some(atomic_file::Kind::Folder)
                {
                    return Ok(());
                }
                atomic_file::remove(&log)?;
                // What else is in it is its maker's.
                let _ = fs::remove_dir(&folder);
                Ok(())
            }
        });
        removed
            .await
            .map_err(|error| DiskError::io("removing", &folder, std::io::Error::other(error)))?
    }

    /// How large a disk the plan's image may be, in bytes: as large as the root disk is to be; where that is to be as large as the
    /// image, what the file system could ever hold.
    fn most(&self, plan: &DiskPlan) -> Result<u64, DiskError> {
        match plan.root_gib() {
            0 => atomic_file::capacity(self.instances_path().path().as_path()),
            gib => Ok(gib * GIB),
        }
    }

    /// Brings the images of a plan onto this host, before any disk is made over them. Of the one that a new disk of `project` is
    /// made of its place is asked whether that may be, also where it is here already.
    pub async fn fetch(
        &self,
        plan: &DiskPlan,
        project: Option<&ProjectId>,
    ) -> Result<(), DiskError> {
        // A rescued guest's own root disk is there.
        if let (Some(image), Some(project)) = (plan.rescue().or(plan.image()), project) {
            self.cache.admit(image, project).await?;
        }
        if let Some(image) = plan.image() {
            self.cache.image(image, self.most(plan)?).await?;
        }
        if let Some(image) = plan.rescue() {
            self.cache.image(image, inspect::LARGEST).await?;
        }
        Ok(())
    }

    /// How far the image of a plan is that is coming onto this host, of several the first.
    pub fn coming(&self, plan: &DiskPlan) -> Option<ImageDownload> {
        plan.images()
            .find_map(|image| self.cache.coming(&image.key()))
    }

    /// Removes files of a guest's folder; they are gone from the disk when this returns.
    pub async fn remove(&self, guest: ConsumerUuid, files: &[HostPath]) -> Result<(), DiskError> {
        let folder = self.instances_path().guest(guest)?;
        for file in files {
            if file.as_path().parent() != Some(folder.as_path()) {
                return Err(DiskError::Elsewhere {
                    reason: format!("{file} is not in {folder}, and is not removed"),
                });
            }
        }
        let files: Vec<_> = files.iter().map(|file| file.as_path().to_owned()).collect();
        let removed = spawn_blocking(move || {
            for file in &files {
                atomic_file::remove(file)?;
            }
            match files.first() {
                Some(file) if atomic_file::kind(file.parent().unwrap_or(file))?.is_some() => {
                    atomic_file::sync_folder(file)
                }
                _ => Ok(()),
            }
        });
        let folder = folder.as_path();
        removed
            .await
            .map_err(|error| DiskError::io("removing", folder, std::io::Error::other(error)))?
    }

    /// Removes images that no instance of `images` used for long, and the content of config drives that were kept for instances
    /// that are not among `instances`.
    pub async fn tidy(
        self: Arc<Self>,
        instances: BTreeSet<ConsumerUuid>,
        images: BTreeSet<ImageKey>,
    ) {
        // It reads the folder of every instance. What it could not remove waits for the next time.
        let _ = spawn_blocking(move || self.tidied(&instances, &images)).await;
    }

    fn tidied(&self, known: &BTreeSet<ConsumerUuid>, used: &BTreeSet<ImageKey>) {
        if let Err(error) = self.kept.tidy(known) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "what was kept for guests that are gone could not be removed"
            );
        }
        if !self.options.remove_unused_base_images {
            return;
        }
        let age = self.options.remove_unused_original_minimum_age;
        if let Err(error) = self.cache.age(used, age) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "old images could not be removed"
            );
        }
    }
}

/// A disk's name and mode, on the disk when this returns.
async fn finished(part: Part) -> Result<(), DiskError> {
    let path = part.path().to_owned();
    let finished = spawn_blocking(move || part.finish(0o600)).await;
    finished.map_err(|error| DiskError::io("writing", &path, std::io::Error::other(error)))?
}
