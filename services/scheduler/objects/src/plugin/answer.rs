//! A plugin's answer: parsing and validation.

use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{PluginKind, SCHEMA};
use crate::text::{beginning, shortened};

/// The maximum absolute raw weight. Sums and differences of such numbers remain finite.
const MOST_WEIGHT: f64 = 1e15;

/// The answer of a plugin for each host in its question.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PluginAnswer(BTreeMap<String, HostAnswer>);

/// The answer for one host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostAnswer {
    /// Whether the filter accepts the host. A plugin that is not a filter accepts all hosts.
    pub verdict: PluginVerdict,
    /// The raw weight in the plugin's own unit; 0 if it is not a weigher.
    pub weight: f64,
}

/// Whether a host passes the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginVerdict {
    Pass,
    Reject {
        /// The plugin's code for the kind of reason.
        code: Option<String>,
        /// The reason, as a sentence.
        text: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer is not JSON of the right structure.
    #[error("its answer cannot be read: {0}")]
    Unreadable(String),
    /// The answer has another schema.
    #[error("its answer should have the schema {SCHEMA}, and has {0}")]
    Schema(String),
    /// Hosts of the question are missing.
    #[error("its answer says nothing of the host {first}, nor of {more} others")]
    HostsMissing {
        /// The first missing host.
        first: String,
        /// The number of further missing hosts.
        more: usize,
    },
    /// The answer has a host that was not in the question.
    #[error("its answer speaks of the host {0}, which it was not asked about")]
    UnknownHost(String),
    /// A filter has no verdict on a host.
    #[error("its answer has no verdict on the host {0}: it should be pass or reject")]
    NoVerdict(String),
    /// A host is rejected without a reason.
    #[error("its answer rejects the host {0} without a reason")]
    NoReason(String),
    /// A weigher has no weight for a host that passes.
    #[error("its answer has no weight of the host {0}")]
    NoWeight(String),
    /// A weight is out of range.
    #[error("its answer weighs the host {0} beyond -1e15 to 1e15")]
    WeightTooLarge(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `schema` and `hosts`")]
struct Document {
    schema: String,
    #[serde(deserialize_with = "each_once")]
    hosts: BTreeMap<String, AnswerEntry>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "what is said of a host, an object with `verdict`, `reason`, `code` and `weight`"
)]
struct AnswerEntry {
    verdict: Option<VerdictName>,
    code: Option<String>,
    reason: Option<String>,
    weight: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VerdictName {
    Pass,
    Reject,
}

impl PluginAnswer {
    /// Parses a plugin's answer to a question about the hosts with these UUIDs. Long reasons are truncated.
    pub fn read<'a>(
        text: &[u8],
        kind: PluginKind,
        hosts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, AnswerError> {
        let document: Document = serde_json::from_slice(text)
            .map_err(|error| AnswerError::Unreadable(shortened(&error.to_string()).into_owned()))?;
        if document.schema != SCHEMA {
            return Err(AnswerError::Schema(
                shortened(&document.schema).into_owned(),
            ));
        }
        let mut entries = document.hosts;
        let mut answered = BTreeMap::new();
        let mut missing = Vec::new();
        for host in hosts {
            match entries.remove(host) {
                Some(entry) => {
                    answered.insert(host.to_owned(), entry.read(host, kind)?);
                }
                None if answered.contains_key(host) => {}
                None => missing.push(host),
            }
        }
        if let [first, others @ ..] = missing.as_slice() {
            return Err(AnswerError::HostsMissing {
                first: (*first).to_owned(),
                more: others.len(),
            });
        }
        match entries.keys().next() {
            Some(unknown) => Err(AnswerError::UnknownHost(shortened(unknown).into_owned())),
            None => Ok(Self(answered)),
        }
    }

    /// The answer for the host with this UUID; `None` if the host was not in the question.
    #[must_use]
    pub fn of(&self, host: &str) -> Option<&HostAnswer> {
        self.0.get(host)
    }
}

impl AnswerEntry {
    fn read(self, host: &str, kind: PluginKind) -> Result<HostAnswer, AnswerError> {
        let verdict = match self.verdict {
            _ if !kind.is_filter() => PluginVerdict::Pass,
            None => return Err(AnswerError::NoVerdict(host.to_owned())),
            Some(VerdictName::Pass) => PluginVerdict::Pass,
            Some(VerdictName::Reject) => {
                let text = self.reason.filter(|text| !text.trim().is_empty());
                let text = text.ok_or_else(|| AnswerError::NoReason(host.to_owned()))?;
                PluginVerdict::Reject {
                    code: self.code.as_deref().map(line),
                    text: line(&text),
                }
            }
        };
        let weight = match self.weight {
            _ if !kind.is_weigher() || verdict != PluginVerdict::Pass => 0.0,
            None => return Err(AnswerError::NoWeight(host.to_owned())),
            Some(weight) if weight.abs() <= MOST_WEIGHT => weight,
            Some(_) => return Err(AnswerError::WeightTooLarge(host.to_owned())),
        };
        Ok(HostAnswer { verdict, weight })
    }
}

/// Rejects duplicate hosts: serde would silently use the last one.
fn each_once<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, AnswerEntry>, D::Error> {
    struct EachOnce;

    impl<'de> Visitor<'de> for EachOnce {
        type Value = BTreeMap<String, AnswerEntry>;

        fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
            f.write_str("an object with an answer by each host's UUID")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut hosts = BTreeMap::new();
            while let Some((host, entry)) = map.next_entry::<String, AnswerEntry>()? {
                if hosts.contains_key(&host) {
                    let host = shortened(&host);
                    return Err(A::Error::custom(format!("it has the host {host} twice")));
                }
                hosts.insert(host, entry);
            }
            Ok(hosts)
        }
    }

    from.deserialize_map(EachOnce)
}

/// The text on one line, truncated.
fn line(text: &str) -> String {
    let text = beginning(text).replace(char::is_control, " ");
    text.trim().to_owned()
}
