//! MariaDB: one server for all tests of a process, with a separate database for each.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Uid;

use super::{PeerError, installed, output, output_of, rows, tls};
use crate::port::free_port;
use crate::process::{Process, ProcessError, Program};
use crate::scratch::{Scratch, copy_tree};

/// The account of the tests; it guards nothing.
const USER: &str = "placement";
const PASSWORD: &str = "test-only";

/// A private MariaDB server; it ends with the last value that uses it.
#[derive(Debug)]
pub struct MariaDb {
    process: Mutex<Process>,
    scratch: Scratch,
    port: u16,
}

impl MariaDb {
    /// The server that the tests of this process share, started where none runs.
    pub fn shared() -> Result<Arc<Self>, PeerError> {
        static SHARED: Mutex<Weak<MariaDb>> = Mutex::new(Weak::new());
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
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for MariaDB"))?;
        let data = scratch.join("data");
        copy_tree(&installed()?.join("templates/mariadb"), &data)
            .map_err(PeerError::files("copy MariaDB's template"))?;
        std::fs::create_dir(scratch.join("tmp")).map_err(PeerError::files("create a folder"))?;
        let port = free_port().map_err(PeerError::files("find a free port"))?;
        let process = Self::run(&scratch, port)?;
        Ok(Self {
            process: Mutex::new(process),
            scratch,
            port,
        })
    }

    fn run(scratch: &Scratch, port: u16) -> Result<Process, PeerError> {
        let mut program = Program::new("mariadbd")
            .arg("--no-defaults")
            .arg(format!("--datadir={}", scratch.join("data").display()))
            // At its start a server deletes the temporary tables in this folder: no other server may use it.
            .arg(format!("--tmpdir={}", scratch.join("tmp").display()))
            .arg(format!("--socket={}", scratch.join("sock").display()))
            .arg(format!("--pid-file={}", scratch.join("pid").display()))
            .args(["--bind-address=127.0.0.1", &format!("--port={port}")])
            .arg(format!("--ssl-cert={}", tls("server.pem").display()))
            .arg(format!("--ssl-key={}", tls("server.key").display()))
            // A commit survives the death of the server, though not of the machine: a third of the cost.
            .args([
                "--innodb-flush-log-at-trx-commit=2",
                "--innodb-log-file-size=4M",
                "--skip-log-bin",
            ])
            .args([
                "--innodb-buffer-pool-size=64M",
                "--max-connections=200",
                "--skip-name-resolve",
            ]);
        if Uid::effective().is_root() {
            program = program.arg("--user=root");
        }
        let mut process = program.start(&scratch.join("log"))?;
        let socket = scratch.join("sock");
        process.wait_until(Duration::from_secs(60), || {
            output(client(&socket).args(["-e", "select 1"])).is_ok()
        })?;
        Ok(process)
    }

    /// SIGKILL to the server; clients lose their connections.
    pub fn kill(&self) {
        self.process().kill();
    }

    /// Starts it again after [`MariaDb::kill`], on the same port and the same data.
    pub fn start_again(&self) -> Result<(), PeerError> {
        let start = Instant::now();
        let process = loop {
            match Self::run(&self.scratch, self.port) {
                // The port was anybody's meanwhile: a connection that another test has may go out by it.
                Err(PeerError::Process(ProcessError::Ended { log, .. }))
                    if log.contains("Address already in use")
                        && start.elapsed() < Duration::from_secs(60) =>
                {
                    thread::sleep(Duration::from_millis(200));
                }
                started => break started?,
            }
        };
        *self.process() = process;
        Ok(())
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs SQL as root, in `database` where one is named; rows with their cells as text.
    pub fn query(&self, database: Option<&str>, sql: &str) -> Result<Vec<Vec<String>>, PeerError> {
        let mut command = client(&self.socket());
        command
            .args(["--batch", "--skip-column-names", "-e", sql])
            .args(database);
        Ok(rows(&output(&mut command)?))
    }

    /// The server's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().pid()
    }

    /// Makes an empty database that goes with the value.
    pub fn create(self: &Arc<Self>) -> Result<Database, PeerError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.query(
            None,
            &format!("create database {name} character set utf8mb3"),
        )?;
        Ok(Database {
            server: Arc::clone(self),
            name,
        })
    }

    fn socket(&self) -> PathBuf {
        self.scratch.join("sock")
    }
}

/// One database on a server.
#[derive(Debug)]
pub struct Database {
    server: Arc<MariaDb>,
    name: String,
}

impl Database {
    /// Its URL in the form `mysql://user:password@127.0.0.1:port/name`.
    #[must_use]
    pub fn url(&self) -> String {
        format!(
            "mysql://{USER}:{PASSWORD}@127.0.0.1:{}/{}",
            self.server.port, self.name
        )
    }

    /// The certificate of the authority that signed the server's own, which is for 127.0.0.1 and `localhost`.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        tls("authority.pem")
    }

    /// Its URL as SQLAlchemy takes it.
    #[must_use]
    pub fn sqlalchemy_url(&self) -> String {
        let socket = self.server.socket();
        format!(
            "mysql+pymysql://{USER}:{PASSWORD}@localhost/{}?charset=utf8&unix_socket={}",
            self.name,
            socket.display()
        )
    }

    /// Runs SQL in it.
    pub fn query(&self, sql: &str) -> Result<Vec<Vec<String>>, PeerError> {
        self.server.query(Some(&self.name), sql)
    }

    /// Runs a file of SQL in it.
    pub(super) fn load(&self, file: &Path) -> Result<(), PeerError> {
        let file = std::fs::File::open(file)
            .map_err(PeerError::files("open the template of a database"))?;
        output_of(client(&self.server.socket()).arg(&self.name).stdin(file)).map(drop)
    }

    /// The server it is on.
    #[must_use]
    pub fn server(&self) -> &Arc<MariaDb> {
        &self.server
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A connected client may have an open transaction, which would block the statement.
        let sql = format!(
            "delimiter //\nbegin not atomic declare continue handler for 1094 begin end; \
             for it in (select id from information_schema.processlist where db = '{0}') do kill it.id; end for; end//\n\
             delimiter ;\ndrop database {0}",
            self.name
        );
        // A server that is gone has no database to drop.
        let _ = self.server.query(None, &sql);
    }
}

fn client(socket: &Path) -> Command {
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "-uroot", "-S"]).arg(socket);
    command
}
