//! The networks and security groups of new ports, chosen and checked before anything is stored.
//!
//! The conductor checks them again when it creates or takes the ports. The sentences are Nova's.

use std::collections::BTreeSet;

use berth_client::network::{
    SharedObjectType, SharedObjects, UsableSecurityGroups, physical_network,
};
use berth_client::{NetworkClient, NetworkClientError};
use berth_wire::conductor::RequestedNetwork;
use berth_wire::neutron::{NetworkRecord, PortRecord, SecurityGroupRecord};
use uuid::Uuid;

use crate::port_rules::{PortRefusal, check_port, function_kind, is_trusted};

/// The networks that a request for servers names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkWish {
    /// The request says nothing: the project's only network, or none.
    Unspecified,
    /// The project's only network, which must exist.
    Auto,
    /// No network.
    None,
    /// These networks and ports, in this order.
    Named(Vec<RequestedNetwork>),
}

/// Why servers do not get the networks or security groups.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkChoiceError {
    #[error(transparent)]
    Port(#[from] PortRefusal),
    #[error("Port {0} requires a FixedIP in order to be used.")]
    PortWithoutAddress(Uuid),
    #[error("Network {0} requires a subnet in order to boot instances on.")]
    NoSubnet(Uuid),
    #[error("It is not allowed to create an interface on external network {0}")]
    External(Uuid),
    #[error("Multiple possible networks found, use a Network ID to be more specific.")]
    Ambiguous,
    #[error("Unable to automatically allocate a network for project {0}")]
    NothingToAllocate(String),
    #[error("Security group {0} not found.")]
    NoSecurityGroup(String),
    #[error("Multiple security groups found matching '{0}'. Use an ID to be more specific.")]
    AmbiguousSecurityGroup(String),
    #[error(
        "Network requires port_security_enabled and subnet associated in order to apply security groups."
    )]
    NoPortSecurity,
    #[error(transparent)]
    Service(#[from] NetworkClientError),
}

/// The networks of a project that a request may name.
struct KnownNetworks {
    networks: Vec<NetworkRecord>,
    shared: SharedObjects,
}

/// The checked networks of new servers. `has_groups` says whether the request names security groups.
///
/// Errors: the project may not use a network or port, or the choice is ambiguous.
pub async fn choose_networks(
    service: &NetworkClient,
    wish: &NetworkWish,
    project: &str,
    has_groups: bool,
) -> Result<Vec<RequestedNetwork>, NetworkChoiceError> {
    match wish {
        NetworkWish::None => Ok(Vec::new()),
        NetworkWish::Unspecified | NetworkWish::Auto => {
            let usable = service.networks_usable_by(project).await?;
            let only = only_network(&usable, wish, project)?;
            if let Some(network) = only {
                check_policy(service, network).await?;
            }
            let requested = only.map(|network| RequestedNetwork {
                uuid: Some(network.id),
                ..RequestedNetwork::default()
            });
            Ok(requested.into_iter().collect())
        }
        NetworkWish::Named(requested) => {
            let ids: BTreeSet<Uuid> = requested.iter().filter_map(|wanted| wanted.uuid).collect();
            let known = KnownNetworks {
                networks: service.networks(&ids).await?,
                shared: service
                    .shared_with(project, SharedObjectType::Network, &ids)
                    .await?,
            };
            let mut checked = Vec::new();
            for wanted in requested {
                let mut wanted = wanted.clone();
                match (wanted.port, wanted.uuid) {
                    (Some(id), _) => {
                        let port = service.port(id).await?;
                        let port = check_addressed_port(id, port.as_ref(), project)?;
                        if let Some(kind) = function_kind(port) {
                            wanted.physical_network = Some(network_of_port(service, port).await?);
                            wanted.vnic_type = kind;
                            wanted.trusted = is_trusted(port);
                        }
                        wanted.resource_request = port.resource_request.clone().unwrap_or_default();
                    }
                    (None, Some(network)) => {
                        let network = known.check(network, has_groups)?;
                        check_policy(service, network).await?;
                    }
                    (None, None) => {}
                }
                checked.push(wanted);
            }
            Ok(checked)
        }
    }
}

/// The only network that the project may use.
fn only_network<'a>(
    usable: &'a [NetworkRecord],
    wish: &NetworkWish,
    project: &str,
) -> Result<Option<&'a NetworkRecord>, NetworkChoiceError> {
    let is_ready = |network: &&NetworkRecord| {
        !network.subnets.is_empty() && (*wish != NetworkWish::Auto || network.admin_state_up)
    };
    let mut ready = usable.iter().filter(is_ready);
    match (ready.next(), ready.next()) {
        (Some(_), Some(_)) => Err(NetworkChoiceError::Ambiguous),
        (None, _) if *wish == NetworkWish::Auto => {
            Err(NetworkChoiceError::NothingToAllocate(project.to_owned()))
        }
        (only, _) => Ok(only),
    }
}

