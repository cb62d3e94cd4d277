//! The operator's program that cleans a function beyond its reset: it says by its exit whether the function is clean.

use std::process::Stdio;

use berth_sysfs::Allowed;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, Command};

use crate::options::ResetHook;

/// How much of what it says is told, in bytes.
const TOLD: usize = 400;

/// Runs the program to its end.
///
/// # Errors
/// Why the function is not known to be clean.
pub(super) async fn clean(
    hook: &ResetHook,
    allowed: &Allowed,
    driver: Option<&str>,
) -> Result<(), String> {
    let program = hook.program.display();
    let function = allowed.function();
    let mut child = Command::new(&hook.program)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C.UTF-8")
        .env("BERTH_DEVICE_ADDRESS", function.address.to_string())
        .env("BERTH_DEVICE_VENDOR", format!("{:04x}", function.vendor))
        .env("BERTH_DEVICE_PRODUCT", format!("{:04x}", function.device))
        .env("BERTH_DEVICE_DRIVER", driver.unwrap_or_default())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Whatever it starts ends with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the reset hook {program} cannot be started: {error}"))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let mut said = Vec::new();
    let stderr = child.stderr.take();
    let ending = async {
        if let Some(stderr) = stderr {
            listen(stderr, &mut said).await;
        }
        child.wait().await
    };
    let ended = tokio::time::timeout(hook.deadline, ending).await;
    if ended.is_err()
        && let Some(group) = group
    {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        let _ = child.wait().await;
    }
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!(
            "the reset hook {program} says no ({status}){}",
            told(&said)
        )),
        Ok(Err(error)) => Err(format!("the reset hook {program} was lost: {error}")),
        Err(_) => Err(format!(
            "the reset hook {program} did not end within {:?} and was ended{}",
            hook.deadline,
            told(&said)
        )),
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
