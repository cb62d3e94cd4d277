//! Which ports a guest may have, and what is left of a port's profile without its host. Pure.

use berth_client::network::port_of_project;
use berth_wire::guest::ActionId;
use berth_wire::network_info::Extras;
use berth_wire::neutron::PortRecord;
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
    format!("Created by Berth, attempt {attempt}, interface ")
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
    #[error("port {port} has the vnic_type {vnic_type}, and only normal is supported")]
    VnicType { port: Uuid, vnic_type: String },
    /// The port's QoS policy guarantees a bandwidth or packet rate.
    #[error(
        "port {0} needs resources of its own (minimum bandwidth or packet rate), which is not supported"
    )]
    NeedsResources(Uuid),
    /// The network does not exist, or the project may not use it.
    #[error("Network {0} could not be found.")]
    NoNetwork(Uuid),
    /// The network service refuses it, with this sentence.
    #[error("{0}")]
    Service(String),
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
    let vnic_type = port.vnic_type.as_deref().unwrap_or("normal");
    if vnic_type != "normal" {
        let vnic_type = vnic_type.to_owned();
        return Err(PortRefusal::VnicType {
            port: id,
            vnic_type,
        });
    }
    let request = port.resource_request.as_ref();
    if request.is_some_and(|request| !request.is_empty()) {
        return Err(PortRefusal::NeedsResources(id));
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

/// The profile of a port that is on no host. What its owner wrote stays.
pub(crate) fn profile_without_host(port: &PortRecord) -> Extras {
    let mut profile = port.profile.clone().unwrap_or_default();
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
            (r#", "binding:vnic_type": "direct""#, "vnic_type direct"),
            (
                r#", "resource_request": {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}"#,
                "minimum bandwidth",
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
    fn a_profile_without_a_host_keeps_what_its_owner_wrote() {
        let port = port(r#", "binding:profile": {"trusted": "true", "pci_slot": "0000:05:00.1"}"#);
        let keys: Vec<String> = profile_without_host(&port).into_keys().collect();
        assert_eq!(keys, ["trusted"]);
    }
}
