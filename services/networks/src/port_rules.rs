//! [`PortRefusal`]: which ports a guest may have. Pure.

use berth_client::network::port_of_project;
use berth_wire::conductor::{FunctionVnicType, RequestedNetwork};
use berth_wire::network_info::asks_for_trust;
use berth_wire::neutron::PortRecord;
use uuid::Uuid;

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
#[must_use]
pub fn needs_resources(port: &PortRecord) -> bool {
    let request = port.resource_request.as_ref();
    request.is_some_and(|request| !request.is_empty())
}

/// Checks that a port still is what the request was checked for.
///
/// Errors: its kind is another, its function must be trusted now, or it needs other resources than were claimed.
pub fn check_kind(port: &PortRecord, wanted: &RequestedNetwork) -> Result<(), PortRefusal> {
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

/// The port if the guest may have it.
///
/// Errors: there is no such port, another project or server has it, or no host can have such a port.
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
}
