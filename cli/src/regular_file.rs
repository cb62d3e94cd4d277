//! Reads files that people name, up to a size. A pipe or a device would be read for ever, so neither is opened.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// The content of a regular file of at most `limit` bytes, and what the file is.
///
/// # Errors
/// It cannot be read, is a folder, a pipe or a device, or is larger.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(refusal(&metadata));
    }
    let mut content = Vec::new();
    // Some files say nothing of their size (/proc), and others grow.
    File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut content)?;
    if u64::try_from(content.len()).is_ok_and(|length| length > limit) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((content, metadata))
}

/// Why what is no regular file is not read.
pub(crate) fn refusal(metadata: &Metadata) -> io::Error {
    if metadata.is_dir() {
        return io::ErrorKind::IsADirectory.into();
    }
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}
