//! [`Disks`]: creates the disks of instances below `instances_path`, and removes them.
//!
//! `check` verifies a plan, `fetch` brings its images into the cache, `prepare` creates missing disks and the config drive, and
//! `release` removes them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write as _};
use std::path::Path;
use std::sync::Arc;

use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{BaseImage, GuestSpec, HostPath, ProjectId, QcowDisk};
use tokio::task::spawn_blocking;

use crate::atomic_file::{self, PartialFile};
use crate::cache::ImageCache;
use crate::config_drive::{self, ConfigDrive, ConfigDriveChange};
use crate::config_drive_store::ConfigDriveStore;
use crate::error::DiskError;
use crate::fetch::ImageSources;
use crate::image_source::ImageKey;
use crate::layout::InstancesPath;
use crate::options::DiskOptions;
use crate::plan::DiskPlan;
use crate::progress::{ImageDownload, ImageProgress};
use crate::provision::{DiskProvision, RecreateDisks};
use crate::qemu_img::QemuImg;
use crate::{inspect, iso9660, swap_space};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// Bytes of random data for a guest's random number generator, as in Nova.
const SEED: usize = 512;

/// The disks of this host's instances.
pub struct Disks {
    options: DiskOptions,
    cache: ImageCache,
    config_drives: ConfigDriveStore,
    qemu_img: QemuImg,
}

impl Disks {
    /// Creates `instances_path` if it does not exist, removes incomplete files, and locks the folder against other
    /// agents.
    pub fn open(
        options: DiskOptions,
        sources: ImageSources,
        progress: Arc<dyn ImageProgress>,
    ) -> Result<Self, DiskError> {
        let path = options.instances_path.path().as_path();
        atomic_file::ensure_top_folder(path, 0o711)?;
        let qemu_img = QemuImg {
            program: options.qemu_img.as_path().to_owned(),
            deadline: options.qemu_img_deadline,
            #[cfg(test)]
            scratch: options.qemu_img_scratch.clone(),
        };
        let cache = ImageCache::open(
            options.instances_path.base()?.as_path(),
            sources,
            qemu_img.clone(),
            options.largest_image,
            progress,
        )?;
        let kept = ConfigDriveStore::open(options.instances_path.config_drives()?.as_path())?;
        Ok(Self {
            options,
            cache,
            config_drives: kept,
            qemu_img,
        })
    }

    #[must_use]
    pub fn instances_path(&self) -> &InstancesPath {
        &self.options.instances_path
    }

    pub fn store_config_drive(
        &self,
        guest: ConsumerUuid,
        drive: &ConfigDrive,
    ) -> Result<(), DiskError> {
        self.config_drives.store(guest, drive)
    }

    pub fn discard_config_drive(&self, guest: ConsumerUuid) -> Result<(), DiskError> {
        self.config_drives.discard(guest)
    }

    /// Stores the changed content of an instance's config drive. The drive itself is not written.
    pub fn change_config_drive(
        &self,
        guest: ConsumerUuid,
        drive: &ConfigDrive,
        change: ConfigDriveChange,
    ) -> Result<ConfigDrive, DiskError> {
        let content = self.config_drives.content(guest, drive)?;
        let changed = ConfigDrive::new(content.changed(change)?);
        self.config_drives.store(guest, &changed)?;
        Ok(changed)
    }

    /// Writes an instance's config drive again, and removes its earlier contents. A running guest keeps the file that it
    /// has open.
    pub async fn rewrite_config_drive(
        &self,
        spec: &GuestSpec,
        drive: &ConfigDrive,
    ) -> Result<(), DiskError> {
        if let Some(path) = spec.disks.config_drive() {
            self.write_config_drive(drive, spec, path.as_path()).await?;
        }
        self.config_drives
            .discard_but(spec.uuid, Some(drive.digest()))
    }

