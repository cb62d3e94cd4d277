//! A guest as the journal has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_client::placement::Candidate;
use berth_model::{ArqUuid, ConsumerUuid, GroupSuffix, NodeName, ProviderUuid};
use berth_wire::guest::LimitsBody;
use berth_wire::placement::AllocationRequest;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::BootRequest;

/// A step of an attempt, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BootStep {
    /// A candidate is the guest's in Placement.
    Claim,
    /// Its accelerator requests are made.
    Arqs,
    /// They are bound to the providers of the claim.
    Bind,
    /// The host's agent builds it.
    Build,
}

impl BootStep {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Claim, Self::Arqs, Self::Bind, Self::Build];

    /// The word in the journal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Arqs => "arqs",
            Self::Bind => "bind",
            Self::Build => "build",
        }
    }

    /// The step of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == word)
    }
}

impl fmt::Display for BootStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepState {
    /// It may have acted, wholly or in part.
    Begun,
    Done,
    /// It is being undone.
    Undoing,
    /// Nothing of it is left.
    Undone,
}

impl StepState {
    pub const ALL: [Self; 4] = [Self::Begun, Self::Done, Self::Undoing, Self::Undone];

    /// The word in the journal.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Undoing => "undoing",
            Self::Undone => "undone",
        }
    }

    /// The state of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// A candidate and the host that it is on.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The host's own provider.
    pub host: ProviderUuid,
    pub node: NodeName,
    /// The host's name, by which its agent tells its state; none where no scheduler told.
    pub host_name: Option<String>,
    /// Its cell; none where no scheduler told.
    pub cell: Option<String>,
    pub candidate: Candidate,
    /// The scheduler's bounds, by which the host's agent finds the guest its place.
    pub limits: LimitsBody,
}

impl Chosen {
    /// The providers that serve groups of the device profile.
    #[must_use]
    pub fn devices(&self) -> Vec<Uuid> {
        let groups = (0u32..).map(GroupSuffix::of_device_profile);
        let devices = groups.map_while(|suffix| self.candidate.serving(&suffix));
        let devices: BTreeSet<_> = devices.collect();
        devices.iter().map(|it| *it.as_uuid()).collect()
    }
}

/// What has to be known to go on with a step or to undo it.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum StepDetail {
    #[default]
    Nothing,
    Claim(Box<Chosen>),
    /// The accelerator requests, each with its group of the device profile.
    Requests(BTreeMap<ArqUuid, u32>),
}

/// How far a step is, and what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRecord {
    pub state: StepState,
    /// What belongs to it.
    pub detail: StepDetail,
}

/// What follows when an attempt is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    Again,
    Fail,
}

/// Where a guest is meant to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Course {
    Boot,
    /// Back to nothing of this attempt.
    Undo {
        failed: FailedAttempt,
        then: Then,
    },
    /// It runs, as far as the conductor knows: it is the agent's from here on.
    Active,
    /// It does not, and nothing of it is left. It stays known, with the reason, until it is deleted.
    Failed {
        /// Why, for operators: every attempt with its host.
        reason: String,
        /// What users are told of it; none in journals of earlier releases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<String>,
    },
    Delete,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedAttempt {
    /// Where; none where there was no candidate.
    pub node: Option<String>,
    /// The name of the host that the node was of; none where no scheduler told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The cell of that; none where no scheduler told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    pub reason: String,
    /// What users are told of it, without the host; none in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// Candidates with one of these providers are not tried again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<Uuid>,
    /// Whether they are fit again by themselves: they are tried again where there are no others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passes: bool,
}

impl FailedAttempt {
    /// What users are told of it.
    #[must_use]
    pub fn told(&self) -> &str {
        let told = self.told.as_deref();
        told.unwrap_or("the host that was chosen could not build it")
    }
}

impl fmt::Display for FailedAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "on {node}: {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

/// All that is known of a guest.
#[derive(Debug, Clone, PartialEq)]
pub struct BootRecord {
    /// What was asked for.
    pub request: BootRequest,
    /// Where it is meant to go.
    pub course: Course,
    /// The attempt that is under way, or was the last, from 1 on.
    pub attempt: u32,
    pub failures: Vec<FailedAttempt>,
    /// How far each attempt came.
    pub steps: BTreeMap<(u32, BootStep), StepRecord>,
}

impl BootRecord {
    /// A step of the present attempt; none where it was never begun.
    #[must_use]
    pub fn step(&self, step: BootStep) -> Option<&StepRecord> {
        self.steps.get(&(self.attempt, step))
    }

