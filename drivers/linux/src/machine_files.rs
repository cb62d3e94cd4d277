//! Reads the kernel's files about the machine.

use std::fmt::Display;
use std::path::Path;

use berth_virt::{CpuSet, ObserveError};

/// The text of a file, without white space at its ends.
pub(crate) struct MachineFile {
    path: String,
    text: String,
}

impl MachineFile {
    fn read(root: &Path, file: &str) -> Result<Self, ObserveError> {
        let path = root.join(file);
        let name = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self {
                path: name,
                text: text.trim().to_owned(),
            }),
            Err(source) => Err(ObserveError::Unreadable { path: name, source }),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn parsed<T, E: Display>(
        &self,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, ObserveError> {
        parse(&self.text).map_err(|error| ObserveError::Malformed {
            origin: self.path.clone(),
            reason: error.to_string(),
        })
    }
}

pub(crate) fn hostname(root: &Path) -> Result<MachineFile, ObserveError> {
    MachineFile::read(root, "proc/sys/kernel/hostname")
}

/// The version without the part of the distribution: `6.1.0` of `6.1.0-18-amd64`.
pub(crate) fn kernel_version(root: &Path) -> Result<String, ObserveError> {
    let release = MachineFile::read(root, "proc/sys/kernel/osrelease")?;
    let version = release.text().split('-').next();
    Ok(version.unwrap_or_default().to_owned())
}

pub(crate) fn online_cpus(root: &Path) -> Result<CpuSet, ObserveError> {
    let file = MachineFile::read(root, "sys/devices/system/cpu/online")?;
    let online = file.parsed(str::parse::<CpuSet>)?;
    match online.is_empty() {
        true => file.parsed(|_| Err("at least one CPU is expected")),
        false => Ok(online),
    }
}

pub(crate) fn memory_mib(root: &Path) -> Result<u64, ObserveError> {
    let file = MachineFile::read(root, "proc/meminfo")?;
    file.parsed(|text| {
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = total.and_then(|total| total.trim().strip_suffix("kB"));
        let kib = kib.and_then(|kib| kib.trim().parse::<u64>().ok());
        let kib = kib.ok_or("a line `MemTotal: NUMBER kB` is expected")?;
        Ok::<u64, &str>(kib / 1024)
    })
}
