//! Images on this host: `_base` below `instances_path`, one raw file for each, written once and only read afterwards.
//!
//! A name is there only when its bytes are whole: they are fetched and made flat in files of another name, which a start of the
//! agent removes. Two guests of one image fetch it from one place once. What no guest lies over any more is removed after a while
//! (`remove_unused_original_minimum_age_seconds`).

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use berth_virt::guest_spec::{DiskFormat, ProjectId};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::task::spawn_blocking;

use crate::atomic_file::{self, Part};
use crate::error::DiskError;
use crate::fetch::ImageSources;
use crate::image_source::{ImageKey, ImageSource};
use crate::inspect::{ImageFile, ImageFlaw, InspectedImage, LARGEST, backing_name, inspect};
use crate::progress::{Coming, ImageDownload, ImageProgress, ImageStage};
use crate::qemu_img::QemuImg;

/// Images on this host.
pub(super) struct ImageCache {
    folder: PathBuf,
    sources: ImageSources,
    qemu_img: QemuImg,
    /// The most bytes of one image that are fetched.
    most: u64,
    coming: Arc<Coming>,
    turns: Mutex<HashMap<String, Arc<RwLock<()>>>>,
    /// Held as long as this is there.
    _lock: File,
}

/// An image that is there, and stays while this is held.
pub(super) struct Cached {
    /// How large a disk it is, in bytes.
    pub(super) size: u64,
    /// With all others who use it, and with whoever has it twice: only its removal wants it alone, and never waits for that.
    _used: OwnedRwLockReadGuard<()>,
}

impl ImageCache {
    /// The cache in this folder, cleaned of what an earlier life left unfinished.
    pub(super) fn open(
        folder: &Path,
        sources: ImageSources,
        qemu_img: QemuImg,
        most: u64,
        progress: Arc<dyn ImageProgress>,
    ) -> Result<Self, DiskError> {
        // Not to be listed, but QEMU's account passes through it.
        atomic_file::folder(folder, 0o711)?;
        let path = folder.join(".berth-lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| DiskError::io("opening", &path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(DiskError::Taken { path }),
            Err(fs::TryLockError::Error(error)) => {
                return Err(DiskError::io("locking", &path, error));
            }
        }
        atomic_file::clean(folder, is_ours)?;
        Ok(Self {
            folder: folder.to_owned(),
            sources,
            qemu_img,
            most,
            coming: Arc::new(Coming::new(progress)),
            turns: Mutex::default(),
            _lock: lock,
        })
    }

    fn path(&self, key: &ImageKey) -> PathBuf {
        self.folder.join(key.as_str())
    }

