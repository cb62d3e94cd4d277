//! Runs a Python WSGI service under uWSGI, as OpenStack deployments do: a master and worker processes on one port.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{PeerError, installed};
use crate::exchange::HttpCall;
use crate::port::free_port;
use crate::process::{Process, Program};

/// Two services that start together on two busy cores need ten seconds. The limit is for a much slower machine.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// One service on one port. A restart keeps the port.
#[derive(Debug)]
pub(super) struct Uwsgi {
    module: &'static str,
    environment: (&'static str, PathBuf),
    workers: u8,
    port: u16,
    log: PathBuf,
    /// The folder of temporary files; by default the machine's.
    temporary: Option<PathBuf>,
    process: Option<Process>,
}

impl Uwsgi {
    /// Chooses a port; `environment` is the variable that names the folder of the service's configuration.
    pub(super) fn new(
        module: &'static str,
        environment: (&'static str, PathBuf),
        workers: u8,
        log: PathBuf,
    ) -> Result<Self, PeerError> {
        let port = free_port().map_err(PeerError::files("find a free port"))?;
        Ok(Self {
            module,
            environment,
            workers,
            port,
            log,
            temporary: None,
            process: None,
        })
    }

    /// Sets a folder of its own for temporary files.
    pub(super) fn with_temporary(mut self, folder: PathBuf) -> Self {
        self.temporary = Some(folder);
        self
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The process ID of the master, which is also that of the process group. None if the service is not running.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Starts the service if it is not running, and waits until a GET of `path` returns a status below 500.
    pub(super) fn start(&mut self, path: &str) -> Result<(), PeerError> {
        if self
            .process
            .as_mut()
            .is_some_and(|process| process.ended().is_none())
        {
            return Ok(());
        }
        let venv = installed()?.join("venv");
        let (key, dir) = &self.environment;
        let program = Program::new(venv.join("bin/uwsgi"));
        let program = match &self.temporary {
            Some(folder) => program.env("TMPDIR", folder),
            None => program,
        };
        let mut process = program
            .args([
                "--http-socket",
                &format!("127.0.0.1:{}", self.port),
                "--module",
                self.module,
            ])
            // Each worker loads the application itself: a database connection does not survive a fork.
            .args([
                "--master",
                "--lazy-apps",
                "--need-app",
                "--no-orphans",
                "--die-on-term",
                "--enable-threads",
            ])
            .args([
                "--processes",
                &self.workers.to_string(),
                "--thunder-lock",
                "--listen",
                "100",
            ])
            // One request per connection. Without the header a client reuses a connection that uWSGI has closed.
            .args(["--add-header", "Connection: close"])
            // uWSGI reads the whole body first. Otherwise an early refusal by the application resets the connection.
            .args(["--buffer-size", "65535", "--post-buffering", "65536"])
            .args(["--disable-logging", "--log-4xx", "--log-5xx", "--venv"])
            .arg(&venv)
            .env(key, dir)
            .env_remove("PYTHONPATH")
            .env_remove("PYTHONHOME")
            .start(&self.log)?;
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        process.wait_until(READY_LIMIT, || {
            HttpCall::get(&url)
                .send()
                .is_ok_and(|answer| answer.status.as_u16() < 500)
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Stops the service; it answers the requests in progress first.
    pub(super) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate(Duration::from_secs(10));
        }
    }

    /// Sends SIGKILL to the master and the workers.
    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }
}