    /// Whether the disks exist or can be created. Changes nothing.
    pub fn check(&self, guest: &DiskProvision<'_>) -> Result<(), DiskError> {
        let plan = guest.plan;
        if plan.is_none() {
            return Ok(());
        }
        let spec = guest.spec;
        if spec.disks != self.instances_path().disks(spec.uuid, plan)? {
            let folder = self.instances_path().guest(spec.uuid)?;
            return Err(DiskError::OutsideFolder {
                reason: format!(
                    "its disks belong in {folder}, over images in {}; use these paths",
                    self.instances_path().base()?
                ),
            });
        }
        // A rescued instance's own root disk is the first of the others.
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
            if !atomic_file::is_file(path)? && !is_made {
                let path = path.to_owned();
                return Err(DiskError::Missing { path });
            }
        }
        if let Some(image) = plan.image() {
            self.cache.check(image, self.max_image_bytes(plan)?)?;
        }
        if let Some(image) = plan.rescue() {
            self.cache.check(image, inspect::LARGEST)?;
        }
        match (plan.config_drive(), spec.disks.config_drive()) {
            (Some(drive), Some(path)) if !atomic_file::is_file(path.as_path())? => {
                self.config_drives.content(spec.uuid, drive).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Creates the disks that do not exist.
    pub async fn prepare(&self, guest: &DiskProvision<'_>) -> Result<(), DiskError> {
        self.check(guest)?;
        let (spec, plan) = (guest.spec, guest.plan);
        let folder = self.instances_path().guest(spec.uuid)?;
        let folder = folder.as_path();
        let logs_here = spec.console_log.as_path().parent() == Some(folder);
        if plan.is_none() && !logs_here {
            return Ok(());
        }
        // QEMU's user must be able to pass. The files belong to it or to root.
        atomic_file::ensure_folder(folder, 0o711)?;
        atomic_file::sync_parent(folder)?;
        atomic_file::remove_partial_files(folder, |_| true)?;
        // Even an existing disk needs its base image.
        let cached = match plan.image() {
            Some(image) => Some(self.cache.get(image, self.max_image_bytes(plan)?).await?),
            None => None,
        };
        let skipped = match plan.rescue() {
            Some(image) => {
                let cached = self.cache.get(image, inspect::LARGEST).await?;
                if let Some(root) = spec.disks.root() {
                    self.disk(root, cached.size).await?;
                }
                // It exists; otherwise `check` has failed.
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
        let mut others = spec.disks.ephemeral().iter().skip(skipped);
        for (gib, disk) in plan.ephemeral_gib().iter().zip(&mut others) {
            self.disk(disk, gib * GIB).await?;
        }
        if let Some(disk) = others.next().filter(|_| plan.swap_mib() > 0) {
            self.swap(disk, plan.swap_mib() * MIB, spec.uuid).await?;
        }
        if let (Some(drive), Some(path)) = (plan.config_drive(), spec.disks.config_drive()) {
            let path = path.as_path();
            if !atomic_file::is_file(path)? {
                self.write_config_drive(drive, spec, path).await?;
            }
        }
        Ok(())
    }

    async fn disk(&self, disk: &QcowDisk, size: u64) -> Result<(), DiskError> {
        let path = disk.path.as_path();
        if atomic_file::is_file(path)? {
            return Ok(());
        }
        atomic_file::ensure_room(path.parent().unwrap_or(path), 0)?;
        let part = PartialFile::of(path);
        part.create()?;
        let base: Option<&BaseImage> = disk.base.as_ref();
        self.qemu_img.create(part.path(), base, size).await?;
        finished(part).await
    }

    /// Creates a disk with a swap space.
    async fn swap(&self, disk: &QcowDisk, size: u64, guest: ConsumerUuid) -> Result<(), DiskError> {
        let path = disk.path.as_path();
        if atomic_file::is_file(path)? {
            return Ok(());
        }
        atomic_file::ensure_room(path.parent().unwrap_or(path), 0)?;
        // Its pages after the first are a hole.
        let raw = PartialFile::of(&path.with_extension("swap.raw"));
        let mut file = raw.create()?;
        let header = swap_space::header(size, *guest.as_uuid());
        let written = file.write_all(&header).and_then(|()| file.set_len(size));
        written.map_err(|error| DiskError::io("writing", raw.path(), error))?;
        let part = PartialFile::of(path);
        part.create()?;
        self.qemu_img.to_qcow2(raw.path(), part.path()).await?;
        finished(part).await
    }

    async fn write_config_drive(
        &self,
        drive: &ConfigDrive,
        spec: &GuestSpec,
        path: &Path,
    ) -> Result<(), DiskError> {
        let content = self.config_drives.content(spec.uuid, drive)?;
        let mut seed = vec![0; SEED];
        let random = Path::new("/dev/urandom");
        fs::File::open(random)
            .and_then(|mut file| file.read_exact(&mut seed))
            .map_err(|error| DiskError::io("reading", random, error))?;
        let files = config_drive::files(content.parts(), spec, &seed);
        let image = iso9660::iso9660(self.options.config_drive_format.label(), &files)?;
        atomic_file::ensure_room(path.parent().unwrap_or(path), image.len() as u64)?;
        let path = path.to_owned();
        let written = spawn_blocking({
            let path = path.clone();
            move || atomic_file::write(&path, &image)
        });
        written
            .await
            .map_err(|error| DiskError::io("writing", &path, std::io::Error::other(error)))?
    }

    /// Removes the instance's folder. If its disks are not managed here, removes only the console log and the empty
    /// folder.
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
                    || atomic_file::file_kind(&folder)? != Some(atomic_file::HostFileKind::Folder)
                {
                    return Ok(());
                }
                atomic_file::remove(&log)?;
                // Other files in the folder are not managed here.
                let _ = fs::remove_dir(&folder);
                Ok(())
            }
        });
        removed
            .await
            .map_err(|error| DiskError::io("removing", &folder, std::io::Error::other(error)))?
    }

