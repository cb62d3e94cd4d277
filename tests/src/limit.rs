//! A time limit for a child process that a test waits for: a hanging program would block its test and all others.

use std::io::Write as _;
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Kills a program after its time limit. Drop this as soon as the program has ended, because another process may then
/// get its id.
#[derive(Debug)]
pub struct Limit {
    _dropped: Sender<()>,
}

impl Limit {
    /// Gives a child so long.
    #[must_use]
    pub fn of(child: &Child, time: Duration) -> Self {
        let (dropped, is_dropped) = mpsc::channel();
        let id = child.id();
        std::thread::spawn(move || {
            let over = is_dropped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if over && let Ok(number) = i32::try_from(id) {
                let line = format!("process {id} is ended: it ran for {time:?}\n");
                let _ = std::io::stderr().write_all(line.as_bytes());
                // It may have ended by itself just now.
                let _ = kill(Pid::from_raw(number), Signal::SIGKILL);
            }
        });
        Self { _dropped: dropped }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn sleep(seconds: &str) -> Child {
        Command::new("sleep").arg(seconds).spawn().unwrap()
    }

    #[test]
    fn only_a_hanging_program_is_killed() {
        let mut hanging = sleep("1000");
        let limit = Limit::of(&hanging, Duration::from_millis(20));
        assert!(!hanging.wait().unwrap().success());
        drop(limit);
        let mut quick = sleep("0.2");
        drop(Limit::of(&quick, Duration::from_millis(20)));
        assert!(quick.wait().unwrap().success());
    }
}
