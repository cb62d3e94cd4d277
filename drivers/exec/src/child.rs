//! The driver's child process: started in its own process group and killed with the whole group.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use berth_files::{FolderError, enforces_trust, own_folder, trusted};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::child_end::ChildEnd;
use crate::connection::Conversation;
use crate::last_words::LastWords;
use crate::options::ExecOptions;

/// The environment variables that the child inherits; others may contain passwords.
const INHERITED: [&str; 8] = [
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME",
];
/// How long to wait for the exit status of a child that closed a stream, and for the last lines of a child that exited.
const SETTLE: Duration = Duration::from_secs(1);
/// How long a child has to end once its standard input is closed.
const LEAVE: Duration = Duration::from_secs(5);
/// Lines that wait to be written.
const QUEUE: usize = 16;

/// Starts the child and runs the conversation until it exits. Lines sent into the returned sender are written to the
/// child's standard input; dropping the sender closes it.
pub(crate) fn start(
    options: &ExecOptions,
    conversation: Arc<Conversation>,
) -> io::Result<mpsc::Sender<Vec<u8>>> {
    own_folder(&options.state_path, 0o700).map_err(FolderError::into_io)?;
    let program = program(options)?;
    match trusted(&program) {
        Err(error) if enforces_trust() && !error.is_inaccessible() => {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, error));
        }
        _ => {}
    }
    let mut command = Command::new(program);
    command
        .current_dir(&options.state_path)
        .env_clear()
        .envs(
            INHERITED
                .into_iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let group = ProcessGroup::of(&child);
    let piped = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = piped else {
        return Err(io::Error::other("its streams are no pipes"));
    };
    let (lines, written) = mpsc::channel(QUEUE);
    let last_words = LastWords::default();
    let listening = tokio::spawn(last_words.clone().listen(stderr));
    tokio::spawn(async move {
        let writing = write(stdin, written);
        let reading = conversation.read(stdout);
        let mut ended = until_end(&mut child, reading, writing, &conversation).await;
        group.kill();
        // A killed process ends soon; one in an uninterruptible sleep is left to init.
        let _ = timeout(SETTLE, child.wait()).await;
        let mut listening = listening;
        if timeout(SETTLE, &mut listening).await.is_err() {
            listening.abort();
        }
        if let ChildEnd::Exited {
            last_line: last, ..
        } = &mut ended
        {
            *last = last_words.get();
        }
        conversation.end(ended);
        conversation.is_gone();
    });
    Ok(lines)
}

/// Makes a relative program absolute, because the child has another working directory.
fn program(options: &ExecOptions) -> io::Result<PathBuf> {
    std::path::absolute(&options.program)
}

async fn until_end(
    child: &mut Child,
    reading: impl Future<Output = ChildEnd>,
    writing: impl Future<Output = io::Result<()>>,
    conversation: &Conversation,
) -> ChildEnd {
    let mut reading = std::pin::pin!(reading);
    tokio::select! {
        ended = &mut reading => match ended {
            ChildEnd::ClosedOutput => settled(child, ChildEnd::ClosedOutput).await,
            broken => broken,
        },
        exit = child.wait() => {
            let status = status(exit);
            // The pipe may hold a last, possibly invalid line. A grandchild may keep the pipe open forever.
            match timeout(SETTLE, &mut reading).await {
                Ok(ChildEnd::ClosedOutput) | Err(_) => status,
                Ok(broken) => broken,
            }
        }
        written = writing => match written {
            // No more messages will be sent.
            Ok(()) => {
                let _ = timeout(LEAVE, child.wait()).await;
                ChildEnd::LetGo
            }
            Err(_) => settled(child, ChildEnd::ClosedInput).await,
        },
        ended = conversation.over() => (*ended).clone(),
    }
}

/// How the child exited, if it exits soon.
async fn settled(child: &mut Child, otherwise: ChildEnd) -> ChildEnd {
    timeout(SETTLE, child.wait())
        .await
        .map_or(otherwise, status)
}

fn status(exit: io::Result<std::process::ExitStatus>) -> ChildEnd {
    ChildEnd::Exited {
        status: exit.map_or_else(|error| error.to_string(), |status| status.to_string()),
        last_line: None,
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(line) = lines.recv().await {
        stdin.write_all(&line).await?;
        stdin.flush().await?;
    }
    stdin.shutdown().await
}

/// The child's process group. The whole group is killed on drop, also when the runtime shuts down.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// Read before the child is waited for: its id is its group's, by `process_group(0)`.
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.map(Pid::from_raw))
    }

    fn kill(mut self) {
        self.signal();
    }

    fn signal(&mut self) {
        if let Some(group) = self.0.take() {
            // An error means that the group is empty. Its number is not reused while it has a member.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal();
    }
}
