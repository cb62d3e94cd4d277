//! Writers that take turns, in all processes on one database: as many as there are, each decides on what the one before left.
//!
//! SQLite has one writer at a time by itself. On a server each writer first changes one row that they all change, and so waits
//! for the one before it; what it reads after that is no older. Within a process they queue in memory: each that waits at the
//! server would keep a connection from those who read.

use tokio::time::timeout;

use super::{SqlError, SqlStore, Statement, Transaction, Work};

impl SqlStore {
    /// As [`SqlStore::write`], with nobody else writing who asks in this way with the same `turn`: an UPDATE that changes one row
    /// which is always there. It is a change and no lock, so that PostgreSQL tells at REPEATABLE READ who waited, and a Galera
    /// cluster who was first; at READ COMMITTED ([`super::Isolation`]) nobody has to run again for it.
    ///
    /// # Errors
    /// As [`SqlStore::write`]; [`SqlError::Busy`] where others of this process take longer than a connection may be waited for,
    /// [`SqlError::Refused`] where `turn` does not change one row.
    pub async fn write_in_turn<W: Work>(
        &self,
        turn: &'static str,
        work: &W,
    ) -> Result<W::Output, W::Error> {
        if !self.is_shared() {
            return self.write(work).await;
        }
        let mine = timeout(self.inner.patience, self.inner.turn.lock()).await;
        let _mine = mine.map_err(|_| SqlError::Busy(sqlx::Error::PoolTimedOut))?;
        self.write(&InTurn { turn, work }).await
    }
}

struct InTurn<'a, W> {
    turn: &'static str,
    work: &'a W,
}

impl<W: Work> Work for InTurn<'_, W> {
    type Output = W::Output;
    type Error = W::Error;

    async fn run(&self, tx: &mut Transaction) -> Result<W::Output, W::Error> {
        match tx.execute(Statement::new(self.turn)).await?.rows_affected {
            1 => self.work.run(tx).await,
            _ => Err(SqlError::Refused(sqlx::Error::RowNotFound).into()),
        }
    }
}
