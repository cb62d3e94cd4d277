//! [`JournalFile`]: a SQLite database that one process owns. A write is on the disk when it returns, and deleted data is
//! overwritten.

use std::path::Path;

use berth_store::{
    Location, OpenError, Row, SqlError, SqlOptions, SqlStore, Statement, Synchronous, Transaction,
    Work,
};

use crate::JournalError;

/// The file of a journal. Clones share it.
#[derive(Debug, Clone)]
pub struct JournalFile {
    store: SqlStore,
    path: String,
}

impl JournalFile {
    /// Opens the file, and creates it if it does not exist.
    pub async fn open(file: &Path) -> Result<Self, JournalError> {
        let options = SqlOptions {
            readers: 1,
            synchronous: Synchronous::Full,
            overwrite_deleted: true,
            ..SqlOptions::default()
        };
        let location = Location::SqliteFile(file.to_owned());
        let path = file.display().to_string();
        match SqlStore::open(&location, &options).await {
            Ok(store) => Ok(Self { store, path }),
            Err(source) => Err(not_opened(path, source)),
        }
    }

    /// Opens a file for reading only, also while another process owns it. `None` if it does not exist.
    pub async fn open_read_only(file: &Path) -> Result<Option<Self>, JournalError> {
        let path = file.display().to_string();
        match SqlStore::open_read_only(file, &SqlOptions::default()).await {
            Ok(store) => Ok(store.map(|store| Self { store, path })),
            Err(source) => Err(not_opened(path, source)),
        }
    }

    /// A journal in memory, for dry runs and tests.
    pub async fn in_memory() -> Result<Self, JournalError> {
        let path = "(memory)".to_owned();
        match SqlStore::in_memory().await {
            Ok(store) => Ok(Self { store, path }),
            Err(source) => Err(not_opened(path, source)),
        }
    }

    /// The path, for messages.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The rows of one statement that reads.
    pub async fn rows(&self, statement: Statement) -> Result<Vec<Row>, JournalError> {
        let rows = self.store.rows(statement).await;
        rows.map_err(|source| self.failed(source))
    }

    /// Runs a unit of work in one transaction.
    pub async fn write<W: Work<Error = SqlError>>(
        &self,
        work: &W,
    ) -> Result<W::Output, JournalError> {
        let done = self.store.write(work).await;
        done.map_err(|source| self.failed(source))
    }

    /// Runs statements in one transaction.
    pub async fn execute(&self, mut statements: Vec<Statement>) -> Result<(), JournalError> {
        match statements.pop() {
            Some(only) if statements.is_empty() => self.execute_one(only).await.map(drop),
            last => {
                statements.extend(last);
                self.write(&Statements(statements)).await
            }
        }
    }

    /// Runs one statement, which is a transaction by itself. Returns the number of changed rows.
    pub(crate) async fn execute_one(&self, statement: Statement) -> Result<u64, JournalError> {
        match self.store.execute(statement).await {
            Ok(done) => Ok(done.rows_affected),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Removes deleted data from the log of the database, too. If it fails, the next call or the next start does it.
    pub async fn cut_log(&self) {
        if let Err(error) = self.store.empty_log().await {
            tracing::warn!(
                path = self.path,
                error = &error as &dyn std::error::Error,
                "deleted data may stay in the log of the journal until the next checkpoint"
            );
        }
    }

    /// Closes the file and waits until that is done.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// Converts an error of the database.
    #[must_use]
    pub fn failed(&self, source: SqlError) -> JournalError {
        let path = self.path.clone();
        match source {
            SqlError::Corrupt(error) => JournalError::Damaged {
                path,
                reason: error.to_string(),
            },
            source => JournalError::Sql { path, source },
        }
    }

    /// It contains data that its owner never writes.
    #[must_use]
    pub fn damaged(&self, reason: impl ToString) -> JournalError {
        JournalError::Damaged {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }
}

fn not_opened(path: String, source: OpenError) -> JournalError {
    match source {
        OpenError::Sql(SqlError::Corrupt(error)) => JournalError::Damaged {
            path,
            reason: error.to_string(),
        },
        source => JournalError::Open { path, source },
    }
}

struct Statements(Vec<Statement>);

impl Work for Statements {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        for statement in &self.0 {
            tx.execute(statement.clone()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Make;

    impl Work for Make {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            tx.script("CREATE TABLE note (text TEXT NOT NULL); INSERT INTO note VALUES ('a')")
                .await
        }
    }

    const WORDS: &str = "SELECT text FROM note ORDER BY text";

    #[tokio::test]
    async fn a_reader_reads_what_the_owner_wrote_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.db");
        assert!(JournalFile::open_read_only(&file).await.unwrap().is_none());
        let owner = JournalFile::open(&file).await.unwrap();
        owner.write(&Make).await.unwrap();
        let looking = JournalFile::open_read_only(&file).await.unwrap().unwrap();
        let words = looking.rows(Statement::new(WORDS)).await.unwrap();
        assert_eq!(words[0].text(0).unwrap(), "a");
        let insert = Statement::new("INSERT INTO word VALUES ('b')");
        assert!(looking.execute(vec![insert]).await.is_err());
        looking.close().await;
        owner.close().await;
        // Nor is the owner needed.
        let looking = JournalFile::open_read_only(&file).await.unwrap().unwrap();
        let words = looking.rows(Statement::new(WORDS)).await.unwrap();
        assert_eq!(words.len(), 1);
        looking.close().await;
    }

    #[tokio::test]
    async fn a_file_that_is_no_database_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other.db");
        std::fs::write(&other, "no database at all, but long enough to be one").unwrap();
        let refused = JournalFile::open(&other).await.unwrap_err();
        assert!(matches!(refused, JournalError::Damaged { .. }), "{refused}");
    }
}
