//! Checks of privileges, unit, admin socket, group and limits.

use std::path::Path;

use super::helpers::{exists, failure, settle, text, warning, with_config};
use crate::commands::doctor::facts::FileKind;
use crate::commands::doctor::finding::{CheckContext, CheckResult, DoctorCheck};
use crate::commands::tls::expiry;

pub(super) const CHECKS: &[DoctorCheck] = &[
    warning("root", "this runs as root, as the agent does", &[], root),
    warning(
        "unit-installed",
        "the agent's unit is installed",
        &[],
        unit_installed,
    ),
    warning(
        "admin-group",
        "the group of the admin socket exists",
        &["config-valid"],
        admin_group,
    ),
    failure(
        "admin-socket-directory",
        "the directory of the admin socket is safe",
        &["config-valid"],
        socket_directory,
    ),
    failure(
        "admin-socket-rights",
        "only root and its group can use the admin socket",
        &["admin-socket-directory"],
        socket_rights,
    ),
    warning(
        "agent-answers",
        "the agent answers on its admin socket",
        &["admin-socket-rights"],
        agent_answers,
    ),
    warning(
        "certificates",
        "no certificate expires within 30 days",
        &["config-valid"],
        certificates,
    ),
    warning(
        "memlock",
        "memory of guests with devices can be locked",
        &["config-valid"],
        memlock,
    ),
    warning(
        "file-descriptors",
        "enough files can be open",
        &[],
        file_descriptors,
    ),
];

fn root(host: &CheckContext<'_>) -> CheckResult {
    let path = "/proc/self/status";
    settle(text(host, path, "mount -t proc proc /proc").map(|status| {
        let uids = status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .unwrap_or_default();
        // Real, effective, saved, file system.
        let effective = uids.split_whitespace().nth(1).unwrap_or_default();
        let evidence = format!("{path}: effective uid {effective:?}");
        if effective == "0" {
            CheckResult::good(evidence)
        } else {
            CheckResult::bad(evidence, "sudo berth doctor")
        }
    }))
}

fn unit_installed(host: &CheckContext<'_>) -> CheckResult {
    if !exists(host, "/run/systemd/system") {
        return CheckResult::not_asked("systemd does not run here");
    }
    let directories = [
        "/etc/systemd/system",
        "/usr/lib/systemd/system",
        "/lib/systemd/system",
    ];
    match directories
        .map(|directory| format!("{directory}/berth-agent.service"))
        .iter()
        .find(|path| exists(host, path))
    {
        Some(path) => CheckResult::good(path.clone()),
        None => CheckResult::bad(
            format!("no berth-agent.service in {}", directories.join(", ")),
            "install the package, or copy systemd/berth-agent.service to /etc/systemd/system",
        ),
    }
}

fn admin_group(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        let group = &config.agent.admin_group;
        settle(text(host, "/etc/group", "").map(|groups| {
            match groups
                .lines()
                .find(|line| line.split(':').next() == Some(group))
            {
                Some(line) => CheckResult::good(format!("/etc/group: {line}")),
                None => CheckResult::bad(
                    format!("/etc/group has no {group:?}"),
                    format!("groupadd --system {group}"),
                ),
            }
        }))
    })
}

fn socket_directory(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        let Some(directory) = config.agent.admin_socket.parent() else {
            return CheckResult::bad(
                "the admin socket has no directory",
                "correct [agent] admin_socket",
            );
        };
        let shown = directory.display();
        match host.facts.status(directory) {
            Err(_) => CheckResult::not_asked(format!("{shown} is created at start")),
            Ok(status) if status.kind != FileKind::Directory => CheckResult::bad(
                format!("{shown} is no directory"),
                "correct [agent] admin_socket",
            ),
            Ok(status) if status.mode & 0o002 != 0 && status.mode & 0o1000 == 0 => {
                CheckResult::bad(
                    format!(
                        "{shown} has mode {:04o}: everyone can replace the socket",
                        status.mode
                    ),
                    format!("chmod o-w {shown}"),
                )
            }
            Ok(status) => CheckResult::good(format!("{shown} has mode {:04o}", status.mode)),
        }
    })
}

