//! How a cloud begins: with empty databases, or with those that the first cloud of its kind prepared.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use berth_accelerator::{AcceleratorApiOptions, prepare, router};
use berth_client::HttpService;
use berth_hosts::ServerGroupPolicy;
use berth_store::SqlStore;
use serde_json::json;
use tokio::time::sleep;

use super::api::CloudComputeApi;
use super::effects::CloudProcess;
use super::services::CloudService;
use super::{
    CardHardware, CloudEffects, ComputeNode, GuestCloud, POLL_INTERVAL, ages, leaving_the_process,
};
use crate::cloud::{Cloud, Snapshot};
use crate::fault::{HarnessClock, busy};
use crate::host_states;

/// The databases of a fresh cloud at rest, of one host and of two with the compute API: all but the first of each begin with them.
static FRESH: Mutex<[Option<FreshDatabase>; 2]> = Mutex::new([None, None]);

#[derive(Clone, Copy)]
struct FreshDatabase {
    placement: Snapshot,
    accelerators: Snapshot,
    compute: Option<Snapshot>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FreshDatabaseKind {
    OneHost,
    WithApi,
}

impl GuestCloud {
    /// A fresh one, at rest.
    ///
    /// # Panics
    /// It does not come to rest.
    pub async fn new() -> Self {
        Self::fresh(FreshDatabaseKind::OneHost).await
    }

    /// A fresh one of two hosts with the compute API before it and a flavor `1` with a device, at rest.
    ///
    /// # Panics
    /// It does not come to rest.
    pub async fn with_api() -> Self {
        Self::fresh(FreshDatabaseKind::WithApi).await
    }

    async fn fresh(kind: FreshDatabaseKind) -> Self {
        let known = FRESH.lock().expect("no panic")[kind as usize];
        let machines: &[CardHardware] = match kind {
            FreshDatabaseKind::OneHost => &[CardHardware::Flat],
            FreshDatabaseKind::WithApi => &[CardHardware::Flat, CardHardware::Flat],
        };
        let mut cloud = match known {
            Some(fresh) => {
                let accelerators = busy(fresh.accelerators.restore()).await;
                let placement = Cloud::of(fresh.placement).await;
                Self::over(placement, accelerators, machines).await
            }
            None => Self::made(machines).await,
        };
        if kind == FreshDatabaseKind::WithApi {
            let known = known.and_then(|fresh| fresh.compute);
            cloud.api = Some(CloudComputeApi::new(known).await);
        }
        cloud.begin_and_rest().await;
        if known.is_none() {
            let compute = match &cloud.api {
                Some(api) => {
                    cloud.make_flavor().await;
                    Some(api.snapshot().await)
                }
                None => None,
            };
            let placement = cloud.cloud.store().expect("the built-in Placement");
            let fresh = FreshDatabase {
                placement: busy(Snapshot::take(placement)).await,
                accelerators: busy(Snapshot::take(&cloud.accelerator_db)).await,
                compute,
            };
            FRESH.lock().expect("no panic")[kind as usize].get_or_insert(fresh);
        }
        cloud
    }

    /// A fresh one of another host, at rest.
    ///
    /// # Panics
    /// It does not come to rest.
    pub async fn of(host: CardHardware) -> Self {
        let cloud = Self::made(&[host]).await;
        cloud.begin_and_rest().await;
        cloud
    }

    /// A fresh one of two hosts of one cell, at rest. The first has more memory, and is chosen first.
    ///
    /// # Panics
    /// It does not come to rest.
    pub async fn of_two() -> Self {
        let cloud = Self::made(&[CardHardware::Flat, CardHardware::Flat]).await;
        cloud.begin_and_rest().await;
        cloud
    }

    async fn begin_and_rest(&self) {
        self.begin();
        // Both processes have looked at everything once.
        sleep(POLL_INTERVAL).await;
        let wrong = self.rests(None).await;
        assert!(wrong.is_empty(), "a fresh cloud: {wrong:#?}");
    }

    /// One on empty databases, with its device profiles.
    async fn made(hosts: &[CardHardware]) -> Self {
        let store = busy(SqlStore::in_memory()).await.expect("memory");
        busy(prepare(&store)).await.expect("an empty database");
        let cloud = Self::over(busy(Cloud::in_process()).await, store, hosts).await;
        for (profile, groups) in [
            ("gpu", json!([{"resources:PGPU": "1"}])),
            (
                "two",
                json!([{"resources:PGPU": "1"}, {"resources:PGPU": "1"}]),
            ),
        ] {
            let body = json!([{"name": profile, "groups": groups}]);
            cloud.ask("POST", "/v2/device_profiles", body).await;
        }
        cloud
    }

    async fn over(placement: Cloud, accelerator_db: SqlStore, machines: &[CardHardware]) -> Self {
        let mut nodes = Vec::new();
        for (place, host) in machines.iter().enumerate() {
            nodes.push(Arc::new(ComputeNode::new(place, *host).await));
        }
        let conductor_db = busy(berth_conductor::journal::SqlBootJournal::in_memory());
        let hosts_db = busy(host_states::store()).await;
        let hosts = host_states::hosts_of(&hosts_db);
        let group = async |name, policy| busy(host_states::group(&hosts, name, policy)).await;
        let service = router(accelerator_db.clone(), AcceleratorApiOptions::default());
        let accelerators = HttpService::in_process::<_, Body, _>(service.clone(), 8 << 20);
        let cloud = placement.decorated(leaving_the_process);
        let services = [
            CloudService::new(CloudProcess::Placement, cloud.http()),
            CloudService::new(
                CloudProcess::Accelerators,
                leaving_the_process(accelerators),
            ),
        ];
        let clock = HarnessClock::begin();
        let dated = (accelerator_db.clone(), hosts_db);
        clock.follow(move |seconds| {
            let (accelerators, hosts) = dated.clone();
            async move { ages::follow(seconds, &accelerators, &hosts).await }
        });
        Self {
            clock,
            cloud,
            service,
            services,
            accelerator_db,
            unbound: Arc::default(),
            apart: group("apart", ServerGroupPolicy::AntiAffinity).await,
            together: group("together", ServerGroupPolicy::Affinity).await,
            hosts,
            keeps_members: Arc::default(),
            hardware: Arc::clone(&nodes[0].hardware),
            nodes: nodes.into(),
            effects: CloudEffects::default(),
            conductor_db: Arc::new(conductor_db.await.expect("memory")),
            conductor: Arc::default(),
            api: None,
            processes: Arc::default(),
        }
    }
}
