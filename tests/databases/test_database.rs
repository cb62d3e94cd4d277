//! A database for one test, on each kind of server.

use berth_store::{Dialect, Location, SqlOptions, SqlStore};
use berth_tests::peer::{Database, MariaDb, Postgres, PostgresDatabase};
use tempfile::TempDir;

use crate::databases::work::Script;

/// A fresh, empty database, and what keeps it.
pub(crate) enum TestDatabase {
    Sqlite(TempDir),
    Postgres(PostgresDatabase),
    MariaDb(Database),
}

impl TestDatabase {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn postgres() -> Self {
        Self::Postgres(Postgres::shared().unwrap().create().unwrap())
    }

    pub(crate) fn mariadb() -> Self {
        Self::MariaDb(MariaDb::shared().unwrap().create().unwrap())
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}/things.db", folder.path().display()),
            Self::Postgres(database) => database.url(),
            Self::MariaDb(database) => database.url(),
        }
    }

    /// As SQLAlchemy takes it.
    pub(crate) fn sqlalchemy_url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:///{}/things.db", folder.path().display()),
            Self::Postgres(database) => database.sqlalchemy_url(),
            Self::MariaDb(database) => database.sqlalchemy_url(),
        }
    }

    pub(crate) fn location(&self) -> Location {
        self.url().parse().unwrap()
    }

    pub(crate) async fn open(&self, options: &SqlOptions) -> SqlStore {
        SqlStore::open(&self.location(), options).await.unwrap()
    }

    /// With the table of [`things`] in it.
    pub(crate) async fn store(&self) -> SqlStore {
        self.store_with(&SqlOptions::default()).await
    }

    pub(crate) async fn store_with(&self, options: &SqlOptions) -> SqlStore {
        let store = self.open(options).await;
        store.write(&Script(things(store.dialect()))).await.unwrap();
        store
    }

    /// The server goes at once, with all that is connected.
    pub(crate) fn kill_server(&self) {
        match self {
            Self::Sqlite(_) => unreachable!("SQLite has no server"),
            Self::Postgres(database) => database.server().kill(),
            Self::MariaDb(database) => database.server().kill(),
        }
    }

    pub(crate) fn start_server_again(&self) {
        match self {
            Self::Sqlite(_) => unreachable!("SQLite has no server"),
            Self::Postgres(database) => database.server().start_again().unwrap(),
            Self::MariaDb(database) => database.server().start_again().unwrap(),
        }
    }

    /// Runs SQL by the database's own tool.
    pub(crate) fn query(&self, sql: &str) -> Vec<Vec<String>> {
        match self {
            Self::Sqlite(_) => unreachable!("asked of servers only"),
            Self::Postgres(database) => database.query(sql).unwrap(),
            Self::MariaDb(database) => database.query(sql).unwrap(),
        }
    }

    /// As [`TestDatabase::query`], as the server's own user, outside of the database.
    pub(crate) fn query_server(&self, sql: &str) {
        match self {
            Self::Sqlite(_) => unreachable!("asked of servers only"),
            Self::Postgres(database) => database.server().query(None, sql).unwrap(),
            Self::MariaDb(database) => database.server().query(None, sql).unwrap(),
        };
    }
}

/// Columns as OpenStack's tables have them: an id that counts, text, a ratio, dates.
pub(crate) fn things(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "CREATE TABLE things (id INTEGER PRIMARY KEY, name VARCHAR(255) UNIQUE, weight NUMERIC(16,4),
                 generation INTEGER NOT NULL DEFAULT 0, created_at DATETIME);
             CREATE TABLE parts (id INTEGER PRIMARY KEY, thing_id INTEGER NOT NULL REFERENCES things (id), used BIGINT NOT NULL)"
        }
        Dialect::Postgres => {
            "CREATE TABLE things (id SERIAL PRIMARY KEY, name VARCHAR(255) UNIQUE, weight NUMERIC(16,4),
                 generation INTEGER NOT NULL DEFAULT 0, created_at TIMESTAMP);
             CREATE TABLE parts (id SERIAL PRIMARY KEY, thing_id INTEGER NOT NULL REFERENCES things (id), used BIGINT NOT NULL)"
        }
        Dialect::MySql => {
            "CREATE TABLE things (id INTEGER PRIMARY KEY AUTO_INCREMENT, name VARCHAR(255) UNIQUE, weight FLOAT,
                 generation INTEGER NOT NULL DEFAULT 0, created_at DATETIME);
             CREATE TABLE parts (id INTEGER PRIMARY KEY AUTO_INCREMENT, thing_id INTEGER NOT NULL, used BIGINT NOT NULL,
                 FOREIGN KEY (thing_id) REFERENCES things (id))"
        }
    }
}
