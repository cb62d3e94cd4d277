//! Fetches the bytes of an image from a file, a URL or Glance into a new file ([`ImageSources::fetch`]). Checks size
//! limits and checksums on the way, and never holds the whole image in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use berth_client::{Download, Downloads, ImageClient, ImageRecord};
use berth_model::check_image_property;
use berth_virt::guest_spec::{DiskFormat, HostPath, ProjectId};
use md5::Md5;
use sha2::{Digest, Sha256, Sha512};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::atomic_file;
use crate::error::DiskError;
use crate::image_source::{Checksum, HashAlgorithm, ImageKey, ImageLocation, ImageSource};
use crate::progress::{ImageProgress, ImageStage};

/// Bytes between two checks of the free space.
const CHECK_INTERVAL: u64 = 64 << 20;
const PIECE: usize = 256 << 10;

/// The configured sources of images.
#[derive(Clone, Default)]
pub struct ImageSources {
    /// The folders for image files on this host (`image_directories`).
    pub directories: Vec<HostPath>,
    /// The client for image URLs; `None` if they are refused.
    pub downloads: Option<Downloads>,
    /// The client of the image service; `None` if its images are refused.
    pub glance: Option<ImageClient>,
}

/// One hasher per expected checksum.
struct Hashers(Vec<ImageHasher>);

enum ImageHasher {
    Md5(Md5),
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hashers {
    fn of(expected: &[Checksum]) -> Self {
        let sums = expected.iter().map(|sum| match sum.algorithm() {
            HashAlgorithm::Md5 => ImageHasher::Md5(Md5::new()),
            HashAlgorithm::Sha256 => ImageHasher::Sha256(Sha256::new()),
            HashAlgorithm::Sha512 => ImageHasher::Sha512(Sha512::new()),
        });
        Self(sums.collect())
    }

    fn add(&mut self, piece: &[u8]) {
        for sum in &mut self.0 {
            match sum {
                ImageHasher::Md5(sum) => sum.update(piece),
                ImageHasher::Sha256(sum) => sum.update(piece),
                ImageHasher::Sha512(sum) => sum.update(piece),
            }
        }
    }

    fn finish(self) -> impl Iterator<Item = String> {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect();
        self.0.into_iter().map(move |sum| match sum {
            ImageHasher::Md5(sum) => hex(&sum.finalize()),
            ImageHasher::Sha256(sum) => hex(&sum.finalize()),
            ImageHasher::Sha512(sum) => hex(&sum.finalize()),
        })
    }
}

/// Writes an image into a file, with progress and limits.
struct ImageWriter<'a> {
    image: &'a ImageSource,
    key: ImageKey,
    file: File,
    path: &'a Path,
    expected: Vec<Checksum>,
    sums: Hashers,
    most: u64,
    done: u64,
    of: Option<u64>,
    next_check: u64,
    progress: &'a dyn ImageProgress,
}

