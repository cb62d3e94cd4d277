//! Reads the interfaces of an active guest again: after the network service reported a change, and periodically.

use berth_client::NetworkClientError;
use berth_client::network::{VifOrigin, network_info};
use berth_model::ConsumerUuid;
use berth_wire::network_info::VifBody;

use crate::boot::ports_of_guest;
use crate::boot_context::BootContext;
use crate::journal::{BootGoal, BootStep, BootStepDetail, JournalError, StepState};

/// Why a guest's interfaces are not read again.
#[derive(Debug, thiserror::Error)]
pub enum PortRefreshError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Network(#[from] NetworkClientError),
}

/// Writes what the network service reports now. Only for active guests: the interfaces of a guest that is being built
/// are those of its build request.
pub(crate) async fn refresh(
    context: &BootContext,
    guest: ConsumerUuid,
) -> Result<(), PortRefreshError> {
    let Some(networks) = &context.networks else {
        return Ok(());
    };
    let Some(record) = context.journal.guest(guest).await? else {
        return Ok(());
    };
    if record.goal != BootGoal::Active || record.vifs().is_empty() {
        return Ok(());
    }
    let ports = ports_of_guest(networks, &record.request).await?;
    let facts = networks.facts(ports).await?;
    let found = network_info(&facts, &origins(record.vifs()));
    let vifs = merged(record.vifs(), &found);
    if vifs == record.vifs() {
        return Ok(());
    }
    let (place, step) = ((guest, record.attempt), BootStep::PortBinding);
    let detail = BootStepDetail::Vifs(vifs);
    context
        .record_step(place, step, StepState::Done, detail)
        .await?;
    Ok(())
}

/// Where the ports of known interfaces come from.
fn origins(vifs: &[VifBody]) -> Vec<VifOrigin> {
    let origins = vifs.iter().map(|vif| VifOrigin {
        port: vif.id,
        preserve_on_delete: vif.preserve_on_delete,
        tag: vif.tag().map(str::to_owned),
    });
    origins.collect()
}

/// The known interfaces with what was found. One whose port is gone stays: the host still has it.
fn merged(known: &[VifBody], found: &[VifBody]) -> Vec<VifBody> {
    let merged = known.iter().map(|vif| {
        let now = found.iter().find(|now| now.id == vif.id);
        now.unwrap_or(vif).clone()
    });
    merged.collect()
}
