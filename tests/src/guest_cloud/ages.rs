//! Changes the age of rows. Their dates come from this machine, where no time passes during a run and no clock jumps.
//! So the rows are made older or younger instead.

use std::time::Duration;

use berth_store::{SqlError, SqlStore, Statement, Transaction, Work};

use super::GuestCloud;
use crate::fault::busy;

/// How long the accelerator service keeps idle requests: longer than a boot is blocked, and shorter than a test waits
/// for the cloud to become idle.
const UNBOUND_GRACE: Duration = Duration::from_mins(12);

/// Makes all rows of a table older by so many seconds, or younger where negative.
struct AgeRows {
    table: &'static str,
    dates: &'static [&'static str],
    by_seconds: i64,
}

impl AgeRows {
    fn requests(by_seconds: i64) -> Self {
        Self {
            table: "accelerator_requests",
            dates: &["created_at", "updated_at"],
            by_seconds,
        }
    }

    fn hosts(by_seconds: i64) -> Self {
        Self {
            table: "compute_hosts",
            dates: &["last_seen_at"],
            by_seconds,
        }
    }
}

impl Work for AgeRows {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let by = format!("{} seconds", -self.by_seconds);
        let earlier = |date| format!("{date} = strftime('%Y-%m-%d %H:%M:%f', {date}, ?) || '000'");
        let set: Vec<String> = self.dates.iter().map(earlier).collect();
        let sql = format!("UPDATE {} SET {}", self.table, set.join(", "));
        let statement = Statement::new(sql);
        let bind = |statement: Statement, _| statement.bind(&by);
        tx.execute(self.dates.iter().fold(statement, bind)).await?;
        Ok(())
    }
}

/// What a jump of the clock makes of everything that is dated: what was written before a jump forward looks older.
pub(super) async fn follow(seconds: i64, accelerators: &SqlStore, hosts: &SqlStore) {
    let done = async {
        accelerators.write(&AgeRows::requests(seconds)).await?;
        hosts.write(&AgeRows::hosts(seconds)).await
    };
    busy(done).await.expect("databases in memory");
}

impl GuestCloud {
    /// Lets time pass for the accelerator service, which deletes idle requests that have not changed for long.
    pub(super) async fn requests_grow_old(&self, by: Duration) {
        let store = &self.accelerator_db;
        let seconds = i64::try_from(by.as_secs()).expect("a short time");
        let done = async {
            let older = store.write(&AgeRows::requests(seconds)).await;
            older.expect("a database");
            let mut unbound = self.unbound.lock().await;
            unbound.delete(store, UNBOUND_GRACE).await
        };
        busy(done).await.expect("a database");
    }
}
