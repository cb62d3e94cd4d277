//! What is known of servers now: how far the conductor is with each, what its agent says of it, and what both come to.

use std::collections::{BTreeMap, BTreeSet};

use berth_conductor::ConductorError;
use berth_conductor::journal::{
    BootRecord, BootStep, Course, FailedAttempt, JournalError, UnreadableGuest,
};
use berth_model::{ConsumerUuid, NodeName};
use berth_wire::guest::GuestBody;
use uuid::Uuid;

use crate::compute::Compute;
use crate::server_state::{Boot, Seen, ServerFacts, ServerState, VmState};
use crate::servers::{AgentWord, Handed, Server, ServerError};

/// Whether agents are asked, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Agents,
    /// What they said last is enough.
    Conductor,
}

/// Where a guest is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) node: NodeName,
}

/// Why a server is in error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerFault {
    /// In one sentence, without the host and its own words: for everybody.
    pub(crate) message: String,
    /// What an operator is told besides: every attempt, with its host.
    pub(crate) details: String,
}

/// A server, and all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownServer {
    pub(crate) server: Server,
    pub(crate) state: ServerState,
    /// Where its guest is; none where it is nowhere.
    pub(crate) place: Option<Place>,
    /// Where it is in error.
    pub(crate) fault: Option<ServerFault>,
    /// Whether the conductor's journal has of its guest what cannot be read: this is the last word about it.
    pub(crate) is_unreadable: bool,
}

impl KnownServer {
    /// Whether there is no guest that anything could be done with: its boot failed.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.state.vm_state == VmState::Error && self.place.is_none()
    }
}

/// What the conductor says of a server.
enum Told {
    /// Nobody knows the guest any more.
    Gone,
    /// So far it is.
    Boot(Boot, Option<Box<BootRecord>>),
    /// So far it was, by the last word; what is written of it cannot be read.
    Unreadable(Boot),
}

/// What the conductor's journal has of a server's guest.
type Recorded = Result<BootRecord, UnreadableGuest>;

impl Compute {
    /// What is known of a server.
    pub(crate) async fn known_server(&self, uuid: Uuid) -> Result<KnownServer, ServerError> {
        let server = self.server(uuid).await?;
        let known = self.known(vec![server], Look::Agents).await?.pop();
        known.ok_or(ServerError::NotFound { uuid })
    }

    /// What is known of these servers, in their order. Those whose guests nobody knows any more are left out, and seen off.
    pub(crate) async fn known(
        &self,
        servers: Vec<Server>,
        look: Look,
    ) -> Result<Vec<KnownServer>, ServerError> {
        let mut records = self.records(&servers).await?;
        let is_missing = |server: &Server| {
            let is_over = server.handed == Handed::Over && server.owner == Some(self.owner());
            is_over && !server.deleting && !records.contains_key(&server.uuid)
        };
        let missing: Vec<Uuid> = servers
            .iter()
            .filter(|it| is_missing(it))
            .map(|it| it.uuid)
            .collect();
        if !missing.is_empty()
            && let Some(nameless) = self.inner.conductor.nameless().await?
        {
            records.extend(
                missing
                    .into_iter()
                    .map(|uuid| (uuid, Err(nameless.clone()))),
            );
        }
        let told: Vec<(Server, Told)> = servers
            .into_iter()
            .map(|server| {
                let told = match records.remove(&server.uuid).transpose() {
                    Ok(record) => {
                        let told = told(&server, record, self.owner());
                        if matches!(told, Told::Boot(_, None)) && server.handed == Handed::Over {
                            self.tell_of_anothers(server.uuid);
                        }
                        told
                    }
                    Err(unreadable) => {
                        self.tell_of_unreadable(&unreadable);
                        Told::Unreadable(last(&server))
                    }
                };
                (server, told)
            })
            .collect();
        let guests = match look {
            Look::Conductor => BTreeMap::new(),
            Look::Agents => self.ask_agents(on_nodes(&told)).await,
        };
        let mut known = Vec::with_capacity(told.len());
        for (server, told) in told {
            match told {
                Told::Gone => self.set_out(server.uuid),
                Told::Unreadable(boot) => known.push(KnownServer {
                    is_unreadable: true,
                    ..of(server, boot, None, None)
                }),
                Told::Boot(boot, record) => {
                    let guest = guests.get(&server.uuid);
                    if let Err(error) = self.remember(&server, guest).await {
                        // What is shown is right all the same.
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            server = %server.uuid,
                            "what its agent says of a server is not kept"
                        );
                    }
                    known.push(of(server, boot, record.as_deref(), guest));
                }
            }
        }
        Ok(known)
    }

    /// The tries to build a server that failed, the first of them first; none of one that nobody knows any more, or of which nobody
    /// can read anything.
    pub(crate) async fn failed_tries(&self, uuid: Uuid) -> Result<Vec<FailedAttempt>, ServerError> {
        match self.inner.conductor.show(ConsumerUuid::from(uuid)).await {
            Err(
                ConductorError::NotFound { .. }
                | ConductorError::Journal(JournalError::Unreadable(_)),
            ) => Ok(Vec::new()),
            record => Ok(record?.failures),
        }
    }

    /// What the conductor has of those that it was handed.
    async fn records(
        &self,
        servers: &[Server],
    ) -> Result<BTreeMap<Uuid, Recorded>, ConductorError> {
        let handed = servers.iter().filter(|it| it.handed == Handed::Over);
        let handed: Vec<_> = handed.map(|it| ConsumerUuid::from(it.uuid)).collect();
        let records = self.inner.conductor.guests_of(&handed).await?;
        let readable = records.readable.into_iter();
        let readable = readable.map(|record| (record.request.uuid(), Ok(record)));
        let unreadable = records.unreadable.into_iter();
        let unreadable = unreadable.filter_map(|it| Some((it.guest.parse().ok()?, Err(it))));
        let all = readable.chain(unreadable);
        Ok(all.map(|(guest, it)| (*guest.as_uuid(), it)).collect())
    }

    /// Keeps what an agent says, for when it does not answer.
    async fn remember(
        &self,
        server: &Server,
        guest: Option<&GuestBody>,
    ) -> Result<(), ServerError> {
        let Some(guest) = guest else {
            return Ok(());
        };
        match word(guest) {
            Some(word) if server.last != seen(guest) => self.seen(server, word).await,
            _ => Ok(()),
        }
    }
}

