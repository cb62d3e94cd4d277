//! Upgrades the tables of earlier schema versions: adds missing columns, tables and indexes and keeps all rows.
//!
//! MySQL commits each schema change on its own. Each change is therefore checked before it is made, and the version is
//! written last, so that an interrupted upgrade can be repeated.

use berth_store::{
    Dialect, SCHEMA_WAIT, SchemaError, SqlError, SqlStore, Statement, Transaction, Work,
    in_words_of,
};

use super::schema::SCHEMA;

/// The oldest schema version.
const OLDEST: i64 = 1;

/// Columns that earlier versions lack: table, column, type.
const ADDED: [(&str, &str, &str); 3] = [
    ("compute_servers", "owner", "VARCHAR(36)"),
    ("compute_server_actions", "image", "VARCHAR(36)"),
    ("compute_servers", "resources", "TEXT"),
];

/// Tables that earlier versions lack.
const ADDED_TABLES: [&str; 3] = [
    "compute_quotas",
    "compute_quota_locks",
    "compute_console_tokens",
];

/// Upgrades tables of earlier versions. Others are left unchanged.
pub(super) async fn upgrade(store: &SqlStore) -> Result<(), SchemaError> {
    let _lock = store.schema_lock(SCHEMA_WAIT).await?;
    Ok(store.write(&Upgrade).await?)
}

struct Upgrade;

impl Work for Upgrade {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        let tables = tx.table_names().await?;
        if !tables.contains(SCHEMA.mark) {
            return Ok(());
        }
        let version = format!("SELECT version FROM {}", SCHEMA.mark);
        let version = tx.row(Statement::new(version)).await?;
        let version = version.map(|row| row.int(0)).transpose()?;
        if version.is_none_or(|version| !(OLDEST..SCHEMA.version).contains(&version)) {
            return Ok(());
        }
        let text = in_words_of(tx.dialect(), SCHEMA.text);
        for table in ADDED_TABLES.into_iter().filter(|it| !tables.contains(*it)) {
            let begin = format!("CREATE TABLE IF NOT EXISTS {table} (");
            let create = text
                .split_inclusive(";\n")
                .find(|it| it.starts_with(&begin));
            if let Some(create) = create {
                tx.execute(Statement::new(create.trim_end_matches(";\n").to_owned()))
                    .await?;
            }
        }
        for (table, column, kind) in ADDED {
            if !has_column(tx, table, column).await? {
                let add = format!("ALTER TABLE {table} ADD COLUMN {column} {kind}");
                tx.execute(Statement::new(add)).await?;
            }
        }
        SCHEMA.create_missing_indexes(tx).await?;
        let version = format!("UPDATE {} SET version = ?", SCHEMA.mark);
        let version = Statement::new(version).bind(SCHEMA.version);
        tx.execute(version).await.map(drop)
    }
}

async fn has_column(tx: &mut Transaction, table: &str, column: &str) -> Result<bool, SqlError> {
    let sql = match tx.dialect() {
        Dialect::Sqlite => "SELECT 1 FROM pragma_table_info(?) WHERE name = ?",
        Dialect::Postgres => {
            "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ? \
             AND column_name = ?"
        }
        Dialect::MySql => {
            "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ?"
        }
    };
    let there = Statement::new(sql).bind(table).bind(column);
    Ok(tx.row(there).await?.is_some())
}
