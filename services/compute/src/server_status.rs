//! The current status of servers, computed from the conductor's record, the agent's report and the server's row.

use std::collections::{BTreeMap, BTreeSet};

use berth_conductor::journal::{
    BootGoal, BootRecord, BootStep, ChosenHost, FailedAttempt, JournalError, UnreadableRecord,
};
use berth_conductor::{ConductorError, HostNode};
use berth_model::ConsumerUuid;
use berth_wire::guest::{GuestBody, InterfaceBody, NetworkSource};
use berth_wire::network_info::VifBody;
use uuid::Uuid;

use crate::compute::Compute;
use crate::server_state::{BootPhase, GuestObservation, ServerFacts, ServerState, VmState};
use crate::servers::{ConductorHandoff, ServerError, ServerRecord, StoredAgentReport};

/// Whether agents are queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentPolling {
    QueryAgents,
    /// The last reported state is enough.
    UseLastReport,
}

/// Why a server is in error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerFault {
    /// One sentence without host names, for the server's owner.
    pub(crate) message: String,
    /// For operators: every attempt with its host.
    pub(crate) details: String,
}

/// A server with its computed status.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerWithStatus {
    pub(crate) server: ServerRecord,
    pub(crate) state: ServerState,
    /// The host of its guest; `None` if it has none.
    pub(crate) placement: Option<HostNode>,
    /// The interfaces of its guest. Without an answer of its agent, only their networks are known.
    pub(crate) interfaces: Vec<InterfaceBody>,
    /// Its ports as they are bound; empty without the network service.
    pub(crate) vifs: Vec<VifBody>,
    /// The names of its security groups, if the network service was asked.
    pub(crate) security_groups: Vec<String>,
    /// Set if the server is in error.
    pub(crate) fault: Option<ServerFault>,
    /// Whether the conductor's record is unreadable, so that this is the last known state.
    pub(crate) is_unreadable: bool,
}

impl ServerWithStatus {
    /// The interfaces that are no ports.
    pub(crate) fn interfaces_without_port(&self) -> impl Iterator<Item = &InterfaceBody> {
        let is_port = |interface: &InterfaceBody| {
            let mut vifs = self.vifs.iter();
            vifs.any(|vif| vif.address.eq_ignore_ascii_case(&interface.mac))
        };
        self.interfaces.iter().filter(move |it| !is_port(it))
    }

    /// Whether the boot failed and no guest exists.
    pub(crate) fn has_no_guest(&self) -> bool {
        self.state.vm_state == VmState::Error && self.placement.is_none()
    }
}

/// The conductor's view of a server.
enum ConductorReport {
    /// The conductor has no record of the guest.
    Gone,
    Boot(BootPhase, Option<Box<BootRecord>>),
    /// The record is unreadable; this is the last known phase.
    Unreadable(BootPhase),
}

/// The conductor's journal entry for a guest.
type JournalEntry = Result<BootRecord, UnreadableRecord>;

impl Compute {
    /// The status of one server.
    pub(crate) async fn server_with_status(
        &self,
        uuid: Uuid,
    ) -> Result<ServerWithStatus, ServerError> {
        let server = self.server(uuid).await?;
        let known = self
            .with_status(vec![server], AgentPolling::QueryAgents)
            .await?
            .pop();
        known.ok_or(ServerError::NotFound { uuid })
    }

