//! What other services tell of servers, handed to the agents that wait for it. Only the end of a bind is waited for by anybody; an
//! agent that does not hear of one asks by itself, so that an event that reaches nobody is late news, not a loss.

use std::collections::BTreeMap;

use berth_conductor::ConductorError;
use berth_conductor::journal::JournalError;
use berth_model::{ArqUuid, ConsumerUuid, NodeName};
use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, ServerExternalEvent};
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::compute::Compute;
use crate::servers::ServerError;

/// What becomes of an event, in Nova's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The server's agent has it.
    Taken,
    /// It does not say what it is about.
    Unreadable,
    /// There is no such server.
    NoServer,
    /// Nobody waits for it: the server is on no host yet, its agent does not answer, or no part of Berth acts on such events.
    Nobody,
}

impl Heard {
    /// As an answer has it.
    pub(crate) const fn code(self) -> u16 {
        match self {
            Self::Taken => 200,
            Self::Unreadable => 400,
            Self::NoServer => 404,
            Self::Nobody => 422,
        }
    }

    const fn of_code(code: Option<u16>) -> Self {
        match code {
            Some(200) => Self::Taken,
            Some(400) => Self::Unreadable,
            Some(404) => Self::NoServer,
            _ => Self::Nobody,
        }
    }
}

/// Where a server's events go.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Receiver {
    NoServer,
    NoHost,
    Node(NodeName),
}

impl Compute {
    /// Hands events on, to each agent its own, all agents at once; what became of each, in their order.
    pub(crate) async fn tell(
        &self,
        events: &[ServerExternalEvent],
    ) -> Result<Vec<Heard>, ServerError> {
        let mut receivers: BTreeMap<Uuid, Receiver> = BTreeMap::new();
        let mut heard = vec![Heard::Nobody; events.len()];
        let mut of_nodes: BTreeMap<NodeName, Vec<usize>> = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            let receiver = match receivers.get(&event.server_uuid) {
                Some(known) => known.clone(),
                None => self.receiver(event.server_uuid).await?,
            };
            receivers.insert(event.server_uuid, receiver.clone());
            let is_bind = event.name == ACCELERATOR_REQUEST_BOUND;
            let tag = event.tag.as_deref().unwrap_or_default();
            heard[at] = match receiver {
                Receiver::NoServer => Heard::NoServer,
                _ if is_bind && tag.parse::<ArqUuid>().is_err() => Heard::Unreadable,
                Receiver::Node(node) if is_bind => {
                    of_nodes.entry(node).or_default().push(at);
                    Heard::Nobody
                }
                Receiver::Node(_) | Receiver::NoHost => Heard::Nobody,
            };
        }
        for (at, code) in self.hand_on(events, of_nodes).await {
            heard[at] = Heard::of_code(code);
        }
        Ok(heard)
    }

    async fn receiver(&self, uuid: Uuid) -> Result<Receiver, ServerError> {
        match self.inner.conductor.show(ConsumerUuid::from(uuid)).await {
            Ok(record) => Ok(record.placed().map_or(Receiver::NoHost, |chosen| {
                Receiver::Node(chosen.node.clone())
            })),
            Err(ConductorError::NotFound { .. }) => match self.server(uuid).await {
                Ok(_) => Ok(Receiver::NoHost),
                Err(ServerError::NotFound { .. }) => Ok(Receiver::NoServer),
                Err(error) => Err(error),
            },
            // Nobody knows where it is; the others' events go on.
            Err(ConductorError::Journal(JournalError::Unreadable(guest))) => {
                self.tell_of_unreadable(&guest);
                Ok(Receiver::NoHost)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Each agent gets its events; the codes of those that were answered.
    async fn hand_on(
        &self,
        events: &[ServerExternalEvent],
        of_nodes: BTreeMap<NodeName, Vec<usize>>,
    ) -> Vec<(usize, Option<u16>)> {
        let mut asked = JoinSet::new();
        for (node, places) in of_nodes {
            let Some(agent) = self.inner.conductor.agent(&node) else {
                continue;
            };
            let own: Vec<_> = places
                .iter()
                .filter_map(|at| events.get(*at).cloned())
                .collect();
            let wait = self.inner.options.agent_wait;
            asked.spawn(async move {
                let told = timeout(wait, agent.external_events(own)).await;
                let told = told.map(Result::unwrap_or_default).unwrap_or_default();
                let codes = told.into_iter().map(|event| event.code);
                places.into_iter().zip(codes).collect::<Vec<_>>()
            });
        }
        asked.join_all().await.into_iter().flatten().collect()
    }
}
