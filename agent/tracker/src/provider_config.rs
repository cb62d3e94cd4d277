//! Inventories and traits that operators add to providers by files (`provider.yaml`, schema 1.x, as in Nova).
//!
//! [`ProviderConfigs`] is the parsed content of one directory. Each pass merges it into the driver's desired tree (`merge`, pure). The driver
//! does not see items from files, so it does not take them for its own; and an item that is removed from the files is removed from Placement,
//! too. For that, the state folder has a record of the merged items (`applied`): it is written before Placement, and an item leaves it only
//! when Placement no longer has the item. So a kill in between loses nothing.
//!
//! The composition root reads the files at startup and at SIGHUP; [`crate::propose`] applies them.

mod applied;
mod entry;
mod files;
mod merge;
mod parse;
#[cfg(test)]
mod tests;

pub use applied::{AppliedError, Items};
pub use entry::{ConfiguredProvider, ProviderConfigs, ProviderIdentification};
pub use files::ProviderFileError;
pub use merge::ProviderConfigMergeError;

pub(crate) use applied::{AppliedFile, AppliedItems};
pub(crate) use merge::{MissingProvider, merge, without_file_items};
