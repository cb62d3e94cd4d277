//! The security groups of servers: those of their ports in the network service. Most sentences are Nova's.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::network::{PortFilter, SharedObjectType};
use berth_client::{NetworkClient, NetworkClientError};
use berth_wire::neutron::{PortRecord, SecurityGroupRecord, SecurityGroupRuleRecord};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::networks::{self, NetworkChoiceError};
use crate::servers::ServerRecord;

/// How often the ports are read again while others change them.
const TRIES: usize = 5;

/// What happens to a security group at all ports of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecurityGroupChange {
    Add,
    Remove,
}

/// Why a server's security groups are not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecurityGroupError {
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
pub(crate) async fn ports_of_server(
    service: &NetworkClient,
    server: &ServerRecord,
) -> Result<Vec<PortRecord>, NetworkClientError> {
    let filter = PortFilter {
        project: Some(server.project_id.clone()),
        device_id: Some(server.uuid.to_string()),
        ..PortFilter::default()
    };
    service.ports(&filter).await
}

/// Adds a group to all ports of a server, or removes it from them. The group is named by name or UUID.
pub(crate) async fn change_security_group(
    service: &NetworkClient,
    server: &ServerRecord,
    name: &str,
    change: SecurityGroupChange,
) -> Result<(), SecurityGroupError> {
    let known = service
        .security_groups_usable_by(&server.project_id)
        .await?;
    // As in Nova, a name is that of an own group.
    let group = networks::security_group(&known, name, &[&known.own])?;
    for round in 0..TRIES {
        let ports = ports_of_server(service, server).await?;
        if ports.is_empty() {
            return Err(SecurityGroupError::NoPorts(server.uuid));
        }
        let changes = changed_ports(&ports, group, change)?;
        if changes.is_empty() && change == SecurityGroupChange::Remove && round == 0 {
            return Err(SecurityGroupError::NotOfServer {
                name: name.to_owned(),
                server: server.uuid,
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
    Err(SecurityGroupError::Busy(server.uuid))
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
pub(crate) async fn groups_of_ports(
    service: &NetworkClient,
    ports: &[PortRecord],
    project: Option<&str>,
) -> Result<BTreeMap<Uuid, SecurityGroupRecord>, NetworkClientError> {
    let ids = ports.iter().flat_map(|port| &port.security_groups);
    visible_groups(service, &ids.copied().collect(), project).await
}

/// The groups that rules of these groups name as their peers.
pub(crate) async fn peer_groups(
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

/// The names of a server's groups as Nova shows them: one for each port and group.
pub(crate) fn group_names(
    server: &ServerRecord,
    ports: &[PortRecord],
    groups: &BTreeMap<Uuid, SecurityGroupRecord>,
) -> Vec<String> {
    let id = server.uuid.to_string();
    let own = ports
        .iter()
        .filter(|port| port.device_id == id && port.tenant_id == server.project_id);
    let groups = own
        .flat_map(|port| &port.security_groups)
        .filter_map(|id| groups.get(id));
    let names = groups.map(|group| match group.name.as_str() {
        "" => group.id.to_string(),
        name => name.to_owned(),
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The groups of ports as Nova's API shows them, with their rules for incoming packets. `peers` are the groups that rules name.
pub(crate) fn group_documents(
    ports: &[PortRecord],
    groups: &BTreeMap<Uuid, SecurityGroupRecord>,
    peers: &BTreeMap<Uuid, SecurityGroupRecord>,
) -> Vec<Value> {
    let of_ports = ports
        .iter()
        .flat_map(|port| &port.security_groups)
        .filter_map(|id| groups.get(id));
    let mut of_ports: Vec<_> = of_ports.collect();
    of_ports.sort_by_key(|group| (&group.tenant_id, &group.name, group.id));
    let shown = of_ports.into_iter().map(|group| {
        let rules = group.security_group_rules.iter();
        let rules = rules.filter(|rule| rule.direction == "ingress");
        let rules = rules.filter_map(|rule| rule_document(group.id, rule, peers));
        json!({
            "id": group.id,
            "name": group.name,
            "description": group.description,
            "tenant_id": group.tenant_id,
            "rules": rules.collect::<Vec<_>>(),
        })
    });
    shown.collect()
}

/// A rule; `None` if its peers are a group that does not exist or is not visible.
fn rule_document(
    group: Uuid,
    rule: &SecurityGroupRuleRecord,
    peers: &BTreeMap<Uuid, SecurityGroupRecord>,
) -> Option<Value> {
    let (from, to) = match (&rule.protocol, rule.port_range_min, rule.port_range_max) {
        (Some(protocol), None, None) => {
            match ["tcp", "udp"].contains(&protocol.to_ascii_lowercase().as_str()) {
                true => (Some(1), Some(65535)),
                false => (Some(-1), Some(-1)),
            }
        }
        (_, from, to) => (from, to),
    };
    let mut shown = json!({
        "id": rule.id,
        "parent_group_id": group,
        "ip_protocol": rule.protocol,
        "from_port": from,
        "to_port": to,
        "group": {},
        "ip_range": {},
    });
    match rule.remote_group_id {
        Some(peer) => {
            let peer = peers.get(&peer)?;
            shown["group"] = json!({"name": peer.name, "tenant_id": peer.tenant_id});
        }
        None => {
            let cidr = rule.remote_ip_prefix.as_deref().unwrap_or("0.0.0.0/0");
            shown["ip_range"] = json!({ "cidr": cidr });
        }
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn groups_are_shown_with_their_rules_for_incoming_packets() {
        let rule = |number: u128, more: Value| {
            let mut rule = json!({"id": Uuid::from_u128(number), "direction": "ingress"});
            for (key, value) in more.as_object().into_iter().flatten() {
                rule[key] = value.clone();
            }
            rule
        };
        let web = json!({"id": Uuid::from_u128(7), "name": "web", "tenant_id": "p", "description": "d", "security_group_rules": [
            rule(1, json!({"protocol": "tcp", "port_range_min": 80, "port_range_max": 81, "remote_ip_prefix": "192.0.2.0/24"})),
            rule(2, json!({"protocol": "UDP"})),
            rule(3, json!({"protocol": "icmp", "remote_group_id": Uuid::from_u128(8)})),
            rule(4, json!({"remote_group_id": Uuid::from_u128(9)})),
            rule(5, json!({"direction": "egress"})),
        ]});
        let web: SecurityGroupRecord = serde_json::from_value(web).unwrap();
        let db = SecurityGroupRecord {
            id: Uuid::from_u128(8),
            name: "db".to_owned(),
            tenant_id: "q".to_owned(),
            ..SecurityGroupRecord::default()
        };
        let groups = BTreeMap::from([(web.id, web.clone())]);
        let peers = BTreeMap::from([(web.id, web), (db.id, db)]);
        let ports = [port(1, &[7], &[]), port(2, &[7, 5], &[])];
        let shown = group_documents(&ports, &groups, &peers);
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[0]["name"], "web");
        let rules = shown[0]["rules"].as_array().unwrap();
        let brief = rules.iter().map(|rule| {
            json!([
                rule["ip_protocol"],
                rule["from_port"],
                rule["to_port"],
                rule["ip_range"],
                rule["group"]
            ])
        });
        let expected = json!([
            ["tcp", 80, 81, {"cidr": "192.0.2.0/24"}, {}],
            ["UDP", 1, 65535, {"cidr": "0.0.0.0/0"}, {}],
            ["icmp", -1, -1, {}, {"name": "db", "tenant_id": "q"}],
        ]);
        assert_eq!(json!(brief.collect::<Vec<_>>()), expected);
    }
}
