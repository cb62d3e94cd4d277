//! Hooks: programs of the operator that Berth runs, for example to reset, program or check a device, or as a plugin of the scheduler.
//!
//! [`Hook::ask`] runs a program and returns whether it exited with 0. [`Hook::answer`] also gives it a document on standard input and
//! returns its standard output. The last line of its standard error is part of the error.
//!
//! Root and system accounts do not run a program that other users can change.
//!
//! A hook gets an empty environment except for its variables, and `/` as working directory. It runs in a process group of its own. At its
//! deadline, and when its caller is dropped, the group and all other processes that it started are killed. A hook that hangs blocks only
//! its caller. [`end_left_behind`] kills the hooks of a killed agent.
//!
//! Callers: drivers that reset devices, the agent that programs and checks them, the conductor, and the quota hook of the compute API.

mod answer;
mod owner;
mod run;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use berth_files::{TrustError, enforces_trust, trusted};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};

pub use answer::HookInput;
pub use owner::{EndedHooks, end_left_behind};

use owner::{HookOwner, OWNER};
use run::{RUN, RunningHook, next_run};

/// How long the end of a killed hook is awaited.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// Retries and their pause if the program is open for writing (ETXTBSY): it is being installed, or a process that is
/// being spawned still has the descriptor.
const BUSY_RETRIES: u32 = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// How many bytes of standard error are kept: of the first line, and of the end.
const KEPT: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The kind of program, for messages: `reset hook`.
    pub name: &'static str,
    pub program: PathBuf,
    /// How long one run may take.
    pub deadline: Duration,
}

/// The standard error of a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookOutput {
    first: String,
    last: String,
}

#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It cannot be started.
    #[error("the {name} {} cannot be started: {source}", program.display())]
    NotStarted {
        /// The kind of program, for example `reset hook`.
        name: &'static str,
        program: PathBuf,
        source: std::io::Error,
    },
    /// It was not started, because other users can change it.
    #[error("the {name} is not run: {source}")]
    Untrusted {
        name: &'static str,
        source: TrustError,
    },
    /// It exited with another code than 0, or by a signal.
    #[error("the {name} {} says no ({status}){}", program.display(), output.after_a_colon())]
    No {
        name: &'static str,
        program: PathBuf,
        status: ExitStatus,
        output: HookOutput,
    },
    /// It timed out, and was killed with all that it had started.
    #[error("the {name} {} timed out after {deadline:?} and was killed{}", program.display(), output.after_a_colon())]
    Late {
        name: &'static str,
        program: PathBuf,
        deadline: Duration,
        /// The first and the last line of its standard error.
        output: HookOutput,
    },
    /// It wrote too much, and was killed with all that it had started.
    #[error("the {name} {} wrote more than {most} bytes and was killed", program.display())]
    TooLong {
        name: &'static str,
        program: PathBuf,
        /// The maximum size of its output in bytes.
        most: usize,
    },
    /// Its exit status is unknown.
    #[error("the {name} {} was lost: {source}", program.display())]
    Lost {
        name: &'static str,
        program: PathBuf,
        source: std::io::Error,
    },
}

impl HookError {
    /// The failure without the path of the program, for users who must not see the paths of a host.
    #[must_use]
    pub fn outcome(&self) -> String {
        match self {
            Self::NotStarted { source, .. } => format!("it cannot be started: {source}"),
            Self::Untrusted { .. } => "it is not run, because other users can change it".to_owned(),
            Self::No { status, output, .. } => {
                format!("it says no ({status}){}", output.after_a_colon())
            }
            Self::Late {
                deadline, output, ..
            } => {
                let output = output.after_a_colon();
                format!("it timed out after {deadline:?} and was killed{output}")
            }
            Self::TooLong { most, .. } => format!("it wrote more than {most} bytes and was killed"),
            Self::Lost { source, .. } => format!("it was lost: {source}"),
        }
    }

    /// The reason on one line: the first line of standard error if the program failed by itself, else the whole error.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::No { output, .. } if !output.first.is_empty() => output.first.clone(),
            _ => self.to_string(),
        }
    }
}

impl HookOutput {
    fn after_a_colon(&self) -> String {
        match self.last.as_str() {
            "" => String::new(),
            last => format!(": {last}"),
        }
    }
}

