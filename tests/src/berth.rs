//! Runs the `berth` program as a child process, configured in a directory of its own. Black-box tests start it, kill it
//! and read its output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::process::{Process, ProcessError, Program, exit_code};
use crate::scratch::Scratch;

/// Why `berth` could not be run.
#[derive(Debug, thiserror::Error)]
pub enum BerthError {
    /// The program was not built with the tests.
    #[error("{} is not built: run `cargo build -p berth-cli` first (make test does)", path.display())]
    NotBuilt {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A file of the test could not be written or read.
    #[error("a file for berth could not be written or read: {0}")]
    Files(#[from] io::Error),
    /// It would not start, stay or end.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// The program that this build of the tests belongs to: `$BERTH_PROGRAM`, else `berth` in the same target directory and
/// profile as the test that runs.
pub fn program() -> Result<PathBuf, BerthError> {
    if let Some(path) = env::var_os("BERTH_PROGRAM") {
        return Ok(path.into());
    }
    // target/PROFILE/deps/TEST-HASH -> target/PROFILE/berth
    let test = env::current_exe()?;
    let profile = test.ancestors().nth(2).unwrap_or(Path::new("."));
    let path = profile.join("berth");
    if path.is_file() {
        Ok(path)
    } else {
        Err(BerthError::NotBuilt { path })
    }
}

/// A place where `berth` runs, again and again over the same state: a configuration, a state directory, logs.
#[derive(Debug)]
pub struct BerthHome {
    scratch: Scratch,
    environment: Vec<(String, OsString)>,
    within: Vec<OsString>,
    runs: u32,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit code, or 128 + the signal.
    pub code: i32,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error: the log.
    pub stderr: String,
}

impl BerthHome {
    pub fn new() -> Result<Self, BerthError> {
        let scratch = Scratch::new()?;
        fs::create_dir(scratch.join("state"))?;
        Ok(Self {
            scratch,
            environment: Vec::new(),
            within: Vec::new(),
            runs: 0,
        })
    }

    /// A path inside the home.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// The state directory, for `state_path` or `--state-dir`.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.path("state")
    }

    /// The guests that were made on the fake driver's machine, as its file has them: its first line has all, each other one a change.
    ///
    /// # Panics
    /// A whole line of it is no JSON.
    #[must_use]
    pub fn fake_guests(&self) -> Vec<Value> {
        let file = self.state_dir().join("fake-guests");
        let text = fs::read_to_string(file).unwrap_or_default();
        let whole_lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let mut guests = BTreeMap::new();
        for line in whole_lines {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let all = line["guests"].as_array().into_iter().flatten();
            for guest in all.chain(line.get("guest")) {
                guests.insert(guest["spec"]["uuid"].to_string(), guest.clone());
            }
            guests.remove(&line["gone"].to_string());
        }
        guests.into_values().collect()
    }

    /// The configuration file, for `--config`.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.path("berth.toml")
    }

    /// Writes the configuration file; `@HOME@` in the text stands for the home's path.
    pub fn configure(&self, toml: &str) -> Result<(), BerthError> {
        self.write("berth.toml", toml).map(drop)
    }

    /// Writes any file of the home, a machine for the fake driver say; `@HOME@` as in [`BerthHome::configure`].
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, BerthError> {
        let path = self.path(name);
        let home = self.scratch.path().display().to_string();
        fs::write(&path, text.replace("@HOME@", &home))?;
        Ok(path)
    }

    /// Sets an environment variable for the runs to come.
    pub fn set_env(&mut self, key: &str, value: impl Into<OsString>) {
        self.environment.push((key.to_owned(), value.into()));
    }

    /// Gives services of the runs to come an address of their own, where they believe every caller.
    pub fn open_to_everybody(&mut self, services: &[(&str, &str)]) {
        for (section, listen) in services {
            self.set_env(&format!("BERTH__{section}__LISTEN"), listen);
            self.set_env(&format!("BERTH__{section}__AUTH_STRATEGY"), "noauth2");
        }
    }

    /// Has the runs to come started by this command, which becomes `berth`: words that come before the program.
    pub fn run_within<I: IntoIterator<Item: Into<OsString>>>(&mut self, command: I) {
        self.within = command.into_iter().map(Into::into).collect();
    }

    /// Starts `berth` with these arguments. Nothing of the test's own environment that Berth reads comes through.
    pub fn start<I: IntoIterator<Item: AsRef<std::ffi::OsStr>>>(
        &mut self,
        args: I,
    ) -> Result<RunningBerth, BerthError> {
        let number = self.runs;
        self.runs += 1;
        let (stdout, stderr) = (
            self.path(&format!("stdout-{number}")),
            self.path(&format!("stderr-{number}")),
        );
        let berth = program()?;
        let mut command = match self.within.as_slice() {
            [] => Program::new(berth),
            [first, words @ ..] => Program::new(first).args(words).arg(berth),
        };
        command = command.args(args).current_dir(self.scratch.path());
        for (key, _) in env::vars_os() {
            let key = key.to_string_lossy();
            if ["BERTH_", "OS_", "NOTIFY_", "RUST_LOG", "WATCHDOG_"]
                .iter()
                .any(|prefix| key.starts_with(prefix))
            {
                command = command.env_remove(&key);
            }
        }
        // Tests run concurrently, so a test that uses the front listener gives it a free port.
        command = command.env("BERTH__API__LISTEN", "none");
        for port in [
            "BERTH__VNC__NOVNCPROXY_PORT",
            "BERTH__SERIAL_CONSOLE__SERIALPROXY_PORT",
        ] {
            command = command.env(port, "0");
        }
        for (key, value) in &self.environment {
            command = command.env(key, value);
        }
        let process = command.start_with_outputs(&stdout, &stderr)?;
        Ok(RunningBerth {
            process,
            stdout,
            stderr,
        })
    }

    /// Runs `berth` to its end.
    ///
    /// Errors: When it is not built, cannot be run, or still runs after a minute (it is killed then).
    pub fn run<I: IntoIterator<Item: AsRef<std::ffi::OsStr>>>(
        &mut self,
        args: I,
    ) -> Result<Outcome, BerthError> {
        self.start(args)?.wait(Duration::from_secs(60))
    }
}

/// A `berth` that runs; dropping it is SIGKILL.
#[derive(Debug)]
pub struct RunningBerth {
    process: Process,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl RunningBerth {
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// KiB that it has in memory.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let words = line.and_then(|line| line.split_whitespace().next());
        words
            .and_then(|word| word.parse().ok())
            .expect("a number of KiB")
    }

