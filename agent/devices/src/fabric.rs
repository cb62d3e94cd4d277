//! [`Fabric`]: activates the partition of the NVSwitch fabric that a guest needs, and deactivates it, with the operator's program.
//!
//! ```text
//! PROGRAM activate ID      the partition is active when it exits with 0
//! PROGRAM deactivate ID    the partition is not active when it exits with 0
//! ```
//!
//! Both are repeated after a kill and at each start of the guest, so the program must be idempotent. The register has a row for
//! each partition that may be active: it is written before the activation, and deleted after the deactivation. So the right
//! partition is deactivated even if the configuration changed meanwhile.

use std::collections::BTreeSet;

use berth_agent_journal::{ActivePartition, DeviceRegister, JournalError, PartitionRecord};
use berth_hook::{Hook, HookError, HookInput};
use berth_model::{ConsumerUuid, PciAddress};
use berth_virt::{FabricPartitions, NoPartition};
use tokio::sync::Mutex;

/// The most that the program may write to standard output. It is not used.
const MAX_OUTPUT: usize = 64 << 10;

/// Why a partition is not activated or deactivated.
#[derive(Debug, thiserror::Error)]
pub enum FabricError {
    #[error(transparent)]
    NoPartition(#[from] NoPartition),
    #[error("it may still be active for guest {holder}")]
    Held { id: u32, holder: ConsumerUuid },
    /// The configuration changed while a partition was active.
    #[error(
        "no program is named that could {action} it; set [fabric] partition_hook as it was when the guest started"
    )]
    NoHook { id: u32, action: &'static str },
    #[error("the partition hook did not {action} it: {}", source.outcome())]
    Hook {
        id: u32,
        action: &'static str,
        source: HookError,
    },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

#[derive(Debug, Clone, Copy)]
enum PartitionAction {
    Activate,
    Deactivate,
}

impl PartitionAction {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Activate => "activate",
            Self::Deactivate => "deactivate",
        }
    }
}

/// The partitions of this host, and the program that changes them.
pub struct Fabric {
    partitions: FabricPartitions,
    hook: Option<Hook>,
    register: DeviceRegister,
    /// Held while the program runs: one run at a time, each with a time limit.
    running: Mutex<()>,
}

impl Fabric {
    /// `hook` is `[fabric] partition_hook`.
    #[must_use]
    pub fn new(partitions: FabricPartitions, hook: Option<Hook>, register: DeviceRegister) -> Self {
        Self {
            partitions,
            hook,
            register,
            running: Mutex::default(),
        }
    }

    /// Checks that the GPUs among a guest's functions are one partition, or that none is in a partition.
    ///
    /// Errors: [`FabricError::NoPartition`].
    pub fn check(&self, functions: &BTreeSet<PciAddress>) -> Result<(), FabricError> {
        self.partitions.partition_of(functions)?;
        Ok(())
    }

    /// Activates the partition of the GPUs among a guest's functions. Repeating it is safe.
    ///
    /// Errors: [`FabricError`]. The partition may be active nevertheless; [`Fabric::deactivate`] knows it.
    pub async fn activate(
        &self,
        guest: ConsumerUuid,
        functions: &BTreeSet<PciAddress>,
    ) -> Result<(), FabricError> {
        let partition = self.partitions.partition_of(functions)?;
        for before in self.register.partitions_of(guest).await? {
            // The operator gave the GPUs another partition.
            if partition.is_none_or(|partition| partition.id != before.id) {
                self.end(before.id).await?;
            }
        }
        let Some(partition) = partition else {
            return Ok(());
        };
        let id = partition.id;
        let record = ActivePartition {
            id,
            guest,
            functions: partition.functions.clone(),
        };
        match self.register.record_partition(&record).await? {
            PartitionRecord::Recorded => {}
            PartitionRecord::HeldBy(holder) => return Err(FabricError::Held { id, holder }),
        }
        self.run(PartitionAction::Activate, id).await?;
        tracing::info!(%guest, partition = id, "activated a partition of the fabric");
        Ok(())
    }

    /// Deactivates the partitions that may be active for a guest that has ended. `functions` are its functions that no other
    /// guest uses. Repeating it is safe.
    ///
    /// Errors: [`FabricError`]. The partition may still be active, and its GPUs must not be released.
    pub async fn deactivate(
        &self,
        guest: ConsumerUuid,
        functions: &BTreeSet<PciAddress>,
    ) -> Result<(), FabricError> {
        for active in self.register.partitions_of(guest).await? {
            let id = active.id;
            if !active.functions.is_subset(functions) {
                tracing::warn!(%guest, partition = id, "not deactivating the partition of a removed guest: another guest uses one of its GPUs");
                self.register.remove_partition(id).await?;
                continue;
            }
            self.end(id).await?;
            tracing::info!(%guest, partition = id, "deactivated a partition of the fabric");
        }
        Ok(())
    }

    async fn end(&self, id: u32) -> Result<(), FabricError> {
        self.run(PartitionAction::Deactivate, id).await?;
        Ok(self.register.remove_partition(id).await?)
    }

    async fn run(&self, action: PartitionAction, id: u32) -> Result<(), FabricError> {
        let action = action.as_str();
        let hook = self.hook.as_ref();
        let hook = hook.ok_or(FabricError::NoHook { id, action })?;
        let _running = self.running.lock().await;
        let input = HookInput {
            arguments: &[action, &id.to_string()],
            document: &[],
            most: MAX_OUTPUT,
        };
        let ran = hook.answer(input).await;
        ran.map(drop)
            .map_err(|source| FabricError::Hook { id, action, source })
    }
}

#[cfg(test)]
mod tests;
