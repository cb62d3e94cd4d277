use super::*;

/// A port as Neutron binds it with ML2/OVN, in Nova's network model.
fn vif() -> VifBody {
    serde_json::from_value(json!({
        "id": "88a15950-b8b3-4a2c-9a3b-5a1e1a2b3c4d",
        "address": "fa:16:3e:54:eb:90",
        "type": "ovs",
        "vnic_type": "normal",
        "devname": "tap88a15950-b8",
        "details": {
            "bridge_name": "br-int",
            "bound_drivers": {"0": "ovn"},
            "ovs_create_tap": true,
        },
        "network": {
            "id": "4c2a7401-0000-4000-8000-000000000001",
            "bridge": "br-int",
            "label": "private",
            "meta": {"mtu": 1442},
            "subnets": [{
                "cidr": "10.55.0.0/24",
                "version": 4,
                "dns": [{"address": "10.55.0.1", "type": "dns", "version": 4}],
                "gateway": {"address": "10.55.0.1", "type": "gateway", "version": 4},
                "ips": [{"address": "10.55.0.7", "type": "fixed", "version": 4, "floating_ips": []}],
                "routes": [],
                "meta": {"enable_dhcp": true},
            }],
        },
    }))
    .unwrap()
}

fn refusal(change: impl FnOnce(&mut VifBody)) -> String {
    let mut vif = vif();
    change(&mut vif);
    port(&vif, "networks[0]").unwrap_err().to_string()
}

#[test]
fn a_port_of_ovn_is_connected_by_a_tap_on_the_integration_bridge() {
    let port = port(&vif(), "networks[0]").unwrap();
    assert_eq!(port.tap().as_str(), "tap88a15950-b8");
    assert_eq!(port.network().as_str(), "private");
    assert_eq!(port.mtu(), Some(1442));
    assert_eq!(port.addresses(), ["10.55.0.7".parse::<IpAddr>().unwrap()]);
    let PortConnection::OpenVswitch { bridge, signal } = port.connection() else {
        panic!("{port:?}")
    };
    assert_eq!(
        (bridge.as_str(), *signal),
        ("br-int", PlugSignal::OvnInstalled)
    );
}

#[test]
fn the_agent_creates_the_tap_also_if_the_binding_leaves_that_to_libvirt() {
    let expected = port(&vif(), "networks[0]").unwrap();
    let mut native = vif();
    native
        .details
        .insert("ovs_create_tap".to_owned(), json!(false));
    assert_eq!(port(&native, "networks[0]").unwrap(), expected);
    // An older Neutron says nothing.
    native.details.remove("ovs_create_tap");
    assert_eq!(port(&native, "networks[0]").unwrap(), expected);
}

#[test]
fn a_port_of_neutrons_switch_agent_works_when_it_has_a_vlan_tag() {
    let mut vif = vif();
    vif.details.remove("bound_drivers");
    let port = port(&vif, "networks[0]").unwrap();
    let PortConnection::OpenVswitch { signal, .. } = port.connection() else {
        panic!("{port:?}")
    };
    assert_eq!(*signal, PlugSignal::VlanTag);
}

#[test]
fn a_mechanism_that_the_agent_lacks_is_refused_with_the_port_and_its_name() {
    let port = vif().id;
    for (refused, expected) in [
        (
            refusal(|it| it.vif_type = "binding_failed".to_owned()),
            "is not bound to this host",
        ),
        (
            refusal(|it| it.vif_type = "hw_veb".to_owned()),
            "binding:vif_type hw_veb",
        ),
        (
            refusal(|it| it.vif_type = "vhostuser".to_owned()),
            "binding:vif_type vhostuser",
        ),
        (
            refusal(|it| it.vnic_type = "direct".to_owned()),
            "binding:vnic_type direct",
        ),
        (
            refusal(|it| {
                it.details.insert("ovs_hybrid_plug".to_owned(), json!(true));
            }),
            "ovs_hybrid_plug",
        ),
    ] {
        assert!(refused.contains(expected), "{refused}");
        assert!(
            refused.contains(&format!("networks[0]: port {port} ")),
            "{refused}"
        );
    }
}

#[test]
fn a_guest_with_a_dhcp_subnet_reads_what_nova_writes() {
    assert_eq!(
        network_data(&[&vif()]),
        json!({
            "links": [{
                "id": "tap88a15950-b8",
                "vif_id": "88a15950-b8b3-4a2c-9a3b-5a1e1a2b3c4d",
                "type": "ovs",
                "mtu": 1442,
                "ethernet_mac_address": "fa:16:3e:54:eb:90",
            }],
            "networks": [{
                "id": "network0",
                "type": "ipv4_dhcp",
                "link": "tap88a15950-b8",
                "network_id": "4c2a7401-0000-4000-8000-000000000001",
            }],
            "services": [{"type": "dns", "address": "10.55.0.1"}],
        })
    );
}

