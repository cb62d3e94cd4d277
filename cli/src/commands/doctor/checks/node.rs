//! Checks of configuration, state directory, identity, CPUs and memory.

use std::path::Path;

use berth_agent_tracker::node_identity::{COMPUTE_ID, is_uuid_file};
use berth_config::ComputeDriver;
use berth_virt::CpuSet;

use super::helpers::{failure, settle, text, warning, with_config};
use crate::commands::doctor::facts::FileKind;
use crate::commands::doctor::finding::{CheckContext, CheckResult, DoctorCheck};

/// The least space for the SQLite files of the built-in services.
const STATE_SPACE: u64 = 100 << 20;

pub(super) const CHECKS: &[DoctorCheck] = &[
    failure(
        "config-valid",
        "the configuration is valid",
        &[],
        config_valid,
    ),
    warning(
        "config-clean",
        "nothing in the configuration is doubtful",
        &["config-valid"],
        config_clean,
    ),
    failure(
        "state-directory",
        "the state directory exists and is writable",
        &["config-valid"],
        state_directory,
    ),
    warning(
        "state-not-writable",
        "only root can write the state directory",
        &["state-directory"],
        state_private,
    ),
    failure(
        "state-space",
        "the state directory has room",
        &["state-directory"],
        state_space,
    ),
    failure(
        "compute-id",
        "the identity of every compute node is readable",
        &["state-directory"],
        compute_id,
    ),
    failure(
        "host-name",
        "the node has a name of its own",
        &["config-valid"],
        host_name,
    ),
    warning(
        "instances-space",
        "the guests' disks have room",
        &["config-valid"],
        instances_space,
    ),
    failure(
        "cpu-online",
        "the CPU sets name only CPUs that are online",
        &["config-valid"],
        cpu_online,
    ),
    failure(
        "cpu-left",
        "guests have at least one CPU",
        &["cpu-online"],
        cpu_left,
    ),
    failure(
        "memory-left",
        "the host's reserved memory leaves some for guests",
        &["config-valid"],
        memory_left,
    ),
    warning(
        "hugepages-mounted",
        "huge pages can be used",
        &[],
        hugepages_mounted,
    ),
    failure(
        "fake-machine",
        "the fake driver's machine is readable",
        &["config-valid"],
        fake_machine,
    ),
];

fn config_valid(host: &CheckContext<'_>) -> CheckResult {
    match host.config {
        Ok(loaded) => {
            let set = loaded.effective.iter().filter(|each| each.is_set()).count();
            CheckResult::good(format!("{set} options set"))
        }
        Err(refused) => CheckResult::bad(
            refused.to_string().trim_end(),
            refused.hint(host.check_command),
        ),
    }
}

fn config_clean(host: &CheckContext<'_>) -> CheckResult {
    let Ok(loaded) = host.config else {
        return CheckResult::not_asked("the configuration is refused");
    };
    match loaded.warnings.as_slice() {
        [] => CheckResult::good("no warning"),
        warnings => {
            let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
            // What would be right is part of the texts; the first one is the next step.
            let right = warnings.iter().map(|it| it.right.as_str());
            let right = right.into_iter().find(|right| !right.is_empty());
            CheckResult::bad(texts.join("\n"), right.unwrap_or(host.check_command))
        }
    }
}

fn state_directory(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        let path = &config.state_path;
        let shown = path.display();
        let make = format!("install -d -o root -g root -m 0711 {shown}");
        match host.facts.status(path) {
            Err(error) => CheckResult::bad(format!("{shown}: {error}"), make),
            Ok(status) if status.kind != FileKind::Directory => {
                CheckResult::bad(format!("{shown} is no directory"), make)
            }
            Ok(_) => match host.facts.writable(path) {
                Ok(()) => CheckResult::good(format!("{shown} is writable")),
                Err(error) => CheckResult::bad(
                    format!("{shown} cannot be written: {error}"),
                    "run as root; check: findmnt -T ".to_owned() + &shown.to_string(),
                ),
            },
        }
    })
}

