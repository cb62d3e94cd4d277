//! Checks of KVM and libvirt. They run only where the driver is libvirt.

use std::path::Path;

use berth_config::{ComputeDriver, Config, VirtType};

use super::helpers::{exists, failure, settle, text, with_config};
use crate::commands::doctor::facts::FileKind;
use crate::commands::doctor::finding::{CheckContext, CheckResult, DoctorCheck};

pub(super) const CHECKS: &[DoctorCheck] = &[
    failure(
        "cpu-virtualization",
        "the CPU can run guests",
        &["config-valid"],
        cpu_virtualization,
    ),
    failure(
        "kvm-device",
        "KVM is there",
        &["config-valid", "cpu-virtualization"],
        kvm_device,
    ),
    failure(
        "qemu-binary",
        "QEMU is installed",
        &["config-valid"],
        qemu_binary,
    ),
    failure(
        "libvirt-socket",
        "libvirt's socket is there",
        &["config-valid"],
        libvirt_socket,
    ),
    failure(
        "libvirt-answers",
        "libvirt accepts a connection",
        &["libvirt-socket"],
        libvirt_answers,
    ),
];

/// Runs a check that applies only to real guests on QEMU.
fn for_qemu(host: &CheckContext<'_>, check: impl FnOnce(&Config) -> CheckResult) -> CheckResult {
    with_config(host, |config| {
        if config.compute_driver != ComputeDriver::Libvirt {
            CheckResult::not_asked("the driver is not libvirt")
        } else if !config.libvirt.connection_uri().starts_with("qemu") {
            CheckResult::not_asked(format!(
                "the connection is {}",
                config.libvirt.connection_uri()
            ))
        } else {
            check(config)
        }
    })
}

fn for_kvm(host: &CheckContext<'_>, check: impl FnOnce() -> CheckResult) -> CheckResult {
    for_qemu(host, |config| match config.libvirt.virt_type {
        VirtType::Kvm => check(),
        VirtType::Qemu => CheckResult::not_asked("virt_type is qemu"),
    })
}

fn cpu_virtualization(host: &CheckContext<'_>) -> CheckResult {
    let path = "/proc/cpuinfo";
    for_kvm(host, || {
        settle(text(host, path, "mount -t proc proc /proc").map(|cpuinfo| {
            let Some(flags) = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")) else {
                return CheckResult::not_asked(format!("{path} has no flags: not an x86 machine"));
            };
            match flags.split_whitespace().find(|flag| matches!(*flag, "vmx" | "svm")) {
                Some(flag) => CheckResult::good(format!("{path}: {flag}")),
                None => CheckResult::bad(
                    format!("{path} has neither vmx nor svm"),
                    "switch virtualization on in the firmware, or write virt_type = \"qemu\" in [libvirt]",
                ),
            }
        }))
    })
}

fn kvm_device(host: &CheckContext<'_>) -> CheckResult {
    let path = "/dev/kvm";
    for_kvm(host, || match host.facts.status(Path::new(path)) {
        Ok(status) if status.kind == FileKind::CharacterDevice => {
            CheckResult::good(format!("{path} has mode {:04o}", status.mode))
        }
        Ok(_) => CheckResult::bad(
            format!("{path} is no device"),
            "rm /dev/kvm && modprobe kvm",
        ),
        Err(error) => CheckResult::bad(
            format!("{path}: {error}"),
            "modprobe kvm_intel || modprobe kvm_amd; without hardware: virt_type = \"qemu\" in [libvirt]",
        ),
    })
}

fn qemu_binary(host: &CheckContext<'_>) -> CheckResult {
    for_qemu(host, |_| {
        let found = ["/usr/bin", "/usr/libexec", "/usr/local/bin"]
            .into_iter()
            .find_map(|directory| {
                let names = host.facts.list(Path::new(directory)).ok()?;
                let name = names
                    .into_iter()
                    .find(|name| name.starts_with("qemu-system-") || name == "qemu-kvm")?;
                Some(format!("{directory}/{name}"))
            });
        match found {
            Some(path) => CheckResult::good(path),
            None => CheckResult::bad(
                "no qemu-system-* in /usr/bin",
                "apt-get install qemu-system-x86",
            ),
        }
    })
}

const SOCKETS: [&str; 2] = ["/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock"];

fn libvirt_socket(host: &CheckContext<'_>) -> CheckResult {
    for_qemu(host, |_| {
        match SOCKETS.into_iter().find(|path| exists(host, path)) {
            Some(path) => match host.facts.status(Path::new(path)) {
                Ok(status) if status.kind == FileKind::Socket => {
                    CheckResult::good(format!("{path} has mode {:04o}", status.mode))
                }
                _ => CheckResult::bad(format!("{path} is no socket"), "systemctl restart libvirtd"),
            },
            None => CheckResult::bad(
                format!("neither {} is there", SOCKETS.join(" nor ")),
                "systemctl enable --now libvirtd",
            ),
        }
    })
}

fn libvirt_answers(host: &CheckContext<'_>) -> CheckResult {
    for_qemu(host, |_| {
        let Some(path) = SOCKETS.into_iter().find(|path| exists(host, path)) else {
            return CheckResult::not_asked("there is no socket");
        };
        match host.facts.connect(Path::new(path)) {
            Ok(()) => CheckResult::good(format!("{path} accepts connections")),
            Err(error) => CheckResult::bad(
                format!("{path}: {error}"),
                "systemctl restart libvirtd; journalctl -u libvirtd",
            ),
        }
    })
}
