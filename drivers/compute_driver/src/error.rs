//! Why a driver cannot be opened.

use std::error::Error;

use berth_fake::MachineError;
use berth_options::OptionMisfit;

#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error("[fake] machine is not set: compute_driver = \"fake\" needs a machine file")]
    NoMachine,
    /// The options name something that cannot be used.
    #[error("{what}")]
    Unusable {
        what: &'static str,
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("compute_driver is {0}, but this berth was built without it")]
    NotBuilt(String),
    /// Type and row of an option disagree.
    #[error(transparent)]
    Misfit(#[from] OptionMisfit),
}

impl DriverError {
    /// A hint for the reader, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoMachine => {
                Some("set [fake] machine = \"FILE\", or give --machine FILE".to_owned())
            }
            Self::NotBuilt(driver) => Some(format!(
                "set compute_driver = \"fake\", or use a build with the feature {driver}"
            )),
            Self::Unusable { source, .. } => Some(match source.downcast_ref() {
                Some(MachineError::Unreadable { .. }) => {
                    "name an existing file with --machine or [fake] machine".to_owned()
                }
                _ => "correct these lines, then repeat the command".to_owned(),
            }),
            Self::Misfit(_) => None,
        }
    }
}
