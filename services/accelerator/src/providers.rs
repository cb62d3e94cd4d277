//! Looks whether Placement still has the devices' providers.
//!
//! This service never writes them: a device's host does. But who removes a provider behind that host's back leaves a healthy
//! device that nobody can be given, and the host would see it only when it reads its tree again. So it is told: the answer
//! to its next report says which providers are missing.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use berth_client::{PlacementClient, PlacementError};
use berth_model::ProviderUuid;
use berth_store::SqlStore;

use crate::store::Tables;
use crate::store::providers::{Hosts, Seen, Write, of_hosts};

/// Looks every `interval`, until `shutdown` is ready. A look asks Placement once for each tree.
pub async fn watch_providers(
    store: SqlStore,
    placement: PlacementClient,
    interval: Duration,
    shutdown: impl Future<Output = ()> + Send,
) {
    let tables = Tables::of(store);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            () = look(&tables, &placement) => {}
        }
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn look(tables: &Tables, placement: &PlacementClient) {
    let read = async {
        let mut tx = tables.read().await?;
        of_hosts(&mut tx).await
    };
    let hosts = match read.await {
        Ok(hosts) => hosts,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "the devices' providers cannot be read");
            return;
        }
    };
    let changed = changed(placement, hosts).await;
    if changed.is_empty() {
        return;
    }
    if let Err(error) = tables.write(&Write(changed)).await {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "what Placement has cannot be written");
    }
}

/// The providers of which something else is seen than before.
async fn changed(placement: &PlacementClient, hosts: Hosts) -> Vec<(ProviderUuid, Seen)> {
    let mut changed = Vec::new();
    for (host, known) in hosts {
        match seen(placement, &known).await {
            Ok(seen) => {
                let differs = |(provider, seen): &(ProviderUuid, Seen)| known[provider] != *seen;
                let news: Vec<_> = seen.into_iter().filter(differs).collect();
                for (provider, seen) in &news {
                    match seen {
                        Seen::Missing => {
                            tracing::warn!(host, %provider, "Placement lost a device's provider; its host is told");
                        }
                        Seen::There => {
                            tracing::info!(host, %provider, "Placement has a device's provider again");
                        }
                    }
                }
                changed.extend(news);
            }
            // What was known stays; the next look asks again.
            Err(error) => {
                tracing::debug!(host, %error, "Placement does not say which providers it has")
            }
        }
    }
    changed
}

/// Placement's word on each provider of a host. All in one tree are known by one question.
async fn seen(
    placement: &PlacementClient,
    known: &BTreeMap<ProviderUuid, Seen>,
) -> Result<BTreeMap<ProviderUuid, Seen>, PlacementError> {
    let mut seen: BTreeMap<ProviderUuid, Seen> = BTreeMap::new();
    for provider in known.keys() {
        if seen.contains_key(provider) {
            continue;
        }
        seen.insert(*provider, Seen::Missing);
        for found in placement.providers_in_tree(*provider).await? {
            if known.contains_key(&found.uuid()) {
                seen.insert(found.uuid(), Seen::There);
            }
        }
    }
    Ok(seen)
}
