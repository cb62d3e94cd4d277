//! Metrics of the process, with the names that all Prometheus clients use. They are read from /proc on request.

use std::fmt::Write as _;

use berth_wire::metrics::{MetricKind, MetricRow};

/// Linux reports times to user space in hundredths of a second on every supported architecture (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) const ROWS: &[MetricRow] = &[
    row(
        "process_cpu_seconds_total",
        MetricKind::Counter,
        "Used processor time, user and system, in seconds.",
    ),
    row(
        "process_resident_memory_bytes",
        MetricKind::Gauge,
        "Resident memory in bytes.",
    ),
    row(
        "process_virtual_memory_bytes",
        MetricKind::Gauge,
        "Memory mapped.",
    ),
    row("process_threads", MetricKind::Gauge, "Threads."),
    row(
        "process_open_fds",
        MetricKind::Gauge,
        "Open file descriptors.",
    ),
    row(
        "process_max_fds",
        MetricKind::Gauge,
        "Maximum number of open file descriptors.",
    ),
    row(
        "process_start_time_seconds",
        MetricKind::Gauge,
        "Start time of the process in seconds since 1970.",
    ),
];

const fn row(name: &'static str, kind: MetricKind, help: &'static str) -> MetricRow {
    MetricRow {
        name,
        kind,
        labels: &[],
        help,
    }
}

/// Appends the metrics. A value that /proc does not have is left out.
pub(super) fn write(text: &mut String) {
    for row in ROWS {
        let Some(value) = value(row.name) else {
            continue;
        };
        let kind = if row.kind == MetricKind::Counter {
            "counter"
        } else {
            "gauge"
        };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "# HELP {0} {1}\n# TYPE {0} {kind}\n{0} {value}\n\n",
            row.name, row.help
        );
    }
}

fn value(name: &str) -> Option<f64> {
    match name {
        "process_cpu_seconds_total" => Some((field(14)? + field(15)?) / TICKS_PER_SECOND),
        "process_resident_memory_bytes" => Some(status("VmRSS:")? * 1024.0),
        "process_virtual_memory_bytes" => Some(status("VmSize:")? * 1024.0),
        "process_threads" => status("Threads:"),
        "process_open_fds" => {
            // Reading the folder opens a descriptor, too.
            let count = std::fs::read_dir("/proc/self/fd")
                .ok()?
                .count()
                .saturating_sub(1);
            u32::try_from(count).ok().map(f64::from)
        }
        "process_max_fds" => {
            let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
            limits
                .lines()
                .find_map(|line| line.strip_prefix("Max open files"))?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        }
        "process_start_time_seconds" => Some(boot_time()? + field(22)? / TICKS_PER_SECOND),
        _ => None,
    }
}

/// The n-th field of /proc/self/stat, numbered as in proc(5).
fn field(number: usize) -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name in parentheses, which may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(number.checked_sub(3)?)?.parse().ok()
}

fn status(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn boot_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_are_known_here() {
        for row in ROWS {
            let value = value(row.name);
            assert!(
                value.is_some_and(|value| value >= 0.0),
                "{}: {value:?}",
                row.name
            );
        }
    }

    #[test]
    fn the_start_was_before_now_and_after_boot() {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        let start = value("process_start_time_seconds").unwrap();
        assert!(
            start <= now + 1.0 && start >= boot_time().unwrap(),
            "{start} {now}"
        );
    }
}
