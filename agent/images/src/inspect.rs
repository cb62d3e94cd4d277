//! Inspects an image before any other program opens it: [`inspect`]. Pure; the caller provides the bytes.
//!
//! A tenant's image is untrusted. A qcow2 file may name a host file as its backing or data file, a "raw" file may be a VMDK whose
//! descriptor names one, and a program that guesses formats would open it. So an image is accepted only if it has the requested
//! format, refers to no other file, is complete and is within the size limit. Glance's and Nova's `format_inspector` serve the same
//! purpose.

mod image_file;
mod magic;
mod qcow2;

use berth_virt::guest_spec::DiskFormat;

pub(super) use image_file::Bytes;
pub(super) use image_file::{ImageFile, ImageFlaw, InspectedImage, LARGEST};
pub(super) use qcow2::backing_name;

/// Checks that an image has this format and at most `most` bytes as a disk.
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
    let found = magic::detect(image)?;
    let inspected = match (format, found) {
        (DiskFormat::Qcow2, Some(magic::QCOW2)) => qcow2::read(image)?,
        (DiskFormat::Raw, None) => InspectedImage {
            virtual_size: image.len().next_multiple_of(512),
            allocated: image.len(),
        },
        (_, found) => {
            let found = found.unwrap_or("of no recognisable format (raw?)");
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
