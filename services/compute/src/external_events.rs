//! Forwards external events about servers to the agents that wait for them: the completion of a bind. An agent that misses
//! an event polls, so a lost event causes a delay but no failure. After an event about a port, the server's interfaces are
//! read again, and a port that was deleted is detached.

use std::collections::{BTreeMap, BTreeSet};

use berth_conductor::journal::{BootGoal, ChosenHost, JournalError};
use berth_conductor::{ConductorError, HostNode};
use berth_model::{ArqUuid, ConsumerUuid};
use berth_wire::compute::{ACCELERATOR_REQUEST_BOUND, ServerExternalEvent};
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::compute::Compute;
use crate::interface_changes::InterfaceChange;
use crate::servers::ServerError;

/// The names of events about ports begin with it.
const PORT_EVENT: &str = "network-";
const PORT_DELETED: &str = "network-vif-deleted";

/// The outcome of an event, with Nova's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventOutcome {
    /// The server's agent received it.
    Delivered,
    /// The event names no subject.
    Unreadable,
    /// There is no such server, or the caller is the account of a host and the server is not on this host.
    NoServer,
    /// No receiver: the server has no host yet, its agent does not answer, or Berth does not use such events.
    NotDelivered,
}

impl EventOutcome {
    /// The code in the response.
    pub(crate) const fn code(self) -> u16 {
        match self {
            Self::Delivered => 200,
            Self::Unreadable => 400,
            Self::NoServer => 404,
            Self::NotDelivered => 422,
        }
    }

    const fn of_code(code: Option<u16>) -> Self {
        match code {
            Some(200) => Self::Delivered,
            Some(400) => Self::Unreadable,
            Some(404) => Self::NoServer,
            _ => Self::NotDelivered,
        }
    }
}

/// The receiver of a server's events.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Receiver {
    NoServer,
    NoHost,
    Node(HostNode),
}

impl Receiver {
    fn is_on(&self, host: &str) -> bool {
        match self {
            Self::Node(node) => node.host == host,
            Self::NoServer | Self::NoHost => false,
        }
    }
}

