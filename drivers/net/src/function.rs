//! Virtual functions of network cards (SR-IOV): their MAC address, VLAN and trust, which only the physical function can set.
//!
//! The hypervisor sets MAC address and VLAN of a function that the guest drives. The agent sets those of a function below a
//! macvtap, and the trust of both, also when it is off: an earlier user of the function may have left it on. The functions are
//! read below `/sys/bus/pci/devices`, and set by `ip` of iproute2.

use std::path::{Path, PathBuf};

use berth_model::{MacAddress, PciAddress};
use berth_virt::guest_spec::{GuestInterface, GuestPort, PortConnection};
use uuid::Uuid;

use crate::error::PortError;
use crate::host_network::NetworkPaths;
use crate::tap::{disable_ipv6, ip, restore_ipv6};

/// The MAC address of a function that no guest has: the function's driver then chooses one.
const NO_MAC: &str = "00:00:00:00:00:00";

/// The settings of a port's virtual function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSpec {
    port: Uuid,
    address: PciAddress,
    trusted: bool,
    /// The address and the VLAN of a macvtap; `None`: the hypervisor sets them.
    macvtap: Option<(MacAddress, Option<u16>)>,
}

impl FunctionSpec {
    /// `None` for a port without a virtual function.
    #[must_use]
    pub fn new(interface: &GuestInterface, port: &GuestPort) -> Option<Self> {
        let (address, trusted, macvtap) = match *port.connection() {
            PortConnection::NetworkFunction {
                address, trusted, ..
            } => (address, trusted, None),
            PortConnection::Macvtap {
                address,
                vlan,
                trusted,
            } => (address, trusted, Some((interface.mac, vlan))),
            PortConnection::PhysicalFunction { .. } | PortConnection::OpenVswitch { .. } => {
                return None;
            }
        };
        Some(Self {
            port: port.id(),
            address,
            trusted,
            macvtap,
        })
    }
}

/// A virtual function, as the host has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionView {
    /// The network interface of its physical function.
    physical: String,
    /// Its number there.
    number: u32,
    /// Its own network interface; `None` if a guest drives it.
    own: Option<String>,
}

/// The only network interface of a function; `None` if it has none or several.
fn only_link(function: &Path) -> Option<String> {
    let links = std::fs::read_dir(function.join("net")).ok()?;
    let names = links.filter_map(|link| link.ok()?.file_name().into_string().ok());
    match &names.collect::<Vec<_>>()[..] {
        [name] => Some(name.clone()),
        _ => None,
    }
}

/// The function; `None` if the host does not have it, or its card has no network interface.
fn observe(paths: &NetworkPaths, address: PciAddress) -> Option<FunctionView> {
    let function = paths.functions.join(address.to_string());
    let card = function.join("physfn");
    let numbered = std::fs::read_dir(&card).ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let number: u32 = name.strip_prefix("virtfn")?.parse().ok()?;
        Some((number, std::fs::read_link(entry.path()).ok()?))
    });
    let is_own = |target: &PathBuf| {
        let name = target.file_name().and_then(|name| name.to_str());
        name == Some(&address.to_string())
    };
    let (number, _) = numbered.into_iter().find(|(_, target)| is_own(target))?;
    Some(FunctionView {
        physical: only_link(&card)?,
        number,
        own: only_link(&function),
    })
}

/// The arguments of `ip` that set a function for a port, in their order. Pure.
///
/// The trust has a call of its own, because not each card supports it. It is set also when it is off: an earlier agent may have
/// been killed before it took the trust back.
fn plug_plan(spec: &FunctionSpec, function: &FunctionView) -> Vec<Vec<String>> {
    let mut plan = Vec::new();
    if let Some((mac, vlan)) = &spec.macvtap {
        let (mac, vlan) = (mac.to_string(), vlan.unwrap_or(0).to_string());
        plan.push(at_function(function, &["mac", &mac, "vlan", &vlan]));
    }
    let trust = if spec.trusted { "on" } else { "off" };
    plan.push(at_function(function, &["trust", trust]));
    if let (Some((mac, _)), Some(own)) = (&spec.macvtap, &function.own) {
        let mac = mac.to_string();
        plan.push(link(own, &["address", &mac, "up"]));
    }
    plan
}

