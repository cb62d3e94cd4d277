//! A database in memory that is saved as one SQL script, so that a thousand cases can start with the same rows.

use berth_store::{Disposition, Retryable, SqlError, SqlStore, Statement, Transaction, Work};

/// A database's schema and rows.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot(&'static str);

const TABLES: &str =
    "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
const INDEXES: &str = "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL";

impl Snapshot {
    /// Keeps what the database holds now. The text lives as long as the process: take few.
    ///
    /// # Panics
    /// The database cannot be read.
    pub async fn take(store: &SqlStore) -> Self {
        let mut reading = store.read().await.expect("the database can be read");
        let mut script = String::from("PRAGMA defer_foreign_keys = ON;\n");
        for row in rows(&mut reading, TABLES.to_owned()).await {
            let (name, sql) = (text(&row, 0), text(&row, 1));
            script.push_str(&format!("{sql};\n"));
            script.push_str(&inserts(&mut reading, &name).await);
        }
        for row in rows(&mut reading, INDEXES.to_owned()).await {
            script.push_str(&format!("{};\n", text(&row, 0)));
        }
        Self(script.leak())
    }

    /// A new database with these rows.
    ///
    /// # Panics
    /// SQLite does not take what it gave.
    pub async fn restore(self) -> SqlStore {
        let store = SqlStore::in_memory().await.expect("memory for a database");
        store
            .write(&SnapshotRestore(self.0))
            .await
            .expect("SQLite takes its own schema and rows");
        store
    }
}

async fn inserts(reading: &mut Transaction, table: &str) -> String {
    let columns = rows(
        reading,
        format!("SELECT name FROM pragma_table_info('{table}')"),
    )
    .await;
    let columns: Vec<String> = columns
        .iter()
        .map(|row| format!("quote({})", text(row, 0)))
        .collect();
    let values = format!(
        "SELECT '(' || {} || ')' FROM {table}",
        columns.join(" || ',' || ")
    );
    let values: Vec<String> = rows(reading, values)
        .await
        .iter()
        .map(|row| text(row, 0))
        .collect();
    if values.is_empty() {
        return String::new();
    }
    format!("INSERT INTO {table} VALUES {};\n", values.join(","))
}

async fn rows(reading: &mut Transaction, sql: String) -> Vec<berth_store::Row> {
    reading
        .rows(Statement::new(sql))
        .await
        .expect("SQLite tells its own schema")
}

fn text(row: &berth_store::Row, at: usize) -> String {
    row.text(at).expect("text")
}

struct SnapshotRestore(&'static str);

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct RestoreError(#[from] SqlError);

impl Retryable for RestoreError {
    fn disposition(&self) -> Disposition {
        Disposition::Fatal
    }
}

impl Work for SnapshotRestore {
    type Output = ();
    type Error = RestoreError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), RestoreError> {
        Ok(tx.script(self.0).await?)
    }
}
