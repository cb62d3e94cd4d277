//! `berth guest rescue` and `berth guest rebuild`: boot a guest from another image.

use berth_output::Failure;
use berth_wire::guest::{GuestAction, KernelBody};

use super::change::GuestChange;
use super::image::{OfImage, image};

#[derive(Debug, clap::Args)]
pub(super) struct RescueArguments {
    #[command(flatten)]
    pub(super) change: GuestChange,
    /// The image of the rescue system: a path on the host, an http(s) URL, or the UUID of an image in the image
    /// service. It becomes the first disk.
    #[arg(
        long,
        value_name = "IMAGE",
        required_unless_present = "kernel",
        conflicts_with = "kernel"
    )]
    image: Option<String>,
    #[command(flatten)]
    of_image: OfImage,
    /// A kernel file of the host to boot instead; the guest's disks do not change.
    #[arg(long, value_name = "FILE")]
    kernel: Option<String>,
    /// The initial RAM disk of the kernel.
    #[arg(long, value_name = "FILE", requires = "kernel")]
    ramdisk: Option<String>,
    /// The command line of the kernel.
    #[arg(long, value_name = "TEXT", requires = "kernel", default_value = "")]
    cmdline: String,
    /// Ask the guest to shut down first, and wait for this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=600))]
    grace: u16,
}

#[derive(Debug, clap::Args)]
pub(super) struct RebuildArguments {
    #[command(flatten)]
    pub(super) change: GuestChange,
    /// The image of the new root disk: a path on the host, an http(s) URL, or the UUID of an image
    /// in the image service.
    #[arg(long, value_name = "IMAGE")]
    image: String,
    #[command(flatten)]
    of_image: OfImage,
    /// Keep the ephemeral disks; without this option they are created again.
    #[arg(long)]
    preserve_ephemeral: bool,
}

impl RescueArguments {
    pub(super) fn action(&self) -> Result<GuestAction, Failure> {
        let asked = self.image.as_deref();
        let asked = asked.map(|asked| image(asked, &self.of_image));
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
        Ok(GuestAction::Rebuild {
            image: image(&self.image, &self.of_image)?,
            preserve_ephemeral: self.preserve_ephemeral,
            extra_specs: None,
        })
    }
}
