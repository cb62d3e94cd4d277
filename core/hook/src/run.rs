//! One run of a program, and the end of all that it started: also of what left its process group (`setsid`).
//!
//! A process that is started has the environment of its parent, and a parent: by either it is found. One that took both away, by
//! clearing its environment and outliving all that stands between it and the program, is nobody's any more: nothing tells it from
//! other processes, and no user of the kernel without a cgroup of its own can end it.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::owner::{LOOK, LOOKS, Owner, Stat, pids, variable_in};

/// The variable that tells one run of a program from the others.
pub(crate) const RUN: &str = "BERTH_HOOK_RUN";

/// What a run of this process is called; none where the kernel does not show this process.
pub(crate) fn next_run() -> Option<String> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let owner = Owner::this()?;
    Some(format!("{owner}:{}", RUNS.fetch_add(1, Ordering::Relaxed)))
}

/// A program that runs. All that it started ends with it: on its deadline, and when nobody wants it any more.
pub(crate) struct Running {
    /// Its process group, whose leader it is; none where it ended.
    group: Option<Pid>,
    run: Option<String>,
}

impl Running {
    pub(crate) fn new(group: Option<Pid>, run: Option<String>) -> Self {
        Self { group, run }
    }

    /// It ended by itself: its number may be another's from now on.
    pub(crate) fn ended(&mut self) {
        self.group = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(group) = self.group else {
            return;
        };
        // As long as the program is there, what it started can be told by its parents.
        let below = descendants(group.as_raw());
        let _ = killpg(group, Signal::SIGKILL);
        for stat in below {
            if Stat::of(&stat.pid.to_string()).is_some_and(|now| now.start == stat.start) {
                let _ = kill(Pid::from_raw(stat.pid), Signal::SIGKILL);
            }
        }
        if let Some(run) = self.run.take() {
            // To read a process's environment may take as long as the kernel likes. Without a thread the group alone was ended.
            let _ = thread::Builder::new().spawn(move || end_run(&run));
        }
    }
}

/// All that is below a process, by the parents that processes have now.
fn descendants(root: i32) -> Vec<Stat> {
    let mut others: Vec<Stat> = pids().filter_map(|pid| Stat::of(&pid)).collect();
    let mut below: Vec<Stat> = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        let (children, rest) = others.into_iter().partition(|stat| stat.parent == parent);
        others = rest;
        let children: Vec<Stat> = children;
        next.extend(children.iter().map(|stat| stat.pid));
        below.extend(children);
    }
    below
}

/// Ends what has the environment of a run, and what that starts meanwhile.
fn end_run(run: &str) {
    for _ in 0..LOOKS {
        let mut is_any_left = false;
        for pid in pids() {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if variable_in(&environment, RUN) == Some(run)
                && let Ok(pid) = pid.parse()
            {
                is_any_left = true;
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        if !is_any_left {
            return;
        }
        thread::sleep(LOOK);
    }
}
