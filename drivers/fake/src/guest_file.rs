//! Where a fake machine's book of guests is kept: in a file, replaced as a whole, or in memory.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_virt::GuestError;

use crate::guests::GuestBook;
use crate::watch::Stamp;

/// The largest book taken, in bytes.
const LIMIT: u64 = 64 << 20;

/// The place of a book.
#[derive(Debug)]
pub(crate) enum GuestFile {
    /// In memory, with how often it was changed.
    Memory(Mutex<(Arc<GuestBook>, u64)>),
    /// In a file. The lock orders this process's changes.
    File {
        /// The file.
        path: PathBuf,
        /// Held from the reading to the writing.
        changing: Mutex<()>,
        /// What the file held last, so that it is not read again for each look.
        known: Mutex<Option<(Stamp, Arc<GuestBook>)>>,
    },
}

impl GuestFile {
    /// A book in memory, empty.
    pub(crate) fn in_memory() -> Self {
        Self::Memory(Mutex::default())
    }

    /// A book in a file, which need not be there yet.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self::File {
            path,
            changing: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// The book as it is.
    pub(crate) fn book(&self) -> Result<Arc<GuestBook>, GuestError> {
        match self {
            Self::Memory(book) => Ok(Arc::clone(&lock(book).0)),
            Self::File { path, known, .. } => {
                // Before the reading: what is written in between is another state at the next look.
                let stamp = Stamp::of_file(path);
                if let Some((of, book)) = &*lock(known)
                    && *of == stamp
                {
                    return Ok(Arc::clone(book));
                }
                let book = Arc::new(read(path)?);
                *lock(known) = Some((stamp, Arc::clone(&book)));
                Ok(book)
            }
        }
    }

    /// Changes the book, which is kept when this returns; one that `change` leaves as it was is not written.
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
            } => {
                let _held = lock(changing);
                let before = self.book()?;
                let mut book = GuestBook::clone(&before);
                let outcome = change(&mut book)?;
                if book != *before {
                    let stamp = write(path, &book).map_err(|source| state(path, source))?;
                    *lock(known) = Some((stamp, Arc::new(book)));
                }
                Ok(outcome)
            }
        }
    }

    /// Tells one state of the book from another.
    pub(crate) fn stamp(&self) -> Stamp {
        match self {
            Self::Memory(book) => Stamp::Text(lock(book).1),
            Self::File { path, .. } => Stamp::of_file(path),
        }
    }
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

fn read(path: &Path) -> Result<GuestBook, GuestError> {
    let malformed = |reason: String| GuestError::Malformed {
        origin: path.display().to_string(),
        reason,
    };
    let size = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Err(malformed("it is not a regular file".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(GuestBook::default()),
        Err(error) => return Err(state(path, error)),
    };
    if size > LIMIT {
        return Err(malformed(format!(
            "it has {size} bytes; up to {LIMIT} are taken"
        )));
    }
    let text = fs::read(path).map_err(|error| state(path, error))?;
    serde_json::from_slice(&text).map_err(|error| malformed(error.to_string()))
}

/// Whole, or not at all, also when the power goes. What the file can be known by then.
fn write(path: &Path, book: &GuestBook) -> io::Result<Stamp> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = File::create(&new)?;
    file.write_all(&serde_json::to_vec(book)?)?;
    file.sync_all()?;
    let stamp = Stamp::of(&file.metadata()?);
    fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(stamp)
}