/// How far a server is by the conductor's record.
fn told(server: &Server, record: Option<BootRecord>, own: Uuid) -> Told {
    let boot = match (&server.handed, &record) {
        (Handed::Over, None) if server.owner == Some(own) => return Told::Gone,
        (_, record) if server.deleting => Boot::Deleting {
            failed: had_failed(server, record.as_ref()),
        },
        (Handed::Over, None) => seen_last(server),
        (Handed::NotYet { .. }, _) => Boot::Scheduling,
        (Handed::Refused { .. }, _) => Boot::Failed,
        (Handed::Over, Some(record)) => course(record),
    };
    Told::Boot(boot, record.map(Box::new))
}

/// Whether the boot of a server that goes had failed. Its record may say only that it goes by now: then its boot was seen to have
/// come to its end, and it is neither on a host nor was it ever seen there.
fn had_failed(server: &Server, record: Option<&BootRecord>) -> bool {
    match (&server.handed, record) {
        (Handed::Refused { .. }, _) => true,
        (Handed::NotYet { .. }, _) => false,
        (Handed::Over, None) => seen_last(server) == Boot::Failed,
        (Handed::Over, Some(record)) => match record.course {
            Course::Failed { .. } => true,
            Course::Delete => seen_last(server) == Boot::Failed && record.placed().is_none(),
            Course::Boot | Course::Undo { .. } | Course::Active => false,
        },
    }
}

/// How far a server is whose record cannot be read.
fn last(server: &Server) -> Boot {
    match server.deleting {
        true => Boot::Deleting {
            failed: seen_last(server) == Boot::Failed,
        },
        false => seen_last(server),
    }
}

/// How far a server is that another conductor's journal knows, by the last word.
fn seen_last(server: &Server) -> Boot {
    match (server.settled_at, server.last) {
        (None, None) => Boot::Scheduling,
        (_, Some(_)) => Boot::Active,
        (Some(_), None) => Boot::Failed,
    }
}

/// How far a record is.
fn course(record: &BootRecord) -> Boot {
    match &record.course {
        Course::Active => Boot::Active,
        Course::Failed { .. } => Boot::Failed,
        Course::Delete => Boot::Deleting { failed: false },
        Course::Boot if record.step(BootStep::Claim).is_some() => Boot::Spawning,
        Course::Boot | Course::Undo { .. } => Boot::Scheduling,
    }
}

/// The guests that may be on hosts, by node.
fn on_nodes(told: &[(Server, Told)]) -> BTreeMap<NodeName, BTreeSet<Uuid>> {
    let mut nodes: BTreeMap<NodeName, BTreeSet<Uuid>> = BTreeMap::new();
    for (server, told) in told {
        if let Told::Boot(Boot::Active | Boot::Deleting { .. }, Some(record)) = told
            && let Some(chosen) = record.placed()
        {
            let guests = nodes.entry(chosen.node.clone()).or_default();
            guests.insert(server.uuid);
        }
    }
    nodes
}

/// What an agent says, in this release's words; none where it has others.
fn seen(guest: &GuestBody) -> Option<Seen> {
    Some(Seen {
        status: guest.status.parse().ok()?,
        power: guest.state.as_deref().and_then(|word| word.parse().ok()),
    })
}

/// The same as it is kept.
pub(crate) fn word(guest: &GuestBody) -> Option<AgentWord> {
    seen(guest)?;
    Some(AgentWord {
        status: guest.status.clone(),
        power: guest.state.clone(),
    })
}

fn of(
    server: Server,
    boot: Boot,
    record: Option<&BootRecord>,
    guest: Option<&GuestBody>,
) -> KnownServer {
    let facts = ServerFacts {
        boot,
        seen: guest.and_then(seen),
        last: server.last,
        task: server.task,
    };
    let chosen = record.and_then(BootRecord::placed);
    KnownServer {
        state: ServerState::of(&facts),
        place: chosen.map(|chosen| Place {
            host: chosen
                .host_name
                .clone()
                .unwrap_or_else(|| chosen.node.to_string()),
            node: chosen.node.clone(),
        }),
        fault: fault(&server, record, guest),
        server,
        is_unreadable: false,
    }
}

fn fault(
    server: &Server,
    record: Option<&BootRecord>,
    guest: Option<&GuestBody>,
) -> Option<ServerFault> {
    if let Handed::Refused { reason } = &server.handed {
        let message = reason.clone();
        return Some(ServerFault {
            details: message.clone(),
            message,
        });
    }
    let record = record?;
    if let Course::Failed { reason, .. } = &record.course {
        return Some(ServerFault {
            message: record.fault_told()?,
            details: reason.clone(),
        });
    }
    let guest = guest.filter(|guest| guest.status == "failed")?;
    let message = match guest.blame.as_deref() {
        Some("image") => "its image cannot be used",
        _ => "its host could not build it",
    };
    Some(ServerFault {
        message: message.to_owned(),
        details: guest.reason.clone()?,
    })
}
