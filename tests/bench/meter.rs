//! Reads CPU time and memory of processes from /proc while they run.

use std::fs;
use std::time::{Duration, Instant};

/// Linux shows times to user space in hundredths of a second (`USER_HZ`).
const STAT_TICK: Duration = Duration::from_millis(10);

/// One or more processes that together are one service.
#[derive(Debug, Clone)]
pub(crate) struct Meter(Vec<u32>);

/// What passed between two readings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MeterSpan {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl MeterSpan {
    /// The same for one of so many.
    pub(crate) fn each_of(self, times: u32) -> Self {
        Self {
            wall: self.wall / times,
            cpu: self.cpu / times,
        }
    }
}

/// A reading to subtract from.
pub(crate) struct MeterReading {
    at: Instant,
    scheduled: Duration,
    accounted: Duration,
}

impl MeterReading {
    /// Before the process was there.
    pub(crate) fn zero() -> Self {
        Self {
            at: Instant::now(),
            scheduled: Duration::ZERO,
            accounted: Duration::ZERO,
        }
    }
}

impl Meter {
    pub(crate) fn of_process(pid: u32) -> Self {
        Self(vec![pid])
    }

    /// A process and those in the process group that it leads.
    pub(crate) fn of_group(leader: u32) -> Self {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let member = |pid: &u32| stat(*pid).is_some_and(|stat| stat.group == leader);
        Self(pids.filter(member).collect())
    }

    /// A process and all that it started, and that these started, in whatever group they are.
    pub(crate) fn of_family(first: u32) -> Self {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let parents: Vec<(u32, u32)> = pids
            .filter_map(|pid| Some((pid, stat(pid)?.parent)))
            .collect();
        let mut family = vec![first];
        let mut asked = 0;
        while let Some(parent) = family.get(asked).copied() {
            asked += 1;
            let children = parents.iter().filter(|(_, of)| *of == parent);
            family.extend(children.map(|(pid, _)| *pid));
        }
        Self(family)
    }

    /// The same for several leaders.
    pub(crate) fn of_groups(leaders: &[u32]) -> Self {
        let all = leaders.iter().flat_map(|leader| Self::of_group(*leader).0);
        Self(all.collect())
    }

    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn pids(&self) -> &[u32] {
        &self.0
    }

    pub(crate) fn mark(&self) -> MeterReading {
        MeterReading {
            scheduled: self.0.iter().map(|pid| scheduled(*pid)).sum(),
            accounted: self.0.iter().filter_map(|pid| Some(stat(*pid)?.cpu)).sum(),
            at: Instant::now(),
        }
    }

    /// What passed since then.
    pub(crate) fn since(&self, mark: &MeterReading) -> MeterSpan {
        let now = self.mark();
        let fine = now.scheduled.saturating_sub(mark.scheduled);
        let coarse = now.accounted.saturating_sub(mark.accounted);
        // The scheduler counts in nanoseconds but forgets threads that ended; the accounting forgets none but counts in
        // hundredths of a second.
        let cpu = if coarse > fine + STAT_TICK {
            coarse
        } else {
            fine
        };
        MeterSpan {
            wall: now.at - mark.at,
            cpu,
        }
    }

    /// Resident memory in MiB, shared pages counted in each process.
    pub(crate) fn resident_mib(&self) -> f64 {
        self.0
            .iter()
            .map(|pid| status_kib(*pid, "VmRSS:"))
            .sum::<f64>()
            / 1024.0
    }
}

struct Stat {
    parent: u32,
    group: u32,
    cpu: Duration,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which is in parentheses and may hold anything: state, parent, group, …, user, system.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some(Stat {
        parent: ticks(1)?,
        group: ticks(2)?,
        cpu: STAT_TICK * (ticks(11)? + ticks(12)?),
    })
}

fn scheduled(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn status_kib(pid: u32, key: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
