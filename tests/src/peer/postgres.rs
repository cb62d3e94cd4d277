//! PostgreSQL: one server for all tests of a process, with a separate database for each.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use nix::sys::signal::Signal;
use nix::unistd::{Uid, User, chown};

use super::{PeerError, output, rows, tls};
use crate::port::free_port;
use crate::process::{Process, ProcessError, Program};
use crate::scratch::Scratch;

/// The account of the tests; it guards nothing.
const USER: &str = "placement";
const PASSWORD: &str = "test-only";

/// A private PostgreSQL server; it ends with the last value that uses it.
#[derive(Debug)]
pub struct Postgres {
    process: Mutex<Process>,
    scratch: Scratch,
    port: u16,
    /// Databases that others are copies of.
    templates: Mutex<BTreeSet<&'static str>>,
}

impl Postgres {
    /// The server that the tests of this process share, started where none runs.
    pub fn shared() -> Result<Arc<Self>, PeerError> {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Ok(running);
        }
        let server = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&server);
        Ok(server)
    }

    /// Starts a separate server, for a test that stops it.
    pub fn start() -> Result<Self, PeerError> {
        let scratch =
            Scratch::new().map_err(PeerError::files("make a directory for PostgreSQL"))?;
        let home = scratch.join("home");
        own_folder(&home).map_err(PeerError::files("make a directory for PostgreSQL"))?;
        let data = home.join("data");
        let (program, arguments) = unprivileged("initdb")?;
        output(
            Command::new(program)
                .args(arguments)
                .args(["--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8"])
                // The socket admits all local users; TCP needs the password.
                .args(["--auth-local=trust", "--auth-host=scram-sha-256"])
                .arg("--no-sync")
                .arg("--pgdata")
                .arg(&data)
                .current_dir(&home),
        )?;
        own_key(&home).map_err(PeerError::files("copy a key for PostgreSQL"))?;
        let port = free_port().map_err(PeerError::files("find a free port"))?;
        let process = Self::run(&scratch, port)?;
        let server = Self {
            process: Mutex::new(process),
            scratch,
            port,
            templates: Mutex::default(),
        };
        server.query(
            None,
            &format!("create role {USER} login password '{PASSWORD}'"),
        )?;
        Ok(server)
    }

    fn run(scratch: &Scratch, port: u16) -> Result<Process, PeerError> {
        let home = scratch.join("home");
        let (program, arguments) = unprivileged("postgres")?;
        let mut process = Program::new(program)
            .args(arguments)
            .arg("-D")
            .arg(home.join("data"))
            .current_dir(&home)
            .args(settings(&[
                "listen_addresses=127.0.0.1",
                &format!("port={port}"),
                &format!("unix_socket_directories={}", home.display()),
                "ssl=on",
                &format!("ssl_cert_file={}", home.join("server.pem").display()),
                &format!("ssl_key_file={}", home.join("server.key").display()),
                "max_connections=200",
                "shared_buffers=32MB",
                // A commit survives the death of the server, though not of the machine.
                "fsync=off",
                "full_page_writes=off",
            ]))
            .start(&scratch.join("log"))?;
        process.wait_until(Duration::from_secs(60), || {
            output(client(&home, port).args(["--command", "select 1"])).is_ok()
        })?;
        Ok(process)
    }

    /// SIGKILL to the server and all its processes; clients lose their connections.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Starts it again after [`Postgres::kill`], on the same port and the same data.
    pub fn start_again(&self) -> Result<(), PeerError> {
        let start = Instant::now();
        let process = loop {
            match Self::run(&self.scratch, self.port) {
                // What served the connections ends by itself, a moment after it was left alone.
                Err(PeerError::Process(ProcessError::Ended { log, .. }))
                    if log.contains("is still in use")
                        && start.elapsed() < Duration::from_secs(60) =>
                {
                    thread::sleep(Duration::from_millis(50));
                }
                started => break started?,
            }
        };
        *self.process() = process;
        Ok(())
    }

    /// The server's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Where the server's log is.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.scratch.join("log")
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs SQL as the superuser, in `database` where one is named; rows with their cells as text.
    pub fn query(&self, database: Option<&str>, sql: &str) -> Result<Vec<Vec<String>>, PeerError> {
        let mut command = client(&self.scratch.join("home"), self.port);
        command
            .args(["--dbname", database.unwrap_or("postgres")])
            .args(["--command", sql]);
        Ok(rows(&output(&mut command)?))
    }

    /// Makes an empty database that goes with the value.
    pub fn create(self: &Arc<Self>) -> Result<PostgresDatabase, PeerError> {
        self.create_from("template1")
    }

    fn create_from(self: &Arc<Self>, template: &str) -> Result<PostgresDatabase, PeerError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.query(
            None,
            &format!("create database {name} template {template} owner {USER}"),
        )?;
        Ok(PostgresDatabase {
            server: Arc::clone(self),
            name,
        })
    }

    /// As [`Postgres::create`], a copy of the database `template`, which `fill` fills, given its URL for SQLAlchemy, where this
    /// server does not have it yet.
    pub(super) fn create_like(
        self: &Arc<Self>,
        template: &'static str,
        fill: impl FnOnce(&str) -> Result<(), PeerError>,
    ) -> Result<PostgresDatabase, PeerError> {
        let mut templates = self
            .templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !templates.contains(template) {
            self.query(None, &format!("drop database if exists {template}"))?;
            self.query(None, &format!("create database {template} owner {USER}"))?;
            fill(&self.sqlalchemy_url(template))?;
            templates.insert(template);
        }
        self.create_from(template)
    }

    fn sqlalchemy_url(&self, database: &str) -> String {
        format!(
            "postgresql+psycopg2://{USER}:{PASSWORD}@/{database}?host={}&port={}",
            self.scratch.join("home").display(),
            self.port
        )
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once, but not by SIGKILL: that would leave a segment of shared memory behind in the kernel.
        let mut process = self.process();
        process.signal(Signal::SIGQUIT);
        if process.wait(Duration::from_secs(20)).is_err() {
            process.kill();
        }
    }
}

