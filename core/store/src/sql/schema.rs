//! Creates and checks the tables of a built-in service: created if there are none, checked otherwise, refused if a
//! later release wrote them.
//!
//! A service has one schema in SQLite's SQL ([`Schema::text`]); on a server the same tables are created with the
//! server's types. Several services can share a database, so only tables of these names are considered. One table, the
//! mark, has a row with the schema version, which is written last.
//!
//! Callers: `prepare` of `services/hosts`, `services/compute` and `services/identity`. `services/accelerator` upgrades
//! older databases and uses only the translation of types ([`in_words_of`]).

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Dialect, Disposition, Retryable, SqlError, SqlStore, Statement, Transaction, Work};

/// The beginning of a statement that creates an index.
const INDEX: &str = "CREATE INDEX IF NOT EXISTS ";

async fn create_index(tx: &mut Transaction, index: &'static str) -> Result<(), SqlError> {
    if tx.dialect() != Dialect::MySql {
        return tx.execute(Statement::new(index)).await.map(drop);
    }
    let rest = index.strip_prefix(INDEX).unwrap_or(index);
    let name = rest.split(' ').next().unwrap_or_default();
    let known = "SELECT 1 FROM information_schema.statistics WHERE table_schema = DATABASE() AND index_name = ? LIMIT 1";
    if tx.row(Statement::new(known).bind(name)).await?.is_none() {
        let create = Statement::new(format!("CREATE INDEX {rest}"));
        tx.execute(create).await?;
    }
    Ok(())
}

/// How long a start waits for another process that creates the schema.
pub const SCHEMA_WAIT: Duration = Duration::from_secs(60);

/// The options of each table on MySQL and MariaDB, each in a comment of its own. Strings that differ in case, accents or trailing blanks
/// are different, as on SQLite and PostgreSQL.
const MYSQL_TABLE: &str = ") ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 \
     COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;\n";

/// Translates a schema from SQLite to a database: timestamps (`VARCHAR(26)`) become dates, numbers have eight bytes, and text without a
/// limit has none. Each statement ends with `;` and a newline.
#[must_use]
pub fn in_words_of(dialect: Dialect, text: &str) -> String {
    let (id, moment, unbounded) = match dialect {
        Dialect::Sqlite => return text.to_owned(),
        Dialect::Postgres => (
            "BIGSERIAL PRIMARY KEY",
            "TIMESTAMP WITHOUT TIME ZONE",
            "TEXT",
        ),
        Dialect::MySql => (
            "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
            "DATETIME(6)",
            "MEDIUMTEXT",
        ),
    };
    let text = text
        .replace("CREATE INDEX IF NOT EXISTS ", "CREATE INDEX ")
        .replace(
            "    id INTEGER NOT NULL PRIMARY KEY",
            &format!("    id {id}"),
        )
        .replace("INTEGER", "BIGINT")
        .replace("VARCHAR(26)", moment)
        .replace(" TEXT", &format!(" {unbounded}"));
    match dialect {
        Dialect::MySql => text.replace("\n);\n", &format!("\n{MYSQL_TABLE}")),
        _ => text,
    }
}

/// The tables of a service.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// The name of the service in errors: `the compute API`.
    pub of: &'static str,
    /// The table with the version. It is created first and gets its row last.
    pub mark: &'static str,
    /// The version of this release.
    pub version: i64,
    /// All tables and indexes in the order of their creation, each with `CREATE … IF NOT EXISTS`.
    pub text: &'static str,
}

/// The database does not have the schema of the service.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The schema is at another version.
    #[error(
        "the database is at version {found} of the schema of {of}; this release knows version {known}: start the release that \
         wrote it, or name another database"
    )]
    OtherVersion {
        of: &'static str,
        /// The version in the mark.
        found: i64,
        /// The version of this release.
        known: i64,
    },
    /// The tables exist, and no release creates them like this.
    #[error("the tables of {of} are damaged, or not created by Berth: {reason}")]
    Damaged {
        of: &'static str,
        /// The problem, on one line.
        reason: String,
    },
    /// A table of another program has the name of one of these.
    #[error("the database has a table {table} that does not belong to {of}; use another database")]
    NotOurs {
        of: &'static str,
        table: &'static str,
    },
    #[error("the schema cannot be read or created")]
    Sql(#[from] SqlError),
}

