//! Whether this host is disabled for new guests, in state files, so that it stays disabled after a restart.
//!
//! `disabled.json` is written for an operator of this host, `disabled-in-cloud.json` for an operator of the cloud (reported by the scheduler).
//! The tracker sets COMPUTE_STATUS_DISABLED while either file exists. The service loop reads both at startup. It writes them for requests of
//! the admin API and of the host state reporter.

use std::time::SystemTime;

use berth_store::state_dir::{StateFileError, StateFiles};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::complete::Service;

/// State file of the setting by an operator of this host.
pub const FILE: &str = "disabled.json";

/// State file of the setting by an operator of the cloud.
pub const CLOUD_FILE: &str = "disabled-in-cloud.json";

/// Longest reason in characters; Nova's limit for `disabled_reason`.
pub const LONGEST_REASON: usize = 255;

/// An operator of this host disabled it: reason, time and user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisabledByOperator {
    /// Reason that the operator gave.
    pub reason: String,
    /// Time at which the host was disabled, in UTC (RFC 3339).
    pub since: String,
    /// User ID of the operator; null if the kernel did not report it.
    pub by_uid: Option<u32>,
}

/// An operator of the cloud disabled this host for new guests: reason and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisabledInCloud {
    /// Reason that the operator gave; may be empty.
    pub reason: String,
    /// Time at which the agent learned of it, in UTC (RFC 3339).
    pub since: String,
}

impl DisabledInCloud {
    /// The host is disabled from `now` on.
    #[must_use]
    pub fn new(reason: &str, now: SystemTime) -> Self {
        Self {
            reason: Self::shown(reason),
            since: humantime::format_rfc3339_seconds(now).to_string(),
        }
    }

    /// Whether the reported reason is the stored one.
    #[must_use]
    pub fn has_reason(&self, reason: &str) -> bool {
        self.reason == Self::shown(reason)
    }

