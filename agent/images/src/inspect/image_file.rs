//! The input and result types of an inspection.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The largest virtual size in bytes: 1 EiB.
pub(crate) const LARGEST: u64 = 1 << 60;

/// Random access to bytes.
pub(crate) trait Bytes {
    fn len(&self) -> u64;

    /// Fills `into` with what is at `offset`.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// A file with its length at the time of opening.
pub(crate) struct ImageFile {
    file: File,
    len: u64,
}

impl ImageFile {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl Bytes for ImageFile {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
}

/// The properties of an accepted image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InspectedImage {
    /// The virtual size in bytes.
    pub(crate) virtual_size: u64,
    /// Maximum number of non-zero bytes.
    pub(crate) allocated: u64,
}

/// Why an image is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageFlaw {
    #[error("it is {found}, not {expected}; request it with its format, or convert it")]
    Other {
        found: &'static str,
        /// The format in the request.
        expected: &'static str,
    },
    #[error("it is empty")]
    Empty,
    #[error("it is truncated: {what} ends at byte {end}, the file at byte {len}")]
    CutOff {
        what: &'static str,
        end: u64,
        len: u64,
    },
    /// It refers to another file.
    #[error("it {what}; an image must be self-contained: use qemu-img convert")]
    Leans { what: &'static str },
    #[error("it is encrypted (method {method}), which is not supported")]
    Encrypted {
        /// The method in the header.
        method: u32,
    },
    #[error("it needs the qcow2 features {bits:#x}, which are not supported")]
    Features { bits: u64 },
    #[error("its header is invalid: {field} is {found}; {expected}")]
    Header {
        field: &'static str,
        found: u64,
        expected: &'static str,
    },
    #[error("its virtual size is {size} bytes; the maximum is {most}")]
    TooLarge { size: u64, most: u64 },
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}
