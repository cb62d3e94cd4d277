//! The arguments of every command that changes a guest.

use berth_output::ListFormat;

/// A change of a guest.
#[derive(Debug, clap::Args)]
pub(super) struct GuestChange {
    /// Its UUID, or its name where only one has it.
    #[arg(value_name = "GUEST")]
    pub(super) guest: String,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) format: ListFormat,
}
