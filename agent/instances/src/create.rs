//! Creates instances: turns a conductor's [`GuestBuild`], or a complete [`GuestRequest`], into a journaled request with
//! CPUs and devices of this host.
//!
//! ```text
//! build:  parse (pure) -> observe the node -> lock -> usage from the journal -> fit CPUs, pick devices (pure) -> journal -> unlock
//! ```
//!
//! The placement lock is held from reading the usage until the request is in the journal, so no two instances get one CPU or one
//! device. The placement is journaled with the request, so a kill leaves either both or neither.
//!
//! | module | what it does |
//! |---|---|
//! | `parse` | validates the body of a build |
//! | `host_check` | checks the cells, CPUs and networks that a request names |
//! | `devices` | picks the flavor's devices from the allocations; pure |
//! | `usage` | the CPUs, pages and devices in use; pure |
//! | `preview` | shows where an instance would be placed, without creating it |
//! | [`BuildError`] | why a build failed |
//!
//! [`HostPlacement`] is the journaled placement. Caller: the admin API. The composition root passes the [`BuildContext`].

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

use crate::create::parse::ParsedBuild;
use crate::fit::fit;
use crate::guests::{Guests, GuestsError};
use crate::resources::GuestResources;

pub use error::{BuildError, BuildFault};
pub use options::{BuildContext, BuildOptions, TreeLookup};
pub use parse::{config_drive_change, image_of, kernel_of};
pub(crate) use usage::conflicting_pins;
pub use usage::{devices_in_use, host_usage};

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Creates an instance from a build. After `Ok` the request is in the journal, and the guest will run, or its
    /// record will show the reason, even if the agent is killed.
    pub async fn build(&self, build: &GuestBuild) -> Result<AcceptOutcome, BuildError> {
        let building = self.build_context.as_ref().ok_or(BuildError::NotHere)?;
        let asked = ParsedBuild::of(build, &building.options)?;
        check_uuid(asked.uuid)?;
        let digest = BuildDigest::of(build);
        let context = &self.inner.context;
        // A known instance needs no observation of the host.
        if let Some(record) = context
            .journal
            .guest(asked.uuid)
            .await
            .map_err(GuestsError::from)?
        {
            return self.accept_repeated(&record, &digest);
        }
        let seen = self.observe_node(building, &asked.node).await?;
        host_check::check_cells(&asked.limits, &seen)?;
        self.check_networks(&asked.spec.interfaces).await?;
        let tree = (building.trees)(&asked.node);
        let _placing = self.inner.placement_lock.lock().await;
        let records = self.list().await?;
        if let Some(record) = records
            .iter()
            .find(|known| known.request.uuid() == asked.uuid)
        {
            return self.accept_repeated(record, &digest);
        }
        let request = place(asked, digest, &seen, tree.as_deref(), &records)?;
        Ok(self.accept(&request).await?)
    }

    /// Creates an instance from a complete spec, with the CPUs and devices that its sender chose.
    pub async fn create_whole(&self, request: &GuestRequest) -> Result<AcceptOutcome, BuildError> {
        let uuid = request.uuid();
        check_uuid(uuid)?;
        let journal = &self.inner.context.journal;
        let known = journal.guest(uuid).await.map_err(GuestsError::from)?;
        if let (Some(building), None) = (&self.build_context, known) {
            let seen = self.observe_node(building, request.node()).await?;
            host_check::check_topology(&request.spec().topology, &seen)?;
            self.check_networks(&request.spec().interfaces).await?;
        }
        Ok(self.create(request).await?)
    }

    /// Accepts the repetition of a build, if the body is the same.
    fn accept_repeated(
        &self,
        record: &GuestRecord,
        digest: &BuildDigest,
    ) -> Result<AcceptOutcome, BuildError> {
        let uuid = record.request.uuid();
        if record.goal == Goal::Destroy {
            return Err(GuestsError::Ending { uuid }.into());
        }
        if record.request.picked().build() != Some(digest) {
            return Err(GuestsError::Other { uuid }.into());
        }
        self.spawn_reconcile(uuid);
        Ok(AcceptOutcome::Same)
    }

    async fn observe_node(
        &self,
        building: &BuildContext,
        node: &NodeName,
    ) -> Result<NodeView, BuildError> {
        let conditions = building.conditions.as_ref();
        let conditions = conditions.map(|conditions| (conditions, conditions.begin_observation()));
        let mut view = self.inner.context.driver.observe().await?;
        if let Some((conditions, observation)) = conditions {
            conditions.overlay(observation, &mut view);
        }
        view.nodes
            .remove(node)
            .ok_or_else(|| BuildError::NoSuchNode {
                node: node.clone(),
                known: view.nodes.into_keys().collect(),
            })
    }
}

fn check_uuid(uuid: ConsumerUuid) -> Result<(), BuildError> {
    match uuid.as_uuid().is_nil() {
        true => Err(BuildError::field(
            "uuid",
            "the nil UUID cannot identify a guest; expected a random UUID",
        )),
        false => Ok(()),
    }
}

/// Fits the build on the node and picks its devices.
fn place(
    asked: ParsedBuild,
    digest: BuildDigest,
    seen: &NodeView,
    tree: Option<&ProviderTree>,
    records: &[Arc<GuestRecord>],
) -> Result<GuestRequest, BuildError> {
    let records = || records.iter().map(Arc::as_ref);
    let own = records().filter(|record| record.request.node() == &asked.node);
    let picks = devices::pick(&asked, seen, tree, &devices_in_use(records(), seen))?;
    picks.check_requests(&asked)?;
    let mut limits = asked.limits.clone();
    limits.host_cells = limits.host_cells.or(picks.host_cells);
    let place = fit(
        &asked.placement,
        seen,
        &host_usage(own, seen),
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