/// The arguments of `ip` that take the settings back, in their order. Pure.
fn unplug_plan(spec: &FunctionSpec, function: &FunctionView) -> Vec<Vec<String>> {
    let mut plan = Vec::new();
    if let (Some(_), Some(own)) = (&spec.macvtap, &function.own) {
        plan.push(link(own, &["down"]));
    }
    if spec.macvtap.is_some() {
        plan.push(at_function(function, &["mac", NO_MAC, "vlan", "0"]));
    }
    plan.push(at_function(function, &["trust", "off"]));
    plan
}

/// Whether a failed call of `ip` needs no action: a card that does not support trust has it off. Pure.
fn is_trust_off_unsupported(arguments: &[String], error: &PortError) -> bool {
    let is_trust_off =
        matches!(arguments, [.., setting, value] if setting == "trust" && value == "off");
    let is_unsupported = matches!(
        error,
        PortError::Link { reason, .. } if reason.ends_with("Operation not supported")
    );
    is_trust_off && is_unsupported
}

fn link(name: &str, settings: &[&str]) -> Vec<String> {
    let words = ["link", "set", "dev", name].into_iter();
    let words = words.chain(settings.iter().copied());
    words.map(str::to_owned).collect()
}

fn at_function(function: &FunctionView, settings: &[&str]) -> Vec<String> {
    let number = function.number.to_string();
    let settings = [&["vf", number.as_str()], settings].concat();
    link(&function.physical, &settings)
}

/// Sets the function of a port. Idempotent.
///
/// Errors: The host does not have the function, its card has no network interface, or the kernel refuses.
pub(crate) async fn plug(paths: &NetworkPaths, spec: &FunctionSpec) -> Result<(), PortError> {
    let Some(function) = observe(paths, spec.address) else {
        return Err(PortError::NoFunction {
            port: spec.port,
            address: spec.address,
        });
    };
    if let (Some(_), Some(own)) = (&spec.macvtap, &function.own) {
        disable_ipv6(&paths.ipv6, own)?;
    }
    run(plug_plan(spec, &function)).await
}

/// Takes the settings of a function back. A function that the host no longer has needs nothing. Idempotent.
///
/// Errors: the card of the function has no network interface now, or the kernel refuses.
pub(crate) async fn unplug(paths: &NetworkPaths, spec: &FunctionSpec) -> Result<(), PortError> {
    let Some(function) = observe(paths, spec.address) else {
        let folder = paths.functions.join(spec.address.to_string());
        return match folder.try_exists() {
            Ok(false) => Ok(()),
            // It may still have the settings.
            Ok(true) | Err(_) => Err(PortError::UnreachableFunction {
                port: spec.port,
                address: spec.address,
            }),
        };
    };
    run(unplug_plan(spec, &function)).await?;
    match (&spec.macvtap, &function.own) {
        (Some(_), Some(own)) => restore_ipv6(&paths.ipv6, own),
        _ => Ok(()),
    }
}

