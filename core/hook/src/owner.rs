//! Finds and kills hooks that a terminated process, their owner, left behind.
//!
//! A killed agent leaves its hooks running, and they would continue to work on a device that the next agent gives to an
//! instance. Each hook therefore has its owner in its environment, and the next agent kills the hooks of owners that no
//! longer exist. The processes that a hook started have the same environment, or are in its process group.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp};
use tokio::time::sleep;

pub(crate) const OWNER: &str = "BERTH_HOOK_OWNER";

/// Pause between two checks whether killed processes have ended, and maximum number of checks.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
pub(crate) const MAX_POLLS: u32 = 40;

/// A process of this host. Its start time tells it from a later process with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookOwner {
    /// The PID namespace: process ids are only valid within one.
    namespace: u64,
    pid: i32,
    /// Start time in clock ticks since the boot of the host.
    start: u64,
}

impl HookOwner {
    /// This process; `None` if /proc is not available.
    pub(crate) fn this() -> Option<Self> {
        let link = fs::read_link("/proc/self/ns/pid").ok()?;
        let inode = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
        let stat = Stat::of("self")?;
        Some(Self {
            namespace: inode.parse().ok()?,
            pid: stat.pid,
            start: stat.start,
        })
    }

    fn is_alive(&self) -> bool {
        let now = Stat::of(&self.pid.to_string());
        now.is_some_and(|now| now.start == self.start && now.state != b'Z')
    }
}

impl fmt::Display for HookOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.namespace, self.pid, self.start)
    }
}

impl FromStr for HookOwner {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or(());
        let owner = Self {
            namespace: next()?.parse().map_err(drop)?,
            pid: next()?.parse().map_err(drop)?,
            start: next()?.parse().map_err(drop)?,
        };
        parts.next().is_none().then_some(owner).ok_or(())
    }
}

/// The state of a process (`/proc/PID/stat`, proc(5)).
pub(crate) struct Stat {
    pub(crate) pid: i32,
    state: u8,
    pub(crate) parent: i32,
    group: i32,
    pub(crate) start: u64,
}

impl Stat {
    pub(crate) fn of(pid: &str) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of a process may contain blanks and parentheses.
        let (before, after) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        Some(Self {
            pid: before.split(' ').next()?.parse().ok()?,
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

/// The hooks that a terminated process of that namespace left behind, as far as this process may read them.
fn left_behind(namespace: u64) -> Vec<Stat> {
    let found = pids().filter_map(|pid| {
        let owner = owner_in(&fs::read(Path::new("/proc").join(&pid).join("environ")).ok()?)?;
        let gone = owner.namespace == namespace && !owner.is_alive();
        gone.then(|| Stat::of(&pid)).flatten()
    });
    found.collect()
}

/// The ids of all processes.
pub(crate) fn pids() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|digit| digit.is_ascii_digit()))
}

fn owner_in(environment: &[u8]) -> Option<HookOwner> {
    variable_in(environment, OWNER)?.parse().ok()
}

/// The value of a variable in an environment as in `/proc/PID/environ`.
pub(crate) fn variable_in<'a>(environment: &'a [u8], name: &str) -> Option<&'a str> {
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| {
        let value = variable.strip_prefix(name.as_bytes())?;
        value.strip_prefix(b"=")
    })?;
    std::str::from_utf8(value).ok()
}

/// The hooks that were killed, by process id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndedHooks {
    /// Process ids of hooks that have ended.
    pub ended: Vec<i32>,
    /// Process ids of killed hooks that have not ended, because the kernel waits for a device.
    pub staying: Vec<i32>,
}

/// Kills the hooks of earlier processes that no longer exist, and the processes that those hooks started. Returns when they have ended, or do
/// not end in time. Call it before any device is used.
///
/// Processes of other users, which this process may not read, are not affected.
pub async fn end_left_behind() -> EndedHooks {
    match HookOwner::this() {
        Some(this) => end_left_behind_in(this.namespace).await,
        None => EndedHooks::default(),
    }
}

