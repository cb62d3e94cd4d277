//! Serialised writers: transactions that run one after another, in all processes on one database. Each one sees
//! everything that the previous one committed.
//!
//! SQLite has one writer at a time. On a server, each writer first updates the same row, and so waits for the previous
//! writer. Within a process, writers queue in memory, because each writer that waits at the server would use a
//! connection.

use tokio::time::timeout;

use super::{SqlError, SqlStore, Statement, Transaction, Work};

impl SqlStore {
    /// Like [`SqlStore::write`], and serialised with all other calls with the same `turn`: an UPDATE of one row that always exists. It is an
    /// update and not a lock, so that PostgreSQL at REPEATABLE READ and a Galera cluster detect the conflict. At READ COMMITTED
    /// ([`super::Isolation`]), no transaction has to be repeated for it.
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
