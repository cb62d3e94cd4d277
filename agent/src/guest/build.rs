//! Status of the membership

mod asked;
mod devices;
mod error;
mod here;
mod picked;
mod places;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_model::{ConsumerUuid, NodeName, ProviderTree};
use berth_virt::guest_spec::{CpuModel, GuestDevices, HostPath};
use berth_virt::{NodeView, VirtDriver};
use berth_wire::guest::GuestBuild;

use super::disks::InstancesPath;
use super::fit::{Held, fit};
use super::journal::{Accepted, Course, GuestRecord};
use super::resources::GuestResources;
use super::{GuestRequest, Guests, GuestsError};
use crate::device::{DeviceConditions, Named as _};
use asked::Asked;
pub(super) use asked::{image_of, kernel_of};
pub use error::{BuildError, BuildFault};
pub use picked::{BuildDigest, Described, Picked};

/// Placement's tree of a node, as the agent last knew it; none before the node was reported.
pub type TreeOf = Arc<dyn Fn(&NodeName) -> Option<Arc<ProviderTree>> + Send + Sync>;

/// What guests are built with.
#[derive(Clone)]
pub struct Building {
    /// The same for all guests of this agent.
    pub options: BuildOptions,
    pub trees: TreeOf,
    /// What is known of devices beside what the driver sees; none where nobody keeps it.
    pub conditions: Option<Arc<dyn DeviceConditions>>,
}

/// What is the same for all guests of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildOptions {
    /// `instances_path`.
    pub instances: InstancesPath,
    /// `[libvirt] cpu_mode` and `cpu_models`.
    pub cpu_model: CpuModel,
    /// The folders that kernels of guests may lie in; none: no guest names a kernel of the host.
    pub kernel_directories: Vec<HostPath>,
}

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Makes a guest of a build. Once this is answered it will run, or say why not, whatever happens to the agent.
    pub async fn build(&self, build: &GuestBuild) -> Result<Accepted, BuildError> {
        let building = self.building.as_ref().ok_or(BuildError::NotHere)?;
        let asked = Asked::of(build, &building.options)?;
        named(asked.uuid)?;
        let digest = BuildDigest::of(build);
        let way = &self.inner.way;
        // One that is known needs no look at the host.
        if let Some(record) = way
            .journal
            .guest(asked.uuid)
            .await
            .map_err(GuestsError::from)?
        {
            return self.again(&record, &digest);
        }
        let seen = self.look(building, &asked.node).await?;
        here::cells(&asked.limits, &seen)?;
        self.plugged(&asked.spec.interfaces).await?;
        let tree = (building.trees)(&asked.node);
        let _placing = self.inner.placing.lock().await;
        let records = self.list().await?;
        if let Some(record) = records
            .iter()
            .find(|known| known.request.uuid() == asked.uuid)
        {
            return self.again(record, &digest);
        }
        let request = placed(asked, digest, &seen, tree.as_deref(), &records)?;
        Ok(self.accept(&request).await?)
    }

    /// Makes a guest of a whole document, whose place and devices its sender knows.
    pub async fn whole(&self, request: &GuestRequest) -> Result<Accepted, BuildError> {
        let uuid = request.uuid();
        named(uuid)?;
        let journal = &self.inner.way.journal;
        let known = journal.guest(uuid).await.map_err(GuestsError::from)?;
        if let (Some(building), None) = (&self.building, known) {
            let seen = self.look(building, request.node()).await?;
            here::topology(&request.spec().topology, &seen)?;
            self.plugged(&request.spec().interfaces).await?;
        }
        Ok(self.create(request).await?)
    }

    /// The same build again is the same guest.
    fn again(&self, record: &GuestRecord, digest: &BuildDigest) -> Result<Accepted, BuildError> {
        let uuid = record.request.uuid();
        if record.course == Course::Destroy {
            return Err(GuestsError::Ending { uuid }.into());
        }
        if record.request.picked().build() != Some(digest) {
            return Err(GuestsError::Other { uuid }.into());
        }
        self.set_out(uuid);
        Ok(Accepted::Same)
    }

    async fn look(&self, building: &Building, node: &NodeName) -> Result<NodeView, BuildError> {
        let conditions = building.conditions.as_ref();
        let conditions = conditions.map(|conditions| (conditions, conditions.begin_look()));
        let mut view = self.inner.way.driver.observe().await?;
        if let Some((conditions, look)) = conditions {
            conditions.overlay(look, &mut view);
        }
        view.nodes
            .remove(node)
            .ok_or_else(|| BuildError::NoSuchNode {
                node: node.clone(),
                known: view.nodes.into_keys().collect(),
            })
    }
}

