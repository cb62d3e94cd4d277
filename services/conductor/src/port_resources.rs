//! What the ports of a request need from Placement, and which providers of a claim serve it. Pure.
//!
//! A direct port needs a virtual function of a network card. A port whose QoS policy guarantees a bandwidth or packet rate needs
//! resources of providers that Neutron's agents report below the host.

use std::collections::{BTreeMap, BTreeSet};

use berth_client::placement::Candidate;
use berth_model::{
    CandidatesQuery, CandidatesQueryError, GroupSuffix, ProviderUuid, ResourceClass, Trait,
    query_string,
};
use berth_scheduler::placement_query::ResourceGroup;
use berth_wire::conductor::RequestedNetwork;
use berth_wire::network_info::Extras;
use berth_wire::neutron::{PortRecord, PortRequestGroup};
use serde_json::Value;
use uuid::Uuid;

use crate::boot::BootError;
use crate::function_demand::FunctionDemand;

/// The maximum number of request groups of a port. Neutron 29 has two: bandwidth and packet rate.
const MOST_GROUPS: usize = 8;

/// The request groups of ports by suffix, as Nova names them: the UUID of the group, or of the port if the group has none.
pub(crate) fn port_groups(requested: &[RequestedNetwork]) -> Vec<(String, ResourceGroup)> {
    let mut groups = Vec::new();
    for wanted in requested {
        let Some(port) = wanted.port else { continue };
        if let Some(demand) = FunctionDemand::of(wanted) {
            let group = ResourceGroup {
                resources: [(demand.class.to_string(), 1)].into(),
                required_traits: demand.traits.iter().map(ToString::to_string).collect(),
                ..ResourceGroup::default()
            };
            groups.push((port.to_string(), group));
        }
        for group in &wanted.resource_request.request_groups {
            groups.push((suffix(port, group).to_string(), resource_group(group)));
        }
    }
    groups
}

/// The suffixes of groups whose providers must be in one subtree, a set for each port that requires it.
pub(crate) fn port_subtrees(requested: &[RequestedNetwork]) -> Vec<BTreeSet<String>> {
    let subtrees = requested.iter().filter_map(|wanted| {
        let groups = &wanted.resource_request.same_subtree;
        (!groups.is_empty()).then(|| groups.iter().map(Uuid::to_string).collect())
    });
    subtrees.collect()
}

/// `allocation` of the port's binding profile: the provider of each group, or the provider alone in the older form. `None` if
/// the port needs no resources.
///
/// Errors: The claim does not say which provider serves a group.
pub(crate) fn port_allocation(
    wanted: &RequestedNetwork,
    claim: &Candidate,
) -> Result<Option<Value>, BootError> {
    let Some(port) = wanted.port else {
        return Ok(None);
    };
    let mut by_group = serde_json::Map::new();
    for group in &wanted.resource_request.request_groups {
        let provider = provider_of(port, group, claim)?.to_string();
        match group.id {
            Some(id) => by_group.insert(id.to_string(), provider.into()),
            None => return Ok(Some(provider.into())),
        };
    }
    Ok((!by_group.is_empty()).then_some(Value::Object(by_group)))
}

/// The query for what a port needs on the host with this root provider.
pub(crate) fn port_query(
    wanted: &RequestedNetwork,
    root: ProviderUuid,
) -> Result<CandidatesQuery, CandidatesQueryError> {
    let requested = std::slice::from_ref(wanted);
    let mut parameters = Vec::new();
    for (suffix, group) in port_groups(requested) {
        let amounts = group.resources.iter();
        let amounts: Vec<_> = amounts
            .map(|(class, amount)| format!("{class}:{amount}"))
            .collect();
        parameters.push((format!("resources{suffix}"), amounts.join(",")));
        if !group.required_traits.is_empty() {
            let traits: Vec<_> = group.required_traits.into_iter().collect();
            parameters.push((format!("required{suffix}"), traits.join(",")));
        }
        parameters.push((format!("in_tree{suffix}"), root.to_string()));
    }
    if wanted.resource_request.request_groups.len() > 1 {
        parameters.push(("group_policy".to_owned(), "none".to_owned()));
    }
    for suffixes in port_subtrees(requested) {
        let suffixes: Vec<_> = suffixes.into_iter().collect();
        parameters.push(("same_subtree".to_owned(), suffixes.join(",")));
    }
    CandidatesQuery::read(&query_string(parameters))
}

