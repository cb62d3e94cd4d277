//! Which networks and security groups a project may use, decided with an administrator's token.

use std::collections::BTreeSet;

use berth_client::network::{SharedObjectType, port_of_project};
use berth_wire::neutron::{CreateNetworkBody, SecurityGroupRecord};
use http::Method;
use serde_json::json;
use uuid::Uuid;

use crate::real_neutron::cloud::NetworkCloud;

const PROJECT: &str = "0000000000000000000000000000000a";
const OTHER: &str = "0000000000000000000000000000000b";

#[tokio::test]
async fn a_project_may_use_its_networks_and_those_that_a_policy_shares_with_it() {
    let cloud = NetworkCloud::shared();
    let client = cloud.client();
    let make = async |name: &str, project: &str, shared: bool| {
        let body = CreateNetworkBody {
            name: name.to_owned(),
            tenant_id: Some(project.to_owned()),
            shared: Some(shared),
            external: None,
        };
        client.create_network(body).await.expect("a network")
    };
    let own = make("own", PROJECT, false).await;
    let private = make("private", OTHER, false).await;
    let shared = make("shared", OTHER, true).await;
    let given = make("given", OTHER, false).await;
    let share = async |network: Uuid, project: &str| {
        let policy = json!({"rbac_policy": {"object_type": "network", "object_id": network,
            "action": "access_as_shared", "target_tenant": project}});
        cloud.ask(Method::POST, "/v2.0/rbac-policies", &policy);
    };
    share(given.id, PROJECT).await;
    // With the project of Berth's account, which sees such a network as shared.
    let service = make("service", OTHER, false).await;
    let berths = cloud.service_project();
    share(service.id, &berths).await;
    let service = client.network(service.id).await.expect("an answer");
    let service = service.expect("a network");
    assert!(service.shared);

    let usable = client.networks_usable_by(PROJECT).await.expect("networks");
    let usable: BTreeSet<_> = usable.iter().map(|network| network.id).collect();
    for network in [&own, &shared, &given] {
        assert!(usable.contains(&network.id), "{}", network.name);
    }
    for network in [&private, &service] {
        assert!(!usable.contains(&network.id), "{}", network.name);
    }
    let ids = [own.id, private.id, shared.id, given.id, service.id].into();
    let policies = client
        .shared_with(PROJECT, SharedObjectType::Network, &ids)
        .await
        .expect("policies");
    assert_eq!(*policies.ids(), BTreeSet::from([shared.id, given.id]));
    let named = client.networks_named("given").await.expect("networks");
    assert_eq!(named.len(), 1);
    assert!(policies.may_use_network(&named[0]));
    // The others of this cloud are in nobody's way.
    client.delete_network(shared.id).await.expect("deleted");
}

#[tokio::test]
async fn a_project_may_use_its_security_groups_and_has_no_port_of_another() {
    let cloud = NetworkCloud::shared();
    let client = cloud.client();
    let make = |name: &str, project: &str| -> Uuid {
        let body = json!({"security_group": {"name": name, "tenant_id": project}});
        let made = cloud.ask(Method::POST, "/v2.0/security-groups", &body);
        let id = made["security_group"]["id"].as_str().expect("an id");
        id.parse().expect("a UUID")
    };
    let (own, private) = (make("web", PROJECT), make("web", OTHER));
    let given = make("given", OTHER);
    let policy = json!({"rbac_policy": {"object_type": "security_group", "object_id": given,
        "action": "access_as_shared", "target_tenant": PROJECT}});
    cloud.ask(Method::POST, "/v2.0/rbac-policies", &policy);
    let groups = client.security_groups_usable_by(PROJECT).await;
    let groups = groups.expect("security groups");
    let ids = |groups: &[SecurityGroupRecord]| -> BTreeSet<Uuid> {
        groups.iter().map(|group| group.id).collect()
    };
    let (owned, shared) = (ids(&groups.own), ids(&groups.shared));
    assert!(owned.contains(&own) && shared == BTreeSet::from([given]));
    assert!(!owned.contains(&private));
    assert!(groups.own.iter().any(|group| group.name == "default"));

    let (network, _) = cloud.network(OTHER, "others", "192.0.2.0/24").await;
    let mut wanted = cloud.port_of(network.id, Uuid::new_v4());
    wanted.tenant_id = OTHER.to_owned();
    let port = client.create_port(&wanted).await.expect("a port");
    assert!(port_of_project(&port, OTHER) && !port_of_project(&port, PROJECT));
}
