//! Files and folders that this process depends on: who may change them, and writes that follow no link.
//!
//! | function | for |
//! |---|---|
//! | [`trusted`] | programs that are run, and files that decide rights |
//! | [`confidential`] | files with a password or a key |
//! | [`own_folder`] | folders of state: made with a mode, or refused if another user can change them |
//! | [`own_file`] | files of state that decide rights or have secrets |
//! | [`replace`], [`open_options`], [`open_lock`] | every file in such a folder |
//! | [`OwnerLock`] | what one process at a time may use |
//!
//! [`enforces_trust`] says whether this process refuses what fails [`trusted`]: root and system accounts do, a person's account is
//! warned.

mod folder;
mod owner_lock;
mod trust;
mod write;

pub use folder::{FolderError, make_folder, make_folders, own_folder};
pub use owner_lock::{OwnerLock, OwnerLockError, lock_after, read_owner, write_owner};
pub use trust::{TrustError, confidential, enforces_trust, own_file, trusted};
pub use write::{open_lock, open_options, replace, replace_secret, temporary_name};
