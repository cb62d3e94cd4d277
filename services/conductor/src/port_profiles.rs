//! The profile of a port (`binding:profile`): what its owner wrote, and what describes the host's device. Pure.

use berth_model::{MacAddress, PciAddress};
use berth_wire::conductor::FunctionVnicType;
use berth_wire::guest::NetworkFunctionBody;
use berth_wire::network_info::{Extras, VifBody};
use berth_wire::neutron::PortRecord;
use serde_json::Value;

/// Whether what a host reports is a function for this port. The profile of the port gets its texts.
pub(crate) fn is_function_for(vif: &VifBody, function: &NetworkFunctionBody) -> bool {
    let network = vif.network.meta.get("physical_network");
    let is_hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let ids = function.pci_vendor_info.split_once(':');
    let is_of_kind = match FunctionVnicType::of(&vif.vnic_type) {
        Some(FunctionVnicType::Direct | FunctionVnicType::Macvtap) => function.vf_num.is_some(),
        Some(FunctionVnicType::DirectPhysical) => function.vf_num.is_none(),
        None => false,
    };
    is_of_kind
        && network.and_then(Value::as_str) == Some(&function.physical_network)
        && function.pci_slot.parse::<PciAddress>().is_ok()
        && ids.is_some_and(|(vendor, product)| is_hex(vendor, 4) && is_hex(product, 4))
        && function
            .pf_mac_address
            .iter()
            .all(|mac| mac.parse::<MacAddress>().is_ok())
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
            vnic_type: "normal".to_owned(),
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
