//! The real OpenStack Placement: the release that `tests/peers/requirements.txt` pins, on a copy of an empty database.

use std::fmt::Write as _;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::placement_schema::PlacementSchema;
use super::uwsgi::Uwsgi;
use super::{Database, MariaDb, PeerError, Postgres, PostgresDatabase, installed, sqlite, write};
use crate::exchange::HttpCall;
use crate::scratch::Scratch;

/// Where Placement keeps its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// A file of its own. Two writers at once may meet "database is locked" as a 500: the real service does that.
    #[default]
    Sqlite,
    /// A database on the [`MariaDb`] that tests share.
    MariaDb,
    /// A database on the [`Postgres`] that tests share. GET /usages at 1.38 and later is a 500 there: the real service does that.
    Postgres,
}

/// How callers are authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// `noauth2`: the token `admin` has the role admin; `x-roles` adds roles.
    #[default]
    Noauth2,
    /// keystonemiddleware, against the Keystone with this `…/v3` URL.
    Keystone {
        /// [`super::RealKeystone::url`].
        url: String,
    },
}

/// oslo.policy's `enforce_new_defaults`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyDefaults {
    /// The library's default: POST /reshaper needs the role `service`; `admin` alone gets 403.
    #[default]
    New,
    /// The deprecated rules count too: `admin` may do all.
    Deprecated,
}

/// How a [`RealPlacement`] is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementSettings {
    /// SQLite, MariaDB or PostgreSQL.
    pub storage: Storage,
    pub auth: Auth,
    /// Which defaults policy has.
    pub policy_defaults: PolicyDefaults,
    /// Rules for `policy.yaml`: name and check string.
    pub policy: Vec<(String, String)>,
    /// Lines for `[placement]`: option and value.
    pub options: Vec<(String, String)>,
    /// Worker processes, at least 1. Each takes two seconds of processor time to start.
    pub workers: u8,
}

impl Default for PlacementSettings {
    /// SQLite, `noauth2`, the deprecated policy (so that the token `admin` may reshape), one worker.
    fn default() -> Self {
        Self {
            storage: Storage::Sqlite,
            auth: Auth::Noauth2,
            policy_defaults: PolicyDefaults::Deprecated,
            policy: Vec::new(),
            options: Vec::new(),
            workers: 1,
        }
    }
}

impl PlacementSettings {
    /// MariaDB, and two workers, which write at the same time.
    #[must_use]
    pub fn on_mariadb() -> Self {
        Self {
            storage: Storage::MariaDb,
            workers: 2,
            ..Self::default()
        }
    }

    /// PostgreSQL, and two workers, which write at the same time.
    #[must_use]
    pub fn on_postgres() -> Self {
        Self {
            storage: Storage::Postgres,
            workers: 2,
            ..Self::default()
        }
    }

    /// Behind this Keystone, with the policy a new deployment has.
    #[must_use]
    pub fn behind(keystone: &super::RealKeystone) -> Self {
        Self {
            auth: Auth::Keystone {
                url: keystone.url(),
            },
            policy_defaults: PolicyDefaults::New,
            ..Self::default()
        }
    }
}

#[derive(Debug)]
enum PeerDatabase {
    Sqlite(PathBuf),
    MariaDb(Database),
    Postgres(PostgresDatabase),
}

/// A running Placement. Starting one takes seconds; [`RealPlacement::lease`] reuses one that another test has finished
/// with.
#[derive(Debug)]
pub struct RealPlacement {
    settings: PlacementSettings,
    service: Uwsgi,
    rows: PeerDatabase,
    /// Last: the service ends before its files go.
    _scratch: Scratch,
}

impl RealPlacement {
    /// Starts a separate one for the caller.
    pub fn start(settings: PlacementSettings) -> Result<Self, PeerError> {
        let templates = installed()?.join("templates");
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for Placement"))?;
        let (rows, connection) = match settings.storage {
            Storage::Sqlite => {
                let path = scratch.join("placement.sqlite");
                fs::copy(templates.join("placement.sqlite"), &path).map_err(PeerError::files(
                    "copy the template of Placement's database",
                ))?;
                let url = format!("sqlite:///{}", path.display());
                (PeerDatabase::Sqlite(path), url)
            }
            Storage::MariaDb => {
                let database = MariaDb::shared()?.create()?;
                database.load(&templates.join("placement.sql"))?;
                let url = database.sqlalchemy_url();
                (PeerDatabase::MariaDb(database), url)
            }
            Storage::Postgres => {
                let database = Postgres::shared()?.create_like("placement", |url| {
                    let mut schema = PlacementSchema::lease()?;
                    schema.upgrade(url, "head")?;
                    schema.add_standard_rows(url)
                })?;
                let url = database.sqlalchemy_url();
                (PeerDatabase::Postgres(database), url)
            }
        };
        let etc = scratch.join("etc");
        fs::create_dir(&etc).map_err(PeerError::files("make a directory for Placement"))?;
        write(
            &etc.join("placement.conf"),
            &configuration(&settings, &connection, &etc),
        )?;
        write(&etc.join("policy.yaml"), &policy(&settings))?;
        let environment = ("OS_PLACEMENT_CONFIG_DIR", etc);
        let log = scratch.join("log");
        let mut service = Uwsgi::new(
            "placement.wsgi.api:application",
            environment,
            settings.workers.max(1),
            log,
        )?;
        service.start("/")?;
        Ok(Self {
            settings,
            service,
            rows,
            _scratch: scratch,
        })
    }