    /// What an attempt claimed, or may have.
    #[must_use]
    pub fn chosen(&self, attempt: u32) -> Option<&Chosen> {
        match &self.steps.get(&(attempt, BootStep::Claim))?.detail {
            StepDetail::Claim(chosen) => Some(chosen),
            StepDetail::Nothing | StepDetail::Requests(_) => None,
        }
    }

    /// Where it is, or is being built; none where nothing is claimed for it.
    #[must_use]
    pub fn placed(&self) -> Option<&Chosen> {
        let claim = self.step(BootStep::Claim)?;
        let is_there = claim.state != StepState::Undone;
        self.chosen(self.attempt).filter(|_| is_there)
    }

    /// The accelerator requests of an attempt.
    #[must_use]
    pub fn requests(&self, attempt: u32) -> Option<&BTreeMap<ArqUuid, u32>> {
        match &self.steps.get(&(attempt, BootStep::Arqs))?.detail {
            StepDetail::Requests(requests) => Some(requests),
            StepDetail::Nothing | StepDetail::Claim(_) => None,
        }
    }

    /// What users are told of a boot that failed; none where it did not. No host is named in it.
    #[must_use]
    pub fn fault_told(&self) -> Option<String> {
        let Course::Failed { reason, told } = &self.course else {
            return None;
        };
        let of_earlier_release = || match reason.starts_with(NO_VALID_HOST) {
            true => format!("{NO_VALID_HOST}."),
            false => match self.failures.split_last() {
                Some((last, before)) => told_of(self.request.uuid(), before, last),
                None => "it could not be built".to_owned(),
            },
        };
        Some(told.clone().unwrap_or_else(of_earlier_release))
    }

    /// The steps of which anything may be there, the last first.
    pub fn acted(&self) -> impl Iterator<Item = (u32, BootStep)> {
        let steps = self.steps.iter().rev();
        let acted = steps.filter(|(_, record)| record.state != StepState::Undone);
        acted.map(|(place, _)| *place)
    }

    /// Whether anything is still to be done.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self.course {
            Course::Boot | Course::Undo { .. } | Course::Delete => true,
            Course::Active | Course::Failed { .. } => false,
        }
    }
}

/// What the sentence of a search without a host begins with.
const NO_VALID_HOST: &str = "No valid host was found";

/// What users are told of a guest whose last attempt failed so, after those before it.
pub(crate) fn told_of(
    guest: ConsumerUuid,
    before: &[FailedAttempt],
    last: &FailedAttempt,
) -> String {
    if before.is_empty() {
        return last.told().to_owned();
    }
    let all = before.iter().chain(std::iter::once(last)).enumerate();
    let all: Vec<_> = all
        .map(|(index, failed)| format!("attempt {}: {}", index + 1, failed.told()))
        .collect();
    format!(
        "Exceeded maximum number of retries: no host that could be tried has built instance {guest} ({})",
        all.join("; ")
    )
}

/// A detail as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum DetailText {
    Claim {
        host: Uuid,
        node: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host_name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<String>,
        request: AllocationRequest,
        #[serde(default, skip_serializing_if = "LimitsBody::is_none")]
        limits: LimitsBody,
    },
    Requests(BTreeMap<Uuid, u32>),
}

impl StepDetail {
    /// Its text; empty for nothing.
    pub(super) fn to_text(&self) -> String {
        let text = match self {
            Self::Nothing => return String::new(),
            Self::Claim(chosen) => DetailText::Claim {
                host: *chosen.host.as_uuid(),
                node: chosen.node.to_string(),
                host_name: chosen.host_name.clone(),
                cell: chosen.cell.clone(),
                request: chosen.candidate.to_body(),
                limits: chosen.limits.clone(),
            },
            Self::Requests(requests) => {
                let plain = requests.iter().map(|(arq, group)| (*arq.as_uuid(), *group));
                DetailText::Requests(plain.collect())
            }
        };
        String::from_utf8_lossy(&berth_wire::encode(&text)).into_owned()
    }

    pub(super) fn of_text(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::Nothing);
        }
        let told = |error: &dyn fmt::Display| format!("detail: {error}");
        match berth_wire::decode(text.as_bytes()).map_err(|e| told(&e))? {
            DetailText::Claim {
                host,
                node,
                host_name,
                cell,
                request,
                limits,
            } => Ok(Self::Claim(Box::new(Chosen {
                host: host.into(),
                node: NodeName::new(&node).map_err(|e| told(&e))?,
                host_name,
                cell,
                candidate: Candidate::of_body(&request).map_err(|e| told(&e))?,
                limits,
            }))),
            DetailText::Requests(plain) => {
                let requests = plain.into_iter().map(|(arq, group)| (arq.into(), group));
                Ok(Self::Requests(requests.collect()))
            }
        }
    }
}
