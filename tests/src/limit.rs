//! The end of a program that is waited for: one that hangs would hold up its test for ever, and with it all others.

use std::io::Write as _;
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A program is killed once its time is over; not any more when this is dropped, which is to be at once when its end was awaited:
/// from then on another may have its number.
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
                let said = format!("process {id} is ended: it ran for {time:?}\n");
                let _ = std::io::stderr().write_all(said.as_bytes());
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
