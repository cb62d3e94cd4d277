use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

const PORT: &str = "88a15950-b8bf-4445-86f5-21ad10632a28";
const NETWORK: &str = "4c2a7401-0e91-4f9b-91f8-190ef184e905";
const SUBNET: &str = "11111111-2222-4333-8444-000000000001";
const SUBNET_6: &str = "11111111-2222-4333-8444-000000000006";

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn port() -> Value {
    json!({
        "id": PORT, "network_id": NETWORK, "tenant_id": "p", "mac_address": "fa:16:3e:54:eb:90",
        "fixed_ips": [{"subnet_id": SUBNET, "ip_address": "10.55.0.115"}],
        "device_id": "s", "device_owner": "compute:nova", "status": "DOWN", "admin_state_up": true,
        "binding:host_id": "cmp1", "binding:vif_type": "ovs", "binding:vnic_type": "normal", "binding:profile": {},
        "binding:vif_details": {"port_filter": true, "connectivity": "l2", "ovs_create_tap": true, "bridge_name": "br-int",
            "datapath_type": "netdev", "bound_drivers": {"0": "ovn"}},
    })
}

fn facts() -> NetworkFacts {
    NetworkFacts {
        ports: vec![of(port())],
        networks: vec![of(json!({
            "id": NETWORK, "name": "net1", "tenant_id": "p", "mtu": 1442, "subnets": [SUBNET],
            "provider:network_type": "geneve", "provider:physical_network": null,
        }))],
        subnets: vec![of(json!({
            "id": SUBNET, "network_id": NETWORK, "cidr": "10.55.0.0/24", "ip_version": 4, "gateway_ip": "10.55.0.1",
            "enable_dhcp": true, "ipv6_address_mode": null, "dns_nameservers": ["10.55.0.1"],
            "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.55.0.2"}],
        }))],
        ..NetworkFacts::default()
    }
}

fn given() -> VifOrigin {
    VifOrigin {
        port: PORT.parse().unwrap(),
        preserve_on_delete: false,
        tag: None,
    }
}

fn only(facts: &NetworkFacts, origin: VifOrigin) -> VifBody {
    let mut vifs = network_info(facts, &[origin]);
    assert_eq!(vifs.len(), 1);
    vifs.remove(0)
}

#[test]
fn a_port_of_ovn_has_the_form_of_novas_network_info() {
    let vif = serde_json::to_value(only(&facts(), given())).unwrap();
    let ip = |address: &str, kind: &str| json!({"address": address, "type": kind, "version": 4, "meta": {}});
    assert_eq!(
        vif,
        json!({
            "id": PORT, "address": "fa:16:3e:54:eb:90", "type": "ovs",
            "details": {"port_filter": true, "connectivity": "l2", "ovs_create_tap": true, "bridge_name": "br-int",
                "datapath_type": "netdev", "bound_drivers": {"0": "ovn"}},
            "devname": "tap88a15950-b8", "ovs_interfaceid": PORT, "qbh_params": null, "qbg_params": null,
            "active": false, "vnic_type": "normal", "profile": {}, "preserve_on_delete": false, "delegate_create": true,
            "meta": {},
            "network": {
                "id": NETWORK, "bridge": "br-int", "label": "net1",
                "meta": {"injected": false, "tenant_id": "p", "mtu": 1442, "physical_network": null, "tunneled": true},
                "subnets": [{
                    "cidr": "10.55.0.0/24", "dns": [ip("10.55.0.1", "dns")], "gateway": ip("10.55.0.1", "gateway"),
                    "ips": [{"address": "10.55.0.115", "type": "fixed", "version": 4, "meta": {}, "floating_ips": []}],
                    "routes": [{"cidr": "10.9.0.0/16", "gateway": ip("10.55.0.2", "gateway"), "interface": null, "meta": {}}],
                    "version": 4, "meta": {"enable_dhcp": true},
                }],
            },
        })
    );
}

#[test]
fn floating_addresses_are_at_the_fixed_address_that_they_lead_to() {
    let mut facts = facts();
    for (port, fixed) in [
        (PORT, "10.55.0.115"),
        (PORT, "10.55.0.9"),
        (NETWORK, "10.55.0.115"),
    ] {
        facts.floating_ips.push(of(json!({
            "id": SUBNET, "floating_ip_address": "203.0.113.9", "fixed_ip_address": fixed, "port_id": port,
        })));
    }
    let vif = only(&facts, given());
    let fixed: Vec<_> = vif.fixed_ips().collect();
    assert_eq!(fixed.len(), 1);
    assert_eq!(fixed[0].floating_ips, [ip("203.0.113.9", "floating")]);
}