    /// Makes a reason from the network fit for display on one line.
    fn shown(reason: &str) -> String {
        let shown = |c| {
            if changes_line_display(c) {
                '\u{fffd}'
            } else {
                c
            }
        };
        let letters = reason.trim().chars().take(LONGEST_REASON);
        letters.map(shown).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a reason needs 1 to {LONGEST_REASON} characters on one line; this one has {length}")]
pub struct ReasonError {
    length: usize,
}

impl DisabledByOperator {
    /// The host is disabled from `now` on.
    ///
    /// # Errors
    ///
    /// The reason is empty, too long, or has control characters.
    pub fn new(reason: &str, now: SystemTime, by_uid: Option<u32>) -> Result<Self, ReasonError> {
        let reason = reason.trim();
        let length = reason.chars().count();
        if length == 0 || length > LONGEST_REASON || reason.chars().any(changes_line_display) {
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

/// Whether the character is a control character, or changes the direction of the text after it, so that the line would
/// be displayed differently.
fn changes_line_display(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A state file is unusable.
#[derive(Debug, thiserror::Error)]
pub enum DisabledError {
    /// The file cannot be read or written.
    #[error("the state file {file} (whether this host is disabled) is unusable")]
    File {
        file: String,
        #[source]
        source: StateFileError,
    },
    /// The content is invalid.
    #[error(
        "{file} is invalid ({reason}), so it is unknown whether this host is disabled; remove it{hint}"
    )]
    Corrupt {
        file: String,
        reason: String,
        /// What to do after the file was removed.
        hint: &'static str,
    },
}

/// Hint for `disabled.json`.
const HINT: &str =
    " and, if the host is to stay disabled, run berth agent disable --reason REASON again";
/// Hint for `disabled-in-cloud.json`.
const CLOUD_HINT: &str = "; the scheduler reports the setting to the agent again";

/// Content of both state files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DisabledState {
    /// Setting by an operator of this host; `None` if enabled.
    pub by_operator: Option<DisabledByOperator>,
    /// Setting by an operator of the cloud; `None` if enabled.
    pub in_cloud: Option<DisabledInCloud>,
}

impl DisabledState {
    /// Whether the node accepts new guests: only if no operator disabled it.
    #[must_use]
    pub fn service(&self) -> Service {
        if self.by_operator.is_some() || self.in_cloud.is_some() {
            Service::Disabled
        } else {
            Service::Enabled
        }
    }
}

pub async fn load(files: &dyn StateFiles) -> Result<DisabledState, DisabledError> {
    Ok(DisabledState {
        by_operator: read_one(files, FILE, HINT).await?,
        in_cloud: read_one(files, CLOUD_FILE, CLOUD_HINT).await?,
    })
}

async fn read_one<T: DeserializeOwned>(
    files: &dyn StateFiles,
    file: &'static str,
    hint: &'static str,
) -> Result<Option<T>, DisabledError> {
    let content = files.read(file).await;
    let Some(content) = content.map_err(|source| failed(files, file, source))? else {
        return Ok(None);
    };
    serde_json::from_slice(&content)
        .map(Some)
        .map_err(|error| DisabledError::Corrupt {
            file: files.path(file),
            reason: error.to_string(),
            hint,
        })
}

/// Stores the setting of an operator of this host. On an error, the previous setting remains.
pub async fn store(
    files: &dyn StateFiles,
    disabled: Option<&DisabledByOperator>,
) -> Result<(), DisabledError> {
    write_one(files, FILE, disabled).await
}

/// Stores the setting of an operator of the cloud. On an error, the previous setting remains.
pub async fn store_in_cloud(
    files: &dyn StateFiles,
    disabled: Option<&DisabledInCloud>,
) -> Result<(), DisabledError> {
    write_one(files, CLOUD_FILE, disabled).await
}

async fn write_one<T: Serialize>(
    files: &dyn StateFiles,
    file: &'static str,
    disabled: Option<&T>,
) -> Result<(), DisabledError> {
    let done = match disabled {
        None => files.remove(file).await,
        Some(disabled) => files.write(file, &berth_wire::encode(disabled)).await,
    };
    done.map_err(|source| failed(files, file, source))
}

fn failed(files: &dyn StateFiles, file: &'static str, source: StateFileError) -> DisabledError {
    DisabledError::File {
        file: files.path(file),
        source,
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
        assert_eq!(load(&files).await.unwrap(), DisabledState::default());
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        let disabled = DisabledByOperator::new("  new GPU ", now, Some(0)).unwrap();
        store(&files, Some(&disabled)).await.unwrap();
        let again = StateDir::open(folder.path()).unwrap();
        let words = load(&again).await.unwrap();
        assert_eq!(words.service(), Service::Disabled);
        let kept = words.by_operator.unwrap();
        assert_eq!(
            (kept.reason.as_str(), kept.since.as_str(), kept.by_uid),
            ("new GPU", "2027-01-15T08:00:00Z", Some(0))
        );
        store(&again, None).await.unwrap();
        assert_eq!(load(&again).await.unwrap().service(), Service::Enabled);
    }

    #[tokio::test]
    async fn the_clouds_reason_is_kept_next_to_the_operators_and_each_alone_disables_the_host() {
        let (folder, files) = opened();
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        let odd = " moved\nSTATUS=all is well\u{202e} ";
        let in_cloud = DisabledInCloud::new(odd, now);
        assert_eq!(in_cloud.reason, "moved\u{fffd}STATUS=all is well\u{fffd}");
        assert!(in_cloud.has_reason(odd) && !in_cloud.has_reason(""));
        let here = DisabledByOperator::new("new GPU", now, None).unwrap();
        store(&files, Some(&here)).await.unwrap();
        store_in_cloud(&files, Some(&in_cloud)).await.unwrap();
        let again = StateDir::open(folder.path()).unwrap();
        store(&again, None).await.unwrap();
        let words = load(&again).await.unwrap();
        assert_eq!(
            (&words.by_operator, &words.in_cloud),
            (&None, &Some(in_cloud))
        );
        assert_eq!(words.service(), Service::Disabled);
        store_in_cloud(&again, None).await.unwrap();
        assert_eq!(load(&again).await.unwrap(), DisabledState::default());
        std::fs::write(folder.path().join(CLOUD_FILE), "{}").unwrap();
        let error = load(&again).await.unwrap_err().to_string();
        assert!(
            error.contains("disabled-in-cloud.json")
                && error.contains("reports the setting to the agent again"),
            "{error}"
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
            assert!(DisabledByOperator::new(&bad, now, None).is_err(), "{bad:?}");
        }
        assert!(DisabledByOperator::new(&"é".repeat(255), now, None).is_ok());
    }

    #[tokio::test]
    async fn a_file_that_says_something_else_is_named_with_its_remedy() {
        let (folder, files) = opened();
        for content in ["", "{", "{}", "[1]", "{\"reason\":1}", "\u{0}\u{0}"] {
            std::fs::write(folder.path().join(FILE), content).unwrap();
            let error = load(&files).await.unwrap_err().to_string();
            assert!(
                error.contains("disabled.json") && error.contains("remove it"),
                "{content:?}: {error}"
            );
        }
    }
}