#[test]
fn a_guest_with_a_static_subnet_reads_its_address_and_its_routes() {
    let mut vif = vif();
    let subnet = &mut vif.network.subnets[0];
    subnet.meta.clear();
    subnet.routes = vec![
        serde_json::from_value(json!({"cidr": "10.9.0.0/20", "gateway": {"address": "10.55.0.2"}}))
            .unwrap(),
    ];
    let data = network_data(&[&vif]);
    let network = &data["networks"][0];
    assert_eq!(network["type"], "ipv4");
    assert_eq!(network["ip_address"], "10.55.0.7");
    assert_eq!(network["netmask"], "255.255.255.0");
    assert_eq!(
        network["routes"],
        json!([
            {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.55.0.1"},
            {"network": "10.9.0.0", "netmask": "255.255.240.0", "gateway": "10.55.0.2"},
        ])
    );
    let subnet = &mut vif.network.subnets[0];
    subnet.version = Some(6);
    subnet.cidr = Some("fd00::/64".to_owned());
    subnet
        .meta
        .insert("ipv6_address_mode".to_owned(), json!("slaac"));
    let data = network_data(&[&vif]);
    let network = &data["networks"][0];
    assert_eq!(network["type"], "ipv6_slaac");
    assert_eq!(network["netmask"], "ffff:ffff:ffff:ffff::");
}

#[test]
fn a_netmask_of_any_length_is_an_address() {
    assert_eq!(netmask(4, 0), "0.0.0.0");
    assert_eq!(netmask(4, 32), "255.255.255.255");
    assert_eq!(netmask(4, 99), "255.255.255.255");
    assert_eq!(netmask(6, 0), "::");
}

/// A direct port, before it is bound.
fn direct_vif() -> VifBody {
    let mut vif = vif();
    vif.vnic_type = "direct".to_owned();
    vif.vif_type = "unbound".to_owned();
    vif.details.clear();
    let meta = &mut vif.network.meta;
    meta.insert("physical_network".to_owned(), json!("storage"));
    vif
}

/// The same as Neutron's `sriovnicswitch` binds it.
fn bound_vif(vlan: &Value) -> VifBody {
    let mut vif = direct_vif();
    vif.vif_type = HW_VEB.to_owned();
    let slot = ("pci_slot".to_owned(), json!("0000:05:10.2"));
    vif.profile = Some([slot].into());
    vif.details.insert("vlan".to_owned(), vlan.clone());
    vif
}

#[test]
fn a_direct_port_waits_for_a_function_on_its_physical_network() {
    let wanted = unbound(&direct_vif(), FunctionVnicType::Direct, "networks[0]").unwrap();
    assert_eq!(wanted.physical_network, "storage");
    let refusal = |change: &dyn Fn(&mut VifBody)| {
        let mut vif = direct_vif();
        change(&mut vif);
        unbound(&vif, FunctionVnicType::Direct, "networks[0]")
            .unwrap_err()
            .to_string()
    };
    let is_bound = refusal(&|vif| vif.vif_type = HW_VEB.to_owned());
    assert!(is_bound.contains("expected an unbound one"), "{is_bound}");
    let virtual_only = refusal(&|vif| drop(vif.network.meta.remove("physical_network")));
    assert!(
        virtual_only.contains("no physical network"),
        "{virtual_only}"
    );
    let shown = network_data(&[&direct_vif()]);
    assert_eq!(shown["links"][0]["type"], "hw_veb");
}

#[test]
fn a_bound_direct_port_has_the_function_of_its_profile_and_its_networks_vlan() {
    for (vlan, expected) in [
        (json!("100"), Some(100)),
        (json!(100), Some(100)),
        (json!("0"), None),
        (json!(null), None),
    ] {
        let port = function(&bound_vif(&vlan), FunctionVnicType::Direct, "ports[0]").unwrap();
        let expected = PortConnection::NetworkFunction {
            address: "0000:05:10.2".parse().unwrap(),
            vlan: expected,
            trusted: false,
        };
        assert_eq!(*port.connection(), expected, "{vlan}");
    }
    for (vlan, slot, kind, expected) in [
        (json!("many"), json!("0000:05:10.2"), HW_VEB, "invalid VLAN"),
        (json!(4095), json!("0000:05:10.2"), HW_VEB, "1 to 4094"),
        (json!("1"), json!("eth0"), HW_VEB, "pci_slot \"eth0\""),
        (json!("1"), json!(null), HW_VEB, "pci_slot"),
        (json!("1"), json!("0000:05:10.2"), "ovs", "sriovnicswitch"),
    ] {
        let mut vif = bound_vif(&vlan);
        vif.vif_type = kind.to_owned();
        vif.profile = Some([("pci_slot".to_owned(), slot)].into());
        let refused = function(&vif, FunctionVnicType::Direct, "ports[0]");
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn a_port_of_each_kind_is_connected_in_its_own_way_and_keeps_its_trust() {
    let address = "0000:05:10.2".parse().unwrap();
    for (kind, vif_type, expected) in [
        (
            FunctionVnicType::Direct,
            HW_VEB,
            PortConnection::NetworkFunction {
                address,
                vlan: Some(7),
                trusted: true,
            },
        ),
        (
            FunctionVnicType::Macvtap,
            HW_VEB,
            PortConnection::Macvtap {
                address,
                vlan: Some(7),
                trusted: true,
            },
        ),
        (
            FunctionVnicType::DirectPhysical,
            HOSTDEV_PHYSICAL,
            PortConnection::PhysicalFunction { address },
        ),
    ] {
        let mut vif = bound_vif(&json!("7"));
        vif.vnic_type = kind.as_str().to_owned();
        vif.vif_type = vif_type.to_owned();
        let profile = vif.profile.as_mut().unwrap();
        profile.insert("trusted".to_owned(), json!("True"));
        assert_eq!(function_kind(&vif), Some(kind));
        let port = function(&vif, kind, "ports[0]").unwrap();
        assert_eq!(*port.connection(), expected);
        let shown = network_data(&[&vif])["links"][0]["type"].clone();
        let is_whole = kind == FunctionVnicType::DirectPhysical;
        assert_eq!(shown, if is_whole { "phy" } else { "hw_veb" });
        vif.vif_type = "ovs".to_owned();
        let refused = function(&vif, kind, "ports[0]").unwrap_err().to_string();
        assert!(refused.contains(kind.as_str()), "{refused}");
    }
    let mut vif = direct_vif();
    vif.vnic_type = "vdpa".to_owned();
    assert_eq!(function_kind(&vif), None);
}
