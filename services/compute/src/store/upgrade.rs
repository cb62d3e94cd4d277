//! Upgrades the tables from the previous schema version: adds missing columns and indexes and keeps all rows.
//!
//! MySQL commits each schema change on its own. Each change is therefore checked before it is made, and the version is
//! written last, so that an interrupted upgrade can be repeated.

use berth_store::{
    Dialect, SCHEMA_WAIT, SchemaError, SqlError, SqlStore, Statement, Transaction, Work,
};

use super::schema::SCHEMA;

/// The previous schema version.
const BEFORE: i64 = 1;

/// Columns that the previous version lacks: table, column, type.
const ADDED: [(&str, &str, &str); 2] = [
    ("compute_servers", "owner", "VARCHAR(36)"),
    ("compute_server_actions", "image", "VARCHAR(36)"),
];

/// Upgrades tables of the previous version. Others are left unchanged.
pub(super) async fn upgrade(store: &SqlStore) -> Result<(), SchemaError> {
    let _lock = store.schema_lock(SCHEMA_WAIT).await?;
    Ok(store.write(&Upgrade).await?)
}

struct Upgrade;

impl Work for Upgrade {
    type Output = ();
    type Error = SqlError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
        if !tx.table_names().await?.contains(SCHEMA.mark) {
            return Ok(());
        }
        let version = format!("SELECT version FROM {}", SCHEMA.mark);
        let version = tx.row(Statement::new(version)).await?;
        if version.map(|row| row.int(0)).transpose()? != Some(BEFORE) {
            return Ok(());
        }
        for (table, column, kind) in ADDED {
            if !has_column(tx, table, column).await? {
                let add = format!("ALTER TABLE {table} ADD COLUMN {column} {kind}");
                tx.execute(Statement::new(add)).await?;
            }
        }
        for index in indexes() {
            make(tx, index).await?;
        }
        let version = format!("UPDATE {} SET version = ?", SCHEMA.mark);
        let version = Statement::new(version).bind(SCHEMA.version);
        tx.execute(version).await.map(drop)
    }
}

/// The statements that create the indexes.
fn indexes() -> impl Iterator<Item = &'static str> {
    let lines = SCHEMA.text.lines();
    let indexes = lines.filter(|line| line.starts_with(INDEX));
    indexes.map(|line| line.trim_end_matches(';'))
}

const INDEX: &str = "CREATE INDEX IF NOT EXISTS ";

async fn make(tx: &mut Transaction, index: &'static str) -> Result<(), SqlError> {
    if tx.dialect() != Dialect::MySql {
        return tx.execute(Statement::new(index)).await.map(drop);
    }
    let rest = index.strip_prefix(INDEX).unwrap_or(index);
    let name = rest.split(' ').next().unwrap_or_default();
    let known = "SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = ? LIMIT 1";
    if tx.row(Statement::new(known).bind(name)).await?.is_none() {
        let make = Statement::new(format!("CREATE INDEX {rest}"));
        tx.execute(make).await?;
    }
    Ok(())
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