/// A UUID that tells guests apart.
fn named(uuid: ConsumerUuid) -> Result<(), BuildError> {
    match uuid.as_uuid().is_nil() {
        true => Err(BuildError::field(
            "uuid",
            "the nil UUID is nobody's; a random one is expected",
        )),
        false => Ok(()),
    }
}

/// What guests hold of a node: those of the journal that are meant for it, and those on it that are not among them.
pub(crate) fn held<'a>(
    records: impl IntoIterator<Item = &'a GuestRecord>,
    seen: &NodeView,
) -> Held {
    let mut held = Held::default();
    let mut known = BTreeSet::new();
    for record in records.into_iter().filter(|record| record.may_hold()) {
        known.insert(record.request.uuid());
        held.add(
            &record.request.spec().topology,
            &record.request.reserved_cpus(),
        );
    }
    let foreign = seen.guests.iter();
    for (_, guest) in foreign.filter(|(uuid, _)| !known.contains(uuid)) {
        held.add_foreign(guest);
    }
    held
}

/// The names of devices that guests have: those of the journal, whose devices may not be bound yet, and those on the
/// hypervisor, whoever made them.
pub(crate) fn taken<'a>(
    records: impl IntoIterator<Item = &'a GuestRecord>,
    seen: &NodeView,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for record in records.into_iter().filter(|record| record.may_hold()) {
        let own = record.request.spec().devices.as_slice().iter();
        names.extend(own.map(|attached| attached.device.name()));
        let bound = record.devices.iter().flat_map(|devices| devices.iter());
        names.extend(bound.map(|device| device.name()));
    }
    for guest in seen.guests.values() {
        names.extend(
            guest
                .mdevs
                .iter()
                .map(|mdev| mdev.uuid.hyphenated().to_string()),
        );
        names.extend(guest.functions.iter().map(ToString::to_string));
    }
    names
}

/// The request, with its place and devices.
fn placed(
    asked: Asked,
    digest: BuildDigest,
    seen: &NodeView,
    tree: Option<&ProviderTree>,
    records: &[Arc<GuestRecord>],
) -> Result<GuestRequest, BuildError> {
    let records = || records.iter().map(Arc::as_ref);
    let own = records().filter(|record| record.request.node() == &asked.node);
    let picks = devices::pick(&asked, seen, tree, &taken(records(), seen))?;
    picks.are_asked_for(&asked)?;
    let mut limits = asked.limits.clone();
    limits.host_cells = limits.host_cells.or(picks.host_cells);
    let place = fit(
        &asked.placement,
        seen,
        &held(own, seen),
        &picks.near,
        &limits,
    )?;
    let mut spec = asked.spec;
    spec.topology = place.topology;
    spec.devices = GuestDevices::new(picks.attached)?;
    let picked = Picked::new(Some(digest), place.reserved, picks.made).describing(asked.described);
    let request = GuestRequest::new(asked.node, asked.arqs, spec)?;
    Ok(request.with_disks(asked.disks)?.with_picked(picked))
}

/// A guest of this UUID that the journal knows no more of than that it is asked for.
impl GuestRecord {
    /// Whether CPUs, pages and devices of the host may be this guest's: it is not one whose spawn failed and was undone.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        !matches!(self.course, Course::Undo { .. }) || self.open().is_some()
    }
}

/// Whether a guest whose place was not picked here is pinned to CPUs that are kept for another.
pub(super) fn pinned_elsewhere(
    request: &GuestRequest,
    records: &[Arc<GuestRecord>],
) -> Option<(berth_virt::CpuSet, ConsumerUuid)> {
    let own = request.reserved_cpus();
    let others = records.iter().filter(|record| {
        record.may_hold()
            && record.request.uuid() != request.uuid()
            && record.request.node() == request.node()
    });
    let shared = others.map(|record| {
        let shared = record.request.reserved_cpus().intersection(&own);
        (shared, record.request.uuid())
    });
    shared.into_iter().find(|(shared, _)| !shared.is_empty())
}

#[cfg(test)]
mod tests;
