//! The record of a guest in the journal: its goal, its attempts, and the state of each step.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_client::placement::Candidate;
use berth_model::{ArqUuid, ConsumerUuid, GroupSuffix, NodeName, ProviderUuid};
use berth_store::Value;
use berth_wire::guest::LimitsBody;
use berth_wire::network_info::VifBody;
use berth_wire::placement::AllocationRequest;
use berth_workflow::{JournalRecord, JournalSchema, RecordRow, StepDetail, StepRecord, StepState};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::schema::SCHEMA;
use crate::{BootRequest, HostNode};

/// A guest with an unanswered creation of a port, which may take effect later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatePort {
    pub guest: ConsumerUuid,
    /// The project of the guest and its ports.
    pub project: String,
}

/// The steps of an attempt, in order.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    strum::Display,
    strum::EnumString,
    strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum BootStep {
    /// Claim an allocation candidate in Placement.
    Claim,
    /// Create the accelerator requests (ARQs) of the device profile.
    Arqs,
    /// Bind the ARQs to the claimed providers.
    Bind,
    /// Create or take the ports of the requested networks.
    Ports,
    /// Bind the ports to the host.
    PortBinding,
    /// The host's agent builds the guest.
    Build,
}

impl BootStep {
    /// All steps, in order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
}

/// The selected host, and the allocation candidate on it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenHost {
    /// The host's root provider.
    pub host: ProviderUuid,
    pub node: NodeName,
    /// The host's name; `None` in records of older releases.
    pub host_name: Option<String>,
    /// The host's cell; `None` in records of older releases.
    pub cell: Option<String>,
    /// The host's availability zone; `None` in records of older releases.
    pub zone: Option<String>,
    pub candidate: Candidate,
    /// The scheduler's limits, which the host's agent applies.
    pub limits: LimitsBody,
}

impl ChosenHost {
    /// The node, with the host that reported it. In records of older releases the host has the name of the node.
    #[must_use]
    pub fn host_node(&self) -> HostNode {
        let host = self.host_name.clone();
        HostNode {
            host: host.unwrap_or_else(|| self.node.to_string()),
            node: self.node.clone(),
        }
    }

    /// The providers of the device profile's request groups.
    #[must_use]
    pub fn devices(&self) -> Vec<Uuid> {
        let groups = (0u32..).map(GroupSuffix::of_device_profile);
        let devices = groups.map_while(|suffix| self.candidate.serving(&suffix));
        let devices: BTreeSet<_> = devices.collect();
        devices.iter().map(|it| *it.as_uuid()).collect()
    }
}

/// Data that is needed to resume or undo a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum BootStepDetail {
    #[default]
    Nothing,
    Claim(Box<ChosenHost>),
    /// The ARQs, each with its group of the device profile.
    Requests(BTreeMap<ArqUuid, u32>),
    /// The ports in the order of the requested networks.
    Ports(Vec<BootPort>),
    /// The bound ports as the agent gets them.
    Vifs(Vec<VifBody>),
}

/// A port of a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootPort {
    pub port: Uuid,
    pub origin: PortOrigin,
}

/// Where a port comes from, which decides what its guest leaves of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortOrigin {
    /// Created by the boot, and deleted with it.
    Created,
    /// Named by the request, and unbound with it.
    Given,
}

/// State and data of a step.
pub type BootStepRecord = StepRecord<BootStepDetail>;

/// What follows after an attempt is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterUndo {
    #[serde(rename = "again")]
    Retry,
    Fail,
}

/// The goal of a guest, which its reconcile task works towards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BootGoal {
    Boot,
    /// Undo the current attempt.
    Undo {
        failed: FailedAttempt,
        then: AfterUndo,
    },
    /// Built. From here on, the agent manages the guest.
    Active,
    /// Failed and undone. The record stays with the reason until the guest is deleted.
    Failed {
        /// Reasons of all attempts with their hosts, for operators.
        reason: String,
        /// Message for users; `None` in records of older releases.
        #[serde(default, rename = "told", skip_serializing_if = "Option::is_none")]
        user_message: Option<String>,
    },
    Delete,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedAttempt {
    /// The selected node; `None` if there was no candidate.
    pub node: Option<String>,
    /// Name of the node's host; `None` in records of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The host's cell; `None` in records of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    pub reason: String,
    /// Message for users, without the host; `None` in records of older releases.
    #[serde(default, rename = "told", skip_serializing_if = "Option::is_none")]
    pub user_message: Option<String>,
    /// Providers that later attempts avoid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoid: Vec<Uuid>,
    /// Whether the failure is temporary: the providers are tried again if there are no others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passes: bool,
}

