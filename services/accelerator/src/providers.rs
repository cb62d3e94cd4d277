//! Checks whether Placement still has the resource providers of devices.
//!
//! Only agents write these providers. If another client deletes one, the healthy device becomes unusable, and the agent
//! would notice only when it reads its whole tree again. Therefore the answer to the agent's next report lists the
//! missing providers.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use berth_client::{PlacementClient, PlacementError};
use berth_model::ProviderUuid;
use berth_store::SqlStore;

use crate::store::AcceleratorTables;
use crate::store::providers::{ProviderPresence, ProvidersByHost, RecordPresence, of_hosts};

/// Checks every `interval` until `shutdown` resolves, with one request to Placement per provider tree.
pub async fn watch_providers(
    store: SqlStore,
    placement: PlacementClient,
    interval: Duration,
    shutdown: impl Future<Output = ()> + Send,
) {
    let tables = AcceleratorTables::of(store);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            () = poll(&tables, &placement) => {}
        }
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

async fn poll(tables: &AcceleratorTables, placement: &PlacementClient) {
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
    if let Err(error) = tables.write(&RecordPresence(changed)).await {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "storing the state of resource providers failed");
    }
}

/// The providers with a changed state.
async fn changed(
    placement: &PlacementClient,
    hosts: ProvidersByHost,
) -> Vec<(ProviderUuid, ProviderPresence)> {
    let mut changed = Vec::new();
    for (host, known) in hosts {
        match seen(placement, &known).await {
            Ok(seen) => {
                let differs =
                    |(provider, seen): &(ProviderUuid, ProviderPresence)| known[provider] != *seen;
                let news: Vec<_> = seen.into_iter().filter(differs).collect();
                for (provider, seen) in &news {
                    match seen {
                        ProviderPresence::Missing => {
                            tracing::warn!(host, %provider, "resource provider of a device is missing in Placement; the host will be notified");
                        }
                        ProviderPresence::There => {
                            tracing::info!(host, %provider, "Placement has a device's provider again");
                        }
                    }
                }
                changed.extend(news);
            }
            // The known state stays; the next check asks again.
            Err(error) => {
                tracing::debug!(host, %error, "listing resource providers in Placement failed")
            }
        }
    }
    changed
}

/// Which of a host's providers exist. One request covers a whole tree.
async fn seen(
    placement: &PlacementClient,
    known: &BTreeMap<ProviderUuid, ProviderPresence>,
) -> Result<BTreeMap<ProviderUuid, ProviderPresence>, PlacementError> {
    let mut seen: BTreeMap<ProviderUuid, ProviderPresence> = BTreeMap::new();
    for provider in known.keys() {
        if seen.contains_key(provider) {
            continue;
        }
        seen.insert(*provider, ProviderPresence::Missing);
        for found in placement.providers_in_tree(*provider).await? {
            if known.contains_key(&found.uuid()) {
                seen.insert(found.uuid(), ProviderPresence::There);
            }
        }
    }
    Ok(seen)
}