impl Retryable for SchemaError {
    fn disposition(&self) -> Disposition {
        match self {
            // Another process created a table or wrote the version first; the next attempt sees both.
            Self::Sql(SqlError::Duplicate(_)) => Disposition::Retry,
            Self::Sql(error) => error.disposition(),
            _ => Disposition::Fatal,
        }
    }
}

impl Schema {
    /// Creates the tables if there are none; checks them if there are.
    pub async fn prepare(self, store: &SqlStore) -> Result<(), SchemaError> {
        let _lock = store.schema_lock(SCHEMA_WAIT).await?;
        store.write(&Prepare(self)).await
    }

    /// Creates the indexes that a database of an earlier release lacks. All tables exist.
    pub async fn create_missing_indexes(self, tx: &mut Transaction) -> Result<(), SqlError> {
        let lines = self.text.lines();
        for line in lines.filter(|line| line.starts_with(INDEX)) {
            create_index(tx, line.trim_end_matches(';')).await?;
        }
        Ok(())
    }

    /// The tables in the order of their creation.
    fn names(self) -> impl DoubleEndedIterator<Item = &'static str> {
        let lines = self.text.lines();
        lines.filter_map(|line| {
            let rest = line.strip_prefix("CREATE TABLE IF NOT EXISTS ")?;
            rest.split(' ').next()
        })
    }

    /// The first of these tables with a row, except the mark.
    async fn first_with_rows(
        self,
        tx: &mut Transaction,
        tables: &BTreeSet<String>,
    ) -> Result<Option<&'static str>, SqlError> {
        let names = self.names().filter(|name| *name != self.mark);
        for name in names.filter(|name| tables.contains(*name)) {
            let one = Statement::new(format!("SELECT 1 FROM {name} LIMIT 1"));
            if tx.row(one).await?.is_some() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Creates all tables. Existing ones are empty.
    async fn create_tables(self, tx: &mut Transaction) -> Result<(), SqlError> {
        let dialect = tx.dialect();
        if dialect == Dialect::MySql {
            // A killed start may have left empty tables (`first_with_rows`), and an existing index cannot be created
            // again.
            for name in self.names().rev().filter(|name| *name != self.mark) {
                tx.execute(Statement::new(format!("DROP TABLE IF EXISTS {name}")))
                    .await?;
            }
        }
        match dialect {
            Dialect::Sqlite => tx.script(self.text).await?,
            Dialect::Postgres | Dialect::MySql => {
                for statement in in_words_of(dialect, self.text).split_terminator(";\n") {
                    tx.execute(Statement::new(statement.to_owned())).await?;
                }
            }
        }
        let insert = format!("INSERT INTO {} (version) VALUES (?)", self.mark);
        tx.execute(Statement::new(insert).bind(self.version))
            .await?;
        Ok(())
    }
}

struct Prepare(Schema);

impl Work for Prepare {
    type Output = ();
    type Error = SchemaError;

