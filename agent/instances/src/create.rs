//! From a build to a guest: what a conductor asks for ([`GuestBuild`]) becomes a request with a place on the host and the devices
//! of its flavor, picked and written down under one lock.
//!
//! The order is: read the body whole (`asked`, pure), look at the host, take the lock, read what all guests of the
//! journal hold, fit and pick (pure), write the request into the journal, let the lock go. So no two guests are pinned to one
//! CPU or given one device, whatever comes at the same time; what was picked is in the journal with the request, and a kill on
//! the way leaves either all of it or nothing.
//!
//! | room | what it is |
//! |---|---|
//! | `asked` | a body, checked |
//! | `devices` | the flavor's devices, by the guest's allocations; pure |
//! | `here` | what of this host a request names |
//! | [`HostPlacement`] | what was picked, as it is journaled |
//! | `places` | where a guest would be, before anybody builds it |
//! | [`BuildError`] | why there is no guest |
//!
//! Callers: the admin API. Whoever composes the agent gives the [`Building`].

mod devices;
mod error;
mod host_check;
mod options;
mod parse;

mod preview;
mod usage;

use std::sync::Arc;

use berth_agent_journal::{
    AcceptOutcome, BuildDigest, Goal, GuestRecord, GuestRequest, HostPlacement,
};
use berth_model::{ConsumerUuid, NodeName, ProviderTree};
use berth_virt::guest_spec::GuestDevices;
use berth_virt::{NodeView, VirtDriver};
use berth_wire::guest::GuestBuild;

use crate::create::parse::Asked;
use crate::fit::fit;
use crate::guests::{Guests, GuestsError};
use crate::resources::GuestResources;

pub use error::{BuildError, BuildFault};
pub use options::{BuildOptions, Building, TreeOf};
pub use parse::{image_of, kernel_of};
pub(crate) use usage::pinned_elsewhere;
pub use usage::{held, taken};

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Makes a guest of a build. Once this is answered it will run, or say why not, whatever happens to the agent.
    pub async fn build(&self, build: &GuestBuild) -> Result<AcceptOutcome, BuildError> {
        let building = self.building.as_ref().ok_or(BuildError::NotHere)?;
        let asked = Asked::of(build, &building.options)?;
        named(asked.uuid)?;
        let digest = BuildDigest::of(build);
        let context = &self.inner.context;
        // One that is known needs no look at the host.
        if let Some(record) = context
            .journal
            .guest(asked.uuid)
            .await
            .map_err(GuestsError::from)?
        {
            return self.again(&record, &digest);
        }
        let seen = self.look(building, &asked.node).await?;
        host_check::cells(&asked.limits, &seen)?;
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
    pub async fn whole(&self, request: &GuestRequest) -> Result<AcceptOutcome, BuildError> {
        let uuid = request.uuid();
        named(uuid)?;
        let journal = &self.inner.context.journal;
        let known = journal.guest(uuid).await.map_err(GuestsError::from)?;
        if let (Some(building), None) = (&self.building, known) {
            let seen = self.look(building, request.node()).await?;
            host_check::topology(&request.spec().topology, &seen)?;
            self.plugged(&request.spec().interfaces).await?;
        }
        Ok(self.create(request).await?)
    }

    /// The same build again is the same guest.
    fn again(
        &self,
        record: &GuestRecord,
        digest: &BuildDigest,
    ) -> Result<AcceptOutcome, BuildError> {
        let uuid = record.request.uuid();
        if record.course == Goal::Destroy {
            return Err(GuestsError::Ending { uuid }.into());
        }
        if record.request.picked().build() != Some(digest) {
            return Err(GuestsError::Other { uuid }.into());
        }
        self.set_out(uuid);
        Ok(AcceptOutcome::Same)
    }

    async fn look(&self, building: &Building, node: &NodeName) -> Result<NodeView, BuildError> {
        let conditions = building.conditions.as_ref();
        let conditions = conditions.map(|conditions| (conditions, conditions.begin_look()));
        let mut view = self.inner.context.driver.observe().await?;
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
    let picked =
        HostPlacement::new(Some(digest), place.reserved, picks.made).describing(asked.described);
    let request = GuestRequest::new(asked.node, asked.arqs, spec)?;
    Ok(request.with_disks(asked.disks)?.with_picked(picked))
}

#[cfg(test)]
mod tests;
