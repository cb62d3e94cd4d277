//! Which ports a guest may have, and what is left of a port's profile without its host. Pure.

use berth_client::network::port_of_project;
use berth_model::PciAddress;
use berth_wire::conductor::{FunctionVnicType, RequestedNetwork};
use berth_wire::guest::{ActionId, NetworkFunctionBody};
use berth_wire::network_info::{Extras, VifBody, asks_for_trust};
use berth_wire::neutron::PortRecord;
use serde_json::Value;
use uuid::Uuid;

/// The description of a port that a boot creates. With the device, which is the guest, it names the port before its UUID
/// is known.
pub(crate) fn mark(attempt: u32, index: usize) -> String {
    format!("{}{index}", mark_of_attempt(attempt))
}

/// The description of a port that an action creates for a guest of this attempt.
#[must_use]
pub(crate) fn mark_of_action(attempt: u32, id: &ActionId) -> String {
    format!("{}{id}", mark_of_attempt(attempt))
}

/// The beginning of the marks of an attempt.
pub(crate) fn mark_of_attempt(attempt: u32) -> String {
    format!("{MARK}{attempt}, interface ")
}

/// The beginning of all marks.
const MARK: &str = "Created by Berth, attempt ";

/// Whether this service created the port for a guest.
pub(crate) fn is_marked(port: &PortRecord) -> bool {
    port.description.starts_with(MARK)
}

/// Why a guest may not have a port or network, on any host. The sentences are Nova's where it has such.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortRefusal {
    #[error("Port id {0} could not be found.")]
    NotFound(Uuid),
    /// The port is another project's.
    #[error("Port {port} not usable for instance {guest}.")]
    OtherProject { port: Uuid, guest: Uuid },
    /// The port is another server's.
    #[error("Port {0} is still in use.")]
    InUse(Uuid),
    #[error(
        "port {port} has the vnic_type {vnic_type}, and only normal, direct, macvtap and direct-physical are supported"
    )]
    VnicType { port: Uuid, vnic_type: String },
    #[error(
        "port {0} has the vnic_type vdpa, which needs a vDPA device of a network card in switchdev mode. Hosts of Berth have none; \
         use a port with the vnic_type direct."
    )]
    Vdpa(Uuid),
    /// A port with `vnic_type` `direct-physical` is attached to an existing server, or detached from one.
    #[error(
        "port {0} has the vnic_type direct-physical. Such a port is neither attached to an existing server nor detached from one."
    )]
    Physical(Uuid),
    /// The port was of another kind when the request was checked.
    #[error(
        "port {port} has the vnic_type {vnic_type}, and it was {requested} when it was requested"
    )]
    KindChanged {
        port: Uuid,
        vnic_type: String,
        requested: &'static str,
    },
    /// A port that needs a network function, on a network that no network card is connected to.
    #[error(
        "port {port} has the vnic_type {vnic_type}, and its network {network} has no physical network (provider:physical_network)"
    )]
    NoPhysicalNetwork {
        port: Uuid,
        vnic_type: String,
        network: Uuid,
    },
    /// The port's profile did not ask for trust when the request was checked.
    #[error(
        "port {0} needs a trusted function (trusted in its binding:profile), and it did not when it was requested"
    )]
    TrustAdded(Uuid),
    /// The card of the function and the provider of the bandwidth may be two cards.
    #[error(
        "port {port} has the vnic_type {vnic_type} and needs resources of its own (minimum bandwidth or packet rate), which is \
         not supported together"
    )]
    FunctionWithResources { port: Uuid, vnic_type: String },
    /// The port needs other resources than the request claimed.
    #[error(
        "port {0} needs other resources (minimum bandwidth or packet rate) than when its server was requested: its QoS \
         policy was changed"
    )]
    ResourcesChanged(Uuid),
    /// A port that is created after the scheduling cannot claim anything.
    #[error(
        "Network {0} has a QoS policy that guarantees a bandwidth or packet rate. Servers cannot have new ports in it: create \
         a port in the network and name that port."
    )]
    NetworkNeedsResources(Uuid),
    /// The network does not exist, or the project may not use it.
    #[error("Network {0} could not be found.")]
    NoNetwork(Uuid),
    /// The network service refuses it, with this sentence.
    #[error("{0}")]
    Service(String),
}

/// The `binding:vnic_type` of a port on a virtual switch.
const NORMAL: &str = "normal";
fn vnic_type(port: &PortRecord) -> &str {
    port.vnic_type.as_deref().unwrap_or(NORMAL)
}

/// The kind of a port that needs a network function; `None` for other ports.
#[must_use]
pub fn function_kind(port: &PortRecord) -> Option<FunctionVnicType> {
    FunctionVnicType::of(vnic_type(port))
}