    /// An empty Placement with these settings: a returned one, else a new one. It is returned when dropped.
    pub fn lease(settings: PlacementSettings) -> Result<Lease, PeerError> {
        let idle = {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            idle.iter()
                .position(|placement| placement.settings == settings)
                .map(|at| idle.swap_remove(at))
        };
        let placement = match idle {
            Some(mut placement) => {
                placement.service.start("/")?;
                placement.reset()?;
                placement
            }
            None => Self::start(settings)?,
        };
        Ok(Lease {
            placement: Some(placement),
        })
    }

    /// `http://127.0.0.1:PORT`, the same over a restart.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.service.port())
    }

    /// A request to it with the token `admin` and this microversion, for instance `1.39`.
    #[must_use]
    pub fn ask(&self, method: http::Method, path: &str, microversion: &str) -> HttpCall {
        HttpCall::new(method, format!("{}{path}", self.url()))
            .header("x-auth-token", "admin")
            .header(
                "openstack-api-version",
                &format!("placement {microversion}"),
            )
    }

    /// Deletes every row but the standard traits and classes. The service keeps nothing between requests, so it may run.
    pub fn reset(&mut self) -> Result<(), PeerError> {
        const TABLES: [&str; 10] = [
            "allocations",
            "inventories",
            "resource_provider_traits",
            "resource_provider_aggregates",
            "placement_aggregates",
            "resource_providers",
            "consumers",
            "consumer_types",
            "projects",
            "users",
        ];
        let mut sql = String::new();
        if matches!(self.rows, PeerDatabase::MariaDb(_)) {
            sql.push_str("set foreign_key_checks = 0; ");
        }
        for table in TABLES {
            // Writing to a String cannot fail.
            let _ = write!(sql, "delete from {table}; ");
        }
        for table in ["traits", "resource_classes"] {
            let _ = write!(
                sql,
                "delete from {table} where substr(name, 1, 7) = 'CUSTOM_'; "
            );
        }
        self.query(&sql).map(drop)
    }

    /// Runs SQL beneath the service; rows with their cells as text (NULL as `NULL`). Several statements may be given:
    /// they run in one transaction on SQLite, and the rows of the last are answered.
    pub fn query(&self, sql: &str) -> Result<Vec<Vec<String>>, PeerError> {
        match &self.rows {
            PeerDatabase::Sqlite(path) => sqlite::query(path, sql),
            PeerDatabase::MariaDb(database) => database.query(sql),
            PeerDatabase::Postgres(database) => database.query(sql),
        }
    }

    /// The database as Berth names it: `sqlite:PATH`, `mysql://…` or `postgresql://…`.
    #[must_use]
    pub fn database_url(&self) -> String {
        match &self.rows {
            PeerDatabase::Sqlite(path) => format!("sqlite:{}", path.display()),
            PeerDatabase::MariaDb(database) => database.url(),
            PeerDatabase::Postgres(database) => database.url(),
        }
    }

    /// The file, on SQLite.
    #[must_use]
    pub fn sqlite_path(&self) -> Option<&Path> {
        match &self.rows {
            PeerDatabase::Sqlite(path) => Some(path),
            PeerDatabase::MariaDb(_) | PeerDatabase::Postgres(_) => None,
        }
    }

    /// Its process group, by its leader's process id, where it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.service.pid()
    }

    /// A graceful end. Connections are refused afterwards.
    pub fn stop(&mut self) {
        self.service.stop();
    }

    /// SIGKILL to all its processes.
    pub fn kill(&mut self) {
        self.service.kill();
    }

    /// Starts it again on the same port and rows, where it does not run.
    pub fn restart(&mut self) -> Result<(), PeerError> {
        self.service.start("/")
    }

    /// What it wrote: its failures, and each request answered with 4xx or 5xx.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.service.log()).unwrap_or_default()).into_owned()
    }
}

fn configuration(settings: &PlacementSettings, connection: &str, etc: &Path) -> String {
    let strategy = match settings.auth {
        Auth::Noauth2 => "noauth2",
        Auth::Keystone { .. } => "keystone",
    };
    let new_defaults = settings.policy_defaults == PolicyDefaults::New;
    let mut text = format!(
        "[api]\nauth_strategy = {strategy}\n\
         [placement_database]\nconnection = {connection}\n\
         [oslo_policy]\npolicy_file = {}\nenforce_new_defaults = {new_defaults}\nenforce_scope = {new_defaults}\n",
        etc.join("policy.yaml").display()
    );
    if let Auth::Keystone { url } = &settings.auth {
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            text,
            "[keystone_authtoken]\nwww_authenticate_uri = {url}\nauth_url = {url}\nauth_type = password\n\
             username = placement\npassword = {}\nproject_name = service\n\
             user_domain_id = default\nproject_domain_id = default\n",
            super::keystone::PASSWORD
        );
    }
    text.push_str("[placement]\n");
    for (option, value) in &settings.options {
        let _ = writeln!(text, "{option} = {value}");
    }
    text
}

fn policy(settings: &PlacementSettings) -> String {
    let rules = settings
        .policy
        .iter()
        .map(|(rule, check)| (rule.clone(), check.clone().into()))
        .collect();
    // JSON is YAML.
    serde_json::Value::Object(rules).to_string()
}

/// The instances that wait for the next test. They end with the process.
static IDLE: Mutex<Vec<RealPlacement>> = Mutex::new(Vec::new());

/// A Placement that goes back for the next test when dropped.
#[derive(Debug)]
pub struct Lease {
    placement: Option<RealPlacement>,
}

impl Deref for Lease {
    type Target = RealPlacement;

    fn deref(&self) -> &RealPlacement {
        self.placement.as_ref().expect("taken only when dropped")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut RealPlacement {
        self.placement.as_mut().expect("taken only when dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(placement) = self.placement.take() {
            IDLE.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(placement);
        }
    }
}
