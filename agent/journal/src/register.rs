//! [`DeviceRegister`]: facts about devices that no other system records: quarantines, running resets, the last verified reset of
//! each device, failed health checks, and the devices that the accelerator service disabled.
//!
//! The register is in the guests' journal, in tables of its own, so that "no guest has the device" and "the device is being
//! reset" are decided in one transaction: a guest's device is never reset, and a device is never claimed during its reset. The
//! name of a device is its PCI address, or the UUID of a mediated device.

mod records;
mod returned;
mod sql;

use std::collections::BTreeSet;

use berth_model::{NodeName, ProviderUuid};
use berth_store::Statement;
use berth_workflow::{JournalError, JournalFile};

use crate::register::returned::CountAsCleaned;
use crate::register::sql::{
    BeginCleaning, delete_quarantine, read_register, set_cleaned, set_quarantine, set_sick,
};

pub use records::{
    CleaningOutcome, CleaningStart, Quarantine, QuarantineStays, QuarantinedBy, Register,
    WithheldReason,
};
pub use returned::record_released;
pub(crate) use returned::{CREATE_RETURNED, delete_returned};
pub(crate) use sql::{CREATE, withheld_reason};

/// The device tables of a journal. Clones share the file.
#[derive(Debug, Clone)]
pub struct DeviceRegister {
    file: JournalFile,
}

impl DeviceRegister {
    pub(crate) fn over(file: JournalFile) -> Self {
        Self { file }
    }

    pub async fn read(&self) -> Result<Register, JournalError> {
        let read = async {
            let mut tx = self.file.read().await?;
            read_register(&mut tx).await
        };
        let register = read.await.map_err(|source| self.file.failed(source))?;
        register.map_err(|reason| self.file.damaged(reason))
    }

    /// Begins a reset, unless a guest has the device.
    pub async fn begin_cleaning(&self, name: &str) -> Result<CleaningStart, JournalError> {
        let begun = self.file.write(&BeginCleaning(name)).await?;
        begun.map_err(|guest| {
            let reason = format!("device {name} belongs to {guest:?}, which is not a guest");
            self.file.damaged(reason)
        })
    }

    /// Ends a reset and records its outcome, in one transaction.
    pub async fn end_cleaning(
        &self,
        name: &str,
        end: &CleaningOutcome,
    ) -> Result<(), JournalError> {
        let over = Statement::new("DELETE FROM device_cleaning WHERE name = ?").bind(name);
        let mut steps = vec![over];
        match end {
            CleaningOutcome::Unknown => {}
            CleaningOutcome::Failed(quarantine) => steps.push(set_quarantine(name, quarantine)),
            CleaningOutcome::Clean {
                releases,
                quarantine,
            } => {
                if *quarantine == QuarantineStays::No {
                    steps.push(delete_quarantine(name));
                }
                steps.extend(releases.map(|releases| set_cleaned(name, releases)));
            }
        }
        self.file.execute(steps).await
    }

    /// Counts the verified reset of the guest's deletion as the reset after this release of the handle. Returns whether there
    /// was one; it counts only once.
    pub async fn count_as_cleaned(&self, name: &str, releases: i64) -> Result<bool, JournalError> {
        self.file.write(&CountAsCleaned { name, releases }).await
    }

    /// Quarantines a device, or changes the reason of its quarantine.
    pub async fn quarantine(&self, name: &str, why: &Quarantine) -> Result<(), JournalError> {
        self.file.execute(vec![set_quarantine(name, why)]).await
    }

    /// Ends a quarantine. `clean`: the operator confirms that the device is clean after this release of its handle.
    pub async fn release(&self, name: &str, clean: Option<i64>) -> Result<(), JournalError> {
        let mut steps = vec![delete_quarantine(name)];
        steps.extend(clean.map(|releases| set_cleaned(name, releases)));
        self.file.execute(steps).await
    }

    /// Records that the health check of a device failed, with its output.
    pub async fn record_sick(&self, address: &str, words: &str) -> Result<(), JournalError> {
        self.file.execute(vec![set_sick(address, words)]).await
    }

    /// Records that the health check of a device succeeded.
    pub async fn record_healthy(&self, address: &str) -> Result<(), JournalError> {
        let delete = Statement::new("DELETE FROM device_sick WHERE address = ?").bind(address);
        self.file.execute(vec![delete]).await
    }

    /// Deletes the results of all health checks.
    pub async fn clear_health_checks(&self) -> Result<(), JournalError> {
        let delete = Statement::new("DELETE FROM device_sick");
        self.file.execute(vec![delete]).await
    }

    /// Runs statements of a test.
    #[cfg(any(test, feature = "testing"))]
    pub async fn execute(&self, statements: Vec<Statement>) -> Result<(), JournalError> {
        self.file.execute(statements).await
    }

    /// Replaces the disabled providers of a node.
    pub async fn set_disabled(
        &self,
        node: &NodeName,
        providers: &BTreeSet<ProviderUuid>,
    ) -> Result<(), JournalError> {
        let none = Statement::new("DELETE FROM device_disabled WHERE node = ?").bind(node.as_str());
        let row = |provider: &ProviderUuid| {
            Statement::new("INSERT INTO device_disabled (node, provider) VALUES (?, ?)")
                .bind(node.as_str())
                .bind(provider.to_string())
        };
        let steps = std::iter::once(none).chain(providers.iter().map(row));
        self.file.execute(steps.collect()).await
    }
}
