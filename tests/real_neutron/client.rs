//! Ports through their life: created, bound, plugged, unbound, moved, deleted.

use std::collections::BTreeSet;

use berth_client::network::{PortFilter, PortOutcome, VifOrigin};
use berth_client::placement::DeleteOutcome;
use berth_client::{NetworkClient, NetworkClientError, network_info};
use berth_tests::wait::poll_until;
use berth_wire::network_info::{Extras, VifBody};
use berth_wire::neutron::{BindPortBody, CreateRouterBody, RequestedFixedIp, UnbindPortBody};
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::real_neutron::cloud::{DNS, HOST, NetworkCloud, OTHER_HOST, ROUTE};

pub(super) fn binding(server: Uuid, host: &str) -> BindPortBody {
    BindPortBody {
        device_id: server.to_string(),
        device_owner: "compute:nova".to_owned(),
        host_id: host.to_owned(),
        profile: None,
        dns_name: None,
    }
}

/// What the network service reports about a server, as network_info.
async fn info_of(client: &NetworkClient, server: Uuid) -> Vec<VifBody> {
    let ports = client.ports_of_device(server).await.expect("ports");
    let origins = ports.iter().map(|port| VifOrigin {
        port: port.id,
        preserve_on_delete: false,
        tag: None,
    });
    let origins: Vec<_> = origins.collect();
    let facts = client.facts(ports).await.expect("facts");
    network_info(&facts, &origins)
}