fn socket_rights(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        let path = &config.agent.admin_socket;
        let shown = path.display();
        match host.facts.status(path) {
            Err(_) => {
                CheckResult::not_asked(format!("{shown} does not exist: the agent does not run"))
            }
            Ok(status) if status.kind != FileKind::Socket => CheckResult::bad(
                format!("{shown} is no socket"),
                format!("rm {shown} && systemctl restart berth-agent"),
            ),
            Ok(status) if status.mode & 0o007 != 0 => CheckResult::bad(
                format!("{shown} has mode {:04o}", status.mode),
                format!("chmod o= {shown}"),
            ),
            Ok(status) => CheckResult::good(format!("{shown} has mode {:04o}", status.mode)),
        }
    })
}

fn agent_answers(host: &CheckContext<'_>) -> CheckResult {
    with_config(host, |config| {
        let path = &config.agent.admin_socket;
        let shown = path.display();
        if host.facts.status(path).is_err() {
            return CheckResult::not_asked("the agent does not run");
        }
        match host.facts.connect(path) {
            Ok(()) => CheckResult::good(format!("{shown} accepts connections")),
            Err(error) => {
                CheckResult::bad(format!("{shown}: {error}"), "systemctl status berth-agent")
            }
        }
    })
}

fn certificates(host: &CheckContext<'_>) -> CheckResult {
    let Ok(loaded) = host.config else {
        return CheckResult::not_asked("the configuration is refused");
    };
    let read = |path: &Path| host.facts.read(path).ok();
    let expiring = expiry::expiring(loaded, read, host.facts.now());
    match (expiry::count(loaded), expiring.as_slice()) {
        (0, _) => CheckResult::not_asked("the configuration names no certificate"),
        (count, []) => CheckResult::good(format!("{count} files are valid for 30 days")),
        (_, expiring) => {
            let texts: Vec<String> = expiring.iter().map(ToString::to_string).collect();
            CheckResult::bad(texts.join("\n"), "berth tls renew")
        }
    }
}

/// The soft limit of a row of /proc/self/limits.
fn limit<'a>(limits: &'a str, row: &str) -> Option<&'a str> {
    limits
        .lines()
        .find_map(|line| line.strip_prefix(row))?
        .split_whitespace()
        .next()
}

fn memlock(host: &CheckContext<'_>) -> CheckResult {
    let path = "/proc/self/limits";
    with_config(host, |config| {
        if config.devices.enabled_mdev_types.is_empty() {
            return CheckResult::not_asked("no devices are configured");
        }
        settle(text(host, path, "mount -t proc proc /proc").map(|limits| {
            match limit(&limits, "Max locked memory") {
                Some("unlimited") => CheckResult::good(format!("{path}: unlimited")),
                found => CheckResult::bad(
                    format!("{path}: Max locked memory {}", found.unwrap_or("missing")),
                    "ulimit -l unlimited; for the unit: LimitMEMLOCK=infinity",
                ),
            }
        }))
    })
}

fn file_descriptors(host: &CheckContext<'_>) -> CheckResult {
    let path = "/proc/self/limits";
    settle(text(host, path, "mount -t proc proc /proc").map(|limits| {
        match limit(&limits, "Max open files") {
            Some(count)
                if count == "unlimited"
                    || count.parse::<u64>().is_ok_and(|count| count >= 1024) =>
            {
                CheckResult::good(format!("{path}: {count}"))
            }
            found => CheckResult::bad(
                format!("{path}: Max open files {}", found.unwrap_or("missing")),
                "ulimit -n 65536; for the unit: LimitNOFILE=65536",
            ),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_the_soft_one() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max locked memory         8388608              unlimited            bytes\n";
        assert_eq!(limit(limits, "Max locked memory"), Some("8388608"));
        assert_eq!(limit(limits, "Max open files"), None);
    }
}
