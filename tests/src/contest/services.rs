//! Starts one or several `berth placement serve` processes over one database, with a [`ProviderChangeLog`] of it.

use std::time::Duration;

use berth_store::{Location, SqlError, SqlOptions, SqlStore};

use super::ProviderChangeLog;
use crate::berth::{BerthError, BerthHome, RunningBerth};
use crate::exchange::runtime;
use crate::peer::{Database, MariaDb, PeerError, Postgres, PostgresDatabase};

/// No start takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsLocation {
    /// A file, that one process owns.
    Sqlite,
    /// A database on the PostgreSQL that tests share.
    Postgres,
    /// A database on the MariaDB that tests share.
    MariaDb,
}

/// `[placement_service] isolation_level`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// `repeatable-read`.
    #[default]
    RepeatableRead,
    /// `read-committed`.
    ReadCommitted,
}

impl Isolation {
    /// As the option has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RepeatableRead => "repeatable-read",
            Self::ReadCommitted => "read-committed",
        }
    }
}

#[derive(Debug)]
enum ContestRows {
    Sqlite(BerthHome),
    Postgres(PostgresDatabase),
    MariaDb(Database),
    /// The database of another owner, by its URL.
    Elsewhere(String),
}

/// Why services do not run.
#[derive(Debug, thiserror::Error)]
pub enum ServicesError {
    #[error(transparent)]
    Berth(#[from] BerthError),
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The database does not answer.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The database cannot be opened, or brought to its schema.
    #[error("the database: {0}")]
    Database(String),
}

fn database(error: impl std::fmt::Debug) -> ServicesError {
    ServicesError::Database(format!("{error:?}"))
}

#[derive(Debug)]
struct ContestService {
    home: BerthHome,
    running: Option<RunningBerth>,
    url: String,
}

/// Running services. They end with the value, and their database after them.
#[derive(Debug)]
pub struct Services {
    all: Vec<ContestService>,
    rows: ContestRows,
}

impl Services {
    /// So many processes on a database of their own.
    pub fn start(
        at: RowsLocation,
        count: usize,
        isolation: Isolation,
    ) -> Result<Self, ServicesError> {
        let rows = match at {
            RowsLocation::Sqlite => ContestRows::Sqlite(BerthHome::new()?),
            RowsLocation::Postgres => ContestRows::Postgres(Postgres::shared()?.create()?),
            RowsLocation::MariaDb => ContestRows::MariaDb(MariaDb::shared()?.create()?),
        };
        let mut services = Self {
            all: Vec::new(),
            rows,
        };
        services.with_database(async |store| {
            berth_placement::prepare(store).await.map_err(database)?;
            Ok(ProviderChangeLog::begin(store).await?)
        })?;
        services.add(count, isolation)?;
        Ok(services)
    }

    /// Starts `count` further processes on an existing database.
    pub fn on_existing(
        url: &str,
        count: usize,
        isolation: Isolation,
    ) -> Result<Self, ServicesError> {
        let mut services = Self {
            all: Vec::new(),
            rows: ContestRows::Elsewhere(url.to_owned()),
        };
        services.add(count, isolation)?;
        Ok(services)
    }

    fn add(&mut self, count: usize, isolation: Isolation) -> Result<(), ServicesError> {
        let url = self.database_url();
        for _ in 0..count {
            let service = ContestService {
                home: home(&url, isolation)?,
                running: None,
                url: String::new(),
            };
            self.all.push(service);
        }
        self.start_again()
    }

    /// The database as Berth names it.
    #[must_use]
    pub fn database_url(&self) -> String {
        match &self.rows {
            ContestRows::Sqlite(home) => format!("sqlite:{}", home.path("rows.sqlite").display()),
            ContestRows::Postgres(database) => database.url(),
            ContestRows::MariaDb(database) => database.url(),
            ContestRows::Elsewhere(url) => url.clone(),
        }
    }

    /// Each one's URL; another after a start.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.all.iter().map(|one| one.url.clone()).collect()
    }

    pub fn kill(&mut self, which: usize) {
        if let Some(mut running) = self.all.get_mut(which).and_then(|one| one.running.take()) {
            running.kill();
        }
    }

    /// SIGTERM to all, and waits until they have ended. Their database may be opened then.
    pub fn stop(&mut self) -> Result<(), ServicesError> {
        for one in &mut self.all {
            if let Some(running) = one.running.take() {
                let ended = running.stop(PATIENCE)?;
                if ended.code != 0 {
                    return Err(database((ended.code, ended.stderr)));
                }
            }
        }
        Ok(())
    }

    /// Starts the processes that do not run.
    pub fn start_again(&mut self) -> Result<(), ServicesError> {
        for one in self.all.iter_mut().filter(|one| one.running.is_none()) {
            let config = one.home.config_file().display().to_string();
            let start = one.home.start(["--config", &config, "placement", "serve"]);
            one.running = Some(start?);
        }
        for one in &mut self.all {
            if let Some(running) = &mut one.running {
                one.url = running.wait_for_line(PATIENCE, "Placement at ")?;
            }
        }
        Ok(())
    }

    /// Gives the caller access to the database. On a server this is possible while the services run; a SQLite file
    /// belongs to one process, so they must have ended.
    pub fn with_database<T>(
        &self,
        work: impl AsyncFnOnce(&SqlStore) -> Result<T, ServicesError>,
    ) -> Result<T, ServicesError> {
        with_database(&self.database_url(), work)
    }
}

/// As [`Services::with_database`], of any database.
pub fn with_database<T>(
    url: &str,
    work: impl AsyncFnOnce(&SqlStore) -> Result<T, ServicesError>,
) -> Result<T, ServicesError> {
    let location: Location = url.parse().map_err(database)?;
    runtime().block_on(async {
        let store = SqlStore::open(&location, &SqlOptions::default()).await;
        let store = store.map_err(database)?;
        let done = work(&store).await;
        store.close().await;
        done
    })
}

fn home(database_url: &str, isolation: Isolation) -> Result<BerthHome, ServicesError> {
    let home = BerthHome::new()?;
    home.configure(&format!(
        "state_path = \"@HOME@/state\"\n[placement_service]\nlisten = \"127.0.0.1:0\"\n\
         connection = \"{database_url}\"\nisolation_level = \"{}\"\nenforce_new_defaults = false\n",
        isolation.as_str()
    ))?;
    Ok(home)
}
