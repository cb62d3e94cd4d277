//! [`DeviceRegister`]: what the agent knows about the host's accelerators and no other system records: quarantines,
//! running resets, the last verified reset of each device, and failed health checks. It also keeps the accelerator
//! service's last answer which devices are disabled (the service is Cyborg or Berth's own), and which partitions of the NVSwitch
//! fabric may be active for which guest.
//!
//! A device is reset between two guests, so that no data of one guest reaches the next. The register is a group of tables in
//! the agent's journal, next to the table of the guests' devices. One transaction can therefore check "no guest has the
//! device" and record "the device is being reset". As a result, a device is never reset while a guest has it, and never
//! claimed by a guest during a reset.
//!
//! | word | meaning |
//! |---|---|
//! | name | the PCI address of a device, or the UUID of a mediated device |
//! | release | the end of a guest's use of the device; the accelerator service then requests a reset |
//! | release count | how often the accelerator service has released the device; a reset belongs to one release |
//! | quarantine | no guest can claim the device until an operator ends it |
//!
//! Three tables have older words: `device_cleaning` (running resets), `device_cleaned` (last verified resets) and
//! `device_sick` (failed health checks).

mod fabric;
mod records;
mod reset_at_deletion;
mod sql;

use std::collections::BTreeSet;

use berth_model::{NodeName, ProviderUuid};
use berth_store::Statement;
use berth_workflow::{JournalError, JournalFile};

use crate::register::reset_at_deletion::TakeResetAtDeletion;
use crate::register::sql::{
    BeginReset, READ_REGISTER, delete_quarantine, register_of, set_quarantine, set_release_count,
    set_unhealthy,
};

pub use fabric::{ActivePartition, PartitionRecord};
pub use records::{
    Quarantine, QuarantineAfterReset, QuarantinedBy, Register, ResetEnd, ResetStart, WithheldReason,
};
pub use reset_at_deletion::release_statements;
pub(crate) use reset_at_deletion::{CREATE_RESET_AT_DELETION, forget_reset_at_deletion};
pub(crate) use sql::{CREATE, withheld_reason};

/// The register of one journal file. Clones share the file.
#[derive(Debug, Clone)]
pub struct DeviceRegister {
    file: JournalFile,
}

impl DeviceRegister {
    pub(crate) fn new(file: JournalFile) -> Self {
        Self { file }
    }

    /// Reads the whole register.
    pub async fn read(&self) -> Result<Register, JournalError> {
        let rows = self.file.rows(Statement::new(READ_REGISTER)).await?;
        // The outer error is one of the database, the inner one is an invalid row.
        let register = register_of(&rows).map_err(|source| self.file.failed(source))?;
        register.map_err(|reason| self.file.damaged(reason))
    }

    /// Records that a reset or programming of a device begins, unless a guest has the device.
    pub async fn begin_reset(&self, name: &str) -> Result<ResetStart, JournalError> {
        let start = self.file.write(&BeginReset(name)).await?;
        start.map_err(|guest| {
            let reason = format!("the guest of device {name} is {guest:?}; expected a UUID");
            self.file.damaged(reason)
        })
    }

    /// Records the end of a reset or programming, in one transaction.
    pub async fn end_reset(&self, name: &str, end: &ResetEnd) -> Result<(), JournalError> {
        let delete = Statement::new("DELETE FROM device_cleaning WHERE name = ?").bind(name);
        let mut statements = vec![delete];
        match end {
            // The release count does not change: a device that needed a reset still needs one.
            ResetEnd::Unknown => {}
            ResetEnd::Failed(quarantine) => statements.push(set_quarantine(name, quarantine)),
            ResetEnd::Clean {
                release_count,
                quarantine,
            } => {
                if *quarantine == QuarantineAfterReset::End {
                    statements.push(delete_quarantine(name));
                }
                statements.extend(release_count.map(|count| set_release_count(name, count)));
            }
        }
        self.file.execute(statements).await
    }

    /// Saves a second reset. The deletion of a guest resets its devices and then releases them; after each release, the
    /// accelerator service requests a reset. Records the reset at the deletion as the one for this release. Returns
    /// false if there was none, if it already counts for another release, or if a guest has claimed the device since:
    /// then the device must be reset.
    pub async fn take_reset_at_deletion(
        &self,
        name: &str,
        release_count: i64,
    ) -> Result<bool, JournalError> {
        let take = TakeResetAtDeletion {
            name,
            release_count,
        };
        self.file.write(&take).await
    }

    /// Quarantines a device, or changes the reason of its quarantine.
    pub async fn quarantine(&self, name: &str, why: &Quarantine) -> Result<(), JournalError> {
        self.file.execute(vec![set_quarantine(name, why)]).await
    }

    /// Ends a quarantine. `clean_after` is the current release count if the operator confirms that the device is clean
    /// (it then needs no reset), otherwise `None`.
    pub async fn end_quarantine(
        &self,
        name: &str,
        clean_after: Option<i64>,
    ) -> Result<(), JournalError> {
        let mut statements = vec![delete_quarantine(name)];
        statements.extend(clean_after.map(|count| set_release_count(name, count)));
        self.file.execute(statements).await
    }

    /// Records that the health check of the PCI device at this address failed, with the output of the check.
    pub async fn record_unhealthy(&self, address: &str, output: &str) -> Result<(), JournalError> {
        let statement = set_unhealthy(address, output);
        self.file.execute(vec![statement]).await
    }

    /// Records that the health check of the PCI device at this address succeeded.
    pub async fn record_healthy(&self, address: &str) -> Result<(), JournalError> {
        let delete = Statement::new("DELETE FROM device_sick WHERE address = ?").bind(address);
        self.file.execute(vec![delete]).await
    }

    /// Deletes the failed health checks of all devices.
    pub async fn clear_health_checks(&self) -> Result<(), JournalError> {
        let delete = Statement::new("DELETE FROM device_sick");
        self.file.execute(vec![delete]).await
    }

    /// Executes the statements of a test.
    #[cfg(any(test, feature = "testing"))]
    pub async fn execute(&self, statements: Vec<Statement>) -> Result<(), JournalError> {
        self.file.execute(statements).await
    }

    /// Replaces the list of a node's devices that the accelerator service disabled, each by the UUID of its resource
    /// provider.
    pub async fn set_disabled(
        &self,
        node: &NodeName,
        providers: &BTreeSet<ProviderUuid>,
    ) -> Result<(), JournalError> {
        let delete =
            Statement::new("DELETE FROM device_disabled WHERE node = ?").bind(node.as_str());
        let insert = |provider: &ProviderUuid| {
            Statement::new("INSERT INTO device_disabled (node, provider) VALUES (?, ?)")
                .bind(node.as_str())
                .bind(provider.to_string())
        };
        let statements = std::iter::once(delete).chain(providers.iter().map(insert));
        self.file.execute(statements.collect()).await
    }
}