#[test]
fn addresses_are_at_their_subnets_with_the_dhcp_server_of_each() {
    let mut facts = facts();
    let mut changed = port();
    changed["fixed_ips"] = json!([
        {"subnet_id": SUBNET_6, "ip_address": "fd00::5"},
        {"subnet_id": SUBNET, "ip_address": "10.55.0.115"},
        {"subnet_id": SUBNET, "ip_address": "10.55.0.116"},
    ]);
    changed["status"] = json!("ACTIVE");
    facts.ports = vec![of(changed)];
    facts.subnets.push(of(json!({
        "id": SUBNET_6, "network_id": NETWORK, "cidr": "fd00::/64", "ip_version": 6, "gateway_ip": null,
        "enable_dhcp": false, "ipv6_address_mode": "slaac",
    })));
    facts.dhcp_ports.push(of(json!({
        "id": SUBNET, "network_id": NETWORK, "mac_address": "fa:16:3e:00:00:01", "device_owner": "network:dhcp",
        "fixed_ips": [{"subnet_id": SUBNET, "ip_address": "10.55.0.2"}],
    })));
    let vif = only(&facts, given());
    assert!(vif.active);
    let [six, four] = vif.network.subnets.as_slice() else {
        panic!("{:?}", vif.network.subnets)
    };
    assert_eq!((six.ips.len(), four.ips.len()), (1, 2));
    assert_eq!(six.gateway.as_ref().unwrap().address, None);
    assert_eq!(six.ips[0].ip.version, Some(6));
    assert_eq!(six.meta["ipv6_address_mode"], "slaac");
    assert_eq!(six.meta.get("dhcp_server"), None);
    assert_eq!(four.meta["dhcp_server"], "10.55.0.2");
}

#[test]
fn the_order_and_the_tags_are_the_servers_and_a_port_that_is_gone_is_left_out() {
    let mut facts = facts();
    let mut second = port();
    second["id"] = json!(SUBNET);
    facts.ports.insert(0, of(second));
    let tagged = VifOrigin {
        preserve_on_delete: true,
        tag: Some("storage".to_owned()),
        ..given()
    };
    let other = |port: &str| VifOrigin {
        port: port.parse().unwrap(),
        ..given()
    };
    let vifs = network_info(&facts, &[tagged, other(NETWORK), other(SUBNET)]);
    let ids: Vec<_> = vifs.iter().map(|vif| vif.id.to_string()).collect();
    assert_eq!(ids, [PORT, SUBNET]);
    assert_eq!(vifs[0].meta["tag"], "storage");
    assert!(vifs[0].preserve_on_delete && !vifs[1].preserve_on_delete);
}

#[test]
fn the_kind_of_the_binding_decides_the_bridge() {
    for (vif_type, details, bridge, is_ovs) in [
        (json!("ovs"), json!({}), Some("br-int"), true),
        (
            json!("ovs"),
            json!({"bridge_name": "a-rather-long-name"}),
            Some("a-rather-long-"),
            true,
        ),
        (
            json!("vhostuser"),
            json!({"vhostuser_ovs_plug": true, "bridge_name": "br-dpdk"}),
            Some("br-dpdk"),
            true,
        ),
        (
            json!("vhostuser"),
            json!({"vhostuser_fp_plug": true}),
            Some("brq4c2a7401-0e"),
            false,
        ),
        (json!("vhostuser"), json!({}), None, false),
        (json!("hw_veb"), json!({"vlan": "17"}), None, false),
        (json!("dvs"), json!({}), Some(NETWORK), false),
        (json!(null), json!(null), None, false),
    ] {
        let mut facts = facts();
        let mut changed = port();
        changed["binding:vif_type"] = vif_type.clone();
        changed["binding:vif_details"] = details;
        facts.ports = vec![of(changed)];
        let vif = only(&facts, given());
        assert_eq!(vif.network.bridge.as_deref(), bridge, "{vif_type}");
        assert_eq!(vif.ovs_interfaceid.is_some(), is_ovs, "{vif_type}");
        assert_eq!(vif.vif_type, vif_type.as_str().unwrap_or("unbound"));
    }
}

#[test]
fn a_segment_with_a_physical_network_is_not_tunneled() {
    for (segments, physical, tunneled) in [
        (
            json!([{"provider:network_type": "geneve", "provider:physical_network": null},
                {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}]),
            Some("physnet1"),
            false,
        ),
        (
            json!([{"provider:network_type": "geneve"}, {"provider:network_type": "vxlan"}]),
            None,
            true,
        ),
    ] {
        let mut facts = facts();
        facts.networks = vec![of(json!({"id": NETWORK, "segments": segments}))];
        let meta = only(&facts, given()).network.meta;
        assert_eq!(meta["physical_network"], json!(physical));
        assert_eq!(meta["tunneled"], json!(tunneled));
        assert_eq!(meta["mtu"], Value::Null);
    }
}
