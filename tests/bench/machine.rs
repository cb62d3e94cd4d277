//! Describes the machine and the commit of a run, without which its figures mean nothing.

use std::fs;
use std::process::Command;

use crate::Outcome;

/// Commit, day and machine of a run.
pub(crate) struct Machine {
    /// The day, UTC, `YYYY-MM-DD`.
    pub(crate) date: String,
    /// The commit, with a mark where the checkout differs from it.
    commit: String,
    cpu: String,
    cores: usize,
    memory_gib: u64,
    kernel: String,
    load_before: String,
}

impl Machine {
    pub(crate) fn here() -> Outcome<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let cpu = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let meminfo = fs::read_to_string("/proc/meminfo")?;
        let total = meminfo
            .split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse::<u64>().ok());
        Ok(Self {
            date: output_of("date", &["-u", "+%F"])?,
            commit: output_of("git", &["describe", "--always", "--dirty", "--abbrev=12"])?,
            cpu: cpu.map_or("unknown", |(_, model)| model).to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: total.unwrap_or_default() >> 20,
            kernel: output_of("uname", &["-sr"])?,
            load_before: load(),
        })
    }

    /// The paragraph under the page's title.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "Commit {}. {} ({} cores), {} GiB, {}. Load average {} before, {} after; other work on the machine stretches wall times \
             more than CPU times.",
            self.commit,
            self.cpu,
            self.cores,
            self.memory_gib,
            self.kernel,
            self.load_before,
            load()
        )
    }
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn output_of(program: &str, args: &[&str]) -> Outcome<String> {
    let output = Command::new(program).args(args).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