async fn run(plan: Vec<Vec<String>>) -> Result<(), PortError> {
    for arguments in plan {
        let name = arguments.get(3).cloned().unwrap_or_default();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match ip("configuration", &name, &words).await {
            Err(error) if is_trust_off_unsupported(&arguments, &error) => {}
            set => set?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use berth_model::Disposition;
    use berth_virt::guest_spec::{InterfaceSource, Label};

    use super::*;

    const FUNCTION: &str = "0000:05:10.2";

    fn spec(connection: PortConnection) -> Option<FunctionSpec> {
        let network = Label::new("storage").unwrap();
        let port = GuestPort::new(Uuid::from_u128(7), network, Vec::new(), None, connection);
        let port = port.unwrap();
        let interface = GuestInterface {
            mac: "fa:16:3e:00:00:07".parse().unwrap(),
            source: InterfaceSource::Port(Box::new(port.clone())),
        };
        FunctionSpec::new(&interface, &port)
    }

    fn macvtap(vlan: Option<u16>, trusted: bool) -> FunctionSpec {
        let address = FUNCTION.parse().unwrap();
        spec(PortConnection::Macvtap {
            address,
            vlan,
            trusted,
        })
        .unwrap()
    }

    fn view() -> FunctionView {
        FunctionView {
            physical: "ens5".to_owned(),
            number: 1,
            own: Some("ens5v1".to_owned()),
        }
    }

    fn lines(plan: Vec<Vec<String>>) -> Vec<String> {
        plan.iter().map(|words| words.join(" ")).collect()
    }

    #[test]
    fn a_macvtap_gets_its_address_vlan_and_trust_at_the_physical_function_and_loses_all_of_them() {
        let spec = macvtap(Some(42), true);
        assert_eq!(
            lines(plug_plan(&spec, &view())),
            [
                "link set dev ens5 vf 1 mac fa:16:3e:00:00:07 vlan 42",
                "link set dev ens5 vf 1 trust on",
                "link set dev ens5v1 address fa:16:3e:00:00:07 up",
            ]
        );
        assert_eq!(
            lines(unplug_plan(&spec, &view())),
            [
                "link set dev ens5v1 down",
                "link set dev ens5 vf 1 mac 00:00:00:00:00:00 vlan 0",
                "link set dev ens5 vf 1 trust off",
            ]
        );
        let untagged = lines(plug_plan(&macvtap(None, false), &view()));
        assert!(untagged[0].ends_with("vlan 0"), "{untagged:?}");
        assert!(untagged[1].ends_with("trust off"), "{untagged:?}");
    }

    #[test]
    fn the_hypervisor_sets_a_direct_function_and_the_agent_its_trust_alone() {
        let address = FUNCTION.parse().unwrap();
        let direct = |trusted| {
            spec(PortConnection::NetworkFunction {
                address,
                vlan: Some(42),
                trusted,
            })
        };
        assert_eq!(spec(PortConnection::PhysicalFunction { address }), None);
        let function = FunctionView {
            own: None,
            ..view()
        };
        // An earlier user of the function may have left the trust on.
        for (trusted, trust) in [(true, "on"), (false, "off")] {
            let spec = direct(trusted).unwrap();
            let plug = lines(plug_plan(&spec, &function));
            assert_eq!(plug, [format!("link set dev ens5 vf 1 trust {trust}")]);
            let unplug = lines(unplug_plan(&spec, &function));
            assert_eq!(unplug, ["link set dev ens5 vf 1 trust off"]);
        }
    }

    #[test]
    fn a_card_without_trust_fails_for_a_trusted_port_only() {
        let failed = |reason: &str| PortError::Link {
            action: "configuration",
            link: "ens5".to_owned(),
            reason: reason.to_owned(),
        };
        let unsupported = failed("ip link set: RTNETLINK answers: Operation not supported");
        let off = at_function(&view(), &["trust", "off"]);
        let on = at_function(&view(), &["trust", "on"]);
        let mac = at_function(&view(), &["mac", NO_MAC, "vlan", "0"]);
        assert!(is_trust_off_unsupported(&off, &unsupported));
        assert!(!is_trust_off_unsupported(&on, &unsupported));
        assert!(!is_trust_off_unsupported(&mac, &unsupported));
        let other = failed("ip link set: RTNETLINK answers: Operation not permitted");
        assert!(!is_trust_off_unsupported(&off, &other));
    }

    #[tokio::test]
    async fn a_function_is_found_by_its_number_on_its_card_and_a_missing_one_is_not_plugged() {
        let folder = tempfile::tempdir().unwrap();
        let paths = NetworkPaths {
            functions: folder.path().to_owned(),
            ..NetworkPaths::default()
        };
        let address = FUNCTION.parse().unwrap();
        assert_eq!(observe(&paths, address), None);
        let refused = plug(&paths, &macvtap(None, false)).await.unwrap_err();
        assert!(refused.to_string().contains("does not have"), "{refused}");
        unplug(&paths, &macvtap(None, false)).await.unwrap();
        let card = folder.path().join("0000:05:00.0");
        let function = folder.path().join(FUNCTION);
        std::fs::create_dir_all(card.join("net/ens5")).unwrap();
        std::fs::create_dir_all(function.join("net/ens5v1")).unwrap();
        symlink("../0000:05:10.0", card.join("virtfn0")).unwrap();
        symlink(format!("../{FUNCTION}"), card.join("virtfn1")).unwrap();
        symlink("../0000:05:00.0", function.join("physfn")).unwrap();
        assert_eq!(observe(&paths, address), Some(view()));
        std::fs::remove_dir_all(function.join("net")).unwrap();
        assert_eq!(observe(&paths, address).unwrap().own, None);
        // Its card has no network interface for now, so the function may still be set.
        std::fs::remove_dir_all(card.join("net")).unwrap();
        let refused = unplug(&paths, &macvtap(None, false)).await.unwrap_err();
        assert_eq!(refused.disposition(), Disposition::Retry);
        let expected = "the settings of the virtual function 0000:05:10.2 cannot be taken back";
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}
