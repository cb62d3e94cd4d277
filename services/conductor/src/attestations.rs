//! What was attested of the nodes: a file that an operator has written by whatever attests hosts, and that is read for each guest
//! whose flavor asks for trust.
//!
//! `{"hosts": [{"host_name": "compute1", "trust_lvl": "trusted", "vtime": "2026-11-23T10:00:00Z"}]}`, as OpenAttestation answers.
//! What was attested too long ago, or to come, does not hold; a file that cannot be read leaves no node trusted. Caller:
//! `destinations`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use berth_scheduler::request::{Attestation, Attestations, Expired};
use berth_store::Moment;
use serde::Deserialize;

/// The largest file, in bytes: a hundred thousand nodes and more.
const LARGEST: u64 = 32 << 20;

/// Where it is, and how long it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttestationSource {
    /// The file: `[trusted_computing] attestation_file`.
    pub file: PathBuf,
    /// For so long an attestation holds: `[trusted_computing] attestation_auth_timeout`.
    pub holds: Duration,
}

/// The file cannot be used. It is not named: users read why.
#[derive(Debug, thiserror::Error)]
enum AttestationError {
    #[error("the file cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("the file is larger than {LARGEST} bytes")]
    TooLarge,
    #[error("the file is none of attestations: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "hosts[{at}].vtime: should be a moment as 2026-11-23T10:00:00Z, and is {:?}",
        vtime.chars().take(40).collect::<String>()
    )]
    Moment { at: usize, vtime: String },
    #[error("hosts[{at}].host_name: it stands there twice")]
    Twice { at: usize },
}

#[derive(Debug, Deserialize)]
struct File {
    hosts: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    host_name: String,
    trust_lvl: String,
    vtime: String,
}

impl AttestationSource {
    /// As they are now.
    pub(crate) async fn read(&self) -> Attestations {
        match self.nodes(Moment::now()).await {
            Ok(nodes) => Attestations::new(nodes),
            Err(error) => {
                let file = self.file.display();
                tracing::warn!(%file, %error, "no node is trusted: what was attested is not known");
                Attestations::unknown(&error.to_string())
            }
        }
    }

    async fn nodes(&self, now: Moment) -> Result<BTreeMap<String, Attestation>, AttestationError> {
        if tokio::fs::metadata(&self.file).await?.len() > LARGEST {
            return Err(AttestationError::TooLarge);
        }
        let text = tokio::fs::read(&self.file).await?;
        let file: File = serde_json::from_slice(&text)?;
        let mut nodes = BTreeMap::new();
        for (at, entry) in file.hosts.into_iter().enumerate() {
            let Some(made) = moment(&entry.vtime) else {
                let vtime = entry.vtime;
                return Err(AttestationError::Moment { at, vtime });
            };
            let attestation = Attestation {
                trust_level: entry.trust_lvl,
                expired: self.expired(made, now),
            };
            if nodes.insert(entry.host_name, attestation).is_some() {
                return Err(AttestationError::Twice { at });
            }
        }
        Ok(nodes)
    }

    /// A clock that is ahead by less than an attestation holds does not matter.
    fn expired(&self, made: Moment, now: Moment) -> Option<Expired> {
        let micros = now.as_micros().saturating_sub(made.as_micros());
        let apart = Duration::from_micros(micros.unsigned_abs());
        let sign = if micros < 0 { -1.0 } else { 1.0 };
        (apart > self.holds).then_some(Expired {
            age_s: sign * apart.as_secs_f64(),
            holds_s: self.holds.as_secs_f64(),
        })
    }
}

/// A moment of RFC 3339 at Greenwich.
fn moment(text: &str) -> Option<Moment> {
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
            holds: Duration::from_secs(60),
        };
        std::fs::write(&source.file, text).unwrap();
        let now = moment("2026-11-23T10:00:00Z").unwrap();
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
            (String::new(), "is none of attestations: EOF"),
            ("{}".to_owned(), "missing field `hosts`"),
            (
                json!({"hosts": [{"host_name": "a", "vtime": vtime}]}).to_string(),
                "missing field `trust_lvl`",
            ),
            (
                json!({"hosts": [host("a", vtime), host("b", "yesterday")]}).to_string(),
                "hosts[1].vtime: should be a moment as 2026-11-23T10:00:00Z, and is \"yesterday\"",
            ),
            (
                json!({"hosts": [host("a", "2026-11-23T10:00:00+02:00")]}).to_string(),
                "hosts[0].vtime",
            ),
            (
                json!({"hosts": [host("a", vtime), host("a", vtime)]}).to_string(),
                "hosts[1].host_name: it stands there twice",
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
            holds: Duration::from_secs(60),
        };
        let told = format!("{:?}", source.read().await);
        assert!(told.contains("the file cannot be read"), "{told}");
        assert!(!told.contains("/nowhere"), "{told}");
    }
}
