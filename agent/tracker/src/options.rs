//! Options of the resource tracker. The composition root fills them from the configuration; names and defaults are
//! Nova's.

use std::time::Duration;

use berth_model::{AllocationRatio, Trait};

use crate::provider_config::ProviderConfigs;

/// Options of the resource tracker.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackerOptions {
    /// Overcommit ratios of shared CPUs, memory and disk.
    pub ratios: Ratios,
    /// Resources that are kept for the host itself.
    pub reserved: ReservedForHost,
    /// The trait that marks the agent's providers.
    pub owner: Owner,
    /// Time after which the cached tree is compared with Placement's again (`resource_provider_association_refresh`);
    /// `None`: only after an error or a SIGHUP.
    pub association_refresh: Option<Duration>,
    /// The number of aggregates in one request for sharing providers (`sharing_providers_max_uuids_per_request`).
    pub aggregates_per_request: usize,
    /// The number of consumers whose allocations are read concurrently for a reshape.
    pub readers: usize,
    /// What to do if the node's provider has another name.
    pub rename: Rename,
    /// The content of the files of `provider_config_location`.
    pub provider_configs: ProviderConfigs,
}

impl Default for TrackerOptions {
    fn default() -> Self {
        Self {
            ratios: Ratios::default(),
            reserved: ReservedForHost::default(),
            owner: Owner::Nova,
            association_refresh: Some(Duration::from_secs(300)),
            aggregates_per_request: 200,
            readers: 8,
            rename: Rename::Refuse,
            provider_configs: ProviderConfigs::default(),
        }
    }
}

/// Allocation ratios. A configured one always applies. Otherwise the one in Placement is kept, because an operator may
/// have set it there. Without one there, the initial one is used.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratios {
    /// `cpu_allocation_ratio`.
    pub cpu: Option<AllocationRatio>,
    /// `ram_allocation_ratio`.
    pub ram: Option<AllocationRatio>,
    /// `disk_allocation_ratio`.
    pub disk: Option<AllocationRatio>,
    /// `initial_cpu_allocation_ratio`, 4.0.
    pub initial_cpu: AllocationRatio,
    /// `initial_ram_allocation_ratio`, 1.0.
    pub initial_ram: AllocationRatio,
    /// `initial_disk_allocation_ratio`, 1.0.
    pub initial_disk: AllocationRatio,
}

impl Default for Ratios {
    fn default() -> Self {
        Self {
            cpu: None,
            ram: None,
            disk: None,
            initial_cpu: AllocationRatio::new(4.0).unwrap_or(AllocationRatio::ONE),
            initial_ram: AllocationRatio::ONE,
            initial_disk: AllocationRatio::ONE,
        }
    }
}

/// Resources that are kept for the host itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedForHost {
    /// `reserved_host_cpus`: shared CPUs.
    pub cpus: u32,
    /// `reserved_host_memory_mb`: MiB.
    pub memory_mib: u32,
    /// `reserved_host_disk_mb`: MiB, rounded up to whole GiB.
    pub disk_mib: u32,
}

impl Default for ReservedForHost {
    fn default() -> Self {
        Self {
            cpus: 0,
            memory_mib: 512,
            disk_mib: 0,
        }
    }
}

/// The trait that marks the agent's providers (`[compute] owner_nova`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// `OWNER_NOVA`, which a Nova cell expects.
    Nova,
    /// `CUSTOM_OWNER_BERTH`, if a nova-compute must not treat them as its own.
    Berth,
}

impl Owner {
    #[must_use]
    pub fn as_trait(self) -> Trait {
        match self {
            Owner::Nova => Trait::OWNER_NOVA,
            Owner::Berth => Trait::CUSTOM_OWNER_BERTH,
        }
    }
}

/// What to do if the node's root provider has another name than the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// Refuse to start and explain: the state may have been copied from another host.
    Refuse,
    /// The host was renamed: rename the provider and its children (`--accept-risk rename-host`).
    Accept,
}