#[tokio::test]
async fn a_port_is_bound_to_a_host_has_novas_network_info_and_is_deleted() {
    let cloud = NetworkCloud::shared();
    let (client, server) = (cloud.client(), Uuid::new_v4());
    let (network, subnet) = cloud.network(cloud.tenant(), "life", "192.0.2.0/24").await;
    let wanted = berth_wire::neutron::CreatePortBody {
        description: "berth test".to_owned(),
        fixed_ips: vec![RequestedFixedIp {
            ip_address: "192.0.2.77".to_owned(),
        }],
        ..cloud.port_of(network.id, server)
    };
    let made = client.create_port(&wanted).await.expect("a port");
    assert_eq!(made.tenant_id, cloud.tenant());
    assert_eq!(made.vif_type.as_deref(), Some("unbound"));
    assert_eq!(made.description, "berth test");

    let bound = client
        .bind_port(made.id, &binding(server, HOST), None)
        .await
        .expect("it is bound");
    assert_eq!(bound.vif_type.as_deref(), Some("ovs"));
    assert_eq!(bound.host_id.as_deref(), Some(HOST));
    assert_eq!(bound.device_owner, "compute:nova");

    let vifs = info_of(&client, server).await;
    let [vif] = vifs.as_slice() else {
        panic!("{vifs:?}")
    };
    assert_eq!((vif.id, &vif.address), (made.id, &made.mac_address));
    assert_eq!(vif.details["bridge_name"], "br-int");
    assert_eq!(vif.details["ovs_create_tap"], true);
    assert_eq!(vif.network.bridge.as_deref(), Some("br-int"));
    assert_eq!(vif.network.label.as_deref(), Some("life"));
    assert_eq!(vif.network.mtu(), Some(1442));
    assert_eq!(vif.network.meta["tunneled"], true);
    assert_eq!(vif.network.meta["tenant_id"], cloud.tenant());
    let shown = &vif.network.subnets[0];
    assert_eq!(shown.cidr.as_deref(), Some(subnet.cidr.as_str()));
    assert_eq!(shown.dns[0].address.as_deref(), Some(DNS));
    let gateway = shown.gateway.as_ref().expect("a gateway");
    assert_eq!(gateway.address, subnet.gateway_ip);
    assert_eq!(shown.routes[0].cidr.as_deref(), Some(ROUTE.0));
    let addresses: Vec<_> = vif.fixed_ips().map(|it| it.ip.address.as_deref()).collect();
    assert_eq!(addresses, [Some("192.0.2.77")]);
    assert!(!vif.active);

    // The host plugs it.
    cloud
        .neutron
        .ovn
        .plug(&made.id.to_string(), HOST)
        .expect("it is plugged");
    poll_until("the port is active", async || {
        let port = client.port(made.id).await.expect("an answer");
        match port.map(|port| port.status) {
            Some(status) if status == "ACTIVE" => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert!(info_of(&client, server).await[0].active);

    for outcome in [DeleteOutcome::Deleted, DeleteOutcome::AlreadyGone] {
        assert_eq!(client.delete_port(made.id).await, Ok(outcome));
    }
    assert_eq!(client.port(made.id).await, Ok(None));
    assert_eq!(info_of(&client, server).await, []);
    assert_eq!(
        client.delete_network(network.id).await,
        Ok(DeleteOutcome::Deleted)
    );
    assert_eq!(
        client.delete_network(network.id).await,
        Ok(DeleteOutcome::AlreadyGone)
    );
}

#[tokio::test]
async fn a_port_that_is_unbound_keeps_its_address_and_another_server_may_have_it() {
    let cloud = NetworkCloud::shared();
    let (client, server) = (cloud.client(), Uuid::new_v4());
    let (network, _) = cloud.network(cloud.tenant(), "kept", "192.0.2.0/24").await;
    let mut wanted = cloud.port_of(network.id, server);
    wanted.device_id = String::new();
    let port = client.create_port(&wanted).await.expect("a port");
    let profile = Extras::from([("trusted".to_owned(), json!("true"))]);
    let bind = BindPortBody {
        profile: Some(profile.clone()),
        ..binding(server, HOST)
    };
    // Twice: an answer may have been lost.
    for _ in 0..2 {
        let bound = client
            .bind_port(port.id, &bind, None)
            .await
            .expect("it is bound");
        assert_eq!(bound.profile.as_ref(), Some(&profile));
    }
    let unbind = UnbindPortBody::default();
    for _ in 0..2 {
        let outcome = client.unbind_port(port.id, &unbind, None).await;
        assert_eq!(outcome, Ok(PortOutcome::Unbound));
    }
    let left = client.port(port.id).await.expect("an answer");
    let left = left.expect("it is still there");
    assert_eq!(left.vif_type.as_deref(), Some("unbound"));
    assert_eq!(
        (left.device_id.as_str(), left.device_owner.as_str()),
        ("", "")
    );
    assert_eq!(left.host_id.as_deref(), Some(""));
    assert_eq!(left.profile, Some(Extras::new()));
    assert_eq!(left.fixed_ips, port.fixed_ips);
    let other = Uuid::new_v4();
    let bound = client
        .bind_port(port.id, &binding(other, OTHER_HOST), None)
        .await;
    assert_eq!(bound.expect("it is bound").device_id, other.to_string());
    client.delete_port(port.id).await.expect("it is deleted");
    let outcome = client.unbind_port(port.id, &unbind, None).await;
    assert_eq!(outcome, Ok(PortOutcome::AlreadyGone));
}

#[tokio::test]
async fn a_port_moves_to_the_host_of_its_second_binding() {
    let cloud = NetworkCloud::shared();
    let (client, server) = (cloud.client(), Uuid::new_v4());
    let extensions = client.extensions().await.expect("extensions");
    assert!(extensions.has_several_bindings(), "{extensions:?}");
    let (network, _) = cloud.network(cloud.tenant(), "moves", "192.0.2.0/24").await;
    let port = client.create_port(&cloud.port_of(network.id, server)).await;
    let port = port.expect("a port").id;
    client
        .bind_port(port, &binding(server, HOST), None)
        .await
        .expect("it is bound");
    let path = format!("/v2.0/ports/{port}/bindings");
    cloud.ask(
        Method::POST,
        &path,
        &json!({"binding": {"host": OTHER_HOST}}),
    );
    let activated = client.activate_binding(port, OTHER_HOST).await;
    activated.expect("it is activated");
    let bindings = client.port_bindings(port).await.expect("bindings");
    let mut hosts: Vec<_> = bindings.iter().map(|it| (&*it.host, &*it.status)).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, [(HOST, "INACTIVE"), (OTHER_HOST, "ACTIVE")]);
    for outcome in [DeleteOutcome::Deleted, DeleteOutcome::AlreadyGone] {
        assert_eq!(client.delete_binding(port, HOST).await, Ok(outcome));
    }
    let port = client.port(port).await.expect("an answer").expect("a port");
    assert_eq!(port.host_id.as_deref(), Some(OTHER_HOST));
}

#[tokio::test]
async fn floating_addresses_are_found_by_their_ports() {
    let cloud = NetworkCloud::shared();
    let (client, server) = (cloud.client(), Uuid::new_v4());
    let tenant = cloud.tenant().to_owned();
    let (inside, subnet) = cloud.network(&tenant, "inside", "192.0.2.0/24").await;
    let outside = json!({"network": {"name": "outside", "router:external": true}});
    let outside = cloud.ask(Method::POST, "/v2.0/networks", &outside);
    let outside: Uuid = id_of(&outside["network"]);
    let body = json!({"subnet": {"network_id": outside, "cidr": "203.0.113.0/24", "ip_version": 4, "enable_dhcp": false}});
    cloud.ask(Method::POST, "/v2.0/subnets", &body);
    let router = CreateRouterBody {
        name: "gate".to_owned(),
        tenant_id: Some(tenant.clone()),
    };
    let router = client.create_router(router).await.expect("a router").id;
    let gateway = json!({"router": {"external_gateway_info": {"network_id": outside}}});
    cloud.ask(Method::PUT, &format!("/v2.0/routers/{router}"), &gateway);
    client
        .add_router_interface(router, subnet.id)
        .await
        .expect("an interface");
    let routers = client.routers_of_project(&tenant).await.expect("routers");
    assert!(routers.iter().any(|it| it.id == router));

    let port = client.create_port(&cloud.port_of(inside.id, server)).await;
    let port = port.expect("a port");
    client
        .bind_port(port.id, &binding(server, HOST), None)
        .await
        .expect("it is bound");
    let body = json!({"floatingip": {"floating_network_id": outside, "port_id": port.id, "tenant_id": tenant}});
    let floating = cloud.ask(Method::POST, "/v2.0/floatingips", &body);
    let address = floating["floatingip"]["floating_ip_address"].as_str();
    let vifs = info_of(&client, server).await;
    let shown: Vec<_> = vifs[0]
        .fixed_ips()
        .flat_map(|ip| &ip.floating_ips)
        .collect();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].address.as_deref(), address);
    assert!(address.is_some());

    let floating: Uuid = id_of(&floating["floatingip"]);
    cloud.ask(
        Method::PUT,
        &format!("/v2.0/floatingips/{floating}"),
        &json!({"floatingip": {"port_id": null}}),
    );
    assert_eq!(
        client.floating_ips(&BTreeSet::from([port.id])).await,
        Ok(vec![])
    );
    client.delete_port(port.id).await.expect("it is deleted");
    client
        .remove_router_interface(router, subnet.id)
        .await
        .expect("no interface");
    let deleted = client.delete_router(router).await;
    // Its floating address still belongs to the project, and not to the router.
    assert_eq!(deleted, Ok(DeleteOutcome::Deleted));
}

