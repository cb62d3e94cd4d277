//! The arguments that all commands which change a guest share.

use berth_output::ListFormat;

#[derive(Debug, clap::Args)]
pub(super) struct GuestChange {
    /// The UUID of the guest, or its name if that is unique.
    #[arg(value_name = "GUEST")]
    pub(super) guest: String,
    /// Print what would change, without changing it.
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) format: ListFormat,
}