/// One database on a server.
#[derive(Debug)]
pub struct PostgresDatabase {
    server: Arc<Postgres>,
    name: String,
}

impl PostgresDatabase {
    /// Its URL in the form `postgresql://user:password@127.0.0.1:port/name`.
    #[must_use]
    pub fn url(&self) -> String {
        format!(
            "postgresql://{USER}:{PASSWORD}@127.0.0.1:{}/{}",
            self.server.port, self.name
        )
    }

    /// The certificate of the authority that signed the server's own, which is for 127.0.0.1 and `localhost`.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        tls("authority.pem")
    }

    /// Its URL over the Unix socket, as SQLAlchemy takes it.
    #[must_use]
    pub fn sqlalchemy_url(&self) -> String {
        self.server.sqlalchemy_url(&self.name)
    }

    /// Runs SQL in it.
    pub fn query(&self, sql: &str) -> Result<Vec<Vec<String>>, PeerError> {
        self.server.query(Some(&self.name), sql)
    }

    /// The server it is on.
    #[must_use]
    pub fn server(&self) -> &Arc<Postgres> {
        &self.server
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        // A server that is gone has no database to drop.
        let _ = self.server.query(
            None,
            &format!("drop database if exists {} with (force)", self.name),
        );
    }
}

fn settings(settings: &[&str]) -> Vec<String> {
    settings
        .iter()
        .flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()])
        .collect()
}

/// PostgreSQL refuses to run as root: what to run instead, and its first arguments.
fn unprivileged(name: &str) -> Result<(PathBuf, Vec<String>), PeerError> {
    let program = program(name)?;
    if !Uid::effective().is_root() {
        return Ok((program, Vec::new()));
    }
    let user = account().map_err(PeerError::files("find an account for PostgreSQL"))?;
    let arguments = vec![
        format!("--reuid={}", user.uid),
        format!("--regid={}", user.gid),
        "--clear-groups".to_owned(),
        "--pdeathsig=KILL".to_owned(),
        "--".to_owned(),
        program.display().to_string(),
    ];
    Ok((PathBuf::from("setpriv"), arguments))
}

/// Debian's account for PostgreSQL, else `nobody`.
fn account() -> io::Result<User> {
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name)? {
            return Ok(user);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Debian keeps the server's programs off the PATH, a folder for each version; the newest is taken.
fn program(name: &str) -> Result<PathBuf, PeerError> {
    let version = |folder: &PathBuf| -> u32 {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.parse().ok()).unwrap_or_default()
    };
    let folders = fs::read_dir("/usr/lib/postgresql");
    let folders = folders.into_iter().flatten().flatten();
    let newest = folders
        .map(|folder| folder.path())
        .filter(|folder| folder.join("bin").join(name).is_file())
        .max_by_key(version);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || {
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|program| program.is_file())
    };
    newest
        .map(|folder| folder.join("bin").join(name))
        .or_else(on_path)
        .ok_or_else(|| PeerError::Command {
            program: name.to_owned(),
            errors: "it is not installed: run `make peers`, or install PostgreSQL's server"
                .to_owned(),
        })
}

/// A folder that the server's account owns.
fn own_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    if Uid::effective().is_root() {
        let user = account()?;
        chown(path, Some(user.uid), Some(user.gid))?;
    }
    Ok(())
}

/// Its own key and certificate: of a key that others may read PostgreSQL makes no use, and it may not look into this folder.
fn own_key(home: &Path) -> io::Result<()> {
    for name in ["server.key", "server.pem"] {
        let own = home.join(name);
        fs::copy(tls(name), &own)?;
        fs::set_permissions(&own, fs::Permissions::from_mode(0o600))?;
        if Uid::effective().is_root() {
            let user = account()?;
            chown(&own, Some(user.uid), Some(user.gid))?;
        }
    }
    Ok(())
}

fn client(socket: &Path, port: u16) -> Command {
    let mut command = Command::new("psql");
    command
        .env_remove("PGOPTIONS")
        .env_remove("PGSSLMODE")
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
        .args(["--field-separator", "\t", "--username=postgres"])
        .args(["--set", "ON_ERROR_STOP=1"])
        .arg("--host")
        .arg(socket)
        .args(["--port", &port.to_string()]);
    command
}
