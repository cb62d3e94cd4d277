//! The image cache: one raw file per image in `_base` below `instances_path`, written once and never changed.
//!
//! ```text
//! get: (missing) --> fetch --> inspect --> convert to raw --> rename to the final name --> CachedImage (locks out removal)
//! ```
//!
//! Files are downloaded and converted under temporary names, so a final name always has complete content; leftovers are removed at
//! the start of the agent. Concurrent requests for one image from one source share a download. An image without disks is removed
//! after `remove_unused_original_minimum_age_seconds`.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use berth_files::{OwnerLock, OwnerLockError};
use berth_virt::guest_spec::{DiskFormat, ProjectId};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::task::spawn_blocking;

use crate::atomic_file::{self, PartialFile};
use crate::error::DiskError;
use crate::fetch::ImageSources;
use crate::image_source::{ImageKey, ImageSource};
use crate::inspect::{ImageFile, ImageFlaw, InspectedImage, LARGEST, backing_name, inspect};
use crate::progress::{DownloadTracker, ImageDownload, ImageProgress, ImageStage};
use crate::qemu_img::QemuImg;

/// The image cache of this host.
pub(super) struct ImageCache {
    folder: PathBuf,
    sources: ImageSources,
    qemu_img: QemuImg,
    /// Maximum size of a download in bytes.
    max_bytes: u64,
    downloads: Arc<DownloadTracker>,
    locks: Mutex<HashMap<String, Arc<RwLock<()>>>>,
    /// Locks the folder against other agents.
    _lock: OwnerLock,
}

/// A cached image. It is not removed while this value exists.
pub(super) struct CachedImage {
    /// The virtual size in bytes.
    pub(super) size: u64,
    /// A shared lock. Removal needs the exclusive lock, and skips the image if that is not free.
    _used: OwnedRwLockReadGuard<()>,
}

impl ImageCache {
    /// Opens the cache and removes incomplete files.
    pub(super) fn open(
        folder: &Path,
        sources: ImageSources,
        qemu_img: QemuImg,
        most: u64,
        progress: Arc<dyn ImageProgress>,
    ) -> Result<Self, DiskError> {
        // Not listable, but QEMU's user must be able to pass.
        atomic_file::ensure_folder(folder, 0o711)?;
        let path = folder.join(".berth-lock");
        let lock = match OwnerLock::take(&path) {
            Ok(lock) => lock,
            Err(OwnerLockError::Held { .. }) => return Err(DiskError::InUse { path }),
            Err(OwnerLockError::Io(error)) => return Err(DiskError::io("locking", &path, error)),
        };
        atomic_file::remove_partial_files(folder, is_ours)?;
        Ok(Self {
            folder: folder.to_owned(),
            sources,
            qemu_img,
            max_bytes: most,
            downloads: Arc::new(DownloadTracker::new(progress)),
            locks: Mutex::default(),
            _lock: lock,
        })
    }

    fn path(&self, key: &ImageKey) -> PathBuf {
        self.folder.join(key.as_str())
    }

