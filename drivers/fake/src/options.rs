//! The driver's options.

use std::path::PathBuf;

use berth_options::options;

options! {
    /// The fake driver: a machine described by a file.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct FakeSection in "fake" {
        /// TOML file that describes the machine.
        pub machine: Option<PathBuf> = None, example: "\"/etc/berth/machine.toml\"";
    }
}
