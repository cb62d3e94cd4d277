//! Reports host states to `services/hosts` as agents would, with heartbeats, so that the scheduler knows the hosts.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_conductor::{CloudHosts, FilterScheduler};
use berth_hosts::{Hosts, HostsOptions, NewServerGroup, ServerGroupPolicy, prepare};
use berth_scheduler::SchedulerOptions;
use berth_scheduler::select::Scheduler;
use berth_store::SqlStore;
use berth_wire::host_state::{HostStateBody, NodeStateBody, ServiceBody};
use tokio::task::JoinSet;
use tokio::time::sleep;
use uuid::Uuid;

/// How often a host says that it lives.
const SEEN_INTERVAL: Duration = Duration::from_secs(10);

/// A host of one node of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedHost {
    pub name: String,
    /// Its node's root provider.
    pub node: Uuid,
    pub vcpus: u64,
    /// Its memory, in MiB.
    pub memory_mb: u64,
    /// Its disk, in GiB.
    pub local_gb: u64,
}

/// A database in memory that knows no host yet.
///
/// # Panics
/// There is no memory for it.
pub async fn store() -> SqlStore {
    let store = SqlStore::in_memory().await.expect("memory");
    prepare(&store).await.expect("an empty database");
    store
}

/// The hosts of a database, with default options.
#[must_use]
pub fn hosts_of(store: &SqlStore) -> Hosts {
    Hosts::new(store.clone(), HostsOptions::default())
}

/// Tells a host's state, and that it lives for as long as `alive` is kept.
///
/// # Panics
/// It is not taken.
pub async fn report(hosts: &Hosts, host: &ReportedHost, alive: &mut JoinSet<()>) {
    let reported = hosts.store_state(&host.name, state(host)).await;
    let state = reported.expect("a state").state;
    let (hosts, name) = (hosts.clone(), host.name.clone());
    alive.spawn(async move {
        loop {
            sleep(SEEN_INTERVAL).await;
            hosts
                .record_heartbeat(&name, &state)
                .await
                .expect("it is known");
        }
    });
}

/// A server group of the tests' project.
///
/// # Panics
/// It is not taken.
pub async fn group(hosts: &Hosts, name: &str, policy: ServerGroupPolicy) -> Uuid {
    let group = hosts.create_group(
        NewServerGroup {
            project_id: "berth".to_owned(),
            user_id: "berth".to_owned(),
            name: name.to_owned(),
            policy,
            max_server_per_host: None,
        },
        None,
    );
    group.await.expect("a group").uuid
}

/// A scheduler with default options.
///
/// # Panics
/// Never: the options are whole.
#[must_use]
pub fn scheduler(hosts: impl CloudHosts + 'static) -> FilterScheduler {
    let scheduler = Scheduler::new(SchedulerOptions::default()).expect("filters and weighers");
    FilterScheduler::new(scheduler, hosts)
}

/// What a host tells of itself.
///
/// # Panics
/// Its amounts are no small ones.
#[must_use]
pub fn state(host: &ReportedHost) -> HostStateBody {
    let number = |amount: u64| i64::try_from(amount).expect("a small amount");
    let node = NodeStateBody {
        uuid: host.node,
        hypervisor_hostname: host.name.clone(),
        hypervisor_type: "QEMU".to_owned(),
        hypervisor_version: Some(8_000_000),
        host_ip: None,
        vcpus: number(host.vcpus),
        vcpus_used: 0,
        memory_mb: number(host.memory_mb),
        memory_mb_used: 0,
        local_gb: number(host.local_gb),
        local_gb_used: 0,
        disk_available_least: None,
        cpu_allocation_ratio: 1.0,
        ram_allocation_ratio: 1.0,
        disk_allocation_ratio: 1.0,
        cpu_info: None,
        supported_instances: Vec::new(),
        instances: BTreeMap::new(),
        num_io_ops: 0,
        failed_builds: 0,
        stats: BTreeMap::new(),
        metrics: None,
        pci_device_pools: None,
        numa_topology: None,
    };
    HostStateBody {
        service: ServiceBody::default(),
        nodes: vec![node],
    }
}
