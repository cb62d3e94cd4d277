//! What agents say of guests: each host is asked once, all at once, and all of them not for long.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;

use berth_model::{ConsumerUuid, NodeName};
use berth_wire::guest::GuestBody;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use crate::compute::Compute;

/// So many agents are asked at the same time, beside those that are slow to answer.
const AT_ONCE: usize = 64;

/// An agent is slow to answer after this part of the time that there is for all: of 1,000 that are silent each is asked in time.
const SLOW: u32 = 16;

/// Of so many guests of one host each is asked for by itself.
const ONE_BY_ONE: usize = 2;

impl Compute {
    /// What the agents of these nodes say of these guests. Who has not answered when the time for all is over says nothing.
    pub(crate) async fn ask_agents(
        &self,
        guests: BTreeMap<NodeName, BTreeSet<Uuid>>,
    ) -> BTreeMap<Uuid, GuestBody> {
        let wait = self.inner.options.agent_wait;
        let deadline = Instant::now() + wait;
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut asked = JoinSet::new();
        for (node, guests) in guests {
            let Some(agent) = self.inner.conductor.agent(&node) else {
                continue;
            };
            let turns = Arc::clone(&turns);
            let question = async move {
                let turn = turns.acquire().await;
                let mut told = pin!(told(&agent, guests));
                if let Ok(told) = timeout(wait / SLOW, &mut told).await {
                    return told;
                }
                // It may still answer, and the next one does not wait for it.
                drop(turn);
                told.await
            };
            asked.spawn(async move { timeout_at(deadline, question).await.unwrap_or_default() });
        }
        let told = asked.join_all().await;
        told.into_iter()
            .flatten()
            .map(|guest| (guest.uuid, guest))
            .collect()
    }
}

/// What an agent says; nothing where it does not.
async fn told(agent: &berth_client::GuestClient, guests: BTreeSet<Uuid>) -> Vec<GuestBody> {
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
