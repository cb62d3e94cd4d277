//! An image file, and what its inspection comes to.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The largest virtual size in bytes: 1 EiB.
pub(crate) const LARGEST: u64 = 1 << 60;

/// Bytes that can be read anywhere.
pub(crate) trait Bytes {
    /// How many there are.
    fn len(&self) -> u64;

    /// Fills `into` with what is at `offset`.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// A file of a length that was asked for once.
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

/// An image that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InspectedImage {
    /// How large a disk it is, in bytes.
    pub(crate) virtual_size: u64,
    /// How many bytes of it are there, at most; the rest is zeros.
    pub(crate) allocated: u64,
}

/// An image that is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageFlaw {
    /// It is something else.
    #[error("it is {found}, not {expected}; say the format it has, or convert it first")]
    Other {
        /// What it looks like.
        found: &'static str,
        /// What it was said to be.
        expected: &'static str,
    },
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// It is cut off.
    #[error("it is cut off: {what} ends at byte {end}, the file at byte {len}")]
    CutOff {
        what: &'static str,
        end: u64,
        /// Where the file ends.
        len: u64,
    },
    /// It does not stand alone.
    #[error("it {what}; an image stands alone: qemu-img convert makes one that does")]
    Leans { what: &'static str },
    #[error("it is encrypted (method {method}); images are not")]
    Encrypted {
        /// The header's word for it.
        method: u32,
    },
    /// It has features that are not known here.
    #[error("it needs the features {bits:#x} of qcow2, which are not known here")]
    Features { bits: u64 },
    /// A field makes no sense.
    #[error("its header makes no sense: {field} is {found}; {expected}")]
    Header {
        field: &'static str,
        found: u64,
        /// What would be right.
        expected: &'static str,
    },
    /// It is too large.
    #[error("it is a disk of {size} bytes; at most {most} fit")]
    TooLarge {
        size: u64,
        /// How large it may be.
        most: u64,
    },
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}
