//! Creates instances on this host. A request to create one comes in two forms, and both end as a [`GuestRequest`] in the
//! agent's journal:
//!
//! | request | from | who chooses host CPUs and devices | function |
//! |---|---|---|---|
//! | build ([`GuestBuild`]) | the conductor: flavor, image and allocations | this module | [`Guests::build`] |
//! | complete request ([`GuestRequest`]) | another client of the agent's API | the client | [`Guests::create_complete`] |
//!
//! ```text
//! build:  parse -> observe the node -> lock -> read the usage -> pick devices, fit CPUs -> write to the journal -> unlock
//! ```
//!
//! The placement lock is held from reading the usage until the request is in the journal, so that no two instances get one
//! CPU or one device. The chosen CPUs and devices ([`HostPlacement`]) are part of the request. If the agent process is
//! killed, the journal therefore has both the request and its placement, or neither. After the request is in the journal, a
//! reconcile task starts the guest.
//!
//! | module | what it does |
//! |---|---|
//! | `parse` | validates the body of a build; pure |
//! | `host_check` | checks that the host has the NUMA cells, CPUs and networks that a request names |
//! | `devices` | picks the devices that Placement allocated for the flavor; pure |
//! | `usage` | the CPUs, pages and devices that other instances use; pure |
//! | `preview` | shows where an instance would be placed, without creating it |
//! | `options` | [`BuildContext`]: the options and dependencies of a build |
//! | `error` | [`BuildError`]: why a build failed |

mod devices;
mod error;
mod host_check;
mod options;
mod parse;

mod preview;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_agent_journal::{
    AcceptOutcome, BuildDigest, Goal, GuestRecord, GuestRequest, HostPlacement, NetworkFunction,
};
use berth_model::{ConsumerUuid, NodeName, ProviderTree, ProviderUuid};
use berth_virt::guest_spec::{GuestDevices, GuestPciTree};
use berth_virt::{InterfaceOutcome, NodeView, VirtDriver};
use berth_wire::guest::{GuestBuild, NetworkSource};

use crate::create::parse::ParsedBuild;
use crate::fit::fit;
use crate::guests::{Guests, GuestsError};
use crate::interfaces::selected_kind;
use crate::power::{PowerError, ensure_idle};
use crate::resources::GuestResources;

pub use error::{BuildError, BuildFault};
pub use host_check::MissingCapability;
pub(crate) use host_check::check_machine;
pub use options::{BuildContext, BuildOptions, TreeLookup};
pub use parse::{
    DirectPort, attached_interface, bound_interfaces, config_drive_change, image_of, kernel_of,
    unbound_port,
};
pub(crate) use usage::conflicting_pins;
pub use usage::{devices_in_use, host_usage};

impl<D: VirtDriver, R: GuestResources> Guests<D, R> {
    /// Creates an instance from a build, or confirms that an earlier call with the same build created it. After `Ok` the
    /// request is in the journal: the guest will run, or its record will show why not, even if the agent is killed.
    pub async fn build(&self, build: &GuestBuild) -> Result<AcceptOutcome, BuildError> {
        let build_context = self.build_context.as_ref();
        let build_context = build_context.ok_or(BuildError::BuildsNotSupported)?;
        let parsed = ParsedBuild::of(build, &build_context.options)?;
        check_uuid(parsed.uuid)?;
        let digest = BuildDigest::of(build);
        let journal = &self.inner.context.journal;
        // A repeated build needs no observation of the host.
        let record = journal.guest(parsed.uuid).await;
        if let Some(record) = record.map_err(GuestsError::from)? {
            return self.confirm_repeated_build(&record, &digest);
        }
        let node = self.observe_node(build_context, &parsed.node).await?;
        host_check::check_cells(&parsed.limits, &node)?;
        host_check::check_machine(&parsed.spec.machine, &node)?;
        self.check_networks(&parsed.spec.interfaces).await?;
        let provider_tree = (build_context.provider_trees)(&parsed.node);
        let _lock = self.inner.placement_lock.lock().await;
        let records = self.list().await?;
        // Another call may have created the instance before this call got the lock.
        let mut same_uuid = records
            .iter()
            .filter(|record| record.request.uuid() == parsed.uuid);
        if let Some(record) = same_uuid.next() {
            return self.confirm_repeated_build(record, &digest);
        }
        let request = place(parsed, digest, &node, provider_tree.as_deref(), &records)?;
        let request = with_card_addresses(request, build, &build_context.options)?;
        Ok(self.accept(&request).await?)
    }

    /// Creates an instance from a complete request, or confirms that an earlier call with the same request created it.
    pub async fn create_complete(
        &self,
        request: &GuestRequest,
    ) -> Result<AcceptOutcome, BuildError> {
        let uuid = request.uuid();
        check_uuid(uuid)?;
        let journal = &self.inner.context.journal;
        let record = journal.guest(uuid).await.map_err(GuestsError::from)?;
        // Only an agent in a test has no build context. Its host is not checked.
        if let (Some(build_context), None) = (&self.build_context, record) {
            let node = self.observe_node(build_context, request.node()).await?;
            host_check::check_topology(&request.spec().topology, &node)?;
            host_check::check_machine(&request.spec().machine, &node)?;
            request.spec().check_network_functions()?;
            let _ = GuestPciTree::of(request.spec())?;
            self.check_networks(&request.spec().interfaces).await?;
        }
        // `create` takes the placement lock, and checks that no other instance has the CPUs.
        Ok(self.create(request).await?)
    }