fn state_private(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        let shown = config.state_path.display();
        match host.facts.status(&config.state_path) {
            Ok(status) if status.mode & 0o022 == 0 => {
                CheckResult::good(format!("{shown} has mode {:04o}", status.mode))
            }
            Ok(status) => CheckResult::bad(
                format!("{shown} has mode {:04o}", status.mode),
                format!("chmod go-w {shown}"),
            ),
            Err(error) => CheckResult::bad(format!("{shown}: {error}"), String::new()),
        }
    })
}

fn room(host: &CheckContext<'_>, path: &Path, least: u64) -> CheckResult {
    let shown = path.display();
    match host.facts.free_bytes(path) {
        Ok(free) if free >= least => CheckResult::good(format!("{shown}: {} MiB free", free >> 20)),
        Ok(free) => {
            let evidence = format!(
                "{shown}: {} MiB free, {} MiB are needed",
                free >> 20,
                least >> 20
            );
            CheckResult::bad(evidence, format!("free some space: du -xhd1 {shown}"))
        }
        Err(error) => CheckResult::not_asked(format!("{shown}: {error}")),
    }
}

fn state_space(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| room(host, &config.state_path, STATE_SPACE))
}

fn instances_space(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        let reserved = config.reserved_host_disk_mb.saturating_mul(1 << 20);
        room(host, &config.instances_path(), reserved.max(1 << 30))
    })
}

/// All files that hold a node's UUID: `compute_id` of a single node, `compute_id.<node>` of several.
fn compute_id(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        let folder = &config.state_path;
        let all = match host.facts.list(folder) {
            Ok(names) => names,
            Err(error) => {
                let shown = folder.display();
                return CheckResult::bad(format!("{shown}: {error}"), "run as root");
            }
        };
        let mut good = Vec::new();
        for name in all.iter().filter(|name| is_uuid_file(name)) {
            match uuid_in(host, &folder.join(name)) {
                Ok(evidence) => good.push(evidence),
                Err(bad) => return bad,
            }
        }
        if good.is_empty() {
            let shown = folder.join(COMPUTE_ID);
            return CheckResult::good(format!("{} is created at the first start", shown.display()));
        }
        CheckResult::good(good.join("\n"))
    })
}

fn uuid_in(host: &CheckContext<'_>, path: &Path) -> Result<String, CheckResult> {
    let shown = path.display();
    let text = host.facts.read(path).map_err(|error| {
        let hint = format!("restore {shown} from a backup");
        CheckResult::bad(format!("{shown}: {error}"), hint)
    })?;
    if text.parse::<berth_model::ProviderUuid>().is_ok() {
        return Ok(format!("{shown}: {text}"));
    }
    let start: String = text.chars().take(60).collect();
    let hint =
        format!("write the root provider's uuid into {shown}: openstack resource provider list");
    Err(CheckResult::bad(
        format!("{shown} holds {start:?}, which is no uuid"),
        hint,
    ))
}

fn host_name(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        if let Some(name) = &config.host {
            return CheckResult::good(format!("host = {name:?}"));
        }
        let path = "/proc/sys/kernel/hostname";
        settle(
            text(host, path, "write host = \"NAME\" in berth.toml").map(|name| {
                match name.as_str() {
                    "" | "localhost" | "localhost.localdomain" | "(none)" | "debian" | "ubuntu" => {
                        CheckResult::bad(
                            format!("{path}: {name:?} is no name of its own"),
                            "hostnamectl set-hostname NAME, or write host = \"NAME\" in berth.toml",
                        )
                    }
                    _ => CheckResult::good(format!("{path}: {name}")),
                }
            }),
        )
    })
}

const ONLINE: &str = "/sys/devices/system/cpu/online";

fn online(host: &CheckContext<'_>) -> Result<CpuSet, CheckResult> {
    let listed = text(host, ONLINE, "mount -t sysfs sysfs /sys")?;
    listed.parse().map_err(|_| {
        CheckResult::bad(
            format!("{ONLINE}: {listed:?} is not understood"),
            String::new(),
        )
    })
}

