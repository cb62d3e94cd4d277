//! The security groups of servers: those of their ports in the network service. Most sentences are Nova's.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::network::{PortFilter, SharedObjectType};
use berth_client::{NetworkClient, NetworkClientError};
use berth_wire::neutron::{PortRecord, SecurityGroupRecord};
use uuid::Uuid;

use crate::network_choice::{NetworkChoiceError, security_group};

/// How often the ports are read again while others change them.
const TRIES: usize = 5;

/// A server, as the owner of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortOwner<'a> {
    pub server: Uuid,
    /// The server's project.
    pub project_id: &'a str,
}

/// What happens to a security group at all ports of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityGroupChange {
    Add,
    Remove,
}

/// Why a server's security groups are not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecurityGroupError {
    /// The group is unknown or not unique, or a port cannot have groups.
    #[error(transparent)]
    Choice(#[from] NetworkChoiceError),
    #[error("instance_id {0} could not be found as device id on any ports")]
    NoPorts(Uuid),
    #[error("Security group {name} not associated with the instance {server}")]
    NotOfServer { name: String, server: Uuid },
    #[error("The ports of instance {0} were changed concurrently several times; try again.")]
    Busy(Uuid),
}

impl From<NetworkClientError> for SecurityGroupError {
    fn from(error: NetworkClientError) -> Self {
        NetworkChoiceError::from(error).into()
    }
}

/// The ports of a server, of its own project: tenants may write any device into their ports.
pub async fn ports_of_server(
    service: &NetworkClient,
    owner: PortOwner<'_>,
) -> Result<Vec<PortRecord>, NetworkClientError> {
    let filter = PortFilter {
        project: Some(owner.project_id.to_owned()),
        device_id: Some(owner.server.to_string()),
        ..PortFilter::default()
    };
    service.ports(&filter).await
}