    pub fn signal(&mut self, signal: Signal) {
        self.process.signal(signal);
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks `ready` until it says yes.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        ready: impl FnMut() -> bool,
    ) -> Result<(), BerthError> {
        Ok(self.process.wait_until(limit, ready)?)
    }

    /// Waits until its log holds this text.
    pub fn wait_for_log(&mut self, limit: Duration, text: &str) -> Result<(), BerthError> {
        let path = self.stderr.clone();
        self.wait_until(limit, || read(&path).contains(text))
    }

    /// Waits until its output has a line that begins so; the rest of that line.
    pub fn wait_for_line(&mut self, limit: Duration, begin: &str) -> Result<String, BerthError> {
        let path = self.stdout.clone();
        let mut rest = None;
        self.wait_until(limit, || {
            let text = read(&path);
            // A line that is not whole yet may go on.
            let mut lines = text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'));
            rest = lines.find_map(|line| line.strip_prefix(begin).map(str::to_owned));
            rest.is_some()
        })?;
        Ok(rest.unwrap_or_default())
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.ended().is_some()
    }

    /// Waits for it to end by itself.
    pub fn wait(mut self, limit: Duration) -> Result<Outcome, BerthError> {
        let status = self.process.wait(limit)?;
        Ok(Outcome {
            code: exit_code(status),
            stdout: self.stdout(),
            stderr: self.stderr(),
        })
    }

    /// SIGTERM, then [`RunningBerth::wait`].
    pub fn stop(mut self, limit: Duration) -> Result<Outcome, BerthError> {
        self.signal(Signal::SIGTERM);
        self.wait(limit)
    }

    /// Its standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Its standard error so far: the log.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