impl Compute {
    /// Forwards events to their agents, all agents concurrently. Returns the outcome of each event, in order. With
    /// `only_host`, the servers of other hosts do not exist for the caller.
    pub(crate) async fn forward_events(
        &self,
        events: &[ServerExternalEvent],
        only_host: Option<&str>,
        caller: (&str, &str),
    ) -> Result<Vec<EventOutcome>, ServerError> {
        let mut receivers: BTreeMap<Uuid, Receiver> = BTreeMap::new();
        let mut outcomes = vec![EventOutcome::NotDelivered; events.len()];
        let mut by_node: BTreeMap<HostNode, Vec<usize>> = BTreeMap::new();
        let mut ports_of = BTreeSet::new();
        let mut deleted = BTreeSet::new();
        let has_networks = self.inner.conductor.networks().is_some();
        for (at, event) in events.iter().enumerate() {
            let receiver = match receivers.get(&event.server_uuid) {
                Some(known) => known.clone(),
                None => self.receiver(event.server_uuid).await?,
            };
            receivers.insert(event.server_uuid, receiver.clone());
            let is_bind = event.name == ACCELERATOR_REQUEST_BOUND;
            let is_port = has_networks && event.name.starts_with(PORT_EVENT);
            let tag = event.tag.as_deref().unwrap_or_default();
            outcomes[at] = match receiver {
                Receiver::NoServer => EventOutcome::NoServer,
                other if only_host.is_some_and(|host| !other.is_on(host)) => EventOutcome::NoServer,
                _ if is_bind && tag.parse::<ArqUuid>().is_err() => EventOutcome::Unreadable,
                Receiver::Node(_) if is_port => {
                    ports_of.insert(event.server_uuid);
                    let port = tag.parse().ok().filter(|_| event.name == PORT_DELETED);
                    deleted.extend(port.map(|port| (event.server_uuid, port)));
                    EventOutcome::Delivered
                }
                Receiver::Node(node) if is_bind => {
                    by_node.entry(node).or_default().push(at);
                    EventOutcome::NotDelivered
                }
                Receiver::Node(_) | Receiver::NoHost => EventOutcome::NotDelivered,
            };
        }
        for (at, code) in self.send_events(events, by_node).await {
            outcomes[at] = EventOutcome::of_code(code);
        }
        self.refresh_ports(ports_of).await;
        for (server, port) in deleted {
            if let Err(error) = self.detach_deleted_port(server, port, caller).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error, %server, %port,
                    "detaching a port failed that was deleted; the server keeps it until it is detached"
                );
            }
        }
        Ok(outcomes)
    }

    /// Reads the interfaces of servers again. What is not done in time is done at the next event, or by
    /// [`Compute::heal_network_info`].
    async fn refresh_ports(&self, servers: BTreeSet<Uuid>) {
        let mut refreshes = JoinSet::new();
        for server in servers {
            let (conductor, wait) = (self.inner.conductor.clone(), self.inner.options.agent_wait);
            refreshes.spawn(async move {
                match timeout(wait, conductor.refresh_ports(server.into())).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(
                        error = &error as &dyn std::error::Error, %server, "reading the interfaces of a server again failed"
                    ),
                    Err(_) => tracing::warn!(%server, "reading the interfaces of a server again took too long"),
                }
            });
        }
        refreshes.join_all().await;
    }

    /// Detaches a port that no longer exists from its server, as Nova does.
    async fn detach_deleted_port(
        &self,
        server: Uuid,
        port: Uuid,
        caller: (&str, &str),
    ) -> Result<(), ServerError> {
        let record = self
            .inner
            .conductor
            .show(ConsumerUuid::from(server))
            .await?;
        let is_attached = record.vifs().iter().any(|vif| vif.id == port);
        if record.goal != BootGoal::Active || !is_attached {
            return Ok(());
        }
        let Some(networks) = self.inner.conductor.networks() else {
            return Ok(());
        };
        // An old event may be of a port that was attached again.
        match networks.port(port).await {
            Ok(None) => {
                let change = InterfaceChange::Detach(port);
                self.start_interface_change(server, &change, caller).await
            }
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    async fn receiver(&self, uuid: Uuid) -> Result<Receiver, ServerError> {
        match self.inner.conductor.show(ConsumerUuid::from(uuid)).await {
            Ok(record) => {
                let chosen = record.placement().map(ChosenHost::host_node);
                Ok(chosen.map_or(Receiver::NoHost, Receiver::Node))
            }
            Err(ConductorError::NotFound { .. }) => match self.server(uuid).await {
                Ok(_) => Ok(Receiver::NoHost),
                Err(ServerError::NotFound { .. }) => Ok(Receiver::NoServer),
                Err(error) => Err(error),
            },
            // The host is unknown; the other events are still forwarded.
            Err(ConductorError::Journal(JournalError::Unreadable(guest))) => {
                self.log_unreadable_record(&guest);
                Ok(Receiver::NoHost)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends events to each agent; returns the codes of the answered ones.
    async fn send_events(
        &self,
        events: &[ServerExternalEvent],
        by_node: BTreeMap<HostNode, Vec<usize>>,
    ) -> Vec<(usize, Option<u16>)> {
        let mut requests = JoinSet::new();
        for (node, places) in by_node {
            let Some(agent) = self.inner.conductor.agent(&node) else {
                continue;
            };
            let own: Vec<_> = places
                .iter()
                .filter_map(|at| events.get(*at).cloned())
                .collect();
            let wait = self.inner.options.agent_wait;
            requests.spawn(async move {
                let reply = timeout(wait, agent.external_events(own)).await;
                let reply = reply.map(Result::unwrap_or_default).unwrap_or_default();
                let codes = reply.into_iter().map(|event| event.code);
                places.into_iter().zip(codes).collect::<Vec<_>>()
            });
        }
        requests.join_all().await.into_iter().flatten().collect()
    }
}
