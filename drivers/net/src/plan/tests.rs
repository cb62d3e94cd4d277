use berth_virt::guest_spec::{InterfaceSource, Label, LinkName, PlugSignal};
use uuid::Uuid;

use super::*;

const GUEST: Uuid = Uuid::from_u128(7);

fn spec() -> PortSpec {
    let port = GuestPort::new(
        Uuid::from_u128(0x88a1_5950_b8b3 << 80),
        Label::new("private").unwrap(),
        Vec::new(),
        Some(1442),
        PortConnection::OpenVswitch {
            bridge: LinkName::new("br-int").unwrap(),
            signal: PlugSignal::OvnInstalled,
        },
    );
    let port = port.unwrap();
    PortSpec::new(GUEST.into(), &interface_of(&port), &port, false).unwrap()
}

fn interface_of(port: &GuestPort) -> GuestInterface {
    GuestInterface {
        mac: "fa:16:3e:54:eb:90".parse().unwrap(),
        source: InterfaceSource::Port(Box::new(port.clone())),
    }
}

#[test]
fn a_port_that_is_a_function_of_a_network_card_is_not_plugged() {
    let connection = PortConnection::NetworkFunction {
        address: "0000:05:10.2".parse().unwrap(),
        vlan: None,
        trusted: false,
    };
    let network = Label::new("private").unwrap();
    let port = GuestPort::new(spec().port.id(), network, Vec::new(), None, connection).unwrap();
    let spec = PortSpec::new(GUEST.into(), &interface_of(&port), &port, false);
    assert_eq!(spec, None);
}

fn plugged() -> PortFacts {
    PortFacts {
        interface: Some(SwitchInterface {
            name: spec().port.tap().to_string(),
            bridge: Some("br-int".to_owned()),
            port_id: Some(spec().port.id().to_string()),
            guest: Some(GUEST.to_string()),
            node: Some("node".to_owned()),
        }),
        has_bridge: true,
        link: Some(LinkView {
            is_tap: true,
            is_multi_queue: false,
            is_up: true,
            mtu: Some(1442),
            address: Some("fa:16:3e:54:eb:90".to_owned()),
        }),
    }
}

fn interface(change: impl FnOnce(&mut SwitchInterface)) -> PortFacts {
    let mut facts = plugged();
    change(facts.interface.as_mut().unwrap());
    facts
}

fn link(change: impl FnOnce(&mut LinkView)) -> PortFacts {
    let mut facts = plugged();
    change(facts.link.as_mut().unwrap());
    facts
}

#[test]
fn a_port_on_a_bare_host_gets_its_interface_and_its_tap() {
    let facts = PortFacts {
        has_bridge: true,
        ..PortFacts::default()
    };
    let plan = plug(&spec(), &facts).unwrap();
    assert!(plan.adds_interface && !plan.removes_interface);
    assert_eq!(plan.tap, TapPlan::Create { replaces: false });
}

#[test]
fn a_plugged_port_is_left_as_it_is() {
    let plan = plug(&spec(), &plugged()).unwrap();
    assert!(!plan.adds_interface && !plan.removes_interface);
    assert_eq!(plan.tap, TapPlan::Keep);
}

#[test]
fn a_host_boot_leaves_the_interface_and_the_tap_is_created_again() {
    let facts = PortFacts {
        link: None,
        ..plugged()
    };
    let plan = plug(&spec(), &facts).unwrap();
    assert!(!plan.adds_interface);
    assert_eq!(plan.tap, TapPlan::Create { replaces: false });
}

#[test]
fn an_interrupted_plug_is_completed() {
    for facts in [
        link(|link| link.is_up = false),
        link(|link| link.mtu = Some(1500)),
        link(|link| link.address = None),
    ] {
        assert_eq!(plug(&spec(), &facts).unwrap().tap, TapPlan::Configure);
    }
    let detached = interface(|interface| interface.bridge = None);
    assert!(plug(&spec(), &detached).unwrap().adds_interface);
}

#[test]
fn a_tap_with_another_number_of_queues_is_replaced() {
    let facts = link(|link| link.is_multi_queue = true);
    let plan = plug(&spec(), &facts).unwrap();
    assert_eq!(plan.tap, TapPlan::Create { replaces: true });
}

#[test]
fn a_port_of_another_guest_is_never_taken_or_removed() {
    let facts = interface(|interface| interface.guest = Some(Uuid::from_u128(8).to_string()));
    let error = plug(&spec(), &facts).unwrap_err();
    assert!(matches!(error, PortError::TakenByGuest { .. }), "{error}");
    let plan = unplug(&spec(), &facts);
    assert!(!plan.deletes_tap && !plan.removes_interface);
}

#[test]
fn an_interface_of_another_program_is_never_taken_or_removed() {
    let facts = interface(|interface| interface.port_id = None);
    let error = plug(&spec(), &facts).unwrap_err();
    assert!(matches!(error, PortError::TakenByOther { .. }), "{error}");
    assert!(!unplug(&spec(), &facts).removes_interface);
    // A tap without an interface in the switch, and a link that is no tap.
    for facts in [
        PortFacts {
            interface: None,
            ..plugged()
        },
        link(|link| link.is_tap = false),
    ] {
        let error = plug(&spec(), &facts).unwrap_err();
        assert!(matches!(error, PortError::LinkInTheWay { .. }), "{error}");
        assert!(!unplug(&spec(), &facts).deletes_tap);
    }
}

#[test]
fn a_host_without_the_bridge_is_refused() {
    let error = plug(&spec(), &PortFacts::default()).unwrap_err();
    assert!(error.to_string().contains("br-int"), "{error}");
}

#[test]
fn a_port_that_is_not_plugged_counts_as_unplugged() {
    let plan = unplug(&spec(), &PortFacts::default());
    assert!(!plan.deletes_tap && !plan.removes_interface);
    let plan = unplug(&spec(), &plugged());
    assert!(plan.deletes_tap && plan.removes_interface);
}
