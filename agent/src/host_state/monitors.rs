//! The metrics of `compute_monitors`, with Nova's names and units. Pure.
//!
//! There is one monitor, Nova's `cpu.virt_driver`: times in nanoseconds since the host's boot, percentages (0 to 100,
//! whole) since the last measurement, and the frequency in MHz.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_virt::HostCpuStats;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Monitor {
    /// `cpu.virt_driver`: CPU times from the driver.
    CpuVirtDriver,
}

impl Monitor {
    /// Its name in `compute_monitors`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CpuVirtDriver => "cpu.virt_driver",
        }
    }
}

/// The CPU metrics; `before` is the previous measurement, if any. Without elapsed time there are no percentages.
#[must_use]
pub fn cpu_metrics(now: &HostCpuStats, before: Option<&HostCpuStats>) -> BTreeMap<String, f64> {
    let nothing = HostCpuStats::default();
    let before = before.unwrap_or(&nothing);
    let of = |it: &HostCpuStats| [it.user, it.kernel, it.idle, it.iowait];
    let names = ["user", "kernel", "idle", "iowait"];
    let spent = of(now).into_iter().zip(of(before));
    let spent: Vec<Duration> = spent.map(|(now, was)| now.saturating_sub(was)).collect();
    let all: f64 = spent.iter().map(Duration::as_secs_f64).sum();
    let mut metrics = BTreeMap::new();
    for ((name, total), spent) in names.into_iter().zip(of(now)).zip(&spent) {
        metrics.insert(format!("cpu.{name}.time"), nanoseconds(total));
        if all > 0.0 {
            let percent = percent(spent.as_secs_f64() / all);
            metrics.insert(format!("cpu.{name}.percent"), percent);
        }
    }
    if all > 0.0 {
        let idle = spent.get(2).map_or(0.0, Duration::as_secs_f64);
        metrics.insert("cpu.percent".to_owned(), percent(1.0 - idle / all));
    }
    if let Some(mhz) = now.frequency_mhz.and_then(|mhz| u32::try_from(mhz).ok()) {
        metrics.insert("cpu.frequency".to_owned(), f64::from(mhz));
    }
    metrics
}

fn percent(part: f64) -> f64 {
    (part * 100.0).floor()
}

fn nanoseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e9).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(user: u64, kernel: u64, idle: u64, iowait: u64) -> HostCpuStats {
        HostCpuStats {
            user: Duration::from_millis(user),
            kernel: Duration::from_millis(kernel),
            idle: Duration::from_millis(idle),
            iowait: Duration::from_millis(iowait),
            frequency_mhz: Some(2893),
        }
    }

    #[test]
    fn times_are_since_the_boot_and_percentages_since_the_last_measurement() {
        let metrics = cpu_metrics(
            &stats(3000, 1250, 5000, 1000),
            Some(&stats(1000, 1000, 4000, 0)),
        );
        let expected = [
            ("cpu.frequency", 2893.0),
            ("cpu.idle.percent", 23.0),
            ("cpu.idle.time", 5e9),
            ("cpu.iowait.percent", 23.0),
            ("cpu.iowait.time", 1e9),
            ("cpu.kernel.percent", 5.0),
            ("cpu.kernel.time", 1.25e9),
            ("cpu.percent", 76.0),
            ("cpu.user.percent", 47.0),
            ("cpu.user.time", 3e9),
        ];
        let actual = metrics.iter().map(|(name, value)| (name.as_str(), *value));
        assert_eq!(actual.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn without_time_in_between_there_are_no_percentages() {
        let same = HostCpuStats {
            frequency_mhz: None,
            ..stats(1, 1, 1, 1)
        };
        let metrics = cpu_metrics(&same, Some(&same));
        assert_eq!(
            metrics.keys().collect::<Vec<_>>(),
            [
                "cpu.idle.time",
                "cpu.iowait.time",
                "cpu.kernel.time",
                "cpu.user.time"
            ]
        );
        assert!(cpu_metrics(&same, None).contains_key("cpu.percent"));
    }
}
