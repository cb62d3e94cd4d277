//! What is known of devices and is nowhere else: which are in quarantine, which are being reset, after which of its releases
//! each was cleaned, what the vendor's check says of them, and which of them the accelerator service wants disabled.
//!
//! It is kept in the guests' journal, in tables of its own, so that "no guest has it" and "it is being reset" are decided in
//! one transaction: a device is never reset under a guest, and never claimed under a reset. A device is named as in the
//! journal, by its PCI address or by a mediated device's UUID.

mod given_back;
mod records;
mod sql;

use std::collections::BTreeSet;

use berth_model::{NodeName, ProviderUuid};
use berth_store::{JournalFile, Statement};

use crate::error::JournalError;
use crate::register::given_back::TakeAsCleaned;
use crate::register::sql::{Begin, Steps, cleaned, everything, quarantined, sick, unquarantined};

pub use given_back::given_back;
pub(crate) use given_back::{CREATE_GIVEN_BACK, claimed};
pub use records::{
    Cleaning, CleaningOutcome, Quarantine, QuarantineStays, QuarantinedBy, Register, Withheld,
};
pub(crate) use sql::{CREATE, withheld};

/// The tables. Clones are one.
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
            everything(&mut tx).await
        };
        match read.await {
            Ok(Ok(register)) => Ok(register),
            Ok(Err(reason)) => Err(self.file.damaged(reason).into()),
            Err(source) => Err(self.file.failed(source).into()),
        }
    }

    /// Begins a reset, unless a guest has the device.
    pub async fn begin(&self, name: &str) -> Result<Cleaning, JournalError> {
        match self.file.write(&Begin(name)).await? {
            Ok(cleaning) => Ok(cleaning),
            Err(guest) => {
                let reason = format!("device {name} is held by {guest:?}, which is no guest");
                Err(self.file.damaged(reason).into())
            }
        }
    }

    /// Ends a reset: in one transaction it is over, and what came of it holds.
    pub async fn end(&self, name: &str, end: &CleaningOutcome) -> Result<(), JournalError> {
        let over = Statement::new("DELETE FROM device_cleaning WHERE name = ?").bind(name);
        let mut steps = vec![over];
        match end {
            CleaningOutcome::Unknown => {}
            CleaningOutcome::Spoilt(quarantine) => steps.push(quarantined(name, quarantine)),
            CleaningOutcome::Clean {
                releases,
                quarantine,
            } => {
                if *quarantine == QuarantineStays::No {
                    steps.push(unquarantined(name));
                }
                steps.extend(releases.map(|releases| cleaned(name, releases)));
            }
        }
        self.execute(steps).await
    }

    /// Counts the reset that a guest's journey made and verified as the one after this release, once; whether there was one.
    pub async fn take_as_cleaned(&self, name: &str, releases: i64) -> Result<bool, JournalError> {
        Ok(self.file.write(&TakeAsCleaned { name, releases }).await?)
    }

    /// Puts a device into quarantine, or gives it another reason.
    pub async fn quarantine(&self, name: &str, why: &Quarantine) -> Result<(), JournalError> {
        self.execute(vec![quarantined(name, why)]).await
    }

    /// Lifts a quarantine; `clean`: somebody takes the word for it that it is clean after this release of its handle.
    pub async fn release(&self, name: &str, clean: Option<i64>) -> Result<(), JournalError> {
        let mut steps = vec![unquarantined(name)];
        steps.extend(clean.map(|releases| cleaned(name, releases)));
        self.execute(steps).await
    }

    /// Writes down that a device's check does not say that it is well.
    pub async fn sick(&self, address: &str, words: &str) -> Result<(), JournalError> {
        self.execute(vec![sick(address, words)]).await
    }

    /// Writes down that a device's check says that it is well.
    pub async fn well(&self, address: &str) -> Result<(), JournalError> {
        let well = Statement::new("DELETE FROM device_sick WHERE address = ?").bind(address);
        self.execute(vec![well]).await
    }

    /// Forgets what checks said of any device.
    pub async fn nobody_is_sick(&self) -> Result<(), JournalError> {
        self.execute(vec![Statement::new("DELETE FROM device_sick")])
            .await
    }

    /// Replaces what the accelerator service wants disabled of a node.
    pub async fn disable(
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
        self.execute(steps.collect()).await
    }

    pub async fn execute(&self, steps: Vec<Statement>) -> Result<(), JournalError> {
        Ok(self.file.write(&Steps(steps)).await?)
    }
}
