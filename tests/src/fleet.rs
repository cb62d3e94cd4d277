//! A fleet for scheduling tests: many compute hosts with reported states in one Placement, conductors that select among
//! them by filters and weighers, and one agent for all of them that builds guests in memory.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use berth_client::{Auth, GuestClient, HttpService, PlacementClient};
use berth_conductor::journal::SqlBootJournal;
use berth_conductor::{Conductor, ConductorOptions, ConductorParts, FilterScheduler, SingleAgent};
use berth_hosts::{Hosts, HostsOptions};
use berth_model::{
    ConsumerAllocations, ConsumerUuid, Inventory, Provider, ProviderName, ProviderUuid,
    ResourceClass,
};
use berth_scheduler::SchedulerOptions;
use berth_scheduler::select::Scheduler;
use berth_store::SqlStore;
use bytes::Bytes;
use http::{Method, Request};
use tokio::task::JoinSet;
use tower::service_fn;
use uuid::Uuid;

use crate::boot::{BootAgent, accelerators, impatient, once};
use crate::cloud::Cloud;
use crate::host_states::{self, ReportedHost};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetHost {
    pub name: String,
    pub cell: &'static str,
    /// Its CPUs, each for one guest.
    pub vcpus: u64,
}

impl FleetHost {
    #[must_use]
    pub fn root(&self) -> ProviderUuid {
        Uuid::new_v5(&Uuid::NAMESPACE_DNS, self.name.as_bytes()).into()
    }
}

/// So many hosts of one cell with so many CPUs.
#[must_use]
pub fn hosts(many: usize, cell: &'static str, vcpus: u64) -> Vec<FleetHost> {
    let host = |at| FleetHost {
        name: format!("{cell}-{at:03}"),
        cell,
        vcpus,
    };
    (0..many).map(host).collect()
}

pub struct Fleet {
    cloud: Cloud,
    accelerators: Router,
    /// What is known of the hosts.
    pub hosts: Hosts,
    /// The agent of all of them.
    pub agent: BootAgent,
    /// The hosts' signs of life, for as long as this is kept.
    _alive: JoinSet<()>,
}

impl Fleet {
    /// These hosts in this Placement, which has no provider with these names yet.
    ///
    /// # Panics
    /// A service refuses a request.
    pub async fn over(cloud: Cloud, fleet: &[FleetHost]) -> Self {
        let store = SqlStore::in_memory().await.expect("memory");
        berth_accelerator::prepare(&store).await.expect("empty");
        let service =
            berth_accelerator::router(store, berth_accelerator::AcceleratorApiOptions::default());
        let store = host_states::store().await;
        let mut alive = JoinSet::new();
        for host in fleet {
            report(&cloud, host).await;
            let options = HostsOptions {
                cell: host.cell.to_owned(),
                ..HostsOptions::default()
            };
            let hosts = Hosts::new(store.clone(), options);
            host_states::report(&hosts, &reported_host(host), &mut alive).await;
        }
        Self {
            agent: BootAgent::new(cloud.placement(), accelerators(&service, None)),
            hosts: host_states::hosts_of(&store),
            accelerators: service,
            cloud,
            _alive: alive,
        }
    }

    /// A conductor with a journal of its own.
    ///
    /// # Panics
    /// The options are wrong.
    pub async fn conductor(&self, options: SchedulerOptions) -> Conductor {
        let journal = SqlBootJournal::in_memory().await.expect("memory");
        self.conductor_of(Arc::new(journal), options, impatient())
    }

    /// A conductor with a journal of its own and this way to Placement.
    ///
    /// # Panics
    /// The options are wrong.
    pub async fn conductor_over(
        &self,
        options: SchedulerOptions,
        placement: PlacementClient,
    ) -> Conductor {
        let journal = SqlBootJournal::in_memory().await.expect("memory");
        let scheduler = Scheduler::new(options).expect("filters and weighers");
        let scheduler = FilterScheduler::new(scheduler, self.hosts.clone());
        self.conductor_by(Arc::new(journal), scheduler, placement, impatient())
    }

    /// A conductor of this journal.
    ///
    /// # Panics
    /// The options are wrong.
    #[must_use]
    pub fn conductor_of(
        &self,
        journal: Arc<SqlBootJournal>,
        options: SchedulerOptions,
        how: ConductorOptions,
    ) -> Conductor {
        let scheduler = Scheduler::new(options).expect("filters and weighers");
        let scheduler = FilterScheduler::new(scheduler, self.hosts.clone());
        self.conductor_by(journal, scheduler, self.cloud.placement(), how)
    }