    /// Maximum virtual size of the plan's image: the size of the root disk; if that is the image's size, the size of
    /// the file system.
    fn max_image_bytes(&self, plan: &DiskPlan) -> Result<u64, DiskError> {
        match plan.root_gib() {
            0 => atomic_file::capacity(self.instances_path().path().as_path()),
            gib => Ok(gib * GIB),
        }
    }

    /// Fetches the images of a plan into the cache. With `project`, first checks whether its new disk may use the
    /// image, even if the image is cached.
    pub async fn fetch(
        &self,
        plan: &DiskPlan,
        project: Option<&ProjectId>,
    ) -> Result<(), DiskError> {
        // While rescued, only the rescue disk is new.
        if let (Some(image), Some(project)) = (plan.rescue().or(plan.image()), project) {
            self.cache.check_access(image, project).await?;
        }
        if let Some(image) = plan.image() {
            self.cache.get(image, self.max_image_bytes(plan)?).await?;
        }
        if let Some(image) = plan.rescue() {
            self.cache.get(image, inspect::LARGEST).await?;
        }
        Ok(())
    }

    /// The progress of the plan's first running download.
    pub fn download_progress(&self, plan: &DiskPlan) -> Option<ImageDownload> {
        plan.images()
            .find_map(|image| self.cache.download_progress(&image.key()))
    }

    /// Removes files of an instance's folder. They are removed on disk when this returns.
    pub async fn remove(&self, guest: ConsumerUuid, files: &[HostPath]) -> Result<(), DiskError> {
        let folder = self.instances_path().guest(guest)?;
        for file in files {
            if file.as_path().parent() != Some(folder.as_path()) {
                return Err(DiskError::OutsideFolder {
                    reason: format!("{file} is not in {folder}; not removed"),
                });
            }
        }
        let files: Vec<_> = files.iter().map(|file| file.as_path().to_owned()).collect();
        let removed = spawn_blocking(move || {
            for file in &files {
                atomic_file::remove(file)?;
            }
            match files.first() {
                Some(file) if atomic_file::file_kind(file.parent().unwrap_or(file))?.is_some() => {
                    atomic_file::sync_parent(file)
                }
                _ => Ok(()),
            }
        });
        let folder = folder.as_path();
        removed
            .await
            .map_err(|error| DiskError::io("removing", folder, std::io::Error::other(error)))?
    }

    /// Removes images that are not in `images` and were not used for long, and config drive contents of instances that
    /// are not in `instances`.
    pub async fn remove_unused(
        self: Arc<Self>,
        instances: BTreeSet<ConsumerUuid>,
        images: BTreeSet<ImageKey>,
    ) {
        // Reads the folder of every instance. Failures are retried by the next call.
        let _ = spawn_blocking(move || self.remove_unused_blocking(&instances, &images)).await;
    }

    fn remove_unused_blocking(&self, known: &BTreeSet<ConsumerUuid>, used: &BTreeSet<ImageKey>) {
        if let Err(error) = self.config_drives.remove_orphans(known) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "removing config drive contents of removed guests failed"
            );
        }
        if !self.options.remove_unused_base_images {
            return;
        }
        let age = self.options.remove_unused_original_minimum_age;
        if let Err(error) = self.cache.remove_unused(used, age) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "removing unused images failed"
            );
        }
    }
}

/// Finishes a disk file without blocking the executor.
async fn finished(part: PartialFile) -> Result<(), DiskError> {
    let path = part.path().to_owned();
    let finished = spawn_blocking(move || part.finish(0o600)).await;
    finished.map_err(|error| DiskError::io("writing", &path, std::io::Error::other(error)))?
}