impl FailedAttempt {
    /// The message for users.
    #[must_use]
    pub fn user_message(&self) -> &str {
        let user_message = self.user_message.as_deref();
        user_message.unwrap_or("the selected host could not build it")
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

/// All that the journal records of a guest.
#[derive(Debug, Clone, PartialEq)]
pub struct BootRecord {
    pub request: BootRequest,
    pub goal: BootGoal,
    /// The current or last attempt, from 1.
    pub attempt: u32,
    pub failures: Vec<FailedAttempt>,
    /// States of the steps by attempt.
    pub steps: BTreeMap<(u32, BootStep), BootStepRecord>,
}

impl JournalRecord for BootRecord {
    const SCHEMA: JournalSchema = SCHEMA;
    const COLUMNS: &'static [&'static str] =
        &["request", "config_drive", "course", "attempt", "failures"];
    const DELETING: &'static str = "ending <> 0";
    /// An attempt and its step.
    type Step = (u32, BootStep);
    const STEP_COLUMNS: &'static [&'static str] = &["attempt", "step"];
    type Detail = BootStepDetail;

    fn step_values((attempt, step): &Self::Step) -> Vec<Value> {
        vec![i64::from(*attempt).into(), step.to_string().into()]
    }

    fn read_step(row: &RecordRow<'_>) -> Result<Self::Step, String> {
        Ok((row.number("attempt")?, row.word("step")?))
    }

    fn from_row(
        row: &RecordRow<'_>,
        steps: BTreeMap<Self::Step, BootStepRecord>,
    ) -> Result<Self, String> {
        let drive = row.opt_text("config_drive")?;
        Ok(Self {
            request: BootRequest::from_journal(&row.text("request")?, drive.as_deref())?,
            goal: row.json("course")?,
            attempt: row.number("attempt")?,
            failures: row.json("failures")?,
            steps,
        })
    }

    fn uuid(&self) -> ConsumerUuid {
        self.request.uuid()
    }
}

impl BootRecord {
    /// The state of a step in the current attempt; `None` before it begins.
    #[must_use]
    pub fn step(&self, step: BootStep) -> Option<&BootStepRecord> {
        self.steps.get(&(self.attempt, step))
    }

    /// Sets a step of the current attempt.
    pub(crate) fn set_step(&mut self, step: BootStep, state: StepState, detail: BootStepDetail) {
        let record = BootStepRecord { state, detail };
        self.steps.insert((self.attempt, step), record);
    }

    /// The host and candidate that an attempt claimed, or may have claimed.
    #[must_use]
    pub fn chosen(&self, attempt: u32) -> Option<&ChosenHost> {
        match &self.steps.get(&(attempt, BootStep::Claim))?.detail {
            BootStepDetail::Claim(chosen) => Some(chosen),
            _ => None,
        }
    }

    /// The host of the guest, or where it is being built; `None` without a claim.
    #[must_use]
    pub fn placement(&self) -> Option<&ChosenHost> {
        let claim = self.step(BootStep::Claim)?;
        let is_there = claim.state != StepState::Undone;
        self.chosen(self.attempt).filter(|_| is_there)
    }

    /// The ARQs of an attempt, with their groups of the device profile.
    #[must_use]
    pub fn arqs(&self, attempt: u32) -> Option<&BTreeMap<ArqUuid, u32>> {
        match &self.steps.get(&(attempt, BootStep::Arqs))?.detail {
            BootStepDetail::Requests(requests) => Some(requests),
            _ => None,
        }
    }

    /// The ports of an attempt, in the order of the requested networks; `None` until all are known.
    #[must_use]
    pub fn ports(&self, attempt: u32) -> Option<&[BootPort]> {
        match &self.steps.get(&(attempt, BootStep::Ports))?.detail {
            BootStepDetail::Ports(ports) => Some(ports),
            _ => None,
        }
    }

    /// The guest's virtual interfaces as they were bound; empty without ports.
    #[must_use]
    pub fn vifs(&self) -> &[VifBody] {
        let binding = self.step(BootStep::PortBinding);
        match binding.map(|record| (&record.detail, record.state)) {
            Some((BootStepDetail::Vifs(vifs), StepState::Done)) => vifs,
            _ => &[],
        }
    }

