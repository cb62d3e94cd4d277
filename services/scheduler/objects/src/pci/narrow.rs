//! Narrows a host's pools to those that may serve a request, step by step.

use super::providers::Providers;
use super::remaining_devices::{PoolSet, RemainingDevices};
use super::{DeviceLocality, PciReason, PciStep, PreparedPciRequest};
use crate::host_state::{CellSet, NumaTopology, PciDevType, PciSummary};
use crate::request::{NumaAffinityPolicy, PciRequestOrigin};

/// The pools that may serve a request, and the order in which to use them.
pub(super) struct EligiblePools {
    pub(super) places: PoolSet,
    pub(super) order: PoolOrder,
}

/// The order in which devices are taken from pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolOrder {
    /// The order of the list.
    Listed,
    /// Pools near the instance's cells, or without a known cell, before the others.
    NearFirst,
}

impl PreparedPciRequest<'_> {
    /// Applies every step. Fails at the first step that leaves too few devices.
    pub(super) fn narrow(
        &self,
        left: &RemainingDevices<'_>,
        near: DeviceLocality<'_>,
        providers: Providers<'_>,
    ) -> Result<EligiblePools, PciReason> {
        let mut places = left.places(|place, _| self.describes(left.pools(), place));
        self.enough(left, &places, PciStep::Spec)?;
        let order = match near {
            DeviceLocality::Anywhere => PoolOrder::Listed,
            DeviceLocality::Cells { host, chosen } => self.affine(left, &mut places, host, chosen),
        };
        self.enough(left, &places, PciStep::NumaAffinity)?;
        for step in STEPS {
            if self.is_asked_for(step, providers) {
                continue;
            }
            places = left.places(|place, pool| {
                places[place] && self.passes(step, pool, left, place, providers)
            });
            self.enough(left, &places, step)?;
        }
        if !places.contains(&true) {
            return Err(self.too_few(0, PciStep::LiveMigratable));
        }
        Ok(EligiblePools { places, order })
    }

    /// Whether the request makes this step unnecessary.
    fn is_asked_for(&self, step: PciStep, providers: Providers<'_>) -> bool {
        match step {
            PciStep::PhysicalFunction => self.physical_functions,
            PciStep::Vdpa => self.vdpa,
            PciStep::RemoteManaged => self.remote_managed,
            PciStep::Allocation => providers.is_any(),
            PciStep::LiveMigratable => self.live_migratable.is_none(),
            PciStep::Spec | PciStep::NumaAffinity => true,
        }
    }

    /// Whether a pool qualifies under a step.
    fn passes(
        &self,
        step: PciStep,
        pool: &PciSummary,
        left: &RemainingDevices<'_>,
        place: usize,
        providers: Providers<'_>,
    ) -> bool {
        match step {
            PciStep::PhysicalFunction => pool.dev_type != PciDevType::PhysicalFunction,
            PciStep::Vdpa => pool.dev_type != PciDevType::Vdpa,
            PciStep::RemoteManaged => !pool.is_remote_managed,
            PciStep::Allocation => left.pools().at(place).rp_uuid().is_some_and(|provider| {
                let devices = providers.devices_of(provider);
                devices > 0 && left.count(place) >= devices
            }),
            PciStep::LiveMigratable => pool.live_migratable == self.live_migratable,
            PciStep::Spec | PciStep::NumaAffinity => true,
        }
    }

    /// Keeps the pools that the NUMA policy allows, and of these only the nearest if they have enough devices. As in
    /// Nova, this does not check whether the later steps leave enough of them.
    fn affine(
        &self,
        left: &RemainingDevices<'_>,
        places: &mut PoolSet,
        host: &NumaTopology,
        chosen: CellSet,
    ) -> PoolOrder {
        let policy = self.request.numa_policy;
        let keep = |is_allowed: &dyn Fn(&PciSummary) -> bool| {
            left.places(|place, pool| places[place] && is_allowed(pool))
        };
        let is_enough = |places: &PoolSet| left.sum(places) >= self.request.count;
        let near = keep(&|pool| is_near(pool, host, chosen));
        if policy == NumaAffinityPolicy::Required || is_enough(&near) {
            *places = near;
            return PoolOrder::Listed;
        }
        if policy == NumaAffinityPolicy::Socket {
            *places = keep(&|pool| is_at_socket(pool, host, chosen));
            return PoolOrder::Listed;
        }
        let near = keep(&|pool| is_near_or_unknown(pool, host, chosen));
        if policy == NumaAffinityPolicy::Legacy || is_enough(&near) {
            *places = near;
            return PoolOrder::Listed;
        }
        PoolOrder::NearFirst
    }

    fn enough(
        &self,
        left: &RemainingDevices<'_>,
        places: &PoolSet,
        after: PciStep,
    ) -> Result<(), PciReason> {
        let available = left.sum(places);
        match available >= self.request.count {
            true => Ok(()),
            false => Err(self.too_few(available, after)),
        }
    }

    fn too_few(&self, available: i64, after: PciStep) -> PciReason {
        PciReason::TooFew {
            request: self.name(),
            requested: self.request.count,
            available,
            after,
        }
    }

    /// The request's name for operators.
    pub(super) fn name(&self) -> String {
        match (&self.request.origin, &self.request.request_id) {
            (PciRequestOrigin::Flavor(alias), _) => format!("alias {alias}"),
            (PciRequestOrigin::Port, Some(id)) => format!("port request {id}"),
            (PciRequestOrigin::Port, None) => "a port".to_owned(),
        }
    }
}

/// The steps after the specs and the NUMA cells.
const STEPS: [PciStep; 5] = [
    PciStep::PhysicalFunction,
    PciStep::Vdpa,
    PciStep::RemoteManaged,
    PciStep::Allocation,
    PciStep::LiveMigratable,
];

fn is_near(pool: &PciSummary, host: &NumaTopology, chosen: CellSet) -> bool {
    let is_there = |node| chosen.of(host).any(|cell| cell.id == node);
    pool.numa_node.is_some_and(is_there)
}

pub(super) fn is_near_or_unknown(pool: &PciSummary, host: &NumaTopology, chosen: CellSet) -> bool {
    pool.numa_node.is_none() || is_near(pool, host, chosen)
}

/// Whether the pool is at a socket of the chosen cells. A host that does not report the socket of each cell has no
/// sockets.
fn is_at_socket(pool: &PciSummary, host: &NumaTopology, chosen: CellSet) -> bool {
    let is_known = host.cells.iter().all(|cell| cell.socket.is_some());
    let mut there = host
        .cells
        .iter()
        .filter(|cell| pool.numa_node == Some(cell.id));
    is_known && there.any(|cell| chosen.of(host).any(|it| it.socket == cell.socket))
}
