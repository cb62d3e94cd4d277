//! Reads the trust of nodes from a file that the operator's attestation service writes.
//!
//! The file is read for each guest with a flavor that requires trust. Its format is that of OpenAttestation: `{"hosts":
//! [{"host_name": "compute1", "trust_lvl": "trusted", "vtime": "2026-11-23T10:00:00Z"}]}`. An attestation is valid if
//! its `vtime` is at most the validity period away from now, in the past or in the future. If the file is unreadable or
//! one entry is invalid, no node is trusted. Used by `filter_scheduler`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use berth_scheduler::request::{Attestation, AttestationExpiry, Attestations};
use berth_store::SqlTimestamp;
use serde::Deserialize;

/// Maximum size of the file in bytes: more than a hundred thousand nodes.
const MAX_FILE_SIZE: u64 = 32 << 20;

/// Where the attestations are, and how long they are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttestationSource {
    /// `[trusted_computing] attestation_file`
    pub file: PathBuf,
    /// `[trusted_computing] attestation_auth_timeout`
    pub validity: Duration,
}

/// Error of reading the file. The texts do not contain its path, because users see them.
#[derive(Debug, thiserror::Error)]
enum AttestationError {
    #[error("failed to read the file: {0}")]
    Read(#[from] std::io::Error),
    #[error("the file is larger than {MAX_FILE_SIZE} bytes")]
    TooLarge,
    #[error("the file is not a valid attestation file: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "hosts[{at}].vtime: expected a UTC timestamp such as 2026-11-23T10:00:00Z, found {:?}",
        vtime.chars().take(40).collect::<String>()
    )]
    SqlTimestamp { at: usize, vtime: String },
    #[error("hosts[{at}].host_name: duplicate host")]
    DuplicateHost { at: usize },
}

#[derive(Debug, Deserialize)]
struct AttestationFile {
    hosts: Vec<AttestationEntry>,
}

#[derive(Debug, Deserialize)]
struct AttestationEntry {
    host_name: String,
    trust_lvl: String,
    vtime: String,
}

impl AttestationSource {
    /// Reads the current attestations.
    pub(crate) async fn read(&self) -> Attestations {
        match self.nodes(SqlTimestamp::now()).await {
            Ok(nodes) => Attestations::new(nodes),
            Err(error) => {
                let file = self.file.display();
                tracing::warn!(%file, %error, "failed to read attestations: no node is trusted");
                Attestations::unavailable(&error.to_string())
            }
        }
    }

    async fn nodes(
        &self,
        now: SqlTimestamp,
    ) -> Result<BTreeMap<String, Attestation>, AttestationError> {
        if tokio::fs::metadata(&self.file).await?.len() > MAX_FILE_SIZE {
            return Err(AttestationError::TooLarge);
        }
        let text = tokio::fs::read(&self.file).await?;
        let file: AttestationFile = serde_json::from_slice(&text)?;
        let mut nodes = BTreeMap::new();
        for (at, entry) in file.hosts.into_iter().enumerate() {
            let Some(made) = parse_time(&entry.vtime) else {
                let vtime = entry.vtime;
                return Err(AttestationError::SqlTimestamp { at, vtime });
            };
            let attestation = Attestation {
                trust_level: entry.trust_lvl,
                expired: self.expired(made, now),
            };
            if nodes.insert(entry.host_name, attestation).is_some() {
                return Err(AttestationError::DuplicateHost { at });
            }
        }
        Ok(nodes)
    }

    /// The age of an attestation if it is not valid; `None` if it is. The clock of the attestation service may differ
    /// by the validity period.
    fn expired(&self, made: SqlTimestamp, now: SqlTimestamp) -> Option<AttestationExpiry> {
        let micros = now.as_micros().saturating_sub(made.as_micros());
        let apart = Duration::from_micros(micros.unsigned_abs());
        let sign = if micros < 0 { -1.0 } else { 1.0 };
        (apart > self.validity).then_some(AttestationExpiry {
            age_s: sign * apart.as_secs_f64(),
            validity_s: self.validity.as_secs_f64(),
        })
    }
}

/// Parses an RFC 3339 timestamp in UTC.
fn parse_time(text: &str) -> Option<SqlTimestamp> {
    let text = text.strip_suffix('Z').or(text.strip_suffix("+00:00"))?;
    let (date, time) = text.split_once(['T', ' '])?;
    format!("{date} {time}").parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;

    async fn nodes(text: &str) -> Result<BTreeMap<String, Attestation>, String> {
        let folder = TempDir::new().unwrap();
        let source = AttestationSource {
            file: folder.path().join("attestations.json"),
            validity: Duration::from_secs(60),
        };
        std::fs::write(&source.file, text).unwrap();
        let now = parse_time("2026-11-23T10:00:00Z").unwrap();
        source.nodes(now).await.map_err(|error| error.to_string())
    }

    fn host(name: &str, vtime: &str) -> Value {
        json!({"host_name": name, "trust_lvl": "trusted", "vtime": vtime, "other": 1})
    }

    #[tokio::test]
    async fn an_attestation_holds_for_its_time() {
        let hosts = [
            host("now", "2026-11-23T10:00:00Z"),
            host("last", "2026-11-23T09:59:00.000000+00:00"),
            host("old", "2026-11-23 09:58:59.5Z"),
            host("ahead", "2026-11-23T10:01:00Z"),
            host("to-come", "2026-11-23T10:02:00Z"),
        ];
        let nodes = nodes(&json!({"hosts": hosts}).to_string()).await.unwrap();
        let ages = nodes
            .iter()
            .map(|(name, it)| (name.as_str(), it.expired.map(|it| it.age_s)));
        let ages: Vec<_> = ages.collect();
        assert_eq!(
            ages,
            [
                ("ahead", None),
                ("last", None),
                ("now", None),
                ("old", Some(60.5)),
                ("to-come", Some(-120.0)),
            ]
        );
        assert!(nodes.values().all(|it| it.trust_level == "trusted"));
    }

    #[tokio::test]
    async fn a_file_that_is_none_is_refused_with_the_place() {
        let vtime = "2026-11-23T10:00:00Z";
        for (text, expected) in [
            (String::new(), "is not a valid attestation file: EOF"),
            ("{}".to_owned(), "missing field `hosts`"),
            (
                json!({"hosts": [{"host_name": "a", "vtime": vtime}]}).to_string(),
                "missing field `trust_lvl`",
            ),
            (
                json!({"hosts": [host("a", vtime), host("b", "yesterday")]}).to_string(),
                "hosts[1].vtime: expected a UTC timestamp such as 2026-11-23T10:00:00Z, found \"yesterday\"",
            ),
            (
                json!({"hosts": [host("a", "2026-11-23T10:00:00+02:00")]}).to_string(),
                "hosts[0].vtime",
            ),
            (
                json!({"hosts": [host("a", vtime), host("a", vtime)]}).to_string(),
                "hosts[1].host_name: duplicate host",
            ),
        ] {
            let got = nodes(&text).await.unwrap_err();
            assert!(got.contains(expected), "{text}: {got}");
        }
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_leaves_no_node_trusted_and_is_not_named() {
        let source = AttestationSource {
            file: PathBuf::from("/nowhere/at/all"),
            validity: Duration::from_secs(60),
        };
        let text = format!("{:?}", source.read().await);
        assert!(text.contains("failed to read the file"), "{text}");
        assert!(!text.contains("/nowhere"), "{text}");
    }
}
