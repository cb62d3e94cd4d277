//! Taps: network interfaces of the host that QEMU connects to a guest's interface. This module reads them below `/sys/class/net` and
//! changes them by `ip` of iproute2, because the system call `TUNSETIFF` would need `unsafe` code.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use berth_virt::guest_spec::TapName;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::error::PortError;
use crate::host_network::NetworkPaths;
use crate::plan::PortSpec;

/// How long `ip` may take.
const IP_TIMEOUT: Duration = Duration::from_secs(20);

/// How often the creation of a tap is tried that another process holds, and how long it waits in between.
const CREATE_TRIES: u32 = 20;
const CREATE_PAUSE: Duration = Duration::from_millis(100);

/// `IFF_TAP` and `IFF_MULTI_QUEUE` of `tun_flags`, and `IFF_UP` of `flags`.
const IFF_TAP: u32 = 0x0002;
const IFF_MULTI_QUEUE: u32 = 0x0100;
const IFF_UP: u32 = 0x0001;

/// A link of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LinkView {
    pub(crate) is_tap: bool,
    pub(crate) is_multi_queue: bool,
    pub(crate) is_up: bool,
    /// In bytes.
    pub(crate) mtu: Option<u32>,
    pub(crate) address: Option<String>,
}

/// The link of this name; `None` if the host has none.
pub(crate) fn observe(paths: &NetworkPaths, tap: &TapName) -> Option<LinkView> {
    let link = paths.links.join(tap.as_str());
    if !link.exists() {
        return None;
    }
    let text = |name: &str| {
        let text = std::fs::read_to_string(link.join(name)).ok()?;
        Some(text.trim().to_owned())
    };
    let flags = |name: &str| {
        let text = text(name)?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    // Only links of the tun driver have this file.
    let tun_flags = flags("tun_flags").unwrap_or_default();
    Some(LinkView {
        is_tap: tun_flags & IFF_TAP != 0,
        is_multi_queue: tun_flags & IFF_MULTI_QUEUE != 0,
        is_up: flags("flags").unwrap_or_default() & IFF_UP != 0,
        mtu: text("mtu").and_then(|text| text.parse().ok()),
        address: text("address"),
    })
}

/// Creates a tap. It stays until it is deleted or the host is rebooted.
///
/// `ip` of an agent that was killed may still be creating the same tap, and hold it. Then it is tried again.
pub(crate) async fn create(paths: &NetworkPaths, spec: &PortSpec) -> Result<(), PortError> {
    let tap = spec.port.tap();
    let mut arguments = vec!["tuntap", "add", "dev", tap.as_str(), "mode", "tap"];
    if spec.is_multi_queue {
        arguments.push("multi_queue");
    }
    for _ in 1..CREATE_TRIES {
        match ip("creation", tap.as_str(), &arguments).await {
            Err(_) if observe(paths, &tap).is_some_and(|link| link.is_tap) => {}
            created => return created,
        }
        sleep(CREATE_PAUSE).await;
    }
    ip("creation", tap.as_str(), &arguments).await
}

/// Sets the address and MTU of a tap, and brings it up.
pub(crate) async fn configure(paths: &NetworkPaths, spec: &PortSpec) -> Result<(), PortError> {
    let tap = spec.port.tap();
    // Before the tap is up: otherwise the host takes an IPv6 address on the guest's link, and guests could send it router
    // advertisements.
    disable_ipv6(&paths.ipv6, tap.as_str())?;
    let (mac, mtu) = (spec.mac.to_string(), spec.port.mtu());
    let mtu = mtu.map(|mtu| mtu.to_string());
    let mut arguments = vec!["link", "set", "dev", tap.as_str(), "address", &mac];
    if let Some(mtu) = &mtu {
        arguments.extend(["mtu", mtu]);
    }
    arguments.push("up");
    ip("configuration", tap.as_str(), &arguments).await
}

/// Deletes a tap. A missing tap counts as deleted.
pub(crate) async fn delete(paths: &NetworkPaths, tap: &TapName) -> Result<(), PortError> {
    let deleted = ip(
        "removal",
        tap.as_str(),
        &["link", "delete", "dev", tap.as_str()],
    )
    .await;
    match deleted {
        Err(_) if observe(paths, tap).is_none() => Ok(()),
        deleted => deleted,
    }
}

/// Keeps the host from taking an IPv6 address on a link.
pub(crate) fn disable_ipv6(settings: &Path, link: &str) -> Result<(), PortError> {
    write_disable_ipv6(settings, link, "1")
}

/// Gives a link the host's default again, so that the host uses IPv6 on it as on a new link.
pub(crate) fn restore_ipv6(settings: &Path, link: &str) -> Result<(), PortError> {
    let default = std::fs::read_to_string(settings.join("default/disable_ipv6"));
    let default = default.unwrap_or_else(|_| "0".to_owned());
    write_disable_ipv6(settings, link, default.trim())
}

fn write_disable_ipv6(settings: &Path, link: &str, value: &str) -> Result<(), PortError> {
    let setting = settings.join(link).join("disable_ipv6");
    match std::fs::write(&setting, value) {
        Ok(()) => Ok(()),
        // The kernel has no IPv6.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(PortError::Link {
            action: "configuration",
            link: link.to_owned(),
            reason: format!(
                "{} cannot be written: {error} (under systemd it must be in ReadWritePaths=)",
                setting.display()
            ),
        }),
    }
}

