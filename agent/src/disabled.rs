//! Whether an operator has taken this host out of service, kept in the state file `disabled.json`, so that a restart does
//! not put it back. The tracker sets COMPUTE_STATUS_DISABLED by it. The service's loop reads it at the start and changes it
//! for the admin API.

use std::time::SystemTime;

use berth_store::state_dir::{StateFileError, StateFiles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::complete::Service;

/// The state file.
pub const FILE: &str = "disabled.json";

/// The longest reason, in characters (Nova's limit for `disabled_reason`).
pub const LONGEST_REASON: usize = 255;

/// Why, since when, and by whom the host is disabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disabled {
    /// The operator's reason.
    pub reason: String,
    /// Since when, in UTC (RFC 3339).
    pub since: String,
    /// The user who did it, by number; none where the kernel did not say.
    pub by_uid: Option<u32>,
}

/// A reason that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a reason has 1 to {LONGEST_REASON} characters on one line; this has {length}")]
pub struct ReasonError {
    length: usize,
}

impl Disabled {
    /// Disabled from now on.
    ///
    /// # Errors
    /// The reason is empty, too long, or has characters that change the line it is shown on.
    pub fn new(reason: &str, now: SystemTime, by_uid: Option<u32>) -> Result<Self, ReasonError> {
        let reason = reason.trim();
        let length = reason.chars().count();
        if length == 0 || length > LONGEST_REASON || reason.chars().any(changes_the_line) {
            return Err(ReasonError { length });
        }
        let since = humantime::format_rfc3339_seconds(now).to_string();
        Ok(Self {
            reason: reason.to_owned(),
            since,
            by_uid,
        })
    }
}

/// A control character, or one that turns the direction of what follows: the line would show something else than it says.
fn changes_the_line(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DisabledError {
    /// It cannot be read or written.
    #[error("whether this host is disabled is kept in {file}")]
    File {
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: StateFileError,
    },
    /// It holds something else.
    #[error(
        "{file} does not say whether this host is disabled ({reason}); remove it and, if the host is to stay disabled, \
         run berth agent disable --reason REASON again"
    )]
    Corrupt {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
}

/// Reads it: none means enabled.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub async fn read(files: &dyn StateFiles) -> Result<Option<Disabled>, DisabledError> {
    let content = files
        .read(FILE)
        .await
        .map_err(|source| failed(files, source))?;
    let Some(content) = content else {
        return Ok(None);
    };
    serde_json::from_slice(&content)
        .map(Some)
        .map_err(|error| DisabledError::Corrupt {
            file: files.path(FILE),
            reason: error.to_string(),
        })
}

/// Keeps it.
///
/// # Errors
/// The file cannot be written or removed; what it said before still holds.
pub async fn write(
    files: &dyn StateFiles,
    disabled: Option<&Disabled>,
) -> Result<(), DisabledError> {
    let done = match disabled {
        None => files.remove(FILE).await,
        Some(disabled) => {
            let content = serde_json::to_vec(disabled).expect("text and a number are JSON");
            files.write(FILE, &content).await
        }
    };
    done.map_err(|source| failed(files, source))
}

fn failed(files: &dyn StateFiles, source: StateFileError) -> DisabledError {
    DisabledError::File {
        file: files.path(FILE),
        source,
    }
}

/// What the tracker is told.
#[must_use]
pub fn service(disabled: Option<&Disabled>) -> Service {
    if disabled.is_some() {
        Service::Disabled
    } else {
        Service::Enabled
    }
}

#[cfg(test)]
mod tests {
    use berth_store::state_dir::StateDir;

    use super::*;

    fn opened() -> (tempfile::TempDir, StateDir) {
        let folder = tempfile::tempdir().unwrap();
        let files = StateDir::open(folder.path()).unwrap();
        (folder, files)
    }

    #[tokio::test]
    async fn it_survives_a_restart_with_reason_time_and_user() {
        let (folder, files) = opened();
        assert_eq!(read(&files).await.unwrap(), None);
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        let disabled = Disabled::new("  new GPU ", now, Some(0)).unwrap();
        write(&files, Some(&disabled)).await.unwrap();
        let again = StateDir::open(folder.path()).unwrap();
        let kept = read(&again).await.unwrap().unwrap();
        assert_eq!(
            (kept.reason.as_str(), kept.since.as_str(), kept.by_uid),
            ("new GPU", "2027-01-15T08:00:00Z", Some(0))
        );
        assert_eq!(service(Some(&kept)), Service::Disabled);
        write(&again, None).await.unwrap();
        assert_eq!(
            service(read(&again).await.unwrap().as_ref()),
            Service::Enabled
        );
    }

    #[test]
    fn a_reason_must_be_one_that_can_be_shown() {
        let now = SystemTime::UNIX_EPOCH;
        for bad in [
            String::new(),
            "   ".to_owned(),
            "a\nb".to_owned(),
            "gpu\u{202e}dab".to_owned(),
            "x".repeat(256),
        ] {
            assert!(Disabled::new(&bad, now, None).is_err(), "{bad:?}");
        }
        assert!(Disabled::new(&"é".repeat(255), now, None).is_ok());
    }

    #[tokio::test]
    async fn a_file_that_says_something_else_is_named_with_its_mend() {
        let (folder, files) = opened();
        for content in ["", "{", "{}", "[1]", "{\"reason\":1}", "\u{0}\u{0}"] {
            std::fs::write(folder.path().join(FILE), content).unwrap();
            let error = read(&files).await.unwrap_err().to_string();
            assert!(
                error.contains("disabled.json") && error.contains("remove it"),
                "{content:?}: {error}"
            );
        }
    }
}