impl ImageWriter<'_> {
    fn error(&self, reason: String) -> DiskError {
        DiskError::Image {
            image: self.image.location().to_string(),
            reason,
        }
    }

    /// Checks the size that the source announces before the first byte.
    fn set_expected_size(&mut self, of: Option<u64>) -> Result<(), DiskError> {
        if let (Some(known), Some(of)) = (self.of, of)
            && known != of
        {
            return Err(self.error(format!(
                "the source announces {of} bytes, but the image service reports {known}"
            )));
        }
        self.of = of.or(self.of);
        let bytes = self.of.unwrap_or(0);
        self.check_limit(bytes)?;
        atomic_file::ensure_room(self.folder(), bytes)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(self.path)
    }

    fn check_limit(&self, bytes: u64) -> Result<(), DiskError> {
        match bytes <= self.most {
            true => Ok(()),
            false => Err(self.error(format!(
                "it has more than {} bytes, the maximum (largest_image_gb)",
                self.most
            ))),
        }
    }

    fn add(&mut self, piece: &[u8]) -> Result<(), DiskError> {
        self.check_limit(self.done + piece.len() as u64)?;
        self.sums.add(piece);
        let failed = |error| DiskError::io("writing", self.path, error);
        // A raw image is mostly zeros: leave holes in the file.
        match piece.iter().all(|byte| *byte == 0) {
            true => self
                .file
                .seek(SeekFrom::Current(piece.len() as i64))
                .map(drop),
            false => self.file.write_all(piece),
        }
        .map_err(failed)?;
        self.done += piece.len() as u64;
        if self.done >= self.next_check {
            self.next_check = self.done + CHECK_INTERVAL;
            atomic_file::ensure_room(self.folder(), 0)?;
        }
        self.progress
            .on_progress(&self.key, ImageStage::Fetch, self.done, self.of);
        Ok(())
    }

    /// Verifies the length and the checksums, and syncs the file.
    fn finish(self) -> Result<(), DiskError> {
        if let Some(of) = self.of.filter(|of| *of != self.done) {
            return Err(DiskError::Fetch {
                image: self.image.location().to_string(),
                reason: format!("received {} of {of} bytes", self.done),
            });
        }
        for (expected, found) in self.expected.iter().zip(self.sums.finish()) {
            if expected.hex() != found {
                return Err(DiskError::Image {
                    image: self.image.location().to_string(),
                    reason: format!(
                        "its {} is {found}, expected {}; it is another image, or was corrupted on the way",
                        expected.algorithm().as_str(),
                        expected.hex()
                    ),
                });
            }
        }
        self.file
            .set_len(self.done)
            .and_then(|()| self.file.sync_all())
            .map_err(|error| DiskError::io("writing", self.path, error))
    }
}

impl ImageSources {
    /// Whether the source of the image is configured. Fetches nothing.
    pub(super) fn check(&self, image: &ImageSource) -> Result<(), DiskError> {
        let refuse = |reason: &str| {
            Err(DiskError::Image {
                image: image.location().to_string(),
                reason: reason.to_owned(),
            })
        };
        match image.location() {
            ImageLocation::Path(path) => self.open(path).map(drop),
            ImageLocation::Url(_) if self.downloads.is_none() => {
                refuse("this agent does not fetch images from URLs")
            }
            ImageLocation::Glance(_) if self.glance.is_none() => {
                refuse("no image service is configured; set the options of [glance]")
            }
            ImageLocation::Url(_) | ImageLocation::Glance(_) => Ok(()),
        }
    }

    /// Whether the project may use the image for a new disk, even if the image is cached. Only Glance is asked, with
    /// the agent's credentials: the image must be public, owned by the project or shared with it. A project ID that is
    /// not Keystone's is not checked.
    pub(super) async fn check_access(
        &self,
        image: &ImageSource,
        project: &ProjectId,
    ) -> Result<(), DiskError> {
        let ImageLocation::Glance(id) = image.location() else {
            return Ok(());
        };
        self.check(image)?;
        let Some(glance) = &self.glance else {
            return Ok(());
        };
        let failed = |error| DiskError::service(image.location(), &error);
        let record = glance.image(*id).await.map_err(failed)?;
        verify_record(image, record.as_ref())?;
        let (Some(record), Ok(project)) = (record, project.as_str().parse::<Uuid>()) else {
            return Ok(());
        };
        let owner = record.owner.as_deref().map(str::parse::<Uuid>);
        let is_own = owner.is_none_or(|owner| owner == Ok(project));
        let is_allowed = match record.visibility.as_deref() {
            _ if is_own => true,
            None | Some("public" | "community") => true,
            Some("shared") => glance.is_shared_with(*id, project).await.map_err(failed)?,
            Some(_) => false,
        };
        match is_allowed {
            true => Ok(()),
            false => Err(DiskError::Image {
                image: image.location().to_string(),
                reason: format!(
                    "it belongs to another project and is not shared with {}",
                    project.simple()
                ),
            }),
        }
    }

