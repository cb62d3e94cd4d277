//! One scan for orphaned accelerator requests.

use std::collections::BTreeMap;

use berth_client::AcceleratorError;
use berth_model::{ArqState, ArqUuid, DeviceProfileName};
use tokio::time::Instant;

use super::OrphanedArqs;
use crate::boot_context::BootContext;
use crate::journal::JournalError;

/// Error of a scan for orphaned ARQs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrphanedArqsError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Accelerator(#[from] AcceleratorError),
}

impl OrphanedArqs {
    /// Scans if a scan is due. Returns the number of deleted ARQs.
    pub(crate) async fn collect(&self, context: &BootContext) -> Result<usize, OrphanedArqsError> {
        if !self
            .observations()
            .scan
            .is_due(context.options.orphan_grace, Instant::now())
        {
            return Ok(0);
        }
        let profiles = context.journal.lost_arq_profiles().await?;
        if profiles.is_empty() {
            return Ok(0);
        }
        let arqs = context.accelerators.arqs().await?;
        // Read the journal after the service: an ARQ that was created in between is in neither list, or in
        // both.
        let known = context.journal.arqs().await?;
        let unknown = arqs.into_iter().filter_map(|reported| {
            let arq = reported.arq.ok()?;
            let is_orphan = arq.state == ArqState::Initial
                && profiles.contains(&arq.device_profile)
                && !known.contains(&arq.uuid);
            is_orphan.then_some((arq.uuid, arq.device_profile))
        });
        let unknown: BTreeMap<ArqUuid, DeviceProfileName> = unknown.collect();
        let (overdue, clean) = self.classify(
            &unknown,
            &profiles,
            context.options.orphan_grace,
            Instant::now(),
        );
        for arq in &overdue {
            context.accelerators.delete_arq(*arq).await?;
            tracing::info!(%arq, "deleted an orphaned accelerator request");
        }
        let _lock = self.lock_records().await;
        for profile in clean {
            if self.is_clear(&profile) {
                context.journal.clear_lost_arqs(&profile).await?;
            }
        }
        Ok(overdue.len())
    }
}
