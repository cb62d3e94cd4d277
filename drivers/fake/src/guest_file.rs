//! Storage of a fake machine's guest book: in a file, or in memory.
//!
//! A change is appended to the file as a line ([`crate::book_lines`]). Now and then the file is replaced atomically by
//! one with only a snapshot. So the cost of a change depends on its size, and a kill leaves the book as it was either
//! before or after the change.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use berth_files::open_options;
use berth_virt::GuestError;

use crate::book_lines;
use crate::guests::GuestBook;
use crate::watch::Stamp;

/// The maximum size of a book in bytes.
const LIMIT: u64 = 256 << 20;

/// The number of changes after which the file is rewritten; half the number of guests if that is more.
const CHANGES: usize = 100;

/// The place of a book.
#[derive(Debug)]
pub(crate) enum GuestFile {
    /// In memory, with the number of changes.
    Memory(Mutex<(Arc<GuestBook>, u64)>),
    /// In a file. The lock orders this process's changes.
    File {
        path: PathBuf,
        /// Locked from reading to writing.
        changing: Mutex<()>,
        /// The last known content, so that the file is not read again each time.
        known: Mutex<Option<CachedGuestFile>>,
        /// Whether the last change failed. It is then unknown how much of it is on disk, and the next
        /// change rewrites the file.
        is_doubtful: AtomicBool,
    },
}

/// A file as it was read or written last.
#[derive(Debug, Clone)]
pub(crate) struct CachedGuestFile {
    stamp: Stamp,
    book: Arc<GuestBook>,
    /// How many changes follow its first line.
    changes: usize,
    /// The open file, if changes may be appended. While it is open, no other file can have its inode, which is part of
    /// the stamp. A process without write permission relies on the other parts of the stamp.
    file: Option<Arc<File>>,
}

impl GuestFile {
    /// A book in memory, empty.
    pub(crate) fn in_memory() -> Self {
        Self::Memory(Mutex::default())
    }

    /// Uses a file, which need not exist yet.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self::File {
            path,
            changing: Mutex::default(),
            known: Mutex::default(),
            is_doubtful: AtomicBool::new(false),
        }
    }

    pub(crate) fn book(&self) -> Result<Arc<GuestBook>, GuestError> {
        match self {
            Self::Memory(book) => Ok(Arc::clone(&lock(book).0)),
            Self::File {
                path,
                changing,
                known,
                ..
            } => {
                if let Some(known) = &*lock(known)
                    // While this process writes, the file is between two books; the known one is the last acknowledged.
                    && (known.stamp == Stamp::of_file(path) || is_held(changing))
                {
                    return Ok(Arc::clone(&known.book));
                }
                let _held = lock(changing);
                Ok(as_it_is(path, known)?.book)
            }
        }
    }

    /// Changes the book. The change is durable when this returns. If `change` leaves the book
    /// equal, nothing is written.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut GuestBook) -> Result<T, GuestError>,
    ) -> Result<T, GuestError> {
        match self {
            Self::Memory(kept) => {
                let mut kept = lock(kept);
                let mut book = GuestBook::clone(&kept.0);
                let outcome = change(&mut book)?;
                if book != *kept.0 {
                    *kept = (Arc::new(book), kept.1 + 1);
                }
                Ok(outcome)
            }
            Self::File {
                path,
                changing,
                known,
                is_doubtful,
            } => {
                let _held = lock(changing);
                let mut before = as_it_is(path, known)?;
                before.file.take_if(|_| is_doubtful.load(Ordering::Relaxed));
                let mut book = GuestBook::clone(&before.book);
                let outcome = change(&mut book)?;
                if book != *before.book {
                    let written = write(path, &before, book);
                    // A failed write may nevertheless have reached the disk.
                    is_doubtful.store(written.is_err(), Ordering::Relaxed);
                    *lock(known) = written.as_ref().ok().cloned().flatten();
                    written.map_err(|source| state(path, source))?;
                }
                Ok(outcome)
            }
        }
    }

    /// A stamp that changes with the book.
    pub(crate) fn stamp(&self) -> Stamp {
        match self {
            Self::Memory(book) => Stamp::Text(lock(book).1),
            Self::File { path, .. } => Stamp::of_file(path),
        }
    }
}