    /// The status of these servers, in order. Servers without an existing guest are left out, and
    /// their deletion is completed.
    pub(crate) async fn with_status(
        &self,
        servers: Vec<ServerRecord>,
        polling: AgentPolling,
    ) -> Result<Vec<ServerWithStatus>, ServerError> {
        let mut conductor_records = self.conductor_records(&servers).await?;
        let is_missing = |server: &ServerRecord| {
            let is_accepted =
                server.handoff == ConductorHandoff::Accepted && server.owner == Some(self.owner());
            is_accepted && !server.deleting && !conductor_records.contains_key(&server.uuid)
        };
        let missing: Vec<Uuid> = servers
            .iter()
            .filter(|server| is_missing(server))
            .map(|server| server.uuid)
            .collect();
        if !missing.is_empty()
            && let Some(unidentified_guest) = self.inner.conductor.unidentified_guest().await?
        {
            conductor_records.extend(
                missing
                    .into_iter()
                    .map(|uuid| (uuid, Err(unidentified_guest.clone()))),
            );
        }
        let reports: Vec<(ServerRecord, ConductorReport)> = servers
            .into_iter()
            .map(|server| {
                let report = match conductor_records.remove(&server.uuid).transpose() {
                    Ok(record) => {
                        let report = conductor_report(&server, record, self.owner());
                        if matches!(report, ConductorReport::Boot(_, None))
                            && server.handoff == ConductorHandoff::Accepted
                        {
                            self.log_foreign_owner(server.uuid);
                        }
                        report
                    }
                    Err(unreadable) => {
                        self.log_unreadable_record(&unreadable);
                        ConductorReport::Unreadable(last_phase(&server))
                    }
                };
                (server, report)
            })
            .collect();
        let guests = match polling {
            AgentPolling::UseLastReport => BTreeMap::new(),
            AgentPolling::QueryAgents => self.query_agents(guests_by_node(&reports)).await,
        };
        let mut known = Vec::with_capacity(reports.len());
        for (server, report) in reports {
            match report {
                ConductorReport::Gone => self.start_task(server.uuid),
                ConductorReport::Unreadable(boot) => known.push(ServerWithStatus {
                    is_unreadable: true,
                    ..with_facts(server, boot, None, None)
                }),
                ConductorReport::Boot(boot, record) => {
                    let guest = guests.get(&server.uuid);
                    if let Err(error) = self.store_report_if_changed(&server, guest).await {
                        // The response is correct even so.
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            server = %server.uuid,
                            "storing the agent's report of a server failed"
                        );
                    }
                    known.push(with_facts(server, boot, record.as_deref(), guest));
                }
            }
        }
        Ok(known)
    }

    /// The failed attempts to build a server, oldest first. Empty if the record is gone or unreadable.
    pub(crate) async fn failed_attempts(
        &self,
        uuid: Uuid,
    ) -> Result<Vec<FailedAttempt>, ServerError> {
        match self.inner.conductor.show(ConsumerUuid::from(uuid)).await {
            Err(
                ConductorError::NotFound { .. }
                | ConductorError::Journal(JournalError::Unreadable(_)),
            ) => Ok(Vec::new()),
            record => Ok(record?.failures),
        }
    }

    /// The conductor's records of the servers that were handed over.
    async fn conductor_records(
        &self,
        servers: &[ServerRecord],
    ) -> Result<BTreeMap<Uuid, JournalEntry>, ConductorError> {
        let accepted = servers
            .iter()
            .filter(|server| server.handoff == ConductorHandoff::Accepted);
        let accepted: Vec<_> = accepted
            .map(|server| ConsumerUuid::from(server.uuid))
            .collect();
        let records = self.inner.conductor.guests_of(&accepted).await?;
        let readable = records.readable.into_iter();
        let readable = readable.map(|record| (record.request.uuid(), Ok(record)));
        let unreadable = records.unreadable.into_iter();
        let unreadable =
            unreadable.filter_map(|record| Some((record.guest.parse().ok()?, Err(record))));
        let all = readable.chain(unreadable);
        Ok(all
            .map(|(guest, entry)| (*guest.as_uuid(), entry))
            .collect())
    }

    /// Stores the agents' reports, for when an agent does not answer.
    async fn store_report_if_changed(
        &self,
        server: &ServerRecord,
        guest: Option<&GuestBody>,
    ) -> Result<(), ServerError> {
        let Some(guest) = guest else {
            return Ok(());
        };
        match stored_report(guest) {
            Some(stored_report) if server.last_report != observation(guest) => {
                self.store_agent_report(server, stored_report).await
            }
            _ => Ok(()),
        }
    }
}

/// How far a server is by the conductor's record.
fn conductor_report(
    server: &ServerRecord,
    record: Option<BootRecord>,
    own: Uuid,
) -> ConductorReport {
    let boot = match (&server.handoff, &record) {
        (ConductorHandoff::Accepted, None) if server.owner == Some(own) => {
            return ConductorReport::Gone;
        }
        (_, record) if server.deleting => BootPhase::Deleting {
            failed: boot_had_failed(server, record.as_ref()),
        },
        (ConductorHandoff::Accepted, None) => last_known_phase(server),
        (ConductorHandoff::Pending { .. }, _) => BootPhase::Scheduling,
        (ConductorHandoff::Refused { .. }, _) => BootPhase::Failed,
        (ConductorHandoff::Accepted, Some(record)) => boot_phase(record),
    };
    ConductorReport::Boot(boot, record.map(Box::new))
}

/// Whether the boot of a server that is being deleted had failed. If its record only says that it is being deleted, the
/// boot had failed if it ended and no host was ever recorded.
fn boot_had_failed(server: &ServerRecord, record: Option<&BootRecord>) -> bool {
    match (&server.handoff, record) {
        (ConductorHandoff::Refused { .. }, _) => true,
        (ConductorHandoff::Pending { .. }, _) => false,
        (ConductorHandoff::Accepted, None) => last_known_phase(server) == BootPhase::Failed,
        (ConductorHandoff::Accepted, Some(record)) => match record.goal {
            BootGoal::Failed { .. } => true,
            BootGoal::Delete => {
                last_known_phase(server) == BootPhase::Failed && record.placement().is_none()
            }
            BootGoal::Boot | BootGoal::Undo { .. } | BootGoal::Active => false,
        },
    }
}

