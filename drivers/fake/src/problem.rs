//! Why a machine file is not usable.

use berth_options::document::{DocumentProblem, listed};

/// An invalid or unreadable machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The file cannot be read.
    #[error("cannot read the machine file {file}")]
    Unreadable {
        file: String,
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than any machine is described in.
    #[error("the machine file {file} has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        file: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The text is not a valid machine. All problems are listed in the order of the file, one per line.
    #[error("{}", listed(file, problems))]
    Refused {
        file: String,
        problems: Vec<DocumentProblem>,
    },
}

impl MachineError {
    /// The problems in the text; empty if it could not be read.
    #[must_use]
    pub fn problems(&self) -> &[DocumentProblem] {
        match self {
            MachineError::Refused { problems, .. } => problems,
            MachineError::Unreadable { .. } | MachineError::TooLarge { .. } => &[],
        }
    }
}