async fn end_left_behind_in(namespace: u64) -> EndedHooks {
    let mut all = Vec::new();
    for _ in 0..MAX_POLLS {
        let found = tokio::task::spawn_blocking(move || left_behind(namespace)).await;
        let found = found.unwrap_or_default();
        let staying: Vec<i32> = found.iter().map(|stat| stat.pid).collect();
        for stat in &found {
            if !all.contains(&stat.pid) {
                all.push(stat.pid);
            }
            end(stat);
        }
        if staying.is_empty() {
            return EndedHooks {
                ended: all,
                staying,
            };
        }
        sleep(POLL_INTERVAL).await;
    }
    let found = tokio::task::spawn_blocking(move || left_behind(namespace)).await;
    let found = found.unwrap_or_default();
    let staying: Vec<i32> = found.iter().map(|stat| stat.pid).collect();
    all.retain(|pid| !staying.contains(pid));
    EndedHooks {
        ended: all,
        staying,
    }
}

fn end(stat: &Stat) {
    let group = Pid::from_raw(stat.group);
    if stat.group > 1 && group != getpgrp() {
        let _ = killpg(group, Signal::SIGKILL);
    }
    let _ = kill(Pid::from_raw(stat.pid), Signal::SIGKILL);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    use tokio::time::timeout;

    use super::*;

    /// A program of this owner, with a child that has nothing of its environment.
    fn program(owner: &HookOwner) -> Child {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "env -i sleep 1000 & sleep 1000 & wait"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env(OWNER, owner.to_string())
            .process_group(0);
        command.spawn().unwrap()
    }

    /// How many processes are in its group.
    fn members(child: &Child) -> usize {
        let group = i32::try_from(child.id()).unwrap();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let stats = pids.filter_map(|pid| Stat::of(&pid));
        stats
            .filter(|stat| stat.group == group && stat.state != b'Z')
            .count()
    }

    #[tokio::test]
    async fn the_processes_left_by_an_ended_one_are_ended_and_no_others() {
        // The namespace does not exist, so that an agent started by a concurrent test does not kill these processes.
        let this = HookOwner {
            namespace: u64::MAX,
            ..HookOwner::this().unwrap()
        };
        let gone = HookOwner {
            start: this.start + 1,
            ..this.clone()
        };
        let elsewhere = HookOwner {
            namespace: this.namespace - 1,
            ..gone.clone()
        };
        let [mut left, mut own, mut others] = [&gone, &this, &elsewhere].map(program);
        for child in [&left, &own, &others] {
            let begun = async {
                while members(child) < 3 {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(Duration::from_secs(60), begun).await.unwrap();
        }
        // The hook's real parent is not alive; here this test is the parent and must reap the processes.
        let ended = end_left_behind_in(this.namespace).await;
        let number = i32::try_from(left.id()).unwrap();
        assert!(ended.ended.contains(&number), "{ended:?}");
        left.wait().unwrap();
        assert_eq!(members(&left), 0);
        for child in [&mut own, &mut others] {
            assert_eq!(members(child), 3);
            killpg(
                Pid::from_raw(child.id().try_into().unwrap()),
                Signal::SIGKILL,
            )
            .unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn an_owner_is_read_as_it_was_written_and_nothing_else_is_one() {
        let this = HookOwner::this().unwrap();
        assert_eq!(this.to_string().parse(), Ok(this.clone()));
        assert!(this.is_alive());
        for text in ["", "1", "1:2", "1:2:3:4", "a:b:c", "1:-:3"] {
            assert_eq!(text.parse::<HookOwner>(), Err(()), "{text}");
        }
        let environment = format!("A=b\0{OWNER}={this}\0C=d\0");
        assert_eq!(owner_in(environment.as_bytes()), Some(this));
        assert_eq!(owner_in(b"A=b\0"), None);
    }
}