    /// Opens an image file in one of the configured folders, after resolving links. Opens no other file: opening a
    /// device may have side effects, and an error would reveal whether the file exists.
    fn open(&self, path: &HostPath) -> Result<File, DiskError> {
        let refuse = |reason: String| DiskError::Image {
            image: format!("file {path}"),
            reason,
        };
        let elsewhere = || {
            let folders: Vec<_> = self.directories.iter().map(HostPath::as_str).collect();
            let folders = folders.join(", ");
            refuse(format!(
                "expected an image in image_directories ({folders})"
            ))
        };
        let folders = self.directories.iter();
        let folders: Vec<_> = folders
            .filter_map(|folder| folder.as_path().canonicalize().ok())
            .collect();
        let lies_in = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
        let real = match path.as_path().canonicalize() {
            Ok(real) if lies_in(&real) => real,
            Err(error) if self.is_below_a_folder(path) => return Err(refuse(error.to_string())),
            Ok(_) | Err(_) => return Err(elsewhere()),
        };
        let file = atomic_file::open(&real).map_err(|error| refuse(error.to_string()))?;
        // Check the path of the opened file: a folder on the path may have become a link since.
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let opened = std::fs::read_link(format!("/proc/self/fd/{fd}"))
            .map_err(|error| refuse(error.to_string()))?;
        match lies_in(&opened) {
            true => Ok(file),
            false => Err(elsewhere()),
        }
    }

    /// Whether the path is in a configured folder, without resolving links.
    fn is_below_a_folder(&self, path: &HostPath) -> bool {
        let below = |folder: &HostPath| path.as_path().starts_with(folder.as_path());
        self.directories.iter().any(below)
    }

    /// Fetches and verifies the image into a new file. On an error, the caller removes the file.
    pub(super) async fn fetch(
        &self,
        image: &ImageSource,
        to: (File, &Path),
        most: u64,
        progress: &Arc<dyn ImageProgress>,
    ) -> Result<(), DiskError> {
        self.check(image)?;
        let mut expected: Vec<_> = image.checksum().cloned().into_iter().collect();
        let mut of = None;
        if let (ImageLocation::Glance(id), Some(glance)) = (image.location(), &self.glance) {
            let record = glance.image(*id).await;
            let record = record.map_err(|error| DiskError::service(image.location(), &error))?;
            of = record.as_ref().and_then(|record| record.size);
            expected.extend(verify_record(image, record.as_ref())?);
        }
        let mut writing = ImageWriter {
            image,
            key: image.key(),
            file: to.0,
            path: to.1,
            sums: Hashers::of(&expected),
            expected,
            most,
            done: 0,
            of,
            next_check: CHECK_INTERVAL,
            progress: &**progress,
        };
        writing.set_expected_size(of)?;
        match image.location() {
            ImageLocation::Path(path) => {
                let from = self.open(path)?;
                let (image, to) = (image.clone(), to.1.to_owned());
                let progress = Arc::clone(progress);
                let ImageWriter { file, expected, .. } = writing;
                // A blocking task cannot be aborted, so it checks this token.
                let given_up = CancellationToken::new();
                let _waiting = given_up.clone().drop_guard();
                let copied = spawn_blocking(move || {
                    let from = CancellableFile { from, given_up };
                    copy(&image, from, (file, &to), expected, most, &*progress)
                });
                copied.await.map_err(|error| {
                    DiskError::io("copying", path.as_path(), std::io::Error::other(error))
                })?
            }
            ImageLocation::Url(url) => {
                let Some(downloads) = &self.downloads else {
                    return Ok(());
                };
                let body = downloads.get(url.as_str()).await;
                let body = body.map_err(|error| DiskError::download(image.location(), &error))?;
                write_body(body, writing).await
            }
            ImageLocation::Glance(id) => {
                let Some(glance) = &self.glance else {
                    return Ok(());
                };
                let body = glance.file(*id).await;
                let body = body.map_err(|error| DiskError::service(image.location(), &error))?;
                write_body(body, writing).await
            }
        }
    }
}