/// The physical network of a port that needs a network function.
async fn network_of_port(
    service: &NetworkClient,
    port: &PortRecord,
) -> Result<String, NetworkChoiceError> {
    let network = service.network(port.network_id).await?;
    let physical = network.and_then(|network| physical_network(&network).0);
    Ok(physical.ok_or(PortRefusal::NoPhysicalNetwork {
        port: port.id,
        vnic_type: port.vnic_type.clone().unwrap_or_default(),
        network: port.network_id,
    })?)
}

/// Refuses a network whose new ports would need resources: they are created after the host was chosen.
async fn check_policy(
    service: &NetworkClient,
    network: &NetworkRecord,
) -> Result<(), NetworkChoiceError> {
    let Some(policy) = network.qos_policy_id else {
        return Ok(());
    };
    let policy = service.qos_policy(policy).await?;
    match policy.is_some_and(|policy| policy.guarantees_rates()) {
        true => Err(PortRefusal::NetworkNeedsResources(network.id).into()),
        false => Ok(()),
    }
}

fn check_addressed_port<'a>(
    id: Uuid,
    port: Option<&'a PortRecord>,
    project: &str,
) -> Result<&'a PortRecord, NetworkChoiceError> {
    // The server has no UUID yet, so every device is another one.
    let port = check_port(id, port, project, Uuid::nil())?;
    match port.fixed_ips.is_empty() {
        true => Err(NetworkChoiceError::PortWithoutAddress(id)),
        false => Ok(port),
    }
}

impl KnownNetworks {
    fn check(&self, id: Uuid, has_groups: bool) -> Result<&NetworkRecord, NetworkChoiceError> {
        let mut networks = self.networks.iter();
        let network = networks.find(|network| network.id == id);
        let network = network.filter(|network| self.shared.may_use_network(network));
        let network = network.ok_or(PortRefusal::NoNetwork(id))?;
        if network.external && !self.shared.ids().contains(&id) {
            return Err(NetworkChoiceError::External(id));
        }
        if network.subnets.is_empty() {
            return Err(NetworkChoiceError::NoSubnet(id));
        }
        if has_groups && network.port_security_enabled == Some(false) {
            return Err(NetworkChoiceError::NoPortSecurity);
        }
        Ok(network)
    }
}

/// The security groups of new ports, named by name or UUID. Neutron's default needs no name.
///
/// Errors: the project may use no such group, or several have the name.
pub async fn choose_security_groups(
    service: &NetworkClient,
    names: &[String],
    project: &str,
) -> Result<Vec<Uuid>, NetworkChoiceError> {
    if is_default_group(names) {
        return Ok(Vec::new());
    }
    let known = service.security_groups_usable_by(project).await?;
    let groups = names.iter().map(|name| {
        let by_name = [&known.own[..], &known.shared[..]];
        security_group(&known, name, &by_name)
    });
    groups.collect()
}

/// Whether the names are the default of Neutron: none, or `default` alone.
#[must_use]
pub fn is_default_group(names: &[String]) -> bool {
    matches!(names, []) || matches!(names, [name] if name == "default")
}

