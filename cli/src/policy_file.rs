//! `policy_file` of a built-in service: what an operator says instead of its default rules. Read at start and by `berth config
//! check`, shown by the service's command `policy`.

use std::io::Write;
use std::path::{Path, PathBuf};

use berth_http::policy::PolicyOrigin;
use berth_http::{Policy, PolicyFile, PolicyFileError};
use serde_json::json;

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

/// A service's rules: its defaults, and what the file says instead.
pub(crate) fn with_file(defaults: Policy, path: Option<&Path>) -> Result<Policy, PolicyRefused> {
    let Some(path) = path else {
        return Ok(defaults);
    };
    let path = path.to_owned();
    let content = match regular_file::read(&path, LARGEST) {
        Ok((content, _)) => content,
        Err(reason) => return Err(PolicyRefused::Unreadable { path, reason }),
    };
    let Ok(text) = String::from_utf8(content) else {
        return Err(PolicyRefused::NoText { path });
    };
    PolicyFile::read(&text)
        .and_then(|file| defaults.with_file(file))
        .map_err(|reason| PolicyRefused::Wrong { path, reason })
}

pub(crate) fn list(policy: &Policy, format: &Format, out: &mut dyn Write) -> Result<(), Failure> {
    let mut listing = Listing::new(&["rule", "check", "origin"]);
    for (name, rule, origin) in policy.rules() {
        let origin = match origin {
            PolicyOrigin::Default => "default",
            PolicyOrigin::File => "file",
        };
        listing.push([json!(name), json!(rule.to_string()), json!(origin)]);
    }
    listing.print(format, out)
}
