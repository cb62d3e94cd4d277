//! Reads the host's CPU statistics since boot: `/proc/stat` and `/proc/cpuinfo`.

use std::time::Duration;

use berth_virt::HostCpuStats;

use crate::host_use::Procfs;
use crate::read::{self, SysfsError};

/// The kernel's unit of time for programs (USER_HZ), on every architecture that runs guests.
const TICKS_PER_SECOND: u64 = 100;

impl Procfs {
    /// The statistics of all CPUs together; `None` if the kernel does not report them.
    pub fn cpu_stats(&self) -> Result<Option<HostCpuStats>, SysfsError> {
        let path = self.path("stat");
        let Some(text) = read::long_text(&path)? else {
            return Ok(None);
        };
        let stats = stats(&text).ok_or_else(|| {
            let first = text.lines().next().unwrap_or_default();
            SysfsError::malformed(&path, first, "a line cpu with eight counts")
        })?;
        let cpus = read::long_text(&self.path("cpuinfo"))?;
        Ok(Some(HostCpuStats {
            frequency_mhz: cpus.as_deref().and_then(frequency),
            ..stats
        }))
    }
}

/// Parses the line for all CPUs: user, nice, system, idle, iowait, irq, softirq, steal. The guests' time
/// is included in user.
fn stats(text: &str) -> Option<HostCpuStats> {
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let counts = all
        .split_whitespace()
        .map(|count| count.parse::<u64>().ok());
    let counts: Vec<u64> = counts.collect::<Option<_>>()?;
    let [user, nice, system, idle, iowait, irq, softirq, ..] = counts[..] else {
        return None;
    };
    let time = |ticks: &[u64]| {
        let ticks = ticks
            .iter()
            .fold(0, |sum: u64, one| sum.saturating_add(*one));
        let rest = ticks % TICKS_PER_SECOND * (1000 / TICKS_PER_SECOND);
        Duration::from_secs(ticks / TICKS_PER_SECOND) + Duration::from_millis(rest)
    };
    Some(HostCpuStats {
        kernel: time(&[system, irq, softirq]),
        user: time(&[user, nice]),
        idle: time(&[idle]),
        iowait: time(&[iowait]),
        frequency_mhz: None,
    })
}

/// The first CPU's frequency in MHz, rounded down; only some architectures report it here.
fn frequency(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, mhz) = lines.find(|(key, _)| key.trim() == "cpu MHz")?;
    mhz.trim().split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  1205 5 300 90000 40 7 3 0 900 0\ncpu0 605 5 150 45000 20 7 3 0 450 0\nintr 1 2\n";

    fn proc(files: &[(&str, &str)]) -> (tempfile::TempDir, Procfs) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let procfs = Procfs::at(folder.path());
        (folder, procfs)
    }

    #[test]
    fn the_line_of_all_cpus_is_read() {
        let cpus = "processor\t: 0\ncpu MHz\t\t: 2893.437\nprocessor\t: 1\ncpu MHz\t\t: 800.0\n";
        let (_folder, procfs) = proc(&[("stat", STAT), ("cpuinfo", cpus)]);
        let read = procfs.cpu_stats().unwrap().unwrap();
        assert_eq!(
            read,
            HostCpuStats {
                user: Duration::from_millis(12_100),
                kernel: Duration::from_millis(3_100),
                idle: Duration::from_secs(900),
                iowait: Duration::from_millis(400),
                frequency_mhz: Some(2893),
            }
        );
    }

    #[test]
    fn a_silent_kernel_is_none_and_one_that_reports_something_else_is_named() {
        let (_folder, procfs) = proc(&[]);
        assert_eq!(procfs.cpu_stats().unwrap(), None);
        let (_folder, procfs) = proc(&[("stat", STAT), ("cpuinfo", "processor : 0\n")]);
        assert_eq!(procfs.cpu_stats().unwrap().unwrap().frequency_mhz, None);
        for bad in [
            "",
            "cpu 1 2\n",
            "cpu  a b c d e f g h\n",
            "cpu0 1 2 3 4 5 6 7 8\n",
        ] {
            let (_folder, procfs) = proc(&[("stat", bad)]);
            let error = procfs.cpu_stats().unwrap_err().to_string();
            assert!(
                error.contains("stat") && error.contains("counts"),
                "{error}"
            );
        }
    }
}