    async fn run(&self, tx: &mut Transaction) -> Result<(), SchemaError> {
        let Schema {
            of, mark, version, ..
        } = self.0;
        let tables = tx.table_names().await?;
        if !tables.contains(mark) {
            return match self.0.names().find(|name| tables.contains(*name)) {
                Some(table) => Err(SchemaError::NotOurs { of, table }),
                None => Ok(self.0.create_tables(tx).await?),
            };
        }
        let sql = Statement::new(format!("SELECT version FROM {mark}"));
        let found = tx.row(sql).await?.map(|row| row.int(0)).transpose()?;
        match found {
            Some(found) if found == version => return Ok(()),
            // A process was killed while it created the tables: MySQL commits each one at once. No table has rows
            // before the mark has one.
            None if tx.dialect() == Dialect::MySql
                && self.0.first_with_rows(tx, &tables).await?.is_none() =>
            {
                return Ok(self.0.create_tables(tx).await?);
            }
            _ => {}
        }
        // A number from a damaged page is not the version of another release.
        if let Some(reason) = tx.damage().await? {
            return Err(SchemaError::Damaged { of, reason });
        }
        match found {
            Some(found) if found > 0 => Err(SchemaError::OtherVersion {
                of,
                found,
                known: version,
            }),
            _ => Err(SchemaError::Damaged {
                of,
                reason: format!("{mark} does not say at which version they are"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Location, SqlOptions};

    const TEXT: &str = "CREATE TABLE IF NOT EXISTS pier_schema (\n    version INTEGER NOT NULL PRIMARY KEY\n);\n\
        CREATE TABLE IF NOT EXISTS pier_ships (\n    id INTEGER NOT NULL PRIMARY KEY,\n    name TEXT,\n    came VARCHAR(26)\n);\n\
        CREATE INDEX IF NOT EXISTS pier_ships_name ON pier_ships (came);\n";

    fn pier(version: i64) -> Schema {
        Schema {
            of: "the pier",
            mark: "pier_schema",
            version,
            text: TEXT,
        }
    }

    #[tokio::test]
    async fn a_schema_is_made_once_and_another_version_is_refused() {
        let store = SqlStore::in_memory().await.unwrap();
        for _ in 0..2 {
            pier(1).prepare(&store).await.unwrap();
        }
        let refused = pier(2).prepare(&store).await.unwrap_err().to_string();
        assert_eq!(
            refused,
            "the database is at version 1 of the schema of the pier; this release knows version 2: start the release that wrote it, \
             or name another database"
        );
    }

    struct Script(&'static str);

    impl Work for Script {
        type Output = ();
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<(), SqlError> {
            tx.script(self.0).await
        }
    }

    #[tokio::test]
    async fn tables_that_do_not_say_their_version_are_no_other_releases() {
        let store = SqlStore::in_memory().await.unwrap();
        pier(1).prepare(&store).await.unwrap();
        for lost in [
            "UPDATE pier_schema SET version = 0",
            "DELETE FROM pier_schema",
        ] {
            store.write(&Script(lost)).await.unwrap();
            let refused = pier(1).prepare(&store).await.unwrap_err().to_string();
            assert_eq!(
                refused,
                "the tables of the pier are damaged, or not created by Berth: pier_schema does not say at which version they are"
            );
        }
    }

    #[tokio::test]
    async fn a_version_that_comes_out_of_a_damaged_file_is_no_other_releases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pier.sqlite");
        let file = Location::SqliteFile(path.clone());
        let options = SqlOptions::default();
        let store = SqlStore::open(&file, &options).await.unwrap();
        pier(7).prepare(&store).await.unwrap();
        // Many pages behind that of the mark.
        let ships = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) \
             INSERT INTO pier_ships (name) SELECT printf('%.1000c', 'x') FROM n";
        store.write(&Script(ships)).await.unwrap();
        store.close().await;
        drop(store);
        let mut bytes = std::fs::read(&path).unwrap();
        let pages = bytes.len() / 4096;
        bytes[4096 * (pages / 2)..4096 * (pages - 2)].fill(0x5a);
        std::fs::write(&path, bytes).unwrap();
        let store = SqlStore::open(&file, &options).await.unwrap();
        let refused = pier(1).prepare(&store).await.unwrap_err();
        assert!(matches!(refused, SchemaError::Damaged { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("; ") && !text.contains('\n'), "{text}");
    }

    #[tokio::test]
    async fn a_table_of_the_same_name_without_the_mark_is_anothers() {
        let store = SqlStore::in_memory().await.unwrap();
        let foreign = Script("CREATE TABLE pier_ships (boat TEXT);");
        store.write(&foreign).await.unwrap();
        let refused = pier(1).prepare(&store).await.unwrap_err();
        assert!(
            matches!(
                refused,
                SchemaError::NotOurs {
                    table: "pier_ships",
                    ..
                }
            ),
            "{refused}"
        );
    }

    #[test]
    fn each_server_reads_its_own_types() {
        let postgres = in_words_of(Dialect::Postgres, TEXT);
        assert!(postgres.contains(
            "    id BIGSERIAL PRIMARY KEY,\n    name TEXT,\n    came TIMESTAMP WITHOUT TIME ZONE\n"
        ));
        assert!(postgres.contains("CREATE INDEX pier_ships_name"));
        let mysql = in_words_of(Dialect::MySql, TEXT);
        assert!(mysql.contains("    name MEDIUMTEXT,\n    came DATETIME(6)\n) ENGINE=InnoDB"));
        assert!(mysql.contains("version BIGINT NOT NULL PRIMARY KEY"));
        assert_eq!(in_words_of(Dialect::Sqlite, TEXT), TEXT);
    }
}
