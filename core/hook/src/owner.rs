//! Whose a program is, and the end of those whose process is gone.
//!
//! A process that is killed ends nothing that it had started: its program would go on with a device that the next process gives
//! to a guest, or asks another program about. So each says in its environment who started it, and the next process ends what it
//! finds of those who are no more. What a program started has its environment, or is in its process group.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgrp};
use tokio::time::sleep;

pub(crate) const OWNER: &str = "BERTH_HOOK_OWNER";

/// How often it is looked whether what was ended is gone, and how often at most.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
pub(crate) const LOOKS: u32 = 40;

/// A process of this host, told from a later one with its number by when it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Numbers of processes mean something in one of these alone.
    namespace: u64,
    pid: i32,
    /// In ticks since the host's boot.
    start: u64,
}

impl Owner {
    /// This process, where the kernel shows it.
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

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.namespace, self.pid, self.start)
    }
}

impl FromStr for Owner {
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

/// What the kernel says of a process (`/proc/PID/stat`, proc(5)).
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
        // Its name may have blanks and brackets of its own.
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

/// The programs whose owner, a process of that namespace, is gone, as far as this process may look.
fn left_behind(namespace: u64) -> Vec<Stat> {
    let found = pids().filter_map(|pid| {
        let owner = owner_in(&fs::read(Path::new("/proc").join(&pid).join("environ")).ok()?)?;
        let gone = owner.namespace == namespace && !owner.is_alive();
        gone.then(|| Stat::of(&pid)).flatten()
    });
    found.collect()
}

/// The numbers of all processes.
pub(crate) fn pids() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|digit| digit.is_ascii_digit()))
}

fn owner_in(environment: &[u8]) -> Option<Owner> {
    variable_in(environment, OWNER)?.parse().ok()
}

/// The value of a variable, in an environment as the kernel shows it.
pub(crate) fn variable_in<'a>(environment: &'a [u8], name: &str) -> Option<&'a str> {
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| {
        let value = variable.strip_prefix(name.as_bytes())?;
        value.strip_prefix(b"=")
    })?;
    std::str::from_utf8(value).ok()
}

/// What came of programs that were left behind, by their process numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// Those that are gone.
    pub ended: Vec<i32>,
    /// Those that were ended and do not go: the kernel waits for a device.
    pub staying: Vec<i32>,
}

/// Ends the programs that a process before this one asked about devices and did not live to see the end of, with what they
/// started; returns when they are gone, or do not go. To be called before anything is done with a device.
///
/// A program of somebody else's, whom this process may not look at, stays.
pub async fn end_left_behind() -> LeftBehind {
    match Owner::this() {
        Some(this) => end_left_behind_in(this.namespace).await,
        None => LeftBehind::default(),
    }
}

async fn end_left_behind_in(namespace: u64) -> LeftBehind {
    let mut all = Vec::new();
    for _ in 0..LOOKS {
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
            return LeftBehind {
                ended: all,
                staying,
            };
        }
        sleep(LOOK).await;
    }
    let found = tokio::task::spawn_blocking(move || left_behind(namespace)).await;
    let found = found.unwrap_or_default();
    let staying: Vec<i32> = found.iter().map(|stat| stat.pid).collect();
    all.retain(|pid| !staying.contains(pid));
    LeftBehind {
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
    fn program(owner: &Owner) -> Child {
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
    async fn what_a_process_that_is_gone_left_is_ended_with_all_it_started_and_nobody_elses() {
        // Of a namespace that is none: an agent that another test starts meanwhile ends those of its own.
        let this = Owner {
            namespace: u64::MAX,
            ..Owner::this().unwrap()
        };
        let gone = Owner {
            start: this.start + 1,
            ..this.clone()
        };
        let elsewhere = Owner {
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
        // Its parent, this process, is what sees it off elsewhere: nobody has to.
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
        let this = Owner::this().unwrap();
        assert_eq!(this.to_string().parse(), Ok(this.clone()));
        assert!(this.is_alive());
        for text in ["", "1", "1:2", "1:2:3:4", "a:b:c", "1:-:3"] {
            assert_eq!(text.parse::<Owner>(), Err(()), "{text}");
        }
        let environment = format!("A=b\0{OWNER}={this}\0C=d\0");
        assert_eq!(owner_in(environment.as_bytes()), Some(this));
        assert_eq!(owner_in(b"A=b\0"), None);
    }
}
