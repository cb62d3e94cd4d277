//! Virtual functions of network cards (SR-IOV): their MAC address, VLAN and trust, which only the physical function can set.
//!
//! The hypervisor sets MAC address and VLAN of a function that the guest drives. The agent sets those of a function below a
//! macvtap, and the trust of both. The functions are read below `/sys/bus/pci/devices`, and set by `ip` of iproute2.

use std::path::{Path, PathBuf};

use berth_model::PciAddress;
use berth_virt::guest_spec::{GuestInterface, GuestPort, MacAddress, PortConnection};
use uuid::Uuid;

use crate::error::PortError;
use crate::host_network::NetworkPaths;
use crate::tap::{disable_ipv6, ip};

/// The MAC address of a function that no guest has: the function's driver then chooses one.
const NO_MAC: &str = "00:00:00:00:00:00";

/// A port that needs settings of its virtual function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSpec {
    port: Uuid,
    address: PciAddress,
    trusted: bool,
    /// The address and the VLAN of a macvtap; `None`: the hypervisor sets them.
    macvtap: Option<(MacAddress, Option<u16>)>,
}

impl FunctionSpec {
    /// `None` for a port that needs none.
    #[must_use]
    pub fn new(interface: &GuestInterface, port: &GuestPort) -> Option<Self> {
        let (address, trusted, macvtap) = match *port.connection() {
            PortConnection::NetworkFunction {
                address,
                trusted: true,
                ..
            } => (address, true, None),
            PortConnection::Macvtap {
                address,
                vlan,
                trusted,
            } => (address, trusted, Some((interface.mac, vlan))),
            PortConnection::NetworkFunction { .. }
            | PortConnection::PhysicalFunction { .. }
            | PortConnection::OpenVswitch { .. } => return None,
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
fn plug_plan(spec: &FunctionSpec, function: &FunctionView) -> Vec<Vec<String>> {
    let mut at_card = vec![];
    if let Some((mac, vlan)) = &spec.macvtap {
        let vlan = vlan.unwrap_or(0);
        at_card.extend(["mac".to_owned(), mac.to_string()]);
        at_card.extend(["vlan".to_owned(), vlan.to_string()]);
    }
    // Also off: an earlier agent may have been killed before it took the trust back.
    let trust = if spec.trusted { "on" } else { "off" };
    at_card.extend(["trust".to_owned(), trust.to_owned()]);
    let mut plan = vec![at_function(function, at_card)];
    if let (Some((mac, _)), Some(own)) = (&spec.macvtap, &function.own) {
        let mac = mac.to_string();
        plan.push(link(own, &["address", &mac, "up"]));
    }
    plan
}

/// The arguments of `ip` that take the settings back, in their order. Pure.
fn unplug_plan(spec: &FunctionSpec, function: &FunctionView) -> Vec<Vec<String>> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let mut plan = Vec::new();
    if let (Some(_), Some(own)) = (&spec.macvtap, &function.own) {
        plan.push(link(own, &["down"]));
    }
    let at_card: Vec<String> = match spec.macvtap {
        Some(_) => owned(&["mac", NO_MAC, "vlan", "0", "trust", "off"]),
        None => owned(&["trust", "off"]),
    };
    plan.push(at_function(function, at_card));
    plan
}

fn link(name: &str, settings: &[&str]) -> Vec<String> {
    let words = ["link", "set", "dev", name].into_iter();
    let words = words.chain(settings.iter().copied());
    words.map(str::to_owned).collect()
}

fn at_function(function: &FunctionView, settings: Vec<String>) -> Vec<String> {
    let number = function.number.to_string();
    let mut words = link(&function.physical, &["vf", &number]);
    words.extend(settings);
    words
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
pub(crate) async fn unplug(paths: &NetworkPaths, spec: &FunctionSpec) -> Result<(), PortError> {
    match observe(paths, spec.address) {
        Some(function) => run(unplug_plan(spec, &function)).await,
        None => Ok(()),
    }
}

async fn run(plan: Vec<Vec<String>>) -> Result<(), PortError> {
    for arguments in plan {
        let name = arguments.get(3).cloned().unwrap_or_default();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        ip("configuration", &name, &words).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
                "link set dev ens5 vf 1 mac fa:16:3e:00:00:07 vlan 42 trust on",
                "link set dev ens5v1 address fa:16:3e:00:00:07 up",
            ]
        );
        assert_eq!(
            lines(unplug_plan(&spec, &view())),
            [
                "link set dev ens5v1 down",
                "link set dev ens5 vf 1 mac 00:00:00:00:00:00 vlan 0 trust off",
            ]
        );
        let untagged = lines(plug_plan(&macvtap(None, false), &view()));
        assert!(untagged[0].ends_with("vlan 0 trust off"), "{untagged:?}");
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
        assert_eq!(direct(false), None);
        assert_eq!(spec(PortConnection::PhysicalFunction { address }), None);
        let trusted = direct(true).unwrap();
        let function = FunctionView {
            own: None,
            ..view()
        };
        let plug = lines(plug_plan(&trusted, &function));
        assert_eq!(plug, ["link set dev ens5 vf 1 trust on"]);
        let unplug = lines(unplug_plan(&trusted, &function));
        assert_eq!(unplug, ["link set dev ens5 vf 1 trust off"]);
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
    }
}