/// A file that can no longer be read once the caller is gone.
struct CancellableFile {
    from: File,
    given_up: CancellationToken,
}

impl CancellableFile {
    fn read(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        match self.given_up.is_cancelled() {
            true => Err(std::io::Error::other("the request was cancelled")),
            false => self.from.read(piece),
        }
    }
}

fn copy(
    image: &ImageSource,
    mut from: CancellableFile,
    to: (File, &Path),
    expected: Vec<Checksum>,
    most: u64,
    progress: &dyn ImageProgress,
) -> Result<(), DiskError> {
    let failed = |error| DiskError::Fetch {
        image: image.location().to_string(),
        reason: format!("{error}"),
    };
    let length = from
        .from
        .metadata()
        .map_err(|error: std::io::Error| failed(error))?
        .len();
    let mut writing = ImageWriter {
        image,
        key: image.key(),
        file: to.0,
        path: to.1,
        sums: Hashers::of(&expected),
        expected,
        most,
        done: 0,
        of: Some(length),
        next_check: CHECK_INTERVAL,
        progress,
    };
    writing.set_expected_size(Some(length))?;
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece).map_err(failed)? {
            0 => return writing.finish(),
            read => writing.add(&piece[..read])?,
        }
    }
}

async fn write_body(mut body: Download, mut writing: ImageWriter<'_>) -> Result<(), DiskError> {
    writing.set_expected_size(body.length())?;
    loop {
        let piece = body.piece().await;
        let location = writing.image.location();
        match piece.map_err(|error| DiskError::lost(location, &error))? {
            Some(piece) => writing.add(&piece)?,
            None => return writing.finish(),
        }
    }
}

/// Checks that the image service's record matches the request, and returns its strongest checksum.
fn verify_record(
    image: &ImageSource,
    record: Option<&ImageRecord>,
) -> Result<Vec<Checksum>, DiskError> {
    let refuse = |reason: String| {
        Err(DiskError::Image {
            image: image.location().to_string(),
            reason,
        })
    };
    let Some(record) = record else {
        return refuse(
            "the image service has no such image, or this agent may not see it".to_owned(),
        );
    };
    if record.status != "active" {
        return refuse(format!("its status is {}; expected active", record.status));
    }
    let format = match image.format() {
        DiskFormat::Raw => "raw",
        DiskFormat::Qcow2 => "qcow2",
    };
    let found = record.disk_format.as_deref().unwrap_or("none");
    if found != format {
        return refuse(format!(
            "its disk_format in the image service is {found}; the request says {format}"
        ));
    }
    let container = record.container_format.as_deref().unwrap_or("none");
    if container != "bare" {
        return refuse(format!(
            "its container_format is {container}; expected bare"
        ));
    }
    let refused = record
        .properties
        .iter()
        .find_map(|(name, value)| check_image_property(name, value).err());
    if let Some(refused) = refused {
        return refuse(refused.to_string());
    }
    let hash = record
        .os_hash_algo
        .as_deref()
        .zip(record.os_hash_value.as_deref());
    let mut sums: BTreeMap<HashAlgorithm, Checksum> = BTreeMap::new();
    let md5 = record.checksum.as_deref().map(|sum| ("md5", sum));
    for (algorithm, sum) in hash.into_iter().chain(md5) {
        if let Ok(sum) = format!("{algorithm}:{sum}").parse::<Checksum>() {
            sums.insert(sum.algorithm(), sum);
        }
    }
    match sums.into_values().next_back() {
        Some(strongest) => Ok(vec![strongest]),
        None if image.checksum().is_some() => Ok(Vec::new()),
        None => refuse(
            "the image service has no checksum of it (md5, sha256 or sha512); add one to the request".to_owned(),
        ),
    }
}
