//! Queries agents about guests: each host once, all hosts concurrently, within one overall deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;

use berth_conductor::HostNode;
use berth_model::ConsumerUuid;
use berth_wire::guest::GuestBody;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use crate::compute::Compute;

/// The number of agents queried concurrently, not counting slow ones.
const AT_ONCE: usize = 64;

/// An agent is slow after this fraction of the deadline. With 1,000 silent agents each is still queried in time.
const SLOW: u32 = 16;

/// Up to this number of guests of one host are queried individually.
const ONE_BY_ONE: usize = 2;

impl Compute {
    /// Queries the agents of the hosts that reported these nodes about these guests. Agents that miss the deadline are left
    /// out.
    pub(crate) async fn query_agents(
        &self,
        guests: BTreeMap<HostNode, BTreeSet<Uuid>>,
    ) -> BTreeMap<Uuid, GuestBody> {
        let wait = self.inner.options.agent_wait;
        let deadline = Instant::now() + wait;
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let mut queries = JoinSet::new();
        for (node, guests) in guests {
            let Some(agent) = self.inner.conductor.agent(&node) else {
                continue;
            };
            let slots = Arc::clone(&slots);
            let query = async move {
                let slot = slots.acquire().await;
                let mut answer = pin!(query_agent(&agent, guests));
                if let Ok(answer) = timeout(wait / SLOW, &mut answer).await {
                    return answer;
                }
                // The agent may still answer; the next query does not wait for it.
                drop(slot);
                answer.await
            };
            queries.spawn(async move { timeout_at(deadline, query).await.unwrap_or_default() });
        }
        let answers = queries.join_all().await;
        answers
            .into_iter()
            .flatten()
            .map(|guest| (guest.uuid, guest))
            .collect()
    }
}

/// The guests that one agent reports; empty if it does not answer.
async fn query_agent(agent: &berth_client::GuestClient, guests: BTreeSet<Uuid>) -> Vec<GuestBody> {
    if guests.len() > ONE_BY_ONE {
        let mut all = agent.guests().await.unwrap_or_default();
        all.retain(|guest| guests.contains(&guest.uuid));
        return all;
    }
    let mut all = Vec::new();
    for uuid in guests {
        let guest = agent.guest(ConsumerUuid::from(uuid)).await;
        all.extend(guest.ok().flatten());
    }
    all
}