/// Runs `ip` for a link.
pub(crate) async fn ip(
    action: &'static str,
    link: &str,
    arguments: &[&str],
) -> Result<(), PortError> {
    let failed = |reason: String| PortError::Link {
        action,
        link: link.to_owned(),
        reason,
    };
    let mut command = Command::new("ip");
    command.args(arguments).stdin(Stdio::null());
    command.kill_on_drop(true);
    let output = match timeout(IP_TIMEOUT, command.output()).await {
        Ok(output) => output,
        Err(_) => {
            let limit = IP_TIMEOUT.as_secs();
            return Err(failed(format!("ip timed out after {limit} s")));
        }
    };
    let output = output.map_err(|error| {
        failed(format!(
            "ip cannot be started: {error} (package iproute2 has it)"
        ))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    let first = error.lines().next().unwrap_or("no message");
    Err(failed(format!("ip {}: {first}", arguments.join(" "))))
}

#[cfg(test)]
mod tests {
    use berth_virt::guest_spec::{GuestPort, Label, LinkName, PlugSignal, PortConnection};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_link_is_read_as_the_kernel_shows_it() {
        let folder = tempfile::tempdir().unwrap();
        let port = GuestPort::new(
            Uuid::from_u128(1 << 90),
            Label::new("private").unwrap(),
            Vec::new(),
            None,
            PortConnection::OpenVswitch {
                bridge: LinkName::new("br-int").unwrap(),
                signal: PlugSignal::OvnInstalled,
            },
        );
        let tap = port.unwrap().tap();
        let paths = NetworkPaths {
            links: folder.path().to_owned(),
            ipv6: folder.path().to_owned(),
            functions: folder.path().to_owned(),
        };
        assert_eq!(observe(&paths, &tap), None);
        let link = folder.path().join(tap.as_str());
        std::fs::create_dir(&link).unwrap();
        let write = |name: &str, text: &str| std::fs::write(link.join(name), text).unwrap();
        write("flags", "0x1003\n");
        write("mtu", "1442\n");
        write("address", "fa:16:3e:54:eb:90\n");
        let seen = observe(&paths, &tap).unwrap();
        assert!(!seen.is_tap && seen.is_up && !seen.is_multi_queue);
        assert_eq!(seen.mtu, Some(1442));
        write("tun_flags", "0x5902\n");
        let seen = observe(&paths, &tap).unwrap();
        assert!(seen.is_tap && seen.is_multi_queue);
    }

    #[test]
    fn a_link_that_is_given_back_uses_ipv6_as_the_host_does_by_default() {
        let folder = tempfile::tempdir().unwrap();
        let setting = |link: &str| folder.path().join(link).join("disable_ipv6");
        std::fs::create_dir(folder.path().join("ens5v1")).unwrap();
        for default in [None, Some("1\n"), Some("0\n")] {
            if let Some(default) = default {
                std::fs::create_dir_all(folder.path().join("default")).unwrap();
                std::fs::write(setting("default"), default).unwrap();
            }
            disable_ipv6(folder.path(), "ens5v1").unwrap();
            assert_eq!(std::fs::read_to_string(setting("ens5v1")).unwrap(), "1");
            restore_ipv6(folder.path(), "ens5v1").unwrap();
            let expected = default.unwrap_or("0").trim();
            assert_eq!(
                std::fs::read_to_string(setting("ens5v1")).unwrap(),
                expected
            );
        }
        // A link that is gone has no setting.
        restore_ipv6(folder.path(), "ens5v2").unwrap();
    }
}
