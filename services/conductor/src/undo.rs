//! Undo of a boot, driven by the journal: delete the guest at its agent, give its ports back, unbind and delete its
//! accelerator requests, release its claim, in this order. While the guest may still run, nothing else is released.

use std::collections::BTreeSet;

use berth_client::placement::{DeleteOutcome, GrantedClaim};
use berth_client::{
    AcceleratorError, GuestApiError, NetworkClient, NetworkClientError, PlacementError,
};
use berth_hosts::{HostTableError, ServerGroupError};
use berth_model::{ArqState, ConsumerUuid, NodeName};
use berth_wire::neutron::UnbindPortBody;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::boot::{PORT_TRIES, ports_of_guest};
use crate::boot_context::BootContext;
use crate::journal::{BootRecord, BootStep, JournalError, PortOrigin, StepState};
use crate::port_marks::mark_of_attempt;
use crate::port_profiles::profile_without_host;

/// Why a step is not undone yet.
#[derive(Debug, thiserror::Error)]
pub enum BootUndoError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
    #[error(transparent)]
    Network(#[from] NetworkClientError),
    #[error(
        "it has ports, and there is no network service that could take them back: write its connection into [neutron]"
    )]
    NoNetworkService,
    #[error("{0}; its devices and claim are kept until the agent confirms that the guest is gone")]
    Agent(#[from] GuestApiError),
    /// Cancelled while waiting for the agent: the goal changed, or the conductor stops.
    #[error("the undo was cancelled")]
    Cancelled,
    #[error("the agent of {node} still has the guest: {reason}")]
    NotGone { node: NodeName, reason: String },
    /// The guest's owner cannot be written.
    #[error(transparent)]
    Hosts(#[from] HostTableError),
    #[error(transparent)]
    Group(#[from] ServerGroupError),
    #[error(
        "no agent is known for host {0}, and only that agent can confirm that the guest is gone: add the host to \
         [conductor_service] agents"
    )]
    NoAgent(String),
}

/// Undoes all steps of all attempts that may have acted, the last first. `cancel` ends the wait for the agent.
pub(crate) async fn undo(
    context: &BootContext,
    record: &BootRecord,
    cancel: &CancellationToken,
) -> Result<(), BootUndoError> {
    let guest = record.request.uuid();
    for (attempt, step) in record.steps_to_undo() {
        let place = (guest, attempt);
        let Some(was) = record.steps.get(&(attempt, step)) else {
            continue;
        };
        // Keep the detail: the undo may be interrupted, too.
        let detail = || was.detail.clone();
        if was.state != StepState::Undoing {
            // A claim that has begun stays `Begun`: its result is unknown, and `release` must still see that if the
            // undo is repeated.
            if was.state == StepState::Done || step != BootStep::Claim {
                context
                    .record_step(place, step, StepState::Undoing, detail())
                    .await?;
            }
        }
        match step {
            BootStep::Build => unbuild(context, record, attempt, cancel).await?,
            // The undo of `ports` gives all ports back, bound or not.
            BootStep::PortBinding => {}
            BootStep::Ports => {
                if record.ports(attempt).is_none() {
                    // It ended while it created ports.
                    context.record_late_port(&record.request).await?;
                }
                give_back(context, record, attempt).await?;
            }
            BootStep::Bind => unbind(context, record, attempt).await?,
            BootStep::Arqs => delete_requests(context, record, attempt).await?,
            BootStep::Claim => release(context, record, attempt, was.state).await?,
        }
        context
            .record_step(place, step, StepState::Undone, detail())
            .await?;
    }
    leave_group(context, record).await?;
    // Release the ownership last. A late claim or port, which its service may still make although the answer was lost,
    // keeps the guest owned.
    if !context.has_late_effect(guest).await? {
        context
            .scheduler
            .hosts
            .release_guest(context.owned(guest))
            .await?;
    }
    Ok(())
}

/// Removes the guest from its server group if it may be a member. A boot adds its member after it has recorded the claim
/// as begun, and before it sends the claim. If no claim is recorded, a member with this UUID is another conductor's.
async fn leave_group(context: &BootContext, record: &BootRecord) -> Result<(), BootUndoError> {
    let Some(group) = record.request.server_group() else {
        return Ok(());
    };
    let mut steps = record.steps.keys();
    if !steps.any(|(_, step)| *step == BootStep::Claim) {
        return Ok(());
    }
    let member = context.member(group, record.request.uuid());
    Ok(context.scheduler.hosts.remove_member(member).await?)
}

/// Deletes the guest at its agent, and waits until it is gone.
async fn unbuild(
    context: &BootContext,
    record: &BootRecord,
    attempt: u32,
    cancel: &CancellationToken,
) -> Result<(), BootUndoError> {
    let Some(chosen) = record.chosen(attempt) else {
        return Ok(());
    };
    let node = &chosen.node;
    let place = chosen.host_node();
    let agent = context.agents.agent(&place);
    let agent = agent.ok_or(BootUndoError::NoAgent(place.host))?;
    let guest = record.request.uuid();
    let begun = Instant::now();
    // `AlreadyGone` means that the agent checked its hypervisor. That the agent does not list the guest is not
    // enough, because its journal may have been lost.
    while agent.delete(guest).await? != DeleteOutcome::AlreadyGone {
        while let Some(server) = agent.guest(guest).await? {
            if begun.elapsed() >= context.options.delete_timeout {
                let reason = server.reason.unwrap_or(server.status);
                let node = node.clone();
                return Err(BootUndoError::NotGone { node, reason });
            }
            tokio::select! {
                () = cancel.cancelled() => return Err(BootUndoError::Cancelled),
                () = sleep(context.options.poll_interval) => {}
            }
        }
        if begun.elapsed() >= context.options.delete_timeout {
            let reason = "it accepts the delete repeatedly, but does not show the guest".to_owned();
            let node = node.clone();
            return Err(BootUndoError::NotGone { node, reason });
        }
    }
    Ok(())
}