/// Whether a port needs a trusted function.
#[must_use]
pub fn is_trusted(port: &PortRecord) -> bool {
    port.profile.as_ref().is_some_and(asks_for_trust)
}

/// Whether the port's QoS policy guarantees a bandwidth or packet rate.
pub(crate) fn needs_resources(port: &PortRecord) -> bool {
    let request = port.resource_request.as_ref();
    request.is_some_and(|request| !request.is_empty())
}

/// Checks that a port still is what the request was checked for: of a kind with its physical network and trust, or `normal`,
/// and with the resources that were claimed for it.
pub(crate) fn check_kind(port: &PortRecord, wanted: &RequestedNetwork) -> Result<(), PortRefusal> {
    let requested = match wanted.physical_network {
        Some(_) => wanted.vnic_type.as_str(),
        None => NORMAL,
    };
    if vnic_type(port) != requested {
        return Err(PortRefusal::KindChanged {
            port: port.id,
            vnic_type: vnic_type(port).to_owned(),
            requested,
        });
    }
    if wanted.physical_network.is_some() && is_trusted(port) && !wanted.trusted {
        return Err(PortRefusal::TrustAdded(port.id));
    }
    let needed = port.resource_request.clone().unwrap_or_default();
    match needed == wanted.resource_request {
        true => Ok(()),
        false => Err(PortRefusal::ResourcesChanged(port.id)),
    }
}

/// Whether what a host reports is a function for this port. The profile of the port gets its texts.
pub(crate) fn is_function_for(vif: &VifBody, function: &NetworkFunctionBody) -> bool {
    let network = vif.network.meta.get("physical_network");
    let is_hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let ids = function.pci_vendor_info.split_once(':');
    let is_mac = |mac: &String| {
        let mut bytes = mac.split(':');
        bytes.clone().count() == 6 && bytes.all(|byte| is_hex(byte, 2))
    };
    let is_of_kind = match FunctionVnicType::of(&vif.vnic_type) {
        Some(FunctionVnicType::Direct | FunctionVnicType::Macvtap) => function.vf_num.is_some(),
        Some(FunctionVnicType::DirectPhysical) => function.vf_num.is_none(),
        None => false,
    };
    is_of_kind
        && network.and_then(Value::as_str) == Some(&function.physical_network)
        && function.pci_slot.parse::<PciAddress>().is_ok()
        && ids.is_some_and(|(vendor, product)| is_hex(vendor, 4) && is_hex(product, 4))
        && function.pf_mac_address.iter().all(is_mac)
}

/// The profile of a port that is bound to a function: what its owner wrote, and the function. Neutron gives the address of a
/// whole card to the port.
pub(crate) fn profile_of_function(vif: &VifBody, function: &NetworkFunctionBody) -> Extras {
    let mut profile = without_host(vif.profile.clone().unwrap_or_default());
    let slot = [
        ("pci_slot", &function.pci_slot),
        ("pci_vendor_info", &function.pci_vendor_info),
        ("physical_network", &function.physical_network),
    ];
    let physical = function.pf_mac_address.iter();
    let key = match function.vf_num {
        Some(_) => "pf_mac_address",
        None => "device_mac_address",
    };
    let texts = slot.into_iter().chain(physical.map(|mac| (key, mac)));
    profile.extend(texts.map(|(key, value)| (key.to_owned(), value.as_str().into())));
    profile.extend(
        function
            .vf_num
            .map(|number| ("vf_num".to_owned(), number.into())),
    );
    profile
}

/// The port if the guest may have it.
pub fn check_port<'a>(
    id: Uuid,
    port: Option<&'a PortRecord>,
    project: &str,
    guest: Uuid,
) -> Result<&'a PortRecord, PortRefusal> {
    let port = port.ok_or(PortRefusal::NotFound(id))?;
    if !port_of_project(port, project) {
        return Err(PortRefusal::OtherProject { port: id, guest });
    }
    if !port.device_id.is_empty() && port.device_id != guest.to_string() {
        return Err(PortRefusal::InUse(id));
    }
    match vnic_type(port) {
        NORMAL => {}
        kind if FunctionVnicType::of(kind).is_some() => {}
        "vdpa" => return Err(PortRefusal::Vdpa(id)),
        vnic_type => {
            let vnic_type = vnic_type.to_owned();
            return Err(PortRefusal::VnicType {
                port: id,
                vnic_type,
            });
        }
    }
    if function_kind(port).is_some() && needs_resources(port) {
        return Err(PortRefusal::FunctionWithResources {
            port: id,
            vnic_type: vnic_type(port).to_owned(),
        });
    }
    Ok(port)
}