/// The providers that the allocation of a binding profile names.
pub(crate) fn providers_of_profile(profile: Option<&Extras>) -> BTreeSet<ProviderUuid> {
    let allocation = profile.and_then(|profile| profile.get("allocation"));
    let provider = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    match allocation {
        Some(Value::Object(by_group)) => by_group.values().filter_map(provider).collect(),
        Some(one) => provider(one).into_iter().collect(),
        None => BTreeSet::new(),
    }
}

/// What bound ports need of these providers. `None` if a port needs something that its allocation does not name, because its QoS
/// policy was changed meanwhile.
pub(crate) fn needed_by_ports(
    ports: &[PortRecord],
    providers: &BTreeSet<ProviderUuid>,
) -> Option<BTreeMap<(ProviderUuid, ResourceClass), u64>> {
    let mut needed = BTreeMap::new();
    for port in ports {
        let profile = port.profile.as_ref();
        if providers_of_profile(profile).is_disjoint(providers) {
            continue;
        }
        let allocation = profile?.get("allocation")?;
        for group in port
            .resource_request
            .iter()
            .flat_map(|it| &it.request_groups)
        {
            let provider = match group.id {
                Some(id) => allocation.get(id.to_string())?,
                None => allocation,
            };
            let provider: ProviderUuid = provider.as_str()?.parse().ok()?;
            if !providers.contains(&provider) {
                continue;
            }
            for (class, amount) in &group.resources {
                let class = ResourceClass::new(class).ok()?;
                let sum: &mut u64 = needed.entry((provider, class)).or_default();
                *sum = sum.saturating_add(*amount);
            }
        }
    }
    Some(needed)
}

fn provider_of(
    port: Uuid,
    group: &PortRequestGroup,
    claim: &Candidate,
) -> Result<ProviderUuid, BootError> {
    let group = suffix(port, group);
    let suffix = GroupSuffix::new(&group.to_string());
    let provider = suffix.ok().and_then(|suffix| claim.serving(&suffix));
    provider.ok_or(BootError::NoPortMapping { port, group })
}

fn suffix(port: Uuid, group: &PortRequestGroup) -> Uuid {
    group.id.unwrap_or(port)
}

fn resource_group(group: &PortRequestGroup) -> ResourceGroup {
    let amounts = group.resources.iter();
    let amounts = amounts.map(|(class, amount)| {
        let amount = i64::try_from(*amount).unwrap_or(i64::MAX);
        (class.clone(), amount)
    });
    ResourceGroup {
        resources: amounts.collect(),
        required_traits: group.required.iter().cloned().collect(),
        ..ResourceGroup::default()
    }
}

