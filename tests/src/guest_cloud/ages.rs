//! How old rows are. Their dates are this machine's, for which no time passes in a run and no clock jumps: so the rows are made
//! older or younger instead.

use std::time::Duration;

use berth_store::{SqlError, SqlStore, Statement, Transaction, Work};

use super::GuestCloud;
use crate::fault::busy;

/// How long the accelerator service keeps a request that holds nothing: longer than a boot stands still, and shorter than
/// whoever waits for the cloud to come to rest.
const UNBOUND_GRACE: Duration = Duration::from_mins(12);

/// Makes all rows of a table older by so many seconds, or younger where negative.
struct Older {
    table: &'static str,
    dates: &'static [&'static str],
    by_seconds: i64,
}

impl Older {
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

impl Work for Older {
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
        accelerators.write(&Older::requests(seconds)).await?;
        hosts.write(&Older::hosts(seconds)).await
    };
    busy(done).await.expect("databases in memory");
}

impl GuestCloud {
    /// Time passes for the accelerator service, which deletes what holds nothing and what nobody touched for long.
    pub(super) async fn requests_grow_old(&self, by: Duration) {
        let store = &self.accelerator_db;
        let seconds = i64::try_from(by.as_secs()).expect("a short time");
        let done = async {
            let older = store.write(&Older::requests(seconds)).await;
            older.expect("a database");
            let mut unbound = self.unbound.lock().await;
            unbound.delete(store, UNBOUND_GRACE).await
        };
        busy(done).await.expect("a database");
    }
}
