//! A child process that cannot outlive the tests. It leads a process group that is killed when the value is dropped,
//! and the kernel kills it when the test process ends in any way.

use std::fs::File;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};
use std::{fmt, fs, io, thread};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

/// Why a child process is not doing what it was started for.
#[derive(thiserror::Error)]
pub enum ProcessError {
    /// The program does not exist or cannot be run.
    #[error("{name} could not be started: {source}")]
    Spawn {
        /// What was to run.
        name: String,
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("{name} ended ({status}) before it was ready; the end of its log:\n{log}")]
    Ended {
        name: String,
        status: ExitStatus,
        /// The last lines it wrote.
        log: String,
    },
    /// It runs, but does not answer.
    #[error("{name} was not ready after {seconds} s; the end of its log:\n{log}")]
    NotReady {
        name: String,
        /// How long was waited.
        seconds: u64,
        /// The last lines it wrote.
        log: String,
    },
    /// It was to end by itself and did not.
    #[error("{name} still ran after {seconds} s; the end of its log:\n{log}")]
    StillRuns {
        name: String,
        /// How long was waited.
        seconds: u64,
        /// The last lines it wrote.
        log: String,
    },
}

/// As [`fmt::Display`]: a test shows the error with `expect`, and a log is to be read by lines.
impl fmt::Debug for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How to start a [`Process`]: program, arguments, environment.
#[derive(Debug)]
pub struct Program {
    name: String,
    command: Command,
}

impl Program {
    /// `program` is a name on `PATH` or a path.
    pub fn new(program: impl AsRef<Path>) -> Self {
        let program = program.as_ref();
        // The kernel's parent-death signal needs no `unsafe` when another program asks for it and then becomes ours.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .stdin(Stdio::null());
        command.process_group(0);
        let name = program
            .file_name()
            .unwrap_or(program.as_os_str())
            .to_string_lossy()
            .into_owned();
        Self { name, command }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    #[must_use]
    pub fn args<I: IntoIterator<Item: AsRef<std::ffi::OsStr>>>(mut self, args: I) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Takes an environment variable away.
    #[must_use]
    pub fn env_remove(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    /// Runs it in this directory.
    #[must_use]
    pub fn current_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Starts it; what it writes to both its outputs is appended to `log`.
    pub fn start(self, log: &Path) -> Result<Process, ProcessError> {
        let errors = log.to_path_buf();
        self.start_with_outputs(log, &errors)
    }

    /// Starts it with its two outputs apart; the errors are the log that failures quote.
    pub fn start_with_outputs(
        mut self,
        output: &Path,
        errors: &Path,
    ) -> Result<Process, ProcessError> {
        let name = self.name;
        let open = |path: &Path| File::options().create(true).append(true).open(path);
        let child = open(output)
            .and_then(|file| Ok((file, open(errors)?)))
            .and_then(|(output, errors)| {
                self.command.stdout(output).stderr(errors);
                spawn_from_keeper(self.command)
            })
            .map_err(|source| ProcessError::Spawn {
                name: name.clone(),
                source,
            })?;
        Ok(Process {
            name,
            child,
            log: errors.to_path_buf(),
        })
    }
}

/// Spawns from a thread that lives as long as this process. The parent-death signal is sent when the *thread* that
/// spawned ends, and a test's thread ends long before a server that other tests share.
pub(crate) fn spawn_from_keeper(command: Command) -> io::Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    static KEEPER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in inbox {
                // The receiver waits below, so the answer is received.
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (answer, spawned) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts processes has ended");
    keeper
        .lock()
        .map_err(|_| gone())?
        .send((command, answer))
        .map_err(|_| gone())?;
    spawned.recv().map_err(|_| gone())?
}

/// A running (or ended) child process; dropping it kills its whole process group.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Its process id, which is its process group's as well.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, where it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks `ready` until it says yes.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), ProcessError> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Err(ProcessError::Ended {
                    name: self.name.clone(),
                    status,
                    log: self.log_tail(),
                });
            }
            if ready() {
                return Ok(());
            }
            if start.elapsed() > limit {
                let seconds = limit.as_secs();
                return Err(ProcessError::NotReady {
                    name: self.name.clone(),
                    seconds,
                    log: self.log_tail(),
                });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus, ProcessError> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if start.elapsed() > limit {
                let seconds = limit.as_secs();
                return Err(ProcessError::StillRuns {
                    name: self.name.clone(),
                    seconds,
                    log: self.log_tail(),
                });
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal to the process alone (not its group). Does nothing when it has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            // It may end between the question and the signal; the pid is ours until it is waited for.
            let _ = signal::kill(self.raw_pid(), signal);
        }
    }

    /// SIGTERM, and SIGKILL to the group when `patience` is over.
    pub fn terminate(&mut self, patience: Duration) {
        self.signal(Signal::SIGTERM);
        if self.wait(patience).is_err() {
            self.kill();
        }
    }

    /// SIGKILL to its process group, and waits until the process is gone.
    pub fn kill(&mut self) {
        // A group outlives its leader while a member is left, so it is signalled even when the leader has ended.
        let _ = signal::killpg(self.raw_pid(), Signal::SIGKILL);
        let _ = self.child.wait();
    }

    /// The last lines it wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }

    fn raw_pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Exit code as a shell shows it: the code, or 128 + the signal.
#[must_use]
pub fn exit_code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::wait::wait_until;

    fn sh(script: &str, scratch: &Scratch) -> Process {
        Program::new("sh")
            .args(["-c", script])
            .start(&scratch.join("log"))
            .expect("sh runs")
    }

    #[test]
    fn a_process_that_ends_early_shows_its_last_output() {
        let scratch = Scratch::new().expect("a directory");
        let mut process = sh("echo no such table; exit 3", &scratch);
        let error = process
            .wait_until(Duration::from_secs(20), || false)
            .expect_err("it ends");
        assert!(error.to_string().contains("no such table"), "{error}");
        assert!(error.to_string().contains('3'), "{error}");
    }

    #[test]
    fn dropping_a_process_kills_its_children_too() {
        let scratch = Scratch::new().expect("a directory");
        let file = scratch.join("child");
        let mut process = sh(
            &format!("sleep 1000 & echo $! > {}; wait", file.display()),
            &scratch,
        );
        let mut child = None;
        process
            .wait_until(Duration::from_secs(20), || {
                child = fs::read_to_string(&file)
                    .ok()
                    .and_then(|pid| pid.trim().parse::<i32>().ok());
                child.is_some()
            })
            .expect("the child runs");
        drop(process);
        let child = child.expect("a pid");
        wait_until("the child is killed with its group", || {
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            match stat.is_empty() || stat.contains(") Z ") {
                true => Ok(()),
                false => Err(stat),
            }
        });
    }

    #[test]
    fn a_process_outlives_the_thread_that_started_it() {
        let scratch = Scratch::new().expect("a directory");
        let log = scratch.join("log");
        let mut process = thread::spawn(move || Program::new("sleep").arg("1000").start(&log))
            .join()
            .expect("no panic")
            .expect("cat runs");
        process.signal(Signal::SIGSTOP);
        assert!(process.ended().is_none());
    }

    #[test]
    fn an_exit_by_signal_is_128_and_the_signal() {
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
        assert_eq!(exit_code(ExitStatus::from_raw(75 << 8)), 75);
    }
}