    /// The message for users about a failed boot, without host names; `None` if the boot has not failed.
    #[must_use]
    pub fn user_fault(&self) -> Option<String> {
        let BootGoal::Failed {
            reason,
            user_message,
        } = &self.goal
        else {
            return None;
        };
        let of_earlier_release = || match reason.starts_with(NO_VALID_HOST) {
            true => format!("{NO_VALID_HOST}."),
            false => match self.failures.split_last() {
                Some((last, before)) => user_fault_of_attempts(self.request.uuid(), before, last),
                None => "it could not be built".to_owned(),
            },
        };
        Some(user_message.clone().unwrap_or_else(of_earlier_release))
    }

    /// The steps of all attempts that may have acted, the last first.
    pub fn steps_to_undo(&self) -> impl Iterator<Item = (u32, BootStep)> {
        let steps = self.steps.iter().rev();
        let steps = steps.filter(|(_, record)| record.state != StepState::Undone);
        steps.map(|(place, _)| *place)
    }

    /// Whether the goal is not reached yet.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self.goal {
            BootGoal::Boot | BootGoal::Undo { .. } | BootGoal::Delete => true,
            BootGoal::Active | BootGoal::Failed { .. } => false,
        }
    }
}

/// Prefix of the reason if no host was found.
const NO_VALID_HOST: &str = "No valid host was found";

/// The message for users about a guest that failed after several attempts.
pub(crate) fn user_fault_of_attempts(
    guest: ConsumerUuid,
    before: &[FailedAttempt],
    last: &FailedAttempt,
) -> String {
    if before.is_empty() {
        return last.user_message().to_owned();
    }
    let all = before.iter().chain(std::iter::once(last)).enumerate();
    let all: Vec<_> = all
        .map(|(index, failed)| format!("attempt {}: {}", index + 1, failed.user_message()))
        .collect();
    format!(
        "Exceeded maximum number of retries: no host that could be tried has built instance {guest} ({})",
        all.join("; ")
    )
}

/// Serialised form of [`BootStepDetail`].
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<String>,
        request: AllocationRequest,
        #[serde(default, skip_serializing_if = "LimitsBody::is_none")]
        limits: LimitsBody,
    },
    Requests(BTreeMap<Uuid, u32>),
    Ports(Vec<BootPort>),
    Vifs(Vec<VifBody>),
}

/// The text of [`BootStepDetail::Nothing`] is empty.
impl StepDetail for BootStepDetail {
    fn to_text(&self) -> String {
        let text = match self {
            Self::Nothing => return String::new(),
            Self::Claim(chosen) => DetailText::Claim {
                host: *chosen.host.as_uuid(),
                node: chosen.node.to_string(),
                host_name: chosen.host_name.clone(),
                cell: chosen.cell.clone(),
                zone: chosen.zone.clone(),
                request: chosen.candidate.to_body(),
                limits: chosen.limits.clone(),
            },
            Self::Requests(requests) => {
                let plain = requests.iter().map(|(arq, group)| (*arq.as_uuid(), *group));
                DetailText::Requests(plain.collect())
            }
            Self::Ports(ports) => DetailText::Ports(ports.clone()),
            Self::Vifs(vifs) => DetailText::Vifs(vifs.clone()),
        };
        String::from_utf8_lossy(&berth_wire::encode(&text)).into_owned()
    }

    fn from_text(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::Nothing);
        }
        let detail_error = |error: &dyn fmt::Display| format!("detail: {error}");
        match berth_wire::decode(text.as_bytes()).map_err(|e| detail_error(&e))? {
            DetailText::Claim {
                host,
                node,
                host_name,
                cell,
                zone,
                request,
                limits,
            } => Ok(Self::Claim(Box::new(ChosenHost {
                host: host.into(),
                node: NodeName::new(&node).map_err(|e| detail_error(&e))?,
                host_name,
                cell,
                zone,
                candidate: Candidate::of_body(&request).map_err(|e| detail_error(&e))?,
                limits,
            }))),
            DetailText::Requests(plain) => {
                let requests = plain.into_iter().map(|(arq, group)| (arq.into(), group));
                Ok(Self::Requests(requests.collect()))
            }
            DetailText::Ports(ports) => Ok(Self::Ports(ports)),
            DetailText::Vifs(vifs) => Ok(Self::Vifs(vifs)),
        }
    }
}
