//! Databases on a server for the tests of the services' APIs. The module of a test selects the server by its name.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use berth_store::{Isolation, SqlError, SqlOptions, SqlStore, Statement, Transaction, Work};

use crate::databases::test_database::TestDatabase;

/// An open database, and what keeps it.
pub(crate) type OpenDatabase = (SqlStore, Arc<dyn Any + Send + Sync>);

/// As the program opens it.
fn options() -> SqlOptions {
    SqlOptions {
        isolation: Isolation::ReadCommitted,
        ..SqlOptions::default()
    }
}

fn on_server_of(module: &str) -> TestDatabase {
    match module.contains("postgres") {
        true => TestDatabase::postgres(),
        false => TestDatabase::mariadb(),
    }
}

/// A new database.
pub(crate) async fn new_database(module: &str) -> OpenDatabase {
    let database = on_server_of(module);
    (database.open(&options()).await, Arc::new(database))
}

/// The databases with the tables of one service. One that a test has used is emptied for the next test, because creating
/// one takes longer than most tests.
pub(crate) struct DatabasePool {
    /// The databases that no test uses now.
    free: Mutex<Vec<TestDatabase>>,
    /// The table with the schema version.
    mark: &'static str,
    version: i64,
    /// The other tables, each before those that it refers to.
    tables: &'static [&'static str],
}

/// Returns its database to the pool.
struct DatabaseGuard(&'static DatabasePool, Option<TestDatabase>);

impl Drop for DatabaseGuard {
    fn drop(&mut self) {
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.1.take());
    }
}

impl DatabasePool {
    pub(crate) const fn of(
        mark: &'static str,
        version: i64,
        tables: &'static [&'static str],
    ) -> Self {
        Self {
            free: Mutex::new(Vec::new()),
            mark,
            version,
            tables,
        }
    }

    /// A free database, or a new one.
    pub(crate) async fn take(&'static self, module: &str) -> OpenDatabase {
        let free = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        if let Some(database) = free {
            let store = database.open(&options()).await;
            // A test that has ended has no connection; what one did to the schema stays.
            let sessions = store.other_sessions().await.unwrap();
            let is_unused = sessions.seen.is_empty();
            if is_unused && store.write(&EmptyTables(self)).await.unwrap_or(false) {
                return (store, Arc::new(DatabaseGuard(self, Some(database))));
            }
            store.close().await;
        }
        let database = on_server_of(module);
        let store = database.open(&options()).await;
        (store, Arc::new(DatabaseGuard(self, Some(database))))
    }
}

/// Empties the tables. Returns whether they are all there, and no others.
struct EmptyTables(&'static DatabasePool);

impl Work for EmptyTables {
    type Output = bool;
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<bool, SqlError> {
        let DatabasePool {
            mark,
            version,
            tables,
            ..
        } = self.0;
        if tx.table_names().await?.len() != tables.len() + 1 {
            return Ok(false);
        }
        for table in *tables {
            let delete = format!("DELETE FROM {table}");
            tx.execute(Statement::new(delete)).await?;
        }
        let sql = format!("SELECT COUNT(*) FROM {mark} WHERE version = ?");
        let row = tx.row(Statement::new(sql).bind(*version)).await?;
        Ok(row.map_or(Ok(0), |row| row.int(0))? == 1)
    }
}