/// Adds a group to all ports of a server, or removes it from them. The group is named by name or UUID.
///
/// Errors: no such group or ports, a port cannot have groups, or others change the ports all the time.
pub async fn change_security_group(
    service: &NetworkClient,
    owner: PortOwner<'_>,
    name: &str,
    change: SecurityGroupChange,
) -> Result<(), SecurityGroupError> {
    let known = service.security_groups_usable_by(owner.project_id).await?;
    // As in Nova, a name is that of an own group.
    let group = security_group(&known, name, &[&known.own])?;
    for round in 0..TRIES {
        let ports = ports_of_server(service, owner).await?;
        if ports.is_empty() {
            return Err(SecurityGroupError::NoPorts(owner.server));
        }
        let changes = changed_ports(&ports, group, change)?;
        if changes.is_empty() && change == SecurityGroupChange::Remove && round == 0 {
            return Err(SecurityGroupError::NotOfServer {
                name: name.to_owned(),
                server: owner.server,
            });
        }
        let mut is_done = true;
        for (port, groups) in changes {
            let changed = service.secure_port(port.id, groups, port.revision_number);
            match changed.await {
                Ok(_) => {}
                Err(NetworkClientError::Changed(_) | NetworkClientError::NotFound(_)) => {
                    is_done = false;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if is_done {
            return Ok(());
        }
    }
    Err(SecurityGroupError::Busy(owner.server))
}

/// The ports that change, each with its new groups.
///
/// Errors: a port has no address or no port security, so that it cannot have groups.
fn changed_ports(
    ports: &[PortRecord],
    group: Uuid,
    change: SecurityGroupChange,
) -> Result<Vec<(&PortRecord, BTreeSet<Uuid>)>, NetworkChoiceError> {
    let has_groups =
        |port: &PortRecord| port.port_security_enabled != Some(false) && !port.fixed_ips.is_empty();
    if change == SecurityGroupChange::Add && !ports.iter().all(has_groups) {
        return Err(NetworkChoiceError::NoPortSecurity);
    }
    let changed = ports.iter().filter_map(|port| {
        let mut groups: BTreeSet<Uuid> = port.security_groups.iter().copied().collect();
        let is_changed = match change {
            SecurityGroupChange::Add => groups.insert(group),
            SecurityGroupChange::Remove => groups.remove(&group),
        };
        is_changed.then_some((port, groups))
    });
    Ok(changed.collect())
}

/// The groups of ports that a project may see: its own and those shared with it. Without a project, all.
pub async fn groups_of_ports(
    service: &NetworkClient,
    ports: &[PortRecord],
    project: Option<&str>,
) -> Result<BTreeMap<Uuid, SecurityGroupRecord>, NetworkClientError> {
    let ids = ports.iter().flat_map(|port| &port.security_groups);
    visible_groups(service, &ids.copied().collect(), project).await
}

/// The groups that rules of these groups name as their peers.
pub async fn peer_groups(
    service: &NetworkClient,
    groups: &BTreeMap<Uuid, SecurityGroupRecord>,
    project: Option<&str>,
) -> Result<BTreeMap<Uuid, SecurityGroupRecord>, NetworkClientError> {
    let rules = groups
        .values()
        .flat_map(|group| &group.security_group_rules);
    let peers = rules.filter_map(|rule| rule.remote_group_id);
    let others: BTreeSet<Uuid> = peers.filter(|peer| !groups.contains_key(peer)).collect();
    let mut peers = visible_groups(service, &others, project).await?;
    peers.extend(groups.iter().map(|(id, group)| (*id, group.clone())));
    Ok(peers)
}

async fn visible_groups(
    service: &NetworkClient,
    ids: &BTreeSet<Uuid>,
    project: Option<&str>,
) -> Result<BTreeMap<Uuid, SecurityGroupRecord>, NetworkClientError> {
    let mut groups = service.security_groups(ids).await?;
    if let Some(project) = project {
        let foreign = groups.iter().filter(|group| group.tenant_id != project);
        let foreign: BTreeSet<Uuid> = foreign.map(|group| group.id).collect();
        if !foreign.is_empty() {
            let of = SharedObjectType::SecurityGroup;
            let shared = service.shared_with(project, of, &foreign).await?;
            groups.retain(|group| group.tenant_id == project || shared.ids().contains(&group.id));
        }
    }
    Ok(groups.into_iter().map(|group| (group.id, group)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn port(number: u128, groups: &[u128], more: &[(&str, Value)]) -> PortRecord {
        let groups: Vec<_> = groups.iter().map(|id| Uuid::from_u128(*id)).collect();
        let mut port = json!({
            "id": Uuid::from_u128(number),
            "network_id": Uuid::nil(),
            "mac_address": "fa:16:3e:00:00:01",
            "fixed_ips": [{"subnet_id": Uuid::nil(), "ip_address": "192.0.2.1"}],
            "security_groups": groups,
        });
        for (key, value) in more {
            port[*key] = value.clone();
        }
        serde_json::from_value(port).unwrap()
    }

    #[test]
    fn a_group_is_added_to_each_port_without_it_and_removed_from_each_with_it() {
        use SecurityGroupChange::{Add, Remove};
        let ports = [port(1, &[7], &[]), port(2, &[7, 8], &[])];
        let changed = |change| {
            let changes = changed_ports(&ports, Uuid::from_u128(8), change).unwrap();
            let numbers = changes.iter().map(|(port, groups)| {
                let groups: Vec<_> = groups.iter().map(Uuid::as_u128).collect();
                (port.id.as_u128(), groups)
            });
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(changed(Add), [(1, vec![7, 8])]);
        assert_eq!(changed(Remove), [(2, vec![7])]);
        for unfit in [
            port(3, &[], &[("port_security_enabled", json!(false))]),
            port(3, &[], &[("fixed_ips", json!([]))]),
        ] {
            let ports = [ports[0].clone(), unfit];
            let refused = changed_ports(&ports, Uuid::from_u128(8), Add);
            assert_eq!(refused, Err(NetworkChoiceError::NoPortSecurity));
            assert!(changed_ports(&ports, Uuid::from_u128(8), Remove).is_ok());
        }
    }
}
