//! One run of a hook, and the kill of all processes that it started, including those that left its process group
//! (`setsid`).
//!
//! A process is found by its parent or by its environment, which it inherits. A process that cleared its environment
//! and lost its parent cannot be recognised, so it is not killed. Only a cgroup could find it.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::owner::{HookOwner, MAX_POLLS, POLL_INTERVAL, Stat, pids, variable_in};

/// The environment variable with the id of the run.
pub(crate) const RUN: &str = "BERTH_HOOK_RUN";

/// The id of the next run; `None` if /proc is not available.
pub(crate) fn next_run() -> Option<String> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let owner = HookOwner::this()?;
    Some(format!("{owner}:{}", RUNS.fetch_add(1, Ordering::Relaxed)))
}

/// A running hook. Dropping it kills the hook and all processes that it started, unless it has ended.
pub(crate) struct RunningHook {
    /// Its process group; `None` after its end.
    group: Option<Pid>,
    run: Option<String>,
}

impl RunningHook {
    pub(crate) fn new(group: Option<Pid>, run: Option<String>) -> Self {
        Self { group, run }
    }

    /// The hook ended by itself. Its process id may be reused from now on.
    pub(crate) fn ended(&mut self) {
        self.group = None;
    }
}

impl Drop for RunningHook {
    fn drop(&mut self) {
        let Some(group) = self.group else {
            return;
        };
        // Before the kill, descendants are found by their parents.
        let below = descendants(group.as_raw());
        let _ = killpg(group, Signal::SIGKILL);
        for stat in below {
            if Stat::of(&stat.pid.to_string()).is_some_and(|now| now.start == stat.start) {
                let _ = kill(Pid::from_raw(stat.pid), Signal::SIGKILL);
            }
        }
        if let Some(run) = self.run.take() {
            // On a thread of its own, because reading the environment of a process can block. Without a thread, only the group is killed.
            let _ = thread::Builder::new().spawn(move || end_run(&run));
        }
    }
}

/// The descendants of a process, by the current parents.
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

/// Kills all processes with the id of a run in their environment, until none is left.
fn end_run(run: &str) {
    for _ in 0..MAX_POLLS {
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
        thread::sleep(POLL_INTERVAL);
    }
}
