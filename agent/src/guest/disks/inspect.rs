//! What an image's bytes say of themselves, read by our own eyes before any other program opens them.
//!
//! A tenant's image is hostile: a qcow2 may name a file of the host as its backing or data file, a "raw" file may be a VMDK
//! whose descriptor names one, and a program that guesses formats would open it. So an image is what it was said to be, stands
//! alone, is whole, and is as large as it may be, or it goes no further. (Glance's and Nova's `format_inspector` has the same
//! purpose.) Pure: callers give bytes.

mod magic;
mod qcow2;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use berth_virt::guest_spec::DiskFormat;

pub(super) use qcow2::backing_name;

/// The largest virtual size in bytes: 1 EiB.
pub(super) const LARGEST: u64 = 1 << 60;

/// Bytes that can be read anywhere.
pub(super) trait Bytes {
    /// How many there are.
    fn len(&self) -> u64;

    /// Fills `into` with what is at `offset`.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

/// A file of a length that was asked for once.
pub(super) struct ImageFile {
    file: File,
    len: u64,
}

impl ImageFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
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
pub(super) struct Inspected {
    /// How large a disk it is, in bytes.
    pub(super) virtual_size: u64,
    /// How many bytes of it are there, at most; the rest is zeros.
    pub(super) allocated: u64,
}

/// An image that is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImageFlaw {
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
    Leans {
        what: &'static str,
    },
    #[error("it is encrypted (method {method}); images are not")]
    Encrypted {
        /// The header's word for it.
        method: u32,
    },
    /// It has features that are not known here.
    #[error("it needs the features {bits:#x} of qcow2, which are not known here")]
    Features {
        bits: u64,
    },
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

/// Looks at an image that was said to be of this format and to be at most `most` bytes large as a disk.
pub(super) fn inspect(
    image: &impl Bytes,
    format: DiskFormat,
    most: u64,
) -> Result<Inspected, ImageFlaw> {
    let expected = match format {
        DiskFormat::Raw => "raw",
        DiskFormat::Qcow2 => "qcow2",
    };
    if image.len() == 0 {
        return Err(ImageFlaw::Empty);
    }
    let found = magic::looks_like(image)?;
    let inspected = match (format, found) {
        (DiskFormat::Qcow2, Some(magic::QCOW2)) => qcow2::read(image)?,
        (DiskFormat::Raw, None) => Inspected {
            virtual_size: image.len().next_multiple_of(512),
            allocated: image.len(),
        },
        (_, found) => {
            let found = found.unwrap_or("of no format that says what it is (raw?)");
            return Err(ImageFlaw::Other { found, expected });
        }
    };
    let most = most.min(LARGEST);
    if inspected.virtual_size > most {
        let size = inspected.virtual_size;
        return Err(ImageFlaw::TooLarge { size, most });
    }
    Ok(inspected)
}

#[cfg(test)]
mod tests;
