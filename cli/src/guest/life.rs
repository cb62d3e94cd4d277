//! What a guest is booted from instead: rescue and rebuild.

use berth_wire::guest::{GuestAction, KernelBody};

use super::Change;
use super::image::image;
use crate::failure::Failure;

/// `berth guest rescue`.
#[derive(Debug, clap::Args)]
pub(super) struct RescueArguments {
    #[command(flatten)]
    pub(super) change: Change,
    /// The rescue system's image: a path of the host, an http(s) URL, or the UUID of an image of the image service. Its disk comes
    /// before the guest's own.
    #[arg(
        long,
        value_name = "IMAGE",
        required_unless_present = "kernel",
        conflicts_with = "kernel"
    )]
    image: Option<String>,
    #[command(flatten)]
    of_image: OfImage,
    /// A kernel of the host to start instead; the guest's disks stay as they are.
    #[arg(long, value_name = "FILE")]
    kernel: Option<String>,
    /// The kernel's initial RAM disk.
    #[arg(long, value_name = "FILE", requires = "kernel")]
    ramdisk: Option<String>,
    /// The kernel's command line.
    #[arg(long, value_name = "TEXT", requires = "kernel", default_value = "")]
    cmdline: String,
    /// Ask the guest to end by itself first, and wait so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=600))]
    grace: u16,
}

/// `berth guest rebuild`.
#[derive(Debug, clap::Args)]
pub(super) struct RebuildArguments {
    #[command(flatten)]
    pub(super) change: Change,
    /// The image of the new root disk: a path of the host, an http(s) URL, or the UUID of an image of the image service.
    #[arg(long, value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    of_image: OfImage,
    /// Keep the ephemeral disks; without it they are made anew.
    #[arg(long)]
    preserve_ephemeral: bool,
}

/// What is to be known of an image.
#[derive(Debug, clap::Args)]
struct OfImage {
    /// The image's checksum; of a path it is computed.
    #[arg(long, value_name = "sha256:HEX", requires = "image")]
    image_checksum: Option<String>,
    /// The image's format, where its name does not say it.
    #[arg(long, value_name = "FORMAT", value_parser = ["qcow2", "raw"], requires = "image")]
    image_format: Option<String>,
}

impl RescueArguments {
    pub(super) fn action(&self) -> Result<GuestAction, Failure> {
        let (checksum, format) = self.of_image.words();
        let asked = self.image.as_deref();
        let asked = asked.map(|asked| image(asked, checksum, format));
        Ok(GuestAction::Rescue {
            image: asked.transpose()?,
            kernel: self.kernel.as_ref().map(|kernel| KernelBody {
                kernel: kernel.clone(),
                ramdisk: self.ramdisk.clone(),
                command_line: self.cmdline.clone(),
            }),
            grace_seconds: self.grace,
        })
    }
}

impl RebuildArguments {
    pub(super) fn action(&self) -> Result<GuestAction, Failure> {
        let (checksum, format) = self.of_image.words();
        Ok(GuestAction::Rebuild {
            image: image(&self.image, checksum, format)?,
            preserve_ephemeral: self.preserve_ephemeral,
        })
    }
}

impl OfImage {
    fn words(&self) -> (Option<&str>, Option<&str>) {
        (self.image_checksum.as_deref(), self.image_format.as_deref())
    }
}
