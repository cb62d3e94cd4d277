//! The devices that instances released after a verified reset. An instance's deletion resets its devices before it releases
//! them, and the accelerator service requests a reset after each release of a handle. If no instance claimed the device in
//! between, the first reset also counts as the second.

use berth_store::{SqlError, Statement, Transaction, Work};

use crate::register::records::{Quarantine, QuarantinedBy};
use crate::register::sql::{cleaned, quarantined};
use crate::released::ReleasedDevices;

/// The table. A journal of an earlier release gets it when it is opened.
pub(crate) const CREATE_GIVEN_BACK: &str = "
CREATE TABLE IF NOT EXISTS device_given_back (
    name TEXT NOT NULL PRIMARY KEY
);
";

/// The statements that record the released devices of an instance.
pub fn given_back(released: &ReleasedDevices) -> Vec<Statement> {
    let clean = released.clean.iter().map(|name| {
        let sql = "INSERT INTO device_given_back (name) VALUES (?) ON CONFLICT (name) DO NOTHING";
        Statement::new(sql).bind(name.as_str())
    });
    let spoilt = released.spoilt.iter().flat_map(|(name, reason)| {
        let why = Quarantine::new(reason.as_str(), QuarantinedBy::Agent);
        [claimed(name), quarantined(name, &why)]
    });
    clean.chain(spoilt).collect()
}

/// What is written down when somebody may use the device from now on.
pub(crate) fn claimed(name: &str) -> Statement {
    Statement::new("DELETE FROM device_given_back WHERE name = ?").bind(name)
}

/// Takes a guest's reset for the one after this release, once; whether there was one.
pub(super) struct TakeAsCleaned<'a> {
    pub(super) name: &'a str,
    pub(super) releases: i64,
}

impl Work for TakeAsCleaned<'_> {
    type Output = bool;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, SqlError> {
        if tx.execute(claimed(self.name)).await?.rows_affected == 0 {
            return Ok(false);
        }
        tx.execute(cleaned(self.name, self.releases)).await?;
        Ok(true)
    }
}