/// Unbinds the ARQs that are bound.
async fn unbind(
    context: &BootContext,
    record: &BootRecord,
    attempt: u32,
) -> Result<(), BootUndoError> {
    let Some(ours) = record.arqs(attempt) else {
        return Ok(());
    };
    let reported = context
        .accelerators
        .arqs_of_instance(record.request.uuid())
        .await?;
    let bound = reported.iter().filter(|reported| {
        let state = reported.arq.as_ref().map(|arq| &arq.state);
        let holds = !matches!(state, Ok(ArqState::Initial | ArqState::Unbound));
        ours.contains_key(&reported.uuid) && holds
    });
    let bound: BTreeSet<_> = bound.map(|reported| reported.uuid).collect();
    if bound.is_empty() {
        return Ok(());
    }
    match context.accelerators.unbind_arqs(&bound).await {
        Ok(()) => Ok(()),
        // Not in a state that can be unbound; the following delete works in any state.
        Err(
            AcceleratorError::Refused(_)
            | AcceleratorError::Conflict(_)
            | AcceleratorError::NotFound(_),
        ) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Deletes the ports that the attempt created, and takes the others from the guest. Ports that are no longer the guest's
/// are left alone.
async fn give_back(
    context: &BootContext,
    record: &BootRecord,
    attempt: u32,
) -> Result<(), BootUndoError> {
    let networks = context.networks.as_ref();
    let networks = networks.ok_or(BootUndoError::NoNetworkService)?;
    let ports = ports_of_guest(networks, &record.request).await?;
    let requested = &record.request.body().requested_networks;
    let known = record.ports(attempt).unwrap_or_default();
    let is_known = |id, origin| {
        let mut known = known.iter();
        known.any(|port| port.port == id && port.origin == origin)
    };
    let mark = mark_of_attempt(attempt);
    for port in &ports {
        let is_requested = requested.iter().any(|wanted| wanted.port == Some(port.id));
        if is_requested || is_known(port.id, PortOrigin::Given) {
            unbind_port(networks, record.request.uuid(), port.id).await?;
        } else if is_known(port.id, PortOrigin::Created) || port.description.starts_with(&mark) {
            networks.delete_port(port.id).await?;
        }
    }
    Ok(())
}

/// Takes a port from its guest and host. A port that is no longer the guest's is left alone.
pub(crate) async fn unbind_port(
    networks: &NetworkClient,
    guest: ConsumerUuid,
    id: Uuid,
) -> Result<(), NetworkClientError> {
    let mut tries = 1;
    loop {
        let port = networks.port(id).await?;
        let Some(port) = port.filter(|port| port.device_id == guest.to_string()) else {
            return Ok(());
        };
        let unbinding = UnbindPortBody {
            profile: profile_without_host(&port),
            dns_name: port.dns_name.as_ref().map(|_| String::new()),
            ..UnbindPortBody::default()
        };
        let revision = port.revision_number;
        match networks.unbind_port(id, &unbinding, revision).await {
            Err(NetworkClientError::Changed(_)) if tries < PORT_TRIES => tries += 1,
            unbound => return unbound.map(drop),
        }
    }
}

async fn delete_requests(
    context: &BootContext,
    record: &BootRecord,
    attempt: u32,
) -> Result<(), BootUndoError> {
    match record.arqs(attempt) {
        Some(ours) => {
            for arq in ours.keys() {
                context.accelerators.delete_arq(*arq).await?;
            }
        }
        None => {
            // The create may have succeeded without an answer. With the recorded profile, a later scan finds these ARQs and
            // deletes them.
            if let Some(profile) = record.request.profile() {
                context.record_lost_arqs(profile).await?;
            }
        }
    }
    Ok(())
}

async fn release(
    context: &BootContext,
    record: &BootRecord,
    attempt: u32,
    was: StepState,
) -> Result<(), BootUndoError> {
    let Some(chosen) = record.chosen(attempt) else {
        return Ok(());
    };
    let guest = record.request.uuid();
    if was != StepState::Done {
        // The result of the claim, or of an earlier release, is unknown, and the result of this release may
        // be lost, too.
        context.record_late_claim(guest).await?;
    }
    // The UUID is owned by this conductor, so all its allocations are from this guest's boots.
    if was == StepState::Begun && context.placement.allocations(guest).await?.is_none() {
        return Ok(());
    }
    let claimed = GrantedClaim::from_journal(guest, chosen.candidate.clone());
    match claimed.release(&context.placement).await {
        Ok(DeleteOutcome::Deleted | DeleteOutcome::AlreadyGone) => Ok(()),
        Err(not_released) => Err(not_released.reason.into()),
    }
}
