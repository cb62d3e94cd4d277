//! The JSON documents of security groups.

use std::collections::BTreeMap;

use berth_wire::neutron::{PortRecord, SecurityGroupRecord, SecurityGroupRuleRecord};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::servers::ServerRecord;

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

    fn port(number: u128, groups: &[u128]) -> PortRecord {
        let groups: Vec<_> = groups.iter().map(|id| Uuid::from_u128(*id)).collect();
        let port = json!({
            "id": Uuid::from_u128(number),
            "network_id": Uuid::nil(),
            "mac_address": "fa:16:3e:00:00:01",
            "security_groups": groups,
        });
        serde_json::from_value(port).unwrap()
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
        let ports = [port(1, &[7]), port(2, &[7, 5])];
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
