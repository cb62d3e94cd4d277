//! The devices that guests released after a verified reset. The deletion of a guest resets its devices before it releases
//! them, and the accelerator service requests a reset after each release of a handle. If no guest claimed the device in
//! between, the first reset also counts as the second.

use berth_store::{SqlError, Statement, Transaction, Work};

use crate::register::records::{Quarantine, QuarantinedBy};
use crate::register::sql::{set_cleaned, set_quarantine};
use crate::released::ReleasedDevices;

/// The table. A journal of an earlier release gets it when it is opened.
pub(crate) const CREATE_RETURNED: &str = "
CREATE TABLE IF NOT EXISTS device_given_back (
    name TEXT NOT NULL PRIMARY KEY
);
";

/// The statements that record the released devices of a guest.
pub fn record_released(released: &ReleasedDevices) -> Vec<Statement> {
    let clean = released.clean.iter().map(|name| {
        let sql = "INSERT INTO device_given_back (name) VALUES (?) ON CONFLICT (name) DO NOTHING";
        Statement::new(sql).bind(name.as_str())
    });
    let quarantined = released.quarantined.iter().flat_map(|(name, reason)| {
        let why = Quarantine::new(reason.as_str(), QuarantinedBy::Agent);
        [delete_returned(name), set_quarantine(name, &why)]
    });
    clean.chain(quarantined).collect()
}

/// The statement for a device that may be used from now on: its last reset no longer counts.
pub(crate) fn delete_returned(name: &str) -> Statement {
    Statement::new("DELETE FROM device_given_back WHERE name = ?").bind(name)
}

/// Counts the reset of a released device as the one after this release. Returns whether there was one.
pub(super) struct CountAsCleaned<'a> {
    pub(super) name: &'a str,
    pub(super) releases: i64,
}

impl Work for CountAsCleaned<'_> {
    type Output = bool;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, SqlError> {
        if tx.execute(delete_returned(self.name)).await?.rows_affected == 0 {
            return Ok(false);
        }
        tx.execute(set_cleaned(self.name, self.releases)).await?;
        Ok(true)
    }
}
