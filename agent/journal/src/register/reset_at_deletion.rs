//! The reset of a guest's devices at the deletion of the guest.
//!
//! The deletion of a guest resets its devices and then releases their attach handles. After each release, the
//! accelerator service requests a reset of the device. If no guest claimed the device in between, the reset at the deletion also
//! satisfies this request. The table lists the devices for which it can do so.

use berth_store::{SqlError, Statement, Transaction, Work};

use crate::register::records::{Quarantine, QuarantinedBy};
use crate::register::sql::{set_quarantine, set_release_count};
use crate::released::ReleasedDevices;

/// The table. A journal of an earlier release gets it when it is opened.
pub(crate) const CREATE_RESET_AT_DELETION: &str = "
CREATE TABLE IF NOT EXISTS device_given_back (
    name TEXT NOT NULL PRIMARY KEY
);
";

/// The statements that record the results of the resets at the deletion of a guest.
pub fn release_statements(released: &ReleasedDevices) -> Vec<Statement> {
    let clean = released.clean.iter().map(|name| {
        let sql = "INSERT INTO device_given_back (name) VALUES (?) ON CONFLICT (name) DO NOTHING";
        Statement::new(sql).bind(name.as_str())
    });
    let quarantined = released.quarantined.iter().flat_map(|(name, reason)| {
        let why = Quarantine::new(reason.as_str(), QuarantinedBy::Agent);
        [forget_reset_at_deletion(name), set_quarantine(name, &why)]
    });
    clean.chain(quarantined).collect()
}

/// The statement for a device that may be used from now on: its reset at a deletion satisfies no later request.
pub(crate) fn forget_reset_at_deletion(name: &str) -> Statement {
    Statement::new("DELETE FROM device_given_back WHERE name = ?").bind(name)
}

/// See [`super::DeviceRegister::take_reset_at_deletion`].
pub(super) struct TakeResetAtDeletion<'a> {
    pub(super) name: &'a str,
    pub(super) release_count: i64,
}

impl Work for TakeResetAtDeletion<'_> {
    type Output = bool;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, SqlError> {
        let deleted = tx.execute(forget_reset_at_deletion(self.name)).await?;
        if deleted.rows_affected == 0 {
            return Ok(false);
        }
        tx.execute(set_release_count(self.name, self.release_count))
            .await?;
        Ok(true)
    }
}
