//! What operators add to providers by files (`provider.yaml`, schema 1.x, as Nova reads them): inventories and traits of their own.
//!
//! [`ProviderConfigs`] is what the files of one directory say. Each pass lays it over the tree that the driver wants
//! (`lay_over`, pure): the driver never sees what came from a file, so what it writes itself is known to be its own, and an
//! entry that left the files leaves Placement too. For that, what was laid over is remembered in the state folder
//! (`applied`): written before Placement is told, and forgotten when Placement has it no more, so that a kill in between
//! loses nothing.
//!
//! Callers: the composition root reads the files at start and at SIGHUP; [`crate::propose`] does the rest.

mod applied;
mod entry;
mod files;
mod lay_over;
mod parse;
#[cfg(test)]
mod tests;

pub use applied::{AppliedError, Items};
pub use entry::{ConfiguredProvider, ProviderConfigs, ProviderIdentification};
pub use files::ProviderFileError;
pub use lay_over::LayOverError;

pub(crate) use applied::{Applied, AppliedFile};
pub(crate) use lay_over::{Absent, cleared, lay_over};
