//! An operator's program that is asked about one device and answers by its exit: whether the device is clean, programmed, well; or
//! that is given a document and answers with another one ([`Hook::answer`]).
//!
//! It gets a bare environment with what it is asked, `/` as its directory, and nothing to read but the document; what it says on its
//! standard error is its reason. It runs in a process group of its own, and all of that, with all else that it started, is killed at its
//! deadline and when nobody wants its answer any more: a program that hangs holds up only who asked, and one that the kernel does not let go not even that. One
//! whose asker was killed is ended by the next ([`end_left_behind`]).
//!
//! Callers: a driver that cleans devices between two guests, the agent that has them programmed and checked, the conductor that asks
//! the scheduler's plugins.

mod answer;
mod owner;
mod run;
mod trust;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};

pub use answer::Asked;
pub use owner::{LeftBehind, end_left_behind};
pub use trust::{Untrusted, is_superuser, trusted};

use owner::{OWNER, Owner};
use run::{RUN, Running, next_run};

/// How long one that was ended is waited for.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// How often, and after what pause, one is started that somebody has open for writing: whoever puts it there, or a process that is
/// begun at this moment by whoever did and has not become another program yet.
const BUSY_LOOKS: u32 = 100;
const BUSY_LOOK: Duration = Duration::from_millis(10);

/// How much of what it says is kept, in bytes: as much of the first line, and as much of the end.
const KEPT: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// What it is called in sentences: `reset hook`.
    pub called: &'static str,
    pub program: PathBuf,
    /// How long it may take for one device.
    pub deadline: Duration,
}

/// What it said on its standard error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    first: String,
    last: String,
}

/// It did not say yes.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// It cannot be started.
    #[error("the {called} {} cannot be started: {source}", program.display())]
    NotStarted {
        /// What it is called.
        called: &'static str,
        program: PathBuf,
        source: std::io::Error,
    },
    /// It ended otherwise than with 0.
    #[error("the {called} {} says no ({status}){}", program.display(), said.after_a_colon())]
    No {
        /// What it is called.
        called: &'static str,
        program: PathBuf,
        status: ExitStatus,
        said: Said,
    },
    /// It did not end in time, and was killed with all that it had started.
    #[error("the {called} {} did not end within {deadline:?} and was ended{}", program.display(), said.after_a_colon())]
    Late {
        /// What it is called.
        called: &'static str,
        program: PathBuf,
        /// How long it had.
        deadline: Duration,
        /// What it had said.
        said: Said,
    },
    /// It wrote more than it may, and was ended with all that it had started.
    #[error("the {called} {} wrote more than {most} bytes and was ended", program.display())]
    TooLong {
        /// What it is called.
        called: &'static str,
        program: PathBuf,
        /// The most that it may write.
        most: usize,
    },
    /// Its end was not seen.
    #[error("the {called} {} was lost: {source}", program.display())]
    Lost {
        /// What it is called.
        called: &'static str,
        program: PathBuf,
        source: std::io::Error,
    },
}

impl HookError {
    /// What became of it, without its path: for those who need not know where a host has its programs. What the program itself said
    /// stands as it said it.
    #[must_use]
    pub fn outcome(&self) -> String {
        match self {
            Self::NotStarted { source, .. } => format!("it cannot be started: {source}"),
            Self::No { status, said, .. } => {
                format!("it says no ({status}){}", said.after_a_colon())
            }
            Self::Late { deadline, said, .. } => {
                let said = said.after_a_colon();
                format!("it did not end within {deadline:?} and was ended{said}")
            }
            Self::TooLong { most, .. } => format!("it wrote more than {most} bytes and was ended"),
            Self::Lost { source, .. } => format!("it was lost: {source}"),
        }
    }

    /// Its reason, on one line: the first line of what the program said where it said no, else the whole sentence.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::No { said, .. } if !said.first.is_empty() => said.first.clone(),
            _ => self.to_string(),
        }
    }
}

impl Said {
    fn after_a_colon(&self) -> String {
        match self.last.as_str() {
            "" => String::new(),
            last => format!(": {last}"),
        }
    }
}

/// Reads to the end, and keeps the first line and the last words.
#[derive(Default)]
struct Ear {
    first: Vec<u8>,
    first_ended: bool,
    last: Vec<u8>,
}

impl Ear {
    async fn listen(&mut self, mut stderr: ChildStderr) {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut part).await {
            self.hear(&part[..length]);
        }
    }

    fn hear(&mut self, part: &[u8]) {
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

    fn said(&self) -> Said {
        Said {
            first: line(&self.first),
            last: line(&self.last),
        }
    }
}

/// All of it on one line, without control characters.
fn line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said).replace(char::is_control, " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits for the end of one whose group was ended: what it had open is free then. One that does not go, because the kernel waits
/// for a device or because it left its group, keeps nobody waiting: it is seen off when it goes.
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
    /// Runs it to its end, with these variables in its environment; dropped, it is ended. Its end is seen only when all that
    /// holds its standard error has ended, too.
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
        let mut ear = Ear::default();
        let stderr = child.stderr.take();
        let ending = async {
            if let Some(stderr) = stderr {
                ear.listen(stderr).await;
            }
            child.wait().await
        };
        let ended = tokio::time::timeout(self.deadline, ending).await;
        if ended.is_ok() {
            running.ended();
        }
        match ended {
            Ok(ended) => self.said_yes(ended, &ear),
            Err(_) => {
                drop(running);
                reaped(child).await;
                Err(self.late(&ear))
            }
        }
    }

    /// With its environment and its place, but for what it reads and writes.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .envs(Owner::this().map(|this| (OWNER, this.to_string())))
            .current_dir("/")
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    async fn start(&self, mut command: Command) -> Result<(Child, Running), HookError> {
        let run = next_run();
        command.envs(run.iter().map(|run| (RUN, run)));
        let mut looks = 0;
        loop {
            match command.spawn() {
                Ok(child) => {
                    let id = child.id().and_then(|id| i32::try_from(id).ok());
                    return Ok((child, Running::new(id.map(Pid::from_raw), run)));
                }
                Err(busy) if busy.kind() == ErrorKind::ExecutableFileBusy && looks < BUSY_LOOKS => {
                    looks += 1;
                    tokio::time::sleep(BUSY_LOOK).await;
                }
                Err(source) => {
                    return Err(HookError::NotStarted {
                        called: self.called,
                        program: self.program.clone(),
                        source,
                    });
                }
            }
        }
    }

    fn said_yes(&self, ended: std::io::Result<ExitStatus>, ear: &Ear) -> Result<(), HookError> {
        let (called, program) = (self.called, self.program.clone());
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(HookError::No {
                called,
                program,
                status,
                said: ear.said(),
            }),
            Err(source) => Err(HookError::Lost {
                called,
                program,
                source,
            }),
        }
    }

    fn late(&self, ear: &Ear) -> HookError {
        HookError::Late {
            called: self.called,
            program: self.program.clone(),
            deadline: self.deadline,
            said: ear.said(),
        }
    }
}
