//! `[accelerator_service] policy_file`: read at start and by `berth config check`, shown by `berth accelerator policy`.

use std::io::Write;
use std::path::PathBuf;

use berth_accelerator::default_policy;
use berth_http::policy::Origin;
use berth_http::{Policy, PolicyFile, PolicyFileError};
use serde_json::json;

use crate::config::Config;
use crate::failure::{ErrorCode, Failure};
use crate::listing::{Format, Listing};
use crate::regular_file;

/// The largest file that is opened, in bytes.
const LARGEST: u64 = 1 << 20;

/// Why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyRefused {
    /// It cannot be read.
    #[error("{} cannot be read: {reason}", path.display())]
    Unreadable {
        path: PathBuf,
        reason: std::io::Error,
    },
    /// It is no text.
    #[error("{} is not UTF-8", path.display())]
    NoText { path: PathBuf },
    /// What it says cannot be done.
    #[error("{}: {reason}", path.display())]
    Wrong {
        path: PathBuf,
        reason: PolicyFileError,
    },
}

impl PolicyRefused {
    /// The number for documentation and exit code.
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Unreadable { .. } => ErrorCode::Unreadable,
            Self::NoText { .. } => ErrorCode::Syntax,
            Self::Wrong { reason, .. } => match reason {
                PolicyFileError::Long(_)
                | PolicyFileError::Malformed(_)
                | PolicyFileError::Rule { .. } => ErrorCode::Syntax,
                PolicyFileError::Unknown { .. } | PolicyFileError::Missing { .. } => {
                    ErrorCode::UnknownKey
                }
                PolicyFileError::Circular { .. } | PolicyFileError::Far { .. } => {
                    ErrorCode::Contradiction
                }
            },
        }
    }
}

/// The accelerator service's rules: its defaults, and what the file says instead.
///
/// # Errors
/// The file cannot be used.
pub(crate) fn with_file(config: &Config) -> Result<Policy, PolicyRefused> {
    let policy = default_policy();
    let Some(path) = config.accelerator_service.policy_file.clone() else {
        return Ok(policy);
    };
    let content = match regular_file::read(&path, LARGEST) {
        Ok((content, _)) => content,
        Err(reason) => return Err(PolicyRefused::Unreadable { path, reason }),
    };
    let Ok(text) = String::from_utf8(content) else {
        return Err(PolicyRefused::NoText { path });
    };
    PolicyFile::read(&text)
        .and_then(|file| policy.with_file(file))
        .map_err(|reason| PolicyRefused::Wrong { path, reason })
}

/// Prints every rule.
///
/// # Errors
/// The file cannot be used, or the list cannot be written.
pub(super) fn list(config: &Config, format: &Format, out: &mut dyn Write) -> Result<(), Failure> {
    let policy = in_force(config)?;
    let mut listing = Listing::new(&["rule", "check", "origin"]);
    for (name, rule, origin) in policy.rules() {
        let origin = match origin {
            Origin::Default => "default",
            Origin::File => "file",
        };
        listing.push([json!(name), json!(rule.to_string()), json!(origin)]);
    }
    listing.print(format, out)
}

/// The rules for a service that starts.
///
/// # Errors
/// The file cannot be used.
pub(super) fn in_force(config: &Config) -> Result<Policy, Failure> {
    with_file(config).map_err(|refused| {
        let what = "[accelerator_service] policy_file cannot be used";
        Failure::caused(refused.code(), what, &refused)
            .mend("berth accelerator policy lists the rules; write what they shall be in the language of oslo.policy")
    })
}