/// The last known phase of a server with an unreadable record.
fn last_phase(server: &ServerRecord) -> BootPhase {
    match server.deleting {
        true => BootPhase::Deleting {
            failed: last_known_phase(server) == BootPhase::Failed,
        },
        false => last_known_phase(server),
    }
}

/// The last known phase of a server in another conductor's journal.
fn last_known_phase(server: &ServerRecord) -> BootPhase {
    match (server.settled_at, server.last_report) {
        (None, None) => BootPhase::Scheduling,
        (_, Some(_)) => BootPhase::Active,
        (Some(_), None) => BootPhase::Failed,
    }
}

/// How far a record is.
fn boot_phase(record: &BootRecord) -> BootPhase {
    match &record.goal {
        BootGoal::Active => BootPhase::Active,
        BootGoal::Failed { .. } => BootPhase::Failed,
        BootGoal::Delete => BootPhase::Deleting { failed: false },
        BootGoal::Boot if record.step(BootStep::Claim).is_some() => BootPhase::Spawning,
        BootGoal::Boot | BootGoal::Undo { .. } => BootPhase::Scheduling,
    }
}

/// Guests that may be on hosts, by node.
fn guests_by_node(
    report: &[(ServerRecord, ConductorReport)],
) -> BTreeMap<HostNode, BTreeSet<Uuid>> {
    let mut nodes: BTreeMap<HostNode, BTreeSet<Uuid>> = BTreeMap::new();
    for (server, report) in report {
        if let ConductorReport::Boot(BootPhase::Active | BootPhase::Deleting { .. }, Some(record)) =
            report
            && let Some(chosen) = record.placement()
        {
            let guests = nodes.entry(chosen.host_node()).or_default();
            guests.insert(server.uuid);
        }
    }
    nodes
}

/// Converts an agent's report; `None` if it has a state that this release does not know.
fn observation(guest: &GuestBody) -> Option<GuestObservation> {
    Some(GuestObservation {
        status: guest.status.parse().ok()?,
        power: guest.state.as_deref().and_then(|text| text.parse().ok()),
    })
}

/// The report in its stored form.
pub(crate) fn stored_report(guest: &GuestBody) -> Option<StoredAgentReport> {
    observation(guest)?;
    Some(StoredAgentReport {
        status: guest.status.clone(),
        power: guest.state.clone(),
    })
}
fn with_facts(
    server: ServerRecord,
    boot: BootPhase,
    record: Option<&BootRecord>,
    guest: Option<&GuestBody>,
) -> ServerWithStatus {
    let facts = ServerFacts {
        boot,
        current: guest.and_then(observation),
        last_report: server.last_report,
        task: server.task,
    };
    let chosen = record.and_then(BootRecord::placement);
    ServerWithStatus {
        state: ServerState::of(&facts),
        placement: chosen.map(ChosenHost::host_node),
        interfaces: interfaces(record, guest),
        vifs: record.map_or(&[][..], BootRecord::vifs).to_vec(),
        security_groups: Vec::new(),
        fault: fault(&server, record, guest),
        server,
        is_unreadable: false,
    }
}

fn interfaces(record: Option<&BootRecord>, guest: Option<&GuestBody>) -> Vec<InterfaceBody> {
    if let Some(guest) = guest {
        return guest.interfaces.clone();
    }
    let placed = record.filter(|record| record.placement().is_some());
    let networks = placed.map(|record| record.request.body().networks.iter());
    let named = networks.into_iter().flatten().map(|network| InterfaceBody {
        network: match &network.source {
            NetworkSource::Network(name) | NetworkSource::Bridge(name) => name.clone(),
            NetworkSource::Port(vif) => vif.network.label.clone().unwrap_or_default(),
        },
        mac: network.mac.clone().unwrap_or_default(),
        addresses: Vec::new(),
    });
    named.collect()
}

fn fault(
    server: &ServerRecord,
    record: Option<&BootRecord>,
    guest: Option<&GuestBody>,
) -> Option<ServerFault> {
    if let ConductorHandoff::Refused { reason } = &server.handoff {
        let message = reason.clone();
        return Some(ServerFault {
            details: message.clone(),
            message,
        });
    }
    let record = record?;
    if let BootGoal::Failed { reason, .. } = &record.goal {
        return Some(ServerFault {
            message: record.user_fault()?,
            details: reason.clone(),
        });
    }
    let guest = guest.filter(|guest| guest.status == "failed")?;
    let message = match guest.blame.as_deref() {
        Some("image") => "its image cannot be used",
        _ => "the host could not build it",
    };
    Some(ServerFault {
        message: message.to_owned(),
        details: guest.reason.clone()?,
    })
}