/// Keys of a profile that describe the host's device.
const OF_HOST: [&str; 9] = [
    "allocation",
    "arq_uuid",
    "card_serial_number",
    "device_mac_address",
    "pci_slot",
    "pci_vendor_info",
    "pf_mac_address",
    "physical_network",
    "vf_num",
];

/// The profile of a port with the providers of its resources on a host.
pub(crate) fn profile_of_allocation(port: &PortRecord, allocation: Value) -> Extras {
    let mut profile = profile_without_host(port);
    profile.insert("allocation".to_owned(), allocation);
    profile
}

/// The profile of a port that is on no host. What its owner wrote stays.
pub(crate) fn profile_without_host(port: &PortRecord) -> Extras {
    without_host(port.profile.clone().unwrap_or_default())
}

fn without_host(mut profile: Extras) -> Extras {
    profile.retain(|key, _| !OF_HOST.contains(&key.as_str()));
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: &str = "88a15950-b8bf-4445-86f5-21ad10632a28";
    const GUEST: &str = "11111111-2222-4333-8444-555555555555";

    fn port(more: &str) -> PortRecord {
        let text = format!(
            r#"{{"id": "{PORT}", "network_id": "{PORT}", "mac_address": "fa:16:3e:00:00:01", "tenant_id": "p"{more}}}"#
        );
        berth_wire::decode(text.as_bytes()).unwrap()
    }

    /// A direct port on the physical network `storage`, not bound yet.
    fn direct_vif(more: &str) -> VifBody {
        let text = format!(
            r#"{{"id": "{PORT}", "address": "fa:16:3e:00:00:01", "type": "unbound", "vnic_type": "direct",
                "network": {{"id": "{PORT}", "meta": {{"physical_network": "storage"}}}}{more}}}"#
        );
        berth_wire::decode(text.as_bytes()).unwrap()
    }

    fn function_of(vif: &VifBody) -> NetworkFunctionBody {
        NetworkFunctionBody {
            port: vif.id,
            pci_slot: "0000:05:10.2".to_owned(),
            pci_vendor_info: "8086:154c".to_owned(),
            physical_network: "storage".to_owned(),
            pf_mac_address: None,
            vf_num: Some(1),
        }
    }

    fn refused(port: Option<&PortRecord>) -> String {
        let (id, guest) = (PORT.parse().unwrap(), GUEST.parse().unwrap());
        check_port(id, port, "p", guest).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn a_guest_may_have_its_projects_free_ports_and_those_that_it_has() {
        for (more, reason) in [
            ("", ""),
            (r#", "device_id": """#, ""),
            (
                r#", "device_id": "11111111-2222-4333-8444-555555555555""#,
                "",
            ),
            (
                r#", "device_id": "11111111-2222-4333-8444-555555555556""#,
                "is still in use",
            ),
            (r#", "binding:vnic_type": "direct""#, ""),
            (r#", "binding:vnic_type": "macvtap""#, ""),
            (r#", "binding:vnic_type": "direct-physical""#, ""),
            (r#", "binding:vnic_type": "vdpa""#, "a vDPA device"),
            (
                r#", "binding:vnic_type": "baremetal""#,
                "vnic_type baremetal",
            ),
            (
                r#", "resource_request": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}"#,
                "",
            ),
            (
                r#", "binding:vnic_type": "direct", "resource_request": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}"#,
                "not supported together",
            ),
        ] {
            let shown = refused(Some(&port(more)));
            assert_eq!(shown.is_empty(), reason.is_empty(), "{more}: {shown}");
            assert!(shown.contains(reason), "{shown}");
        }
        assert!(refused(None).contains("could not be found"));
        let mut other = port("");
        other.tenant_id = "q".to_owned();
        assert!(refused(Some(&other)).contains("not usable"));
    }

    #[test]
    fn a_port_is_of_the_kind_that_the_request_was_checked_for() {
        let (normal, direct) = (port(""), port(r#", "binding:vnic_type": "direct""#));
        let wanted = |physical_network: Option<&str>| RequestedNetwork {
            physical_network: physical_network.map(str::to_owned),
            ..RequestedNetwork::default()
        };
        assert_eq!(check_kind(&normal, &wanted(None)), Ok(()));
        assert_eq!(check_kind(&direct, &wanted(Some("storage"))), Ok(()));
        let refused = check_kind(&direct, &wanted(None)).unwrap_err();
        assert!(refused.to_string().contains("it was normal"));
        let refused = check_kind(&normal, &wanted(Some("storage"))).unwrap_err();
        assert!(refused.to_string().contains("has the vnic_type normal"));
        let trusting =
            port(r#", "binding:vnic_type": "direct", "binding:profile": {"trusted": "True"}"#);
        let refused = check_kind(&trusting, &wanted(Some("storage"))).unwrap_err();
        assert!(refused.to_string().contains("trusted function"));
        let with_trust = RequestedNetwork {
            trusted: true,
            ..wanted(Some("storage"))
        };
        assert_eq!(check_kind(&trusting, &with_trust), Ok(()));
    }

    #[test]
    fn a_port_needs_what_was_claimed_for_it() {
        let needs = |kbps: u64| {
            port(&format!(
                r#", "resource_request": {{"resources": {{"NET_BW_EGR_KILOBIT_PER_SEC": {kbps}}}}}"#
            ))
        };
        let wanted = |port: &PortRecord| RequestedNetwork {
            resource_request: port.resource_request.clone().unwrap_or_default(),
            ..RequestedNetwork::default()
        };
        let (none, some, more) = (port(""), needs(1), needs(2));
        for one in [&none, &some, &more] {
            assert_eq!(check_kind(one, &wanted(one)), Ok(()));
        }
        assert_eq!(
            check_kind(&port(r#", "resource_request": {}"#), &wanted(&none)),
            Ok(())
        );
        for (one, claimed) in [(&some, &none), (&none, &some), (&more, &some)] {
            let refused = check_kind(one, &wanted(claimed)).unwrap_err();
            assert_eq!(refused, PortRefusal::ResourcesChanged(one.id));
        }
        assert!(needs_resources(&some) && !needs_resources(&none));
    }

    #[test]
    fn a_bound_profile_has_the_providers_until_the_port_leaves_the_host() {
        let mut port = port(r#", "binding:profile": {"capabilities": [], "allocation": "old"}"#);
        let bound = profile_of_allocation(&port, "new".into());
        assert_eq!(
            serde_json::to_value(&bound).unwrap(),
            serde_json::json!({"capabilities": [], "allocation": "new"})
        );
        port.profile = Some(bound);
        let free = profile_without_host(&port);
        assert_eq!(free.into_keys().collect::<Vec<_>>(), ["capabilities"]);
    }

    #[test]
    fn a_function_is_for_a_direct_port_of_its_physical_network_and_has_valid_texts() {
        let vif = direct_vif("");
        let function = NetworkFunctionBody {
            pf_mac_address: Some("52:54:00:00:00:05".to_owned()),
            ..function_of(&vif)
        };
        assert!(is_function_for(&vif, &function));
        let normal = VifBody {
            vnic_type: NORMAL.to_owned(),
            ..vif.clone()
        };
        assert!(!is_function_for(&normal, &function));
        let whole = VifBody {
            vnic_type: "direct-physical".to_owned(),
            ..vif.clone()
        };
        assert!(!is_function_for(&whole, &function));
        let card = NetworkFunctionBody {
            vf_num: None,
            ..function.clone()
        };
        assert!(is_function_for(&whole, &card) && !is_function_for(&vif, &card));
        let profile = profile_of_function(&whole, &card);
        assert_eq!(profile["device_mac_address"], "52:54:00:00:00:05");
        assert!(!profile.contains_key("vf_num") && !profile.contains_key("pf_mac_address"));
        let changes: [fn(&mut NetworkFunctionBody); 5] = [
            |function| function.pci_slot = "eth0".to_owned(),
            |function| function.pci_vendor_info = "8086".to_owned(),
            |function| function.physical_network = "other".to_owned(),
            |function| function.pf_mac_address = Some("52:54".to_owned()),
            |function| function.pf_mac_address = Some("+2:54:00:00:00:05".to_owned()),
        ];
        for change in changes {
            let mut wrong = function.clone();
            change(&mut wrong);
            assert!(!is_function_for(&vif, &wrong), "{wrong:?}");
        }
    }

    #[test]
    fn the_profile_of_a_function_replaces_that_of_an_earlier_one_and_keeps_what_its_owner_wrote() {
        let earlier =
            r#"{"capabilities": [], "pci_slot": "0000:01:00.0", "card_serial_number": "7"}"#;
        let vif = direct_vif(&format!(r#", "profile": {earlier}"#));
        let profile = profile_of_function(&vif, &function_of(&vif));
        let profile = serde_json::to_value(profile).unwrap();
        let expected = serde_json::json!({
            "capabilities": [],
            "pci_slot": "0000:05:10.2",
            "pci_vendor_info": "8086:154c",
            "physical_network": "storage",
            "vf_num": 1,
        });
        assert_eq!(profile, expected);
    }

    #[test]
    fn a_profile_without_a_host_keeps_what_its_owner_wrote() {
        let port = port(r#", "binding:profile": {"trusted": "true", "pci_slot": "0000:05:00.1"}"#);
        let keys: Vec<String> = profile_without_host(&port).into_keys().collect();
        assert_eq!(keys, ["trusted"]);
    }
}