fn cpu_online(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        settle(online(host).map(|online| {
            for (key, set) in [
                ("cpu_shared_set", &config.compute.cpu_shared_set),
                ("cpu_dedicated_set", &config.compute.cpu_dedicated_set),
            ] {
                let offline = set
                    .as_ref()
                    .map(|set| set.difference(&online))
                    .unwrap_or_default();
                if !offline.is_empty() {
                    let evidence = format!("{key} names CPU {offline}; {ONLINE}: {online}");
                    return CheckResult::bad(
                        evidence,
                        format!("take {offline} out of {key} in [compute], or bring it online"),
                    );
                }
            }
            CheckResult::good(format!("{ONLINE}: {online}"))
        }))
    })
}

fn cpu_left(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        settle(online(host).map(|online| {
            let compute = &config.compute;
            let shared = match (&compute.cpu_shared_set, &compute.cpu_dedicated_set) {
                (Some(shared), _) => shared.len(),
                (None, Some(_)) => 0,
                (None, None) => online.len(),
            };
            let dedicated = compute.cpu_dedicated_set.as_ref().map_or(0, CpuSet::len);
            let reserved = config.reserved_host_cpus as usize;
            let evidence =
                format!("{shared} shared, {dedicated} dedicated, {reserved} reserved for the host");
            if shared.saturating_sub(reserved) + dedicated > 0 {
                CheckResult::good(evidence)
            } else {
                CheckResult::bad(evidence, "lower reserved_host_cpus")
            }
        }))
    })
}

/// A value of /proc/meminfo, in MiB.
fn meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace()
        .next()?
        .parse::<u64>()
        .ok()
        .map(|kib| kib / 1024)
}

fn memory_left(host: &CheckContext<'_>) -> CheckResult {
    let path = "/proc/meminfo";
    with_config(host, |config| {
        settle(
            text(host, path, "mount -t proc proc /proc").map(|meminfo_text| {
                let Some(total) = meminfo(&meminfo_text, "MemTotal") else {
                    return CheckResult::bad(format!("{path} has no MemTotal"), String::new());
                };
                let reserved = u64::from(config.reserved_host_memory_mb);
                let evidence =
                    format!("{path}: MemTotal {total} MiB, reserved_host_memory_mb {reserved}");
                if reserved < total {
                    CheckResult::good(evidence)
                } else {
                    CheckResult::bad(evidence, "lower reserved_host_memory_mb")
                }
            }),
        )
    })
}

fn hugepages_mounted(host: &CheckContext<'_>) -> CheckResult {
    let directory = Path::new("/sys/kernel/mm/hugepages");
    let sizes = host.facts.list(directory).unwrap_or_default();
    let reserved: Vec<String> = sizes
        .iter()
        .filter_map(|size| {
            let count = host
                .facts
                .read(&directory.join(size).join("nr_hugepages"))
                .ok()?;
            (count != "0").then(|| format!("{}: {count}", size.trim_start_matches("hugepages-")))
        })
        .collect();
    if reserved.is_empty() {
        return CheckResult::not_asked("no huge pages are reserved");
    }
    let mounts = host
        .facts
        .read(Path::new("/proc/mounts"))
        .unwrap_or_default();
    let mounted = mounts
        .lines()
        .any(|line| line.split_whitespace().nth(2) == Some("hugetlbfs"));
    let evidence = format!("reserved {}", reserved.join(", "));
    if mounted {
        CheckResult::good(evidence)
    } else {
        CheckResult::bad(
            format!("{evidence}; /proc/mounts has no hugetlbfs"),
            "systemctl start dev-hugepages.mount",
        )
    }
}

fn fake_machine(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        match (&config.compute_driver, &config.fake.machine) {
            (ComputeDriver::Fake, Some(path)) => match host.facts.read(path) {
                Ok(_) => CheckResult::good(format!("{} is readable", path.display())),
                Err(error) => CheckResult::bad(
                    format!("{}: {error}", path.display()),
                    "name a machine file in [fake] machine",
                ),
            },
            _ => CheckResult::not_asked("the driver is not fake"),
        }
    })
}