/// The group with this UUID, or with this name: `by_name` are the lists in which names are looked up, one after the other.
pub(crate) fn security_group(
    known: &UsableSecurityGroups,
    name: &str,
    by_name: &[&[SecurityGroupRecord]],
) -> Result<Uuid, NetworkChoiceError> {
    let id = Uuid::try_parse(name).ok();
    let mut all = known.own.iter().chain(&known.shared);
    if let Some(group) = all.find(|group| Some(group.id) == id) {
        return Ok(group.id);
    }
    for groups in by_name {
        let mut named = groups.iter().filter(|group| group.name == name);
        match (named.next(), named.next()) {
            (Some(group), None) => return Ok(group.id),
            (Some(_), Some(_)) => {
                return Err(NetworkChoiceError::AmbiguousSecurityGroup(name.to_owned()));
            }
            (None, _) => {}
        }
    }
    Err(NetworkChoiceError::NoSecurityGroup(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn network(number: u128, more: &[(&str, serde_json::Value)]) -> NetworkRecord {
        let mut network = json!({"id": Uuid::from_u128(number), "tenant_id": "p", "subnets": [Uuid::from_u128(9)]});
        for (key, value) in more {
            network[*key] = value.clone();
        }
        serde_json::from_value(network).unwrap()
    }

    #[test]
    fn a_request_without_networks_gets_the_only_one_of_the_project() {
        let (one, two) = (network(1, &[]), network(2, &[]));
        let bare = network(3, &[("subnets", json!([]))]);
        let down = network(4, &[("admin_state_up", json!(false))]);
        let choose = |usable: &[NetworkRecord], wish| {
            only_network(usable, &wish, "p").map(|only| only.map(|network| network.id.as_u128()))
        };
        use NetworkWish::{Auto, Unspecified};
        assert_eq!(choose(&[], Unspecified), Ok(None));
        let nothing = NetworkChoiceError::NothingToAllocate("p".to_owned());
        assert_eq!(choose(&[], Auto), Err(nothing.clone()));
        for wish in [Unspecified, Auto] {
            let both = [one.clone(), two.clone()];
            assert_eq!(
                choose(&both, wish.clone()),
                Err(NetworkChoiceError::Ambiguous)
            );
            assert_eq!(choose(&[bare.clone(), one.clone()], wish), Ok(Some(1)));
        }
        assert_eq!(choose(std::slice::from_ref(&down), Auto), Err(nothing));
        assert_eq!(choose(&[down], Unspecified), Ok(Some(4)));
    }

    #[test]
    fn a_named_network_is_the_projects_and_has_a_subnet() {
        let known = |more: &[(&str, serde_json::Value)], shared: bool| KnownNetworks {
            networks: vec![network(1, more)],
            shared: SharedObjects::new(
                "p",
                shared.then(|| Uuid::from_u128(1)).into_iter().collect(),
            ),
        };
        let id = Uuid::from_u128(1);
        let others = [("tenant_id", json!("q"))];
        let external = [("router:external", json!(true))];
        let check = |known: &KnownNetworks, has_groups| known.check(id, has_groups).map(drop);
        assert_eq!(check(&known(&[], false), true), Ok(()));
        assert_eq!(check(&known(&others, true), false), Ok(()));
        let refused = Err(NetworkChoiceError::Port(PortRefusal::NoNetwork(id)));
        assert_eq!(check(&known(&others, false), false), refused);
        let refused = Err(NetworkChoiceError::External(id));
        assert_eq!(check(&known(&external, false), false), refused);
        assert_eq!(check(&known(&external, true), false), Ok(()));
        let bare = known(&[("subnets", json!([]))], false);
        assert_eq!(check(&bare, false), Err(NetworkChoiceError::NoSubnet(id)));
        let open = known(&[("port_security_enabled", json!(false))], false);
        assert_eq!(check(&open, false), Ok(()));
        assert_eq!(check(&open, true), Err(NetworkChoiceError::NoPortSecurity));
    }

    #[test]
    fn a_security_group_is_named_by_its_uuid_or_a_name_that_is_unique() {
        let group = |number: u128, name: &str| SecurityGroupRecord {
            id: Uuid::from_u128(number),
            name: name.to_owned(),
            ..SecurityGroupRecord::default()
        };
        let known = UsableSecurityGroups {
            own: vec![group(1, "web"), group(2, "db"), group(3, "db")],
            shared: vec![group(4, "web"), group(5, "theirs")],
        };
        let of = |name: &str| security_group(&known, name, &[&known.own, &known.shared]);
        let of_own = |name: &str| security_group(&known, name, &[&known.own]);
        // A group of another project takes no name from an own one.
        assert_eq!(of("theirs"), Ok(Uuid::from_u128(5)));
        let unknown = NetworkChoiceError::NoSecurityGroup("theirs".to_owned());
        assert_eq!(of_own("theirs"), Err(unknown));
        let theirs = Uuid::from_u128(5);
        assert_eq!(of_own(&theirs.to_string()), Ok(theirs));
        assert_eq!(of("web"), Ok(Uuid::from_u128(1)));
        assert_eq!(of(&Uuid::from_u128(3).to_string()), Ok(Uuid::from_u128(3)));
        let many = NetworkChoiceError::AmbiguousSecurityGroup("db".to_owned());
        assert_eq!(of("db"), Err(many));
        assert_eq!(
            of("x"),
            Err(NetworkChoiceError::NoSecurityGroup("x".to_owned()))
        );
        assert!(is_default_group(&[]) && is_default_group(&["default".to_owned()]));
        assert!(!is_default_group(&["default".to_owned(), "web".to_owned()]));
    }
}
