//! What agents say of guests: each host is asked once, all at once, and not for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_model::{ConsumerUuid, NodeName};
use berth_wire::guest::GuestBody;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::compute::Compute;

/// So many agents are asked at the same time.
const AT_ONCE: usize = 64;

/// Of so many guests of one host each is asked for by itself.
const ONE_BY_ONE: usize = 2;

impl Compute {
    /// What the agents of these nodes say of these guests. Who does not answer in time says nothing.
    pub(crate) async fn ask_agents(
        &self,
        guests: BTreeMap<NodeName, BTreeSet<Uuid>>,
    ) -> BTreeMap<Uuid, GuestBody> {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let mut asked = JoinSet::new();
        for (node, guests) in guests {
            let Some(agent) = self.inner.conductor.agent(&node) else {
                continue;
            };
            let turns = Arc::clone(&turns);
            let wait = self.inner.options.agent_wait;
            asked.spawn(async move {
                let Ok(_turn) = turns.acquire().await else {
                    return Vec::new();
                };
                timeout(wait, told(&agent, guests))
                    .await
                    .unwrap_or_default()
            });
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
