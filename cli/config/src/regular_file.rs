//! Reads a file that an operator names, up to a size. A pipe or a device has no end, so neither is opened.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// The content and metadata of a regular file of at most `limit` bytes.
///
/// Errors: It cannot be read, is a folder, a pipe or a device, or is larger.
pub fn read(path: &Path, limit: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(refusal(&metadata));
    }
    // Refuse early without reading. The size alone is not enough: files in /proc report 0, and a file may grow.
    if metadata.len() > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((bounded(File::open(path)?, limit)?, metadata))
}

/// Reads to the end, at most `limit` bytes.
pub fn bounded(from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    match u64::try_from(content.len()).is_ok_and(|length| length > limit) {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(content),
    }
}

/// The error for a file that is not regular.
pub fn refusal(metadata: &Metadata) -> io::Error {
    if metadata.is_dir() {
        return io::ErrorKind::IsADirectory.into();
    }
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}