fn id_of(object: &Value) -> Uuid {
    let id = object["id"].as_str().expect("an id");
    id.parse().expect("a UUID")
}

#[tokio::test]
async fn ports_are_found_by_each_part_of_a_filter() {
    let cloud = NetworkCloud::shared();
    let (client, server) = (cloud.client(), Uuid::new_v4());
    let (network, _) = cloud.network(cloud.tenant(), "found", "192.0.2.0/24").await;
    let port = client.create_port(&cloud.port_of(network.id, server)).await;
    let port = port.expect("a port");
    let own = PortFilter {
        project: Some(cloud.tenant().to_owned()),
        network: Some(network.id),
        device_id: Some(server.to_string()),
        mac_address: Some(port.mac_address.clone()),
        ..PortFilter::default()
    };
    assert_eq!(client.ports(&own).await, Ok(vec![port]));
    for other in [
        PortFilter {
            project: Some("other".to_owned()),
            ..own.clone()
        },
        PortFilter {
            device_owner: Some("compute:nova".to_owned()),
            ..own.clone()
        },
        PortFilter {
            mac_address: Some("fa:16:3e:00:00:00".to_owned()),
            ..own.clone()
        },
    ] {
        assert_eq!(client.ports(&other).await, Ok(vec![]), "{other:?}");
    }
}

#[tokio::test]
async fn of_two_servers_one_gets_a_port() {
    let cloud = NetworkCloud::shared();
    let client = cloud.client();
    let (network, _) = cloud
        .network(cloud.tenant(), "one-of-two", "192.0.2.0/24")
        .await;
    let mut wanted = cloud.port_of(network.id, Uuid::nil());
    wanted.device_id = String::new();
    let port = client.create_port(&wanted).await.expect("a port");
    assert!(port.revision_number.is_some());
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    let given = client.give_port(port.id, first, port.revision_number).await;
    assert_eq!(given.expect("it is given").device_id, first.to_string());
    let error = client
        .give_port(port.id, second, port.revision_number)
        .await;
    assert!(
        matches!(error, Err(NetworkClientError::Changed(_))),
        "{error:?}"
    );
    let now = client.port(port.id).await.expect("an answer");
    assert_eq!(now.expect("a port").device_id, first.to_string());
}
