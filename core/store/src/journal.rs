//! A journal's file: a SQLite database that one process owns, on the disk when a write is answered, and without what was forgotten.
//!
//! What is in it is its owner's: tables, versions, and what is said of them. Callers: the agent's journal of guests with its
//! register of devices, the conductor's journal of boots.

use std::path::Path;

use crate::sql::{
    Location, OpenError, Row, SqlError, SqlOptions, SqlStore, Statement, Synchronous, Transaction,
    Work,
};

/// A journal's file. Clones are one.
#[derive(Debug, Clone)]
pub struct JournalFile {
    store: SqlStore,
    path: String,
}

/// A journal's file that could not be opened, read or written. What was not answered may be there wholly, or not at all.
#[derive(Debug, thiserror::Error)]
pub enum JournalFileError {
    /// It cannot be opened, or another process has it.
    #[error("the journal {path}: {source}")]
    Open {
        path: String,
        source: OpenError,
    },
    /// It is damaged, or what is in it is nothing that its owner writes.
    #[error("the journal {path} is damaged: {reason}")]
    Damaged {
        path: String,
        reason: String,
    },
    /// The database said no.
    #[error("the journal {path} cannot be used: {source}")]
    Sql {
        path: String,
        source: SqlError,
    },
}

impl JournalFile {
    /// Opens the file, and makes it where there is none.
    pub async fn open(file: &Path) -> Result<Self, JournalFileError> {
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

    /// Opens a file that another process may have, to look at it; none where there is none.
    pub async fn look(file: &Path) -> Result<Option<Self>, JournalFileError> {
        let path = file.display().to_string();
        match SqlStore::look(file, &SqlOptions::default()).await {
            Ok(store) => Ok(store.map(|store| Self { store, path })),
            Err(source) => Err(not_opened(path, source)),
        }
    }

    /// One that lives as long as this value, for dry runs and tests.
    pub async fn in_memory() -> Result<Self, JournalFileError> {
        let path = "(memory)".to_owned();
        match SqlStore::in_memory().await {
            Ok(store) => Ok(Self { store, path }),
            Err(source) => Err(not_opened(path, source)),
        }
    }

    /// Where it is, for people.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Begins a reading transaction.
    pub async fn read(&self) -> Result<Transaction, SqlError> {
        self.store.read().await
    }

    /// The rows of one statement that reads.
    pub async fn rows(&self, statement: Statement) -> Result<Vec<Row>, JournalFileError> {
        let rows = self.store.rows(statement).await;
        rows.map_err(|source| self.failed(source))
    }

    /// Does a piece of work in one transaction.
    pub async fn write<W: Work<Error = SqlError>>(
        &self,
        work: &W,
    ) -> Result<W::Output, JournalFileError> {
        let done = self.store.write(work).await;
        done.map_err(|source| self.failed(source))
    }

    /// Writes something and takes it away again in one transaction: a page is written, and nothing is changed.
    pub async fn try_write(
        &self,
        insert: &'static str,
        delete: &'static str,
    ) -> Result<(), JournalFileError> {
        self.write(&Both(insert, delete)).await
    }

    /// Takes what was forgotten out of the log, too. What is left there now goes with the next time, or at the next start.
    pub async fn cut_log(&self) {
        if let Err(error) = self.store.empty_log().await {
            tracing::warn!(
                path = self.path,
                error = &error as &dyn std::error::Error,
                "what was forgotten may stand in the journal's log for a while"
            );
        }
    }

    /// Closes the file and waits until that is done.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// What the database's word means of this file.
    #[must_use]
    pub fn failed(&self, source: SqlError) -> JournalFileError {
        let path = self.path.clone();
        match source {
            SqlError::Corrupt(error) => JournalFileError::Damaged {
                path,
                reason: error.to_string(),
            },
            source => JournalFileError::Sql { path, source },
        }
    }

    /// Something in it is nothing that its owner writes.
    #[must_use]
    pub fn damaged(&self, reason: impl ToString) -> JournalFileError {
        JournalFileError::Damaged {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }
}

fn not_opened(path: String, source: OpenError) -> JournalFileError {
    match source {
        OpenError::Sql(SqlError::Corrupt(error)) => JournalFileError::Damaged {
            path,
            reason: error.to_string(),
        },
        source => JournalFileError::Open { path, source },
    }
}

struct Both(&'static str, &'static str);

impl Work for Both {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        for sql in [self.0, self.1] {
            tx.execute(Statement::new(sql)).await?;
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
            tx.script("CREATE TABLE word (text TEXT NOT NULL); INSERT INTO word VALUES ('a')")
                .await
        }
    }

    const WORDS: &str = "SELECT text FROM word ORDER BY text";

    #[tokio::test]
    async fn who_looks_reads_what_the_owner_wrote_while_it_owns_it_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.db");
        assert!(JournalFile::look(&file).await.unwrap().is_none());
        let owner = JournalFile::open(&file).await.unwrap();
        owner.write(&Make).await.unwrap();
        let looking = JournalFile::look(&file).await.unwrap().unwrap();
        let words = looking.rows(Statement::new(WORDS)).await.unwrap();
        assert_eq!(words[0].text(0).unwrap(), "a");
        let tried = looking
            .try_write("INSERT INTO word VALUES ('b')", "DELETE FROM word")
            .await;
        assert!(tried.is_err());
        looking.close().await;
        owner.close().await;
        // Nor is the owner needed.
        let looking = JournalFile::look(&file).await.unwrap().unwrap();
        let words = looking.rows(Statement::new(WORDS)).await.unwrap();
        assert_eq!(words.len(), 1);
        looking.close().await;
    }

    #[tokio::test]
    async fn a_try_leaves_nothing_and_a_file_that_is_none_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("journal.db");
        let journal = JournalFile::open(&file).await.unwrap();
        journal.write(&Make).await.unwrap();
        journal
            .try_write(
                "INSERT INTO word VALUES ('')",
                "DELETE FROM word WHERE text = ''",
            )
            .await
            .unwrap();
        let words = journal.rows(Statement::new(WORDS)).await.unwrap();
        assert_eq!(words.len(), 1);
        journal.close().await;
        let other = folder.path().join("other.db");
        std::fs::write(&other, "no database at all, but long enough to be one").unwrap();
        let refused = JournalFile::open(&other).await.unwrap_err();
        assert!(
            matches!(refused, JournalFileError::Damaged { .. }),
            "{refused}"
        );
    }
}
