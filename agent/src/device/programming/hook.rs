//! The operator's program that programs a device: it says by its exit whether the device is programmed.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use berth_virt::OfferedHandle;
use berth_wire::accelerator::Program;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, Command};
use uuid::Uuid;

use crate::device::report::handle_name;

/// How much of what it says is told, in bytes.
const TOLD: usize = 400;

/// The program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramHook {
    /// Its path.
    pub program: PathBuf,
    /// How long it may take for one device.
    pub deadline: Duration,
}

/// All that it started ends with it: on its deadline, and when nobody wants it any more.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Runs the program to its end; dropped, it is ended.
///
/// # Errors
/// Why the device is not known to be programmed.
pub(super) async fn run(
    hook: &ProgramHook,
    programming: Uuid,
    what: &Program,
    target: &OfferedHandle,
) -> Result<(), String> {
    let program = hook.program.display();
    let address = match target {
        OfferedHandle::Function(address) => address,
        OfferedHandle::Mdev { parent, .. } => parent,
    };
    let (variable, value) = match what {
        Program::BitstreamId(image) => ("BERTH_BITSTREAM_ID", image),
        Program::FunctionId(function) => ("BERTH_FUNCTION_ID", function),
    };
    let mut child = Command::new(&hook.program)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C.UTF-8")
        .env("BERTH_PROGRAMMING", programming.to_string())
        .env("BERTH_DEVICE", handle_name(target))
        .env("BERTH_DEVICE_ADDRESS", address.to_string())
        .env(variable, value)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the program hook {program} cannot be started: {error}"))?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let mut group = Group(id.map(Pid::from_raw));
    let mut said = Vec::new();
    let stderr = child.stderr.take();
    let ending = async {
        if let Some(stderr) = stderr {
            listen(stderr, &mut said).await;
        }
        child.wait().await
    };
    let ended = tokio::time::timeout(hook.deadline, ending).await;
    if ended.is_ok() {
        // Its number may be another's from now on.
        group.0 = None;
    }
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!(
            "the program hook {program} says no ({status}){}",
            told(&said)
        )),
        Ok(Err(error)) => Err(format!("the program hook {program} was lost: {error}")),
        Err(_) => {
            drop(group);
            Err(format!(
                "the program hook {program} did not end within {:?} and was ended{}",
                hook.deadline,
                told(&said)
            ))
        }
    }
}

/// Reads to the end and keeps the last of it.
async fn listen(mut stderr: ChildStderr, said: &mut Vec<u8>) {
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut part).await {
        said.extend_from_slice(&part[..length]);
        said.drain(..said.len().saturating_sub(TOLD));
    }
}

/// The last of what it said, on one line.
fn told(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return String::new();
    }
    format!(": {}", words.join(" "))
}