    fn turn(&self, key: &str) -> Arc<RwLock<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(key.to_owned()).or_default())
    }

    /// How far an image is that is coming.
    pub(super) fn coming(&self, key: &ImageKey) -> Option<ImageDownload> {
        self.coming.of(key)
    }

    /// Whether the image is there, or may be had.
    pub(super) fn check(&self, image: &ImageSource, most: u64) -> Result<(), DiskError> {
        match atomic_file::is_there(&self.path(&image.key()))? {
            true => self.size(image, most).map(drop),
            false => self.sources.check(image),
        }
    }

    /// The size of one that is there; that it is at most so large a disk.
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

    /// Whether a new disk of this project may be made of the image, whether it is here or not.
    pub(super) async fn admit(
        &self,
        image: &ImageSource,
        project: &ProjectId,
    ) -> Result<(), DiskError> {
        self.sources.admit(image, project).await
    }

    /// The image, fetched where it is not there; refused where it is a disk of more than `most` bytes.
    pub(super) async fn image(&self, image: &ImageSource, most: u64) -> Result<Cached, DiskError> {
        let key = image.key();
        let path = self.path(&key);
        loop {
            if !atomic_file::is_there(&path)? {
                // Fetched once from each place: a slow one holds up nobody who knows a better one.
                let from = format!("{key} from {}", image.location());
                let _fetching = self.turn(&from).write_owned().await;
                if !atomic_file::is_there(&path)? {
                    self.fetch(image, most).await?;
                }
            }
            let used = self.turn(key.as_str()).read_owned().await;
            if !atomic_file::is_there(&path)? {
                // Removed meanwhile.
                continue;
            }
            // Used now: not to be aged out. Where the hypervisor made it its own meanwhile, the disk over it says the same.
            let marked = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            if let Err(error) = marked {
                tracing::debug!(image = %key, %error, "an image could not be marked as used");
            }
            return Ok(Cached {
                size: self.size(image, most)?,
                _used: used,
            });
        }
    }

    /// May be cut off anywhere: what is not whole then is removed.
    async fn fetch(&self, image: &ImageSource, most: u64) -> Result<(), DiskError> {
        let key = image.key();
        let _under_way = self.coming.until_dropped(key.clone());
        let progress: Arc<dyn ImageProgress> = Arc::clone(&self.coming) as _;
        let path = self.path(&key);
        let fetched = Part::of(&path);
        let file = fetched.create()?;
        self.sources
            .fetch(image, (file, fetched.path()), self.most, &progress)
            .await?;
        let found = look(&fetched, image.format(), most).await?;
        let found = found.map_err(|flaw| DiskError::flaw(image.location(), &flaw))?;
        let flat = match image.format() {
            DiskFormat::Raw => {
                let whole = OpenOptions::new().write(true).open(fetched.path());
                whole
                    .and_then(|file| file.set_len(found.virtual_size))
                    .map_err(|error| DiskError::io("writing", fetched.path(), error))?;
                fetched
            }
            DiskFormat::Qcow2 => {
                atomic_file::room(&self.folder, found.allocated)?;
                let told = Some(found.virtual_size);
                progress.moved(&key, ImageStage::Convert, 0, told);
                let flat = Part::of(&path);
                // Made by us, with our mode, before anybody writes to it.
                flat.create()?;
                self.qemu_img
                    .to_raw(fetched.path(), flat.path(), found.virtual_size)
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
                reason: "what was made of it is not as large as it says".to_owned(),
            });
        }
        // Read by QEMU's account, written by nobody.
        spawn_blocking(move || flat.finish(0o444))
            .await
            .map_err(|error| DiskError::io("writing", &path, std::io::Error::other(error)))??;
        progress.moved(&key, ImageStage::Done, found.virtual_size, None);
        Ok(())
    }

    /// Removes images that were not used for so long, that are none of `used`, and that no disk in the folder of a guest lies
    /// over, whoever's that is.
    pub(super) fn age(&self, used: &BTreeSet<ImageKey>, age: Duration) -> Result<(), DiskError> {
        let mut used: BTreeSet<_> = used.iter().map(|key| key.as_str().to_owned()).collect();
        used.extend(self.under_disks()?);
        for name in atomic_file::names(&self.folder)? {
            if used.contains(&name) || !is_ours(&name) {
                continue;
            }
            let path = self.folder.join(&name);
            // One whose turn is taken is being made or laid under a disk.
            let turn = self.turn(&name);
            let Ok(_alone) = turn.try_write() else {
                continue;
            };
            let found = fs::symlink_metadata(&path).and_then(|found| found.modified());
            let Ok(modified) = found else { continue };
            if modified.elapsed().is_ok_and(|unused| unused >= age) {
                atomic_file::remove(&path)?;
                tracing::info!(image = name, "an image that no guest uses was removed");
            }
        }
        Ok(())
    }

    /// The names of images that disks lie over.
    fn under_disks(&self) -> Result<BTreeSet<String>, DiskError> {
        let mut used = BTreeSet::new();
        let guests = self.folder.parent().unwrap_or(&self.folder);
        for guest in atomic_file::names(guests)? {
            let guest = guests.join(guest);
            if guest == self.folder || atomic_file::kind(&guest)? != Some(atomic_file::Kind::Folder)
            {
                continue;
            }
            // A guest that is going away meanwhile has no disks any more.
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

async fn look(
    fetched: &Part,
    format: DiskFormat,
    most: u64,
) -> Result<Result<InspectedImage, ImageFlaw>, DiskError> {
    let path = fetched.path().to_owned();
    let looked = spawn_blocking({
        let path = path.clone();
        move || {
            let file = ImageFile::new(atomic_file::open(&path)?)?;
            inspect(&file, format, most.min(LARGEST))
        }
    });
    looked
        .await
        .map_err(|error| DiskError::io("reading", &path, std::io::Error::other(error)))
}

/// Whether a name in the folder is one that we give: Nova's are others, and Nova's own to remove.
fn is_ours(name: &str) -> bool {
    let ours = ["md5-", "sha256-", "sha512-", "glance-"];
    let key = name.split('.').next().unwrap_or_default();
    ours.iter().any(|start| name.starts_with(start))
        && (key.ends_with("-raw") || key.ends_with("-qcow2"))
}
