//! Reads the interfaces of servers again, some of them at each interval. It finds changed addresses whose event was lost, as
//! Nova's `_heal_instance_info_cache` does. It never detaches a port: a Neutron that does not show a port is no proof that the port
//! was deleted.

use std::time::Duration;

use berth_conductor::PortRefreshError;
use berth_model::ConsumerUuid;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::compute::Compute;
use crate::servers::ServerError;

/// Every server is read once in this many intervals.
const INTERVALS_PER_ROUND: usize = 60;
/// The least number of servers of an interval.
const LEAST_PER_INTERVAL: usize = 10;
/// The number of servers that are read concurrently.
const CONCURRENT: usize = 10;
/// The limit for one server: it takes several calls of Neutron, and waits while a port is attached.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

/// Why the interfaces of a server were not read again.
#[derive(Debug, thiserror::Error)]
enum HealError {
    #[error(transparent)]
    Servers(#[from] ServerError),
    #[error("server {server}: {source}")]
    Refresh {
        server: ConsumerUuid,
        source: PortRefreshError,
    },
    #[error("server {server}: timed out")]
    TimedOut { server: ConsumerUuid },
}

impl Compute {
    /// Reads the interfaces of servers again, for ever. Its position is not persistent: a restart begins with the first server.
    pub(crate) async fn heal_network_info(&self) {
        let interval = self.inner.options.heal_interval;
        let (Some(interval), Some(_)) = (interval, self.inner.conductor.networks()) else {
            return;
        };
        let (mut last, mut failing) = (None, false);
        loop {
            sleep(interval).await;
            let healed = self.heal_next_servers(&mut last).await;
            // Logs only the first failure in a row.
            let is_first_failure = healed.is_err() && !failing;
            failing = healed.is_err();
            if let Err(error) = healed
                && is_first_failure
            {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "reading the interfaces of servers again failed; retrying"
                );
            }
        }
    }

    /// Reads the servers after `last`, and moves it. One server does not keep the others from being read.
    ///
    /// Errors: the first failure.
    async fn heal_next_servers(&self, last: &mut Option<ConsumerUuid>) -> Result<(), HealError> {
        let all = self.inner.conductor.guests_with_interfaces().await;
        let batch = next_batch(&all.map_err(ServerError::from)?, *last);
        *last = batch.last().copied();
        let mut outcome = Ok(());
        for servers in batch.chunks(CONCURRENT) {
            let mut reads = JoinSet::new();
            for server in servers.iter().copied() {
                let conductor = self.inner.conductor.clone();
                reads.spawn(async move {
                    match timeout(SERVER_TIMEOUT, conductor.refresh_ports(server)).await {
                        Ok(read) => read.map_err(|source| HealError::Refresh { server, source }),
                        Err(_) => Err(HealError::TimedOut { server }),
                    }
                });
            }
            for read in reads.join_all().await {
                outcome = outcome.and(read);
            }
        }
        outcome
    }
}

/// The servers after the last one, from the beginning again at the end of the list. `all` is sorted.
fn next_batch(all: &[ConsumerUuid], last: Option<ConsumerUuid>) -> Vec<ConsumerUuid> {
    let begin = last.map_or(0, |last| all.partition_point(|server| *server <= last));
    let size = all.len().div_ceil(INTERVALS_PER_ROUND);
    let size = size.max(LEAST_PER_INTERVAL).min(all.len());
    let round = all.iter().cycle().skip(begin);
    round.take(size).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use uuid::Uuid;

    use super::*;

    fn servers(count: u128) -> Vec<ConsumerUuid> {
        let servers = (1..=count).map(Uuid::from_u128);
        servers.map(ConsumerUuid::from).collect()
    }

    #[test]
    fn every_server_is_read_again_within_a_round() {
        for count in [1, 9, 10, 11, 25, 600, 601, 10_000] {
            let all = servers(count);
            let mut read = BTreeSet::new();
            let mut last = None;
            for _ in 0..INTERVALS_PER_ROUND {
                let batch = next_batch(&all, last);
                assert!(batch.len() <= all.len());
                last = batch.last().copied();
                read.extend(batch);
            }
            assert_eq!(read.len(), all.len(), "{count}");
        }
    }

    #[test]
    fn a_deleted_server_does_not_move_the_position() {
        let mut all = servers(30);
        let first = next_batch(&all, None);
        let last = first.last().copied();
        all.retain(|server| Some(*server) != last);
        assert_eq!(next_batch(&all, last)[0], servers(30)[10]);
        assert_eq!(next_batch(&[], last), []);
    }
}
