//! Deletes the ports of guests that the network service created after the answer was lost.
//!
//! The network service may execute the creation of a port after the conductor has given it up: the guest then has a port
//! that no step knows. Therefore this collector observes the guest for a grace period, and deletes the marked ports that
//! are not the guest's. Until then, the guest's UUID stays owned by this conductor.

use berth_client::NetworkClientError;
use berth_client::network::PortFilter;
use berth_hosts::HostTableError;
use berth_keyed_tasks::KeyedTasks;
use berth_model::{ConsumerUuid, Disposition};

use crate::boot_context::BootContext;
use crate::journal::{BootGoal, BootPort, JournalError, LatePort};
use crate::port_marks::is_marked;

/// Error of a scan for late ports.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LatePortsError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Network(#[from] NetworkClientError),
    #[error("failed to write the guest's owner: {0}")]
    Hosts(#[from] HostTableError),
}

/// Scans if a scan is due. Returns the number of deleted ports.
pub(crate) async fn collect(
    context: &BootContext,
    tasks: &KeyedTasks<ConsumerUuid>,
) -> Result<usize, LatePortsError> {
    let observed = &context.late_ports;
    if !observed.is_due(context.options.orphan_grace) {
        return Ok(0);
    }
    let all = context.journal.late_ports().await?;
    observed.retain(|guest| all.iter().any(|late| late.guest == guest));
    let mut deleted = 0;
    for late in &all {
        // A running boot or deletion finds the ports of its own attempt.
        if tasks.is_active(&late.guest) {
            continue;
        }
        let _guard = tasks.lock(late.guest).await;
        match collect_of(context, late).await {
            Ok(of_guest) => deleted += of_guest,
            // The other guests do not wait for this one.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(guest = %late.guest, error, "failed to collect the late ports of a guest, retrying");
            }
        }
    }
    Ok(deleted)
}

/// Deletes the late ports of one guest. Returns their number.
async fn collect_of(context: &BootContext, late: &LatePort) -> Result<usize, LatePortsError> {
    let guest = late.guest;
    let is_over = context
        .late_ports
        .is_over(guest, context.options.orphan_grace);
    let record = context.journal.guest(guest).await?;
    let own = match &record {
        None => Vec::new(),
        Some(record) => match record.goal {
            BootGoal::Failed { .. } => Vec::new(),
            BootGoal::Active => record.ports(record.attempt).unwrap_or_default().to_vec(),
            _ => return Ok(0),
        },
    };
    let deleted = delete_others(context, late, &own).await?;
    if deleted == 0 && is_over {
        // Delete the row first: without the row, nothing is deleted that belongs to the next owner of the UUID.
        // If the conductor stops in between, `stale_members` removes the ownership.
        context.journal.clear_late_port(guest).await?;
        let is_undone = record.is_none_or(|record| record.goal != BootGoal::Active);
        if is_undone && !context.has_late_effect(guest).await? {
            let hosts = &context.scheduler.hosts;
            hosts.release_guest(context.owned(guest)).await?;
        }
    }
    Ok(deleted)
}

/// Deletes the ports that this service created for the guest and that are not among these. Returns their number.
async fn delete_others(
    context: &BootContext,
    late: &LatePort,
    own: &[BootPort],
) -> Result<usize, LatePortsError> {
    let guest = late.guest;
    let Some(networks) = &context.networks else {
        return Ok(0);
    };
    // Tenants may write any device into their ports.
    let filter = PortFilter {
        project: Some(late.project.clone()),
        device_id: Some(guest.to_string()),
        ..PortFilter::default()
    };
    let mut deleted = 0;
    for port in networks.ports(&filter).await? {
        let is_own = own.iter().any(|known| known.port == port.id);
        if !is_marked(&port) || is_own {
            continue;
        }
        match networks.delete_port(port.id).await {
            Ok(_) => {
                tracing::info!(%guest, port = %port.id, "deleted a late port, whose creation was not answered");
                deleted += 1;
            }
            Err(error) if error.disposition() == Disposition::Retry => return Err(error.into()),
            // Its owner uses it for something else, for example as the parent of a trunk.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%guest, port = %port.id, error, "failed to delete a late port");
            }
        }
    }
    Ok(deleted)
}
