//! The end of a program that is waited for: one that hangs would hold up its test for ever, and with it all others.

use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// A program, begun in a process group of its own, is killed with all of its group once its time is over; not any more when this
/// is dropped, which is to be before anybody else has its number.
#[derive(Debug)]
pub struct Limit {
    _dropped: Sender<()>,
}

impl Limit {
    /// Gives a child so long.
    #[must_use]
    #[expect(clippy::print_stderr, reason = "its test only sees that it ended")]
    pub fn of(child: &Child, time: Duration) -> Self {
        let (dropped, is_dropped) = mpsc::channel();
        let id = child.id();
        std::thread::spawn(move || {
            let over = is_dropped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if over && let Ok(group) = i32::try_from(id) {
                eprintln!("process {id} is ended: it ran for {time:?}");
                // It may have ended by itself just now.
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
        });
        Self { _dropped: dropped }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    fn sleep(seconds: &str) -> Child {
        let mut command = Command::new("sleep");
        command.arg(seconds).process_group(0).spawn().unwrap()
    }

    #[test]
    fn a_program_that_hangs_is_ended_and_one_that_does_not_is_left_alone() {
        let mut hanging = sleep("1000");
        let limit = Limit::of(&hanging, Duration::from_millis(20));
        assert!(!hanging.wait().unwrap().success());
        drop(limit);
        let mut quick = sleep("0.2");
        drop(Limit::of(&quick, Duration::from_millis(20)));
        assert!(quick.wait().unwrap().success());
    }
}