    fn lock_for(&self, key: &str) -> Arc<RwLock<()>> {
        let mut turns = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(key.to_owned()).or_default())
    }

    /// The progress of the image's download, if one is running.
    pub(super) fn download_progress(&self, key: &ImageKey) -> Option<ImageDownload> {
        self.downloads.of(key)
    }

    /// Whether the image is cached or may be fetched.
    pub(super) fn check(&self, image: &ImageSource, most: u64) -> Result<(), DiskError> {
        match atomic_file::is_file(&self.path(&image.key()))? {
            true => self.size(image, most).map(drop),
            false => self.sources.check(image),
        }
    }

    /// The size of a cached image. Fails above `most` bytes.
    fn size(&self, image: &ImageSource, most: u64) -> Result<u64, DiskError> {
        let path = self.path(&image.key());
        let size = fs::symlink_metadata(&path)
            .map_err(|error| DiskError::io("looking at", &path, error))?
            .len();
        match size <= most {
            true => Ok(size),
            false => Err(DiskError::flaw(
                image.location(),
                &ImageFlaw::TooLarge { size, most },
            )),
        }
    }

    /// Whether the project may use the image for a new disk, even if it is cached.
    pub(super) async fn check_access(
        &self,
        image: &ImageSource,
        project: &ProjectId,
    ) -> Result<(), DiskError> {
        self.sources.check_access(image, project).await
    }

    /// Returns the image; fetches it if it is not cached. Fails if the virtual size is above `most` bytes.
    pub(super) async fn get(
        &self,
        image: &ImageSource,
        most: u64,
    ) -> Result<CachedImage, DiskError> {
        let key = image.key();
        let path = self.path(&key);
        loop {
            if !atomic_file::is_file(&path)? {
                // One download per source: a slow source must not delay a request that names a faster one.
                let from = format!("{key} from {}", image.location());
                let _fetching = self.lock_for(&from).write_owned().await;
                if !atomic_file::is_file(&path)? {
                    self.fetch(image, most).await?;
                }
            }
            let used = self.lock_for(key.as_str()).read_owned().await;
            if !atomic_file::is_file(&path)? {
                // It was removed in the meantime.
                continue;
            }
            // The modification time is the last use. If QEMU's user owns the file, this fails, but the disk on top
            // protects the image.
            let marked = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            if let Err(error) = marked {
                tracing::debug!(image = %key, %error, "marking an image as used failed");
            }
            return Ok(CachedImage {
                size: self.size(image, most)?,
                _used: used,
            });
        }
    }

    /// Cancellable: incomplete files are removed.
    async fn fetch(&self, image: &ImageSource, most: u64) -> Result<(), DiskError> {
        let key = image.key();
        let _in_progress = self.downloads.track(key.clone());
        let progress: Arc<dyn ImageProgress> = Arc::clone(&self.downloads) as _;
        let path = self.path(&key);
        let fetched = PartialFile::of(&path);
        let file = fetched.create()?;
        self.sources
            .fetch(image, (file, fetched.path()), self.max_bytes, &progress)
            .await?;
        let found = inspect_file(&fetched, image.format(), most).await?;
        let found = found.map_err(|flaw| DiskError::flaw(image.location(), &flaw))?;
        let flat = match image.format() {
            DiskFormat::Raw => {
                let whole = berth_files::open_options().write(true).open(fetched.path());
                whole
                    .and_then(|file| file.set_len(found.virtual_size))
                    .map_err(|error| DiskError::io("writing", fetched.path(), error))?;
                fetched
            }
            DiskFormat::Qcow2 => {
                atomic_file::ensure_room(&self.folder, found.allocated)?;
                let total = Some(found.virtual_size);
                progress.on_progress(&key, ImageStage::Convert, 0, total);
                let flat = PartialFile::of(&path);
                // Create the file with our mode before qemu-img writes to it.
                flat.create()?;
                self.qemu_img
                    .to_raw(
                        &image.location(),
                        fetched.path(),
                        flat.path(),
                        found.virtual_size,
                    )
                    .await?;
                flat
            }
        };
        let made = ImageFile::new(
            atomic_file::open(flat.path())
                .map_err(|error| DiskError::io("opening", flat.path(), error))?,
        );
        let made = made.map_err(|error| DiskError::io("looking at", flat.path(), error))?;
        if crate::inspect::Bytes::len(&made) != found.virtual_size {
            return Err(DiskError::Fetch {
                image: image.location().to_string(),
                reason: "the converted image has another size than its header states".to_owned(),
            });
        }
        // Readable by QEMU's user, writable by no one.
        spawn_blocking(move || flat.finish(0o444))
            .await
            .map_err(|error| DiskError::io("writing", &path, std::io::Error::other(error)))??;
        progress.on_progress(&key, ImageStage::Done, found.virtual_size, None);
        Ok(())
    }

    /// Removes images that were not used for `age`, are not in `used`, and are not the base of a disk in any instance's
    /// folder.
    pub(super) fn remove_unused(
        &self,
        used: &BTreeSet<ImageKey>,
        age: Duration,
    ) -> Result<(), DiskError> {
        let mut used: BTreeSet<_> = used.iter().map(|key| key.as_str().to_owned()).collect();
        used.extend(self.backing_images()?);
        for name in atomic_file::names(&self.folder)? {
            if used.contains(&name) || !is_ours(&name) {
                continue;
            }
            let path = self.folder.join(&name);
            // A locked image is being created or used.
            let turn = self.lock_for(&name);
            let Ok(_alone) = turn.try_write() else {
                continue;
            };
            let found = fs::symlink_metadata(&path).and_then(|found| found.modified());
            let Ok(modified) = found else { continue };
            if modified.elapsed().is_ok_and(|unused| unused >= age) {
                atomic_file::remove(&path)?;
                tracing::info!(image = name, "removed an unused image");
            }
        }
        Ok(())
    }

    /// The names of images that are the base of a disk.
    fn backing_images(&self) -> Result<BTreeSet<String>, DiskError> {
        let mut used = BTreeSet::new();
        let guests = self.folder.parent().unwrap_or(&self.folder);
        for guest in atomic_file::names(guests)? {
            let guest = guests.join(guest);
            if guest == self.folder
                || atomic_file::file_kind(&guest)? != Some(atomic_file::HostFileKind::Folder)
            {
                continue;
            }
            // The instance may be removed at the same time.
            for disk in atomic_file::names(&guest).unwrap_or_default() {
                let disk = atomic_file::open(&guest.join(disk)).and_then(ImageFile::new);
                let name = disk.ok().and_then(|disk| backing_name(&disk));
                let base = name.as_deref().map(Path::new);
                let base = base.filter(|base| base.parent() == Some(&self.folder));
                let base = base.and_then(|base| base.file_name()?.to_str());
                used.extend(base.map(str::to_owned));
            }
        }
        Ok(used)
    }
}

async fn inspect_file(
    fetched: &PartialFile,
    format: DiskFormat,
    most: u64,
) -> Result<Result<InspectedImage, ImageFlaw>, DiskError> {
    let path = fetched.path().to_owned();
    let inspected = spawn_blocking({
        let path = path.clone();
        move || {
            let file = ImageFile::new(atomic_file::open(&path)?)?;
            inspect(&file, format, most.min(LARGEST))
        }
    });
    inspected
        .await
        .map_err(|error| DiskError::io("reading", &path, std::io::Error::other(error)))
}

/// Whether the name follows our scheme. Nova's files in the same folder have other names.
fn is_ours(name: &str) -> bool {
    let ours = ["md5-", "sha256-", "sha512-", "glance-"];
    let key = name.split('.').next().unwrap_or_default();
    ours.iter().any(|start| name.starts_with(start))
        && (key.ends_with("-raw") || key.ends_with("-qcow2"))
}