/// Checks what ports need: groups with valid names and amounts, of existing ports that are not direct, each group once.
///
/// Errors: what would be right.
pub(crate) fn check_port_resources(requested: &[RequestedNetwork]) -> Result<(), &'static str> {
    let mut suffixes = BTreeSet::new();
    for wanted in requested {
        let request = &wanted.resource_request;
        if request.is_empty() && request.same_subtree.is_empty() {
            continue;
        }
        let Some(port) = wanted.port else {
            return Err("resource_request is for an existing port");
        };
        if wanted.physical_network.is_some() {
            return Err("a direct port (physical_network) has no resource_request");
        }
        let groups = &request.request_groups;
        if groups.len() > MOST_GROUPS {
            return Err("resource_request has at most 8 groups");
        }
        if groups.len() > 1 && groups.iter().any(|group| group.id.is_none()) {
            return Err("each of several groups of resource_request has an id");
        }
        for group in groups {
            if !suffixes.insert(suffix(port, group)) {
                return Err("a group of resource_request is named once");
            }
            let amounts = group.resources.iter();
            let are_valid = amounts.clone().all(|(class, amount)| {
                ResourceClass::new(class).is_ok() && (1..=i32::MAX as u64).contains(amount)
            });
            if group.resources.is_empty() || !are_valid {
                return Err(
                    "a group of resource_request has amounts of resource classes, 1 to 2147483647",
                );
            }
            if group.required.iter().any(|name| Trait::new(name).is_err()) {
                return Err("required of resource_request has names of traits");
            }
        }
        let ids: BTreeSet<Uuid> = groups.iter().filter_map(|group| group.id).collect();
        if !request.same_subtree.iter().all(|id| ids.contains(id)) {
            return Err("same_subtree of resource_request names groups of the same port");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PORT: Uuid = Uuid::from_u128(1);
    const OTHER_PORT: Uuid = Uuid::from_u128(2);
    const BANDWIDTH: Uuid = Uuid::from_u128(11);
    const RATE: Uuid = Uuid::from_u128(12);

    fn wanted(value: serde_json::Value) -> RequestedNetwork {
        serde_json::from_value(value).unwrap()
    }

    /// A port with a group for the bandwidth and one for the packet rate, in one subtree.
    fn both() -> RequestedNetwork {
        wanted(json!({"port": PORT, "resource_request": {
            "request_groups": [
                {"id": BANDWIDTH, "required": ["CUSTOM_PHYSNET_A", "CUSTOM_VNIC_TYPE_NORMAL"],
                 "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 500}},
                {"id": RATE, "required": ["CUSTOM_VNIC_TYPE_NORMAL"],
                 "resources": {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 5}},
            ],
            "same_subtree": [BANDWIDTH, RATE],
        }}))
    }

    fn older() -> RequestedNetwork {
        wanted(json!({"port": OTHER_PORT, "resource_request": {
            "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1},
            "required": ["CUSTOM_PHYSNET_A"],
        }}))
    }

    fn claim(mappings: &serde_json::Value) -> Candidate {
        let body = json!({
            "allocations": {Uuid::from_u128(90).to_string(): {"resources": {"VCPU": 1}}},
            "mappings": mappings,
        });
        Candidate::of_body(&berth_wire::decode(body.to_string().as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn each_group_of_a_port_is_a_request_group_with_its_uuid_or_the_ports() {
        let direct = wanted(json!({"port": Uuid::from_u128(3), "physical_network": "storage"}));
        let network = wanted(json!({"uuid": Uuid::from_u128(4)}));
        let requested = [both(), older(), direct, network];
        let groups = port_groups(&requested);
        let suffixes: Vec<_> = groups.iter().map(|(suffix, _)| suffix.as_str()).collect();
        let expected = [BANDWIDTH, RATE, OTHER_PORT, Uuid::from_u128(3)];
        assert_eq!(suffixes, expected.map(|id| id.to_string()));
        let bandwidth = &groups[0].1;
        assert_eq!(bandwidth.resources["NET_BW_EGR_KILOBIT_PER_SEC"], 1000);
        assert_eq!(bandwidth.resources["NET_BW_IGR_KILOBIT_PER_SEC"], 500);
        assert!(bandwidth.required_traits.contains("CUSTOM_PHYSNET_A"));
        assert_eq!(groups[3].1.resources["SRIOV_NET_VF"], 1);
        let subtree = [BANDWIDTH, RATE].map(|id| id.to_string());
        assert_eq!(port_subtrees(&requested), [subtree.into()]);
    }

    #[test]
    fn the_allocation_names_the_provider_of_each_group_or_that_of_an_older_port() {
        let (nic, switch) = (Uuid::from_u128(21), Uuid::from_u128(22));
        let whole = claim(&json!({
            "": [Uuid::from_u128(90)],
            BANDWIDTH.to_string(): [nic],
            RATE.to_string(): [switch],
            OTHER_PORT.to_string(): [nic],
        }));
        let allocation = |wanted: &RequestedNetwork| port_allocation(wanted, &whole).unwrap();
        let expected = json!({BANDWIDTH.to_string(): nic, RATE.to_string(): switch});
        assert_eq!(allocation(&both()), Some(expected));
        assert_eq!(allocation(&older()), Some(json!(nic)));
        assert_eq!(allocation(&wanted(json!({"port": PORT}))), None);
        assert_eq!(allocation(&wanted(json!({"uuid": PORT}))), None);
        let part = claim(&json!({BANDWIDTH.to_string(): [nic]}));
        let missing = port_allocation(&both(), &part).unwrap_err().to_string();
        assert!(missing.contains(&RATE.to_string()), "{missing}");
    }

    #[test]
    fn an_attached_port_is_asked_for_on_its_host_alone() {
        let root = ProviderUuid::from(Uuid::from_u128(90));
        let query = port_query(&both(), root).unwrap().query();
        for part in [
            format!("in_tree{BANDWIDTH}={root}"),
            format!("in_tree{RATE}={root}"),
            "group_policy=none".to_owned(),
            format!("resources{RATE}=NET_PACKET_RATE_KILOPACKET_PER_SEC"),
            format!("required{BANDWIDTH}=CUSTOM_PHYSNET_A"),
            format!("same_subtree={BANDWIDTH}"),
        ] {
            assert!(query.contains(&part), "{part}: {query}");
        }
        let query = port_query(&older(), root).unwrap().query();
        assert!(!query.contains("group_policy"), "{query}");
    }

    #[test]
    fn the_ports_of_a_guest_need_the_sum_of_what_they_need_of_a_provider() {
        let (nic, switch) = (Uuid::from_u128(21), Uuid::from_u128(22));
        let port = |wanted: &RequestedNetwork, allocation: Value| -> PortRecord {
            let port = json!({
                "id": wanted.port, "network_id": PORT, "mac_address": "fa:16:3e:00:00:01",
                "binding:profile": {"allocation": allocation},
                "resource_request": wanted.resource_request,
            });
            serde_json::from_value(port).unwrap()
        };
        let allocation = json!({BANDWIDTH.to_string(): nic, RATE.to_string(): switch});
        let ports = [port(&both(), allocation), port(&older(), json!(nic))];
        let of = |providers: &[Uuid]| {
            let providers = providers.iter().copied().map(ProviderUuid::from).collect();
            let needed = needed_by_ports(&ports, &providers).unwrap().into_iter();
            needed
                .map(|((_, class), amount)| (class.to_string(), amount))
                .collect::<Vec<_>>()
        };
        let bandwidth = [
            ("NET_BW_EGR_KILOBIT_PER_SEC", 1001),
            ("NET_BW_IGR_KILOBIT_PER_SEC", 500),
        ];
        assert_eq!(
            of(&[nic]),
            bandwidth.map(|(class, amount)| (class.to_owned(), amount))
        );
        assert_eq!(
            of(&[switch]),
            [("NET_PACKET_RATE_KILOPACKET_PER_SEC".to_owned(), 5)]
        );
        assert_eq!(of(&[PORT]), []);
        // Its policy has other rules now, so its groups have other UUIDs.
        let changed = [port(&both(), json!({PORT.to_string(): nic}))];
        assert_eq!(needed_by_ports(&changed, &[nic.into()].into()), None);
    }

    #[test]
    fn what_a_port_needs_has_valid_names_and_amounts() {
        let check = |requested: &[RequestedNetwork]| check_port_resources(requested);
        assert_eq!(check(&[both(), older()]), Ok(()));
        let changed = |pointer: &str, value: serde_json::Value| {
            let mut body = serde_json::to_value(both()).unwrap();
            *body.pointer_mut(pointer).expect(pointer) = value;
            wanted(body)
        };
        let groups = "/resource_request/request_groups";
        for (pointer, value, reason) in [
            ("/port".to_owned(), json!(null), "existing port"),
            (groups.to_owned(), json!([]), "same port"),
            (format!("{groups}/0/id"), json!(null), "has an id"),
            (format!("{groups}/0/id"), json!(RATE), "named once"),
            (format!("{groups}/0/resources"), json!({}), "amounts"),
            (
                format!("{groups}/0/resources"),
                json!({"a b": 1}),
                "amounts",
            ),
            (
                format!("{groups}/0/resources"),
                json!({"VCPU": 0}),
                "amounts",
            ),
            (format!("{groups}/0/required"), json!(["!X"]), "traits"),
            (
                "/resource_request/same_subtree".to_owned(),
                json!([PORT]),
                "same port",
            ),
        ] {
            let refused = check(&[changed(&pointer, value)]).expect_err(&pointer);
            assert!(refused.contains(reason), "{pointer}: {refused}");
        }
        assert!(check(&[both(), both()]).is_err());
        let mut direct = both();
        direct.physical_network = Some("storage".to_owned());
        assert!(check(&[direct]).is_err());
        let mut many = both();
        let group = many.resource_request.request_groups[0].clone();
        many.resource_request.request_groups = vec![group; MOST_GROUPS + 1];
        assert!(check(&[many]).unwrap_err().contains("at most"));
    }
}
