//! What an image's bytes say of themselves, read by our own eyes before any other program opens them.
//!
//! A tenant's image is hostile: a qcow2 may name a file of the host as its backing or data file, a "raw" file may be a VMDK
//! whose descriptor names one, and a program that guesses formats would open it. So an image is what it was said to be, stands
//! alone, is whole, and is as large as it may be, or it goes no further. (Glance's and Nova's `format_inspector` has the same
//! purpose.) Pure: callers give bytes.

mod image_file;
mod magic;
mod qcow2;

use berth_virt::guest_spec::DiskFormat;

pub(super) use image_file::Bytes;
pub(super) use image_file::{ImageFile, ImageFlaw, InspectedImage, LARGEST};
pub(super) use qcow2::backing_name;

/// Looks at an image that was said to be of this format and to be at most `most` bytes large as a disk.
pub(super) fn inspect(
    image: &impl Bytes,
    format: DiskFormat,
    most: u64,
) -> Result<InspectedImage, ImageFlaw> {
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
        (DiskFormat::Raw, None) => InspectedImage {
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