/// Reads standard error to its end; keeps the first line and the end.
#[derive(Default)]
struct StderrCapture {
    first: Vec<u8>,
    first_ended: bool,
    last: Vec<u8>,
}

impl StderrCapture {
    async fn listen(&mut self, mut stderr: ChildStderr) {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut part).await {
            self.push(&part[..length]);
        }
    }

    fn push(&mut self, part: &[u8]) {
        for byte in part {
            let begun = !self.first.is_empty();
            match byte {
                _ if self.first_ended => break,
                b'\n' => self.first_ended = begun,
                byte if begun || !byte.is_ascii_whitespace() => self.first.push(*byte),
                _ => {}
            }
            self.first_ended |= self.first.len() == KEPT;
        }
        self.last.extend_from_slice(part);
        self.last.drain(..self.last.len().saturating_sub(KEPT));
    }

    fn output(&self) -> HookOutput {
        HookOutput {
            first: line(&self.first),
            last: line(&self.last),
        }
    }
}

/// The text on one line, without control characters.
fn line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace(char::is_control, " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits for the end of a killed process, so that its files are closed. If it does not end in time, because it waits in the kernel for a
/// device or has left its group, a background task reaps it later.
async fn reaped(mut child: Child) {
    if tokio::time::timeout(LAST_BREATH, child.wait())
        .await
        .is_ok()
    {
        return;
    }
    tokio::spawn(async move {
        let _ = child.start_kill();
        let _ = child.wait().await;
    });
}

impl Hook {
    /// Runs the program to its end, with these variables in its environment. Dropping the future kills it. The run ends only when all processes
    /// with its standard error have ended.
    pub async fn ask<V: AsRef<OsStr>>(
        &self,
        about: impl IntoIterator<Item = (&'static str, V)>,
    ) -> Result<(), HookError> {
        let mut command = self.command();
        command
            .envs(about)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let (mut child, mut running) = self.start(command).await?;
        let mut capture = StderrCapture::default();
        let stderr = child.stderr.take();
        let ending = async {
            if let Some(stderr) = stderr {
                capture.listen(stderr).await;
            }
            child.wait().await
        };
        let ended = tokio::time::timeout(self.deadline, ending).await;
        if ended.is_ok() {
            running.ended();
        }
        match ended {
            Ok(ended) => self.check_exit(ended, &capture),
            Err(_) => {
                drop(running);
                reaped(child).await;
                Err(self.late(&capture))
            }
        }
    }

    /// The command with its environment and working directory, without standard input and output.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .envs(HookOwner::this().map(|this| (OWNER, this.to_string())))
            .current_dir("/")
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    async fn start(&self, mut command: Command) -> Result<(Child, RunningHook), HookError> {
        self.check_trusted()?;
        let run = next_run();
        command.envs(run.iter().map(|run| (RUN, run)));
        let mut attempts = 0;
        loop {
            match command.spawn() {
                Ok(child) => {
                    let id = child.id().and_then(|id| i32::try_from(id).ok());
                    return Ok((child, RunningHook::new(id.map(Pid::from_raw), run)));
                }
                Err(busy)
                    if busy.kind() == ErrorKind::ExecutableFileBusy && attempts < BUSY_RETRIES =>
                {
                    attempts += 1;
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(source) => {
                    return Err(HookError::NotStarted {
                        name: self.name,
                        program: self.program.clone(),
                        source,
                    });
                }
            }
        }
    }

    /// Checks before each run that no other user can change the program, because a file can be replaced after the start.
    fn check_trusted(&self) -> Result<(), HookError> {
        match trusted(&self.program) {
            Err(source) if enforces_trust() && !source.is_inaccessible() => {
                Err(HookError::Untrusted {
                    name: self.name,
                    source,
                })
            }
            _ => Ok(()),
        }
    }

    fn check_exit(
        &self,
        ended: std::io::Result<ExitStatus>,
        capture: &StderrCapture,
    ) -> Result<(), HookError> {
        let (name, program) = (self.name, self.program.clone());
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(HookError::No {
                name,
                program,
                status,
                output: capture.output(),
            }),
            Err(source) => Err(HookError::Lost {
                name,
                program,
                source,
            }),
        }
    }

    fn late(&self, capture: &StderrCapture) -> HookError {
        HookError::Late {
            name: self.name,
            program: self.program.clone(),
            deadline: self.deadline,
            output: capture.output(),
        }
    }
}