fn is_held(mutex: &Mutex<()>) -> bool {
    matches!(mutex.try_lock(), Err(TryLockError::WouldBlock))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn state(path: &Path, source: io::Error) -> GuestError {
    GuestError::State {
        path: path.display().to_string(),
        source,
    }
}

/// The file's book; read again only if the stamp changed.
fn as_it_is(
    path: &Path,
    known: &Mutex<Option<CachedGuestFile>>,
) -> Result<CachedGuestFile, GuestError> {
    let stamp = Stamp::of_file(path);
    if let Some(known) = &*lock(known)
        && known.stamp == stamp
    {
        return Ok(known.clone());
    }
    let read = read(path)?;
    *lock(known) = Some(read.clone());
    Ok(read)
}

fn read(path: &Path) -> Result<CachedGuestFile, GuestError> {
    let malformed = |reason: String| GuestError::Malformed {
        origin: path.display().to_string(),
        reason,
    };
    let unread = |error| state(path, error);
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(malformed("it is not a regular file".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(CachedGuestFile {
                stamp: Stamp::File(None),
                book: Arc::default(),
                changes: 0,
                file: None,
            });
        }
        Err(error) => return Err(unread(error)),
    }
    let to_append = open_options().read(true).append(true).open(path);
    // A reader may lack write permission.
    let appends = to_append.is_ok();
    let mut file = to_append
        .or_else(|_| open_options().read(true).open(path))
        .map_err(unread)?;
    // Taken before reading: a concurrent write then changes the stamp.
    let metadata = file.metadata().map_err(unread)?;
    let size = metadata.len();
    if size > LIMIT {
        return Err(malformed(format!(
            "it has {size} bytes; at most {LIMIT} are allowed"
        )));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(unread)?;
    let lines = book_lines::read(&text).map_err(malformed)?;
    Ok(CachedGuestFile {
        stamp: Stamp::of(&metadata),
        book: Arc::new(lines.book),
        changes: lines.changes,
        file: (appends && lines.is_whole).then(|| Arc::new(file)),
    })
}

/// Writes the book. It is on disk when this returns, even after a power failure; after an error the file may hold
/// either book. Returns `None` if another process wrote the file, too, so that it must be read again.
fn write(
    path: &Path,
    before: &CachedGuestFile,
    book: GuestBook,
) -> io::Result<Option<CachedGuestFile>> {
    let (lines, count) = book_lines::between(&before.book, &book)?;
    let changes = before.changes + count;
    let most = CHANGES.max(book.guests.len() / 2);
    if let Some(file) = before.file.as_ref().filter(|_| changes <= most) {
        // The stamp of the file that was written: if the file was replaced since, the next read notices.
        let size = file.metadata()?.len();
        (&**file).write_all(&lines)?;
        file.sync_data()?;
        let metadata = file.metadata()?;
        let is_ours = metadata.len() == size + lines.len() as u64;
        return Ok(is_ours.then(|| CachedGuestFile {
            stamp: Stamp::of(&metadata),
            book: Arc::new(book),
            changes,
            file: Some(Arc::clone(file)),
        }));
    }
    let file = replace(path, &book_lines::whole(&book)?)?;
    Ok(Some(CachedGuestFile {
        stamp: Stamp::of(&file.metadata()?),
        book: Arc::new(book),
        changes: 0,
        file: Some(file),
    }))
}

/// Replaces the file atomically, even across a power failure.
fn replace(path: &Path, text: &[u8]) -> io::Result<Arc<File>> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // The remainder of a killed attempt.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let options = open_options().append(true).create_new(true).open(&new);
    let mut file = options?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(Arc::new(file))
}