    /// Selects a free function of a network card for a port that is attached next, and gives it to the guest. `provider` is the
    /// card's provider, on which the guest has an allocation. A guest that has a function for the port keeps it.
    ///
    /// Errors: the guest is unknown or busy, the card has no free function, or the guest has a function for a port of another
    /// kind.
    pub async fn select_function(
        &self,
        uuid: ConsumerUuid,
        port: &DirectPort,
        provider: ProviderUuid,
    ) -> Result<InterfaceOutcome, PowerError> {
        let build_context = self.build_context.as_ref();
        let build_context = build_context.ok_or(BuildError::BuildsNotSupported)?;
        let (_guard, record) = self.lock_record(uuid).await?;
        ensure_idle(&record)?;
        if let Some(function) = record.function_of(port.port) {
            let selected = selected_kind(&record.request, function);
            return match selected == port.kind {
                true => Ok(InterfaceOutcome::Unchanged),
                false => Err(PowerError::OtherFunctionKind {
                    port: port.port,
                    found: port.kind,
                    selected,
                }),
            };
        }
        if record.request.host_placement().build_digest().is_none() {
            // A repeated complete request must equal the recorded one.
            return Err(BuildError::field(
                "port",
                "a guest that was created with a complete spec gets no other devices; create it from a flavor",
            )
            .into());
        }
        let name = record.request.node();
        let node = self.observe_node(build_context, name).await?;
        let provider_tree = (build_context.provider_trees)(name);
        let _lock = self.inner.placement_lock.lock().await;
        let records = self.list().await.map_err(BuildError::from)?;
        let taken = devices_in_use(records.iter().map(Arc::as_ref), &node);
        let (function, device) = devices::pick_function(
            port,
            provider,
            (name, &node),
            provider_tree.as_deref(),
            &taken,
        )?;
        self.claim_function(&record, function, device).await
    }

    /// Confirms a repeated request for a guest of the journal, if its build is that of the record.
    fn confirm_repeated_build(
        &self,
        record: &GuestRecord,
        digest: &BuildDigest,
    ) -> Result<AcceptOutcome, BuildError> {
        let uuid = record.request.uuid();
        if record.goal == Goal::Destroy {
            return Err(GuestsError::BeingDeleted { uuid }.into());
        }
        if record.request.host_placement().build_digest() != Some(digest) {
            return Err(GuestsError::DifferentRequest { uuid }.into());
        }
        self.spawn_reconcile(uuid);
        Ok(AcceptOutcome::Same)
    }

    /// Observes the hypervisor, and returns the view of one node with the conditions of its devices (quarantine, failed
    /// health check).
    pub(crate) async fn observe_node(
        &self,
        build_context: &BuildContext,
        node: &NodeName,
    ) -> Result<NodeView, BuildError> {
        let device_conditions = build_context.device_conditions.as_ref();
        // The id orders observations by their start, so that a slow one does not replace the result of a later one.
        let observation_id = device_conditions.map(|conditions| conditions.begin_observation());
        let mut host = self.inner.context.driver.observe().await?;
        if let (Some(conditions), Some(id)) = (device_conditions, observation_id) {
            conditions.overlay(id, &mut host);
        }
        host.nodes
            .remove(node)
            .ok_or_else(|| BuildError::NoSuchNode {
                node: node.clone(),
                known: host.nodes.into_keys().collect(),
            })
    }
}

/// Writes the MAC addresses of the selected network cards into the config drive: a port that is a whole card gets the card's
/// address when it is bound.
fn with_card_addresses(
    request: GuestRequest,
    build: &GuestBuild,
    options: &BuildOptions,
) -> Result<GuestRequest, BuildError> {
    let functions = request.host_placement().network_functions().iter();
    let cards = functions.filter(|function| function.facts.number.is_none());
    let address_of = |card: &NetworkFunction| Some((card.port, card.facts.physical_mac?));
    let cards: BTreeMap<_, _> = cards.filter_map(address_of).collect();
    if cards.is_empty() || build.config_drive.is_none() {
        return Ok(request);
    }
    let mut build = build.clone();
    for network in &mut build.networks {
        if let NetworkSource::Port(vif) = &mut network.source
            && let Some(address) = cards.get(&vif.id)
        {
            vif.address = address.to_string();
        }
    }
    let disks = ParsedBuild::of(&build, options)?.disks;
    Ok(request.with_disks(disks)?)
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

/// Picks the devices of a build, fits its virtual CPUs and memory on the node, and returns the request with both. Pure.
/// `provider_tree` is the node's tree in Placement; `records` are all instances in the journal.
fn place(
    build: ParsedBuild,
    digest: BuildDigest,
    node: &NodeView,
    provider_tree: Option<&ProviderTree>,
    records: &[Arc<GuestRecord>],
) -> Result<GuestRequest, BuildError> {
    let records = || records.iter().map(Arc::as_ref);
    let on_node = records().filter(|record| record.request.node() == &build.node);
    let picks = devices::pick(
        &build,
        node,
        provider_tree,
        &devices_in_use(records(), node),
    )?;
    picks.check_accelerator_requests(&build)?;
    let mut limits = build.limits.clone();
    limits.host_cells = limits.host_cells.or(picks.host_cells);
    let placement = fit(
        &build.placement,
        node,
        &host_usage(on_node, node),
        &picks.near_devices,
        &limits,
    )?;
    let mut spec = build.spec;
    spec.topology = placement.topology;
    spec.devices = GuestDevices::new(picks.devices)?;
    let host_placement = HostPlacement::new(Some(digest), placement.reserved, picks.mdevs)
        .with_network_functions(picks.network_functions)
        .with_scheduling_facts(build.scheduling_facts);
    let request = GuestRequest::new(build.node, build.arqs, spec)?;
    Ok(request
        .with_disks(build.disks)?
        .with_host_placement(host_placement))
}

#[cfg(test)]
mod tests;