    /// A conductor of this journal, with this scheduler and this way to Placement.
    ///
    /// # Panics
    /// Never: the endpoint is one.
    #[must_use]
    pub fn conductor_by(
        &self,
        journal: Arc<SqlBootJournal>,
        scheduler: FilterScheduler,
        placement: PlacementClient,
        how: ConductorOptions,
    ) -> Conductor {
        let auth = Auth::none("http://agent").expect("an endpoint");
        let agent = GuestClient::new(self.agent.http(), auth, &once());
        let parts = ConductorParts {
            journal,
            placement,
            accelerators: accelerators(&self.accelerators, None),
            networks: None,
            agents: Arc::new(SingleAgent(agent)),
            scheduler,
        };
        let options = ConductorOptions {
            max_attempts: 5,
            ..how
        };
        Conductor::open(parts, options)
    }

    /// Placement, where this is done first before the first claim is sent.
    pub fn placement_with<F: Future<Output = ()> + Send>(
        &self,
        before_claim: impl FnOnce() -> F + Send + 'static,
    ) -> PlacementClient {
        let first = Arc::new(Mutex::new(Some(before_claim)));
        let decorated = self.cloud.decorated(|http| {
            HttpService::new(service_fn(move |request: Request<Bytes>| {
                let (http, first) = (http.clone(), Arc::clone(&first));
                async move {
                    let taken = is_claim(&request).then(|| {
                        let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                        first.take()
                    });
                    if let Some(before_claim) = taken.flatten() {
                        before_claim().await;
                    }
                    http.send(request).await
                }
            }))
        });
        decorated.placement()
    }

    /// Placement, where each claim arrives twice and the answer to the second is heard.
    #[must_use]
    pub fn placement_twice(&self) -> PlacementClient {
        let decorated = self.cloud.decorated(|http| {
            HttpService::new(service_fn(move |request: Request<Bytes>| {
                let http = http.clone();
                async move {
                    if is_claim(&request) {
                        let _first = http.send(request.clone()).await;
                    }
                    http.send(request).await
                }
            }))
        });
        decorated.placement()
    }

    /// What a guest holds in Placement.
    ///
    /// # Panics
    /// Placement does not say.
    pub async fn held(&self, guest: ConsumerUuid) -> Option<ConsumerAllocations> {
        let held = self.cloud.placement().allocations(guest).await;
        held.expect("allocations")
    }

    /// Has Placement forget what a guest holds.
    ///
    /// # Panics
    /// Placement does not.
    pub async fn forget_allocations(&self, guest: ConsumerUuid) {
        let deleted = self.cloud.placement().delete_allocations(guest).await;
        deleted.expect("a delete");
    }

    /// The same hosts; later conductors use this Placement.
    #[must_use]
    pub fn asking(self, cloud: Cloud) -> Self {
        Self { cloud, ..self }
    }

    #[must_use]
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Guests that the agent builds, by node.
    #[must_use]
    pub fn built(&self) -> BTreeMap<String, usize> {
        let mut built = BTreeMap::new();
        for guest in self.agent.guests().into_values() {
            *built.entry(guest.node).or_default() += 1;
        }
        built
    }

    /// CPUs that are claimed of a host.
    ///
    /// # Panics
    /// Placement does not say.
    pub async fn claimed(&self, host: &FleetHost) -> u64 {
        let usages = self.cloud.placement().usages(host.root()).await;
        let usages = usages.expect("usages");
        let usage = usages.value.get(&ResourceClass::VCPU);
        usage.copied().unwrap_or_default()
    }
}

fn is_claim(request: &Request<Bytes>) -> bool {
    request.method() == Method::PUT && request.uri().path().contains("/allocations/")
}

/// What the agent of a host would report to Placement.
async fn report(cloud: &Cloud, host: &FleetHost) {
    let placement = cloud.placement();
    let name = ProviderName::new(&host.name).expect("a name");
    let made = placement
        .create_provider(&Provider::root(host.root(), name))
        .await;
    let generation = made.expect("a provider").generation.expect("a generation");
    let of = |amount| Inventory::of(amount).expect("an amount");
    let inventories = [
        (ResourceClass::VCPU, of(host.vcpus)),
        (ResourceClass::MEMORY_MB, of(1024 * host.vcpus)),
        (ResourceClass::DISK_GB, of(10 * host.vcpus)),
    ];
    let put = placement
        .put_inventories(host.root(), generation, &inventories.into())
        .await;
    put.expect("inventories");
}

/// What it would tell the scheduler.
fn reported_host(host: &FleetHost) -> ReportedHost {
    ReportedHost {
        name: host.name.clone(),
        node: *host.root().as_uuid(),
        vcpus: host.vcpus,
        memory_mb: 1024 * host.vcpus,
        local_gb: 10 * host.vcpus,
    }
}
