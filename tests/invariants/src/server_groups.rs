//! S15 and L9: server groups keep their policy, and their members are where their guests are.

use std::collections::{BTreeMap, BTreeSet};

use crate::{InvariantId, ServerGroup, SystemSnapshot, Violation};
use berth_model::ConsumerUuid;

/// Of the members of a group that are to be apart no more are on one node than may be: neither of those who have a place in it
/// nor of the guests there are.
pub(crate) fn s15(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (name, group) in &snapshot.groups {
        let Some(most) = group.most_on_a_node else {
            continue;
        };
        let places = group.members.iter();
        let places = places.map(|(member, node)| (*member, node.as_str()));
        let guests = group.requested.iter();
        let guests = guests
            .filter_map(|it| Some((*it, snapshot.guests.get(it).map(|it| it.node.as_str())?)));
        let crowds = [
            ("have places", crowds(places, most)),
            ("are", crowds(guests, most)),
        ];
        for (are, crowds) in crowds {
            for (node, crowd) in crowds {
                findings.push(format!(
                    "of server group {name} {crowd:?} {are} on {node}, where {most} may be"
                ));
            }
        }
    }
    violations(InvariantId::S15, findings)
}

/// A member is a guest that is there, and has its place in the group where it is and where its units are; a guest that asked for a
/// group and is there is a member.
pub(crate) fn l9(snapshot: &SystemSnapshot) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (name, group) in &snapshot.groups {
        findings.extend(misplaced(snapshot, name, group));
        let wanted = group.requested.iter();
        let missing =
            wanted.filter(|it| snapshot.guests.contains_key(it) && !group.members.contains_key(it));
        findings.extend(missing.map(|guest| {
            format!("guest {guest} is there, and has no place in its server group {name}")
        }));
    }
    violations(InvariantId::L9, findings)
}

fn misplaced(snapshot: &SystemSnapshot, name: &str, group: &ServerGroup) -> Vec<String> {
    let members = group.members.iter();
    let found = members.filter_map(|(member, node)| {
        let Some(guest) = snapshot.guests.get(member) else {
            return Some(format!(
                "server group {name} has a member on {node}, guest {member}, which does not exist"
            ));
        };
        if guest.node != *node {
            return Some(format!(
                "guest {member} is on {}, and server group {name} has it on {node}",
                guest.node
            ));
        }
        let roots = roots(snapshot, *member);
        let is_held = roots.is_empty() || roots.contains(node.as_str());
        (!is_held).then(|| {
            format!(
                "guest {member} holds units of {roots:?}, and server group {name} has it on {node}"
            )
        })
    });
    found.collect()
}

/// The names of the trees with allocations of the consumer.
fn roots(snapshot: &SystemSnapshot, consumer: ConsumerUuid) -> BTreeSet<&str> {
    let placement = &snapshot.placement;
    let row = placement.consumers.get(&consumer);
    let providers = row.into_iter().flat_map(|row| row.allocated.keys());
    let roots = providers.filter_map(|(provider, _)| placement.top(*provider));
    roots
        .filter_map(|root| placement.providers.get(&root))
        .map(|row| row.name.as_str())
        .collect()
}

/// The nodes with more members than allowed, and these members.
fn crowds<'a>(
    all: impl Iterator<Item = (ConsumerUuid, &'a str)>,
    most: usize,
) -> BTreeMap<&'a str, BTreeSet<ConsumerUuid>> {
    let mut by_node: BTreeMap<&str, BTreeSet<ConsumerUuid>> = BTreeMap::new();
    for (who, node) in all {
        by_node.entry(node).or_default().insert(who);
    }
    by_node.retain(|_, crowd| crowd.len() > most);
    by_node
}

fn violations(invariant: InvariantId, findings: Vec<String>) -> Vec<Violation> {
    let findings = findings.into_iter();
    findings
        .map(|finding| Violation::of(invariant, finding))
        .collect()
}
