//! Whether this host is out of service, kept in state files, so that a restart does not put it back: `disabled.json` is the word
//! of an operator of this host, `disabled-in-cloud.json` that of the cloud's operators, as the scheduler tells it. The tracker sets
//! COMPUTE_STATUS_DISABLED while either says so. The service's loop reads them at the start, and changes them for the admin API and
//! for whoever tells the scheduler of this host.

use std::time::SystemTime;

use berth_store::state_dir::{StateFileError, StateFiles};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::complete::Service;

/// The state file.
pub const FILE: &str = "disabled.json";

/// The state file of the cloud's word.
pub const FILE_OF_CLOUD: &str = "disabled-in-cloud.json";

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

/// Why and since when the cloud's operators want no new guests here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisabledInCloud {
    /// Their reason; may be empty.
    pub reason: String,
    /// Since when this agent knows, in UTC (RFC 3339).
    pub since: String,
}

impl DisabledInCloud {
    /// Known from now on.
    #[must_use]
    pub fn new(reason: &str, now: SystemTime) -> Self {
        Self {
            reason: Self::shown(reason),
            since: humantime::format_rfc3339_seconds(now).to_string(),
        }
    }

    /// Whether this is the word for what the scheduler says.
    #[must_use]
    pub fn is_of(&self, reason: &str) -> bool {
        self.reason == Self::shown(reason)
    }

    /// A reason that somebody else wrote, fit to be shown on one line.
    fn shown(reason: &str) -> String {
        let shown = |c| if changes_the_line(c) { '\u{fffd}' } else { c };
        let letters = reason.trim().chars().take(LONGEST_REASON);
        letters.map(shown).collect()
    }
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
    #[error("{file} does not say whether this host is disabled ({reason}); remove it{mend}")]
    Corrupt {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
        /// What comes after that.
        mend: &'static str,
    },
}

/// After `disabled.json` was removed.
const AGAIN: &str =
    " and, if the host is to stay disabled, run berth agent disable --reason REASON again";
/// After the other one was removed.
const TOLD_AGAIN: &str = "; the scheduler tells the agent again";

/// What the state files say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words {
    /// Of an operator of this host; none: it takes guests.
    pub here: Option<Disabled>,
    /// Of the cloud's operators; none: it takes guests.
    pub in_cloud: Option<DisabledInCloud>,
}

impl Words {
    /// What the tracker is told.
    #[must_use]
    pub fn service(&self) -> Service {
        if self.here.is_some() || self.in_cloud.is_some() {
            Service::Disabled
        } else {
            Service::Enabled
        }
    }
}

/// Reads both.
///
/// # Errors
/// A file cannot be read, or holds something else.
pub async fn read(files: &dyn StateFiles) -> Result<Words, DisabledError> {
    Ok(Words {
        here: read_one(files, FILE, AGAIN).await?,
        in_cloud: read_one(files, FILE_OF_CLOUD, TOLD_AGAIN).await?,
    })
}

async fn read_one<T: DeserializeOwned>(
    files: &dyn StateFiles,
    file: &'static str,
    mend: &'static str,
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
            mend,
        })
}

/// Keeps the word of an operator of this host.
///
/// # Errors
/// The file cannot be written or removed; what it said before still holds.
pub async fn write(
    files: &dyn StateFiles,
    disabled: Option<&Disabled>,
) -> Result<(), DisabledError> {
    write_one(files, FILE, disabled).await
}

/// Keeps the word of the cloud's operators.
///
/// # Errors
/// The file cannot be written or removed; what it said before still holds.
pub async fn write_of_cloud(
    files: &dyn StateFiles,
    disabled: Option<&DisabledInCloud>,
) -> Result<(), DisabledError> {
    write_one(files, FILE_OF_CLOUD, disabled).await
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
        assert_eq!(read(&files).await.unwrap(), Words::default());
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        let disabled = Disabled::new("  new GPU ", now, Some(0)).unwrap();
        write(&files, Some(&disabled)).await.unwrap();
        let again = StateDir::open(folder.path()).unwrap();
        let words = read(&again).await.unwrap();
        assert_eq!(words.service(), Service::Disabled);
        let kept = words.here.unwrap();
        assert_eq!(
            (kept.reason.as_str(), kept.since.as_str(), kept.by_uid),
            ("new GPU", "2027-01-15T08:00:00Z", Some(0))
        );
        write(&again, None).await.unwrap();
        assert_eq!(read(&again).await.unwrap().service(), Service::Enabled);
    }

    #[tokio::test]
    async fn the_clouds_word_is_kept_beside_the_operators_and_each_alone_disables_the_host() {
        let (folder, files) = opened();
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000);
        let odd = " moved\nSTATUS=all is well\u{202e} ";
        let in_cloud = DisabledInCloud::new(odd, now);
        assert_eq!(in_cloud.reason, "moved\u{fffd}STATUS=all is well\u{fffd}");
        assert!(in_cloud.is_of(odd) && !in_cloud.is_of(""));
        let here = Disabled::new("new GPU", now, None).unwrap();
        write(&files, Some(&here)).await.unwrap();
        write_of_cloud(&files, Some(&in_cloud)).await.unwrap();
        let again = StateDir::open(folder.path()).unwrap();
        write(&again, None).await.unwrap();
        let words = read(&again).await.unwrap();
        assert_eq!((&words.here, &words.in_cloud), (&None, &Some(in_cloud)));
        assert_eq!(words.service(), Service::Disabled);
        write_of_cloud(&again, None).await.unwrap();
        assert_eq!(read(&again).await.unwrap(), Words::default());
        std::fs::write(folder.path().join(FILE_OF_CLOUD), "{}").unwrap();
        let error = read(&again).await.unwrap_err().to_string();
        assert!(
            error.contains("disabled-in-cloud.json") && error.contains("tells the agent again"),
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
