//! Each refusal of Neutron has an error of its own.

use berth_client::{Disposition, NetworkClientError};
use berth_wire::neutron::{CreatePortBody, RequestedFixedIp};
use http::Method;
use serde_json::json;
use uuid::Uuid;

use crate::real_neutron::client::binding;
use crate::real_neutron::cloud::{HOST, NetworkCloud};

fn at(address: &str, port: CreatePortBody) -> CreatePortBody {
    CreatePortBody {
        fixed_ips: vec![RequestedFixedIp {
            ip_address: address.to_owned(),
        }],
        ..port
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_had_is_refused_with_the_reason() {
    let cloud = NetworkCloud::shared();
    let client = cloud.client();
    // The gateway and one port.
    let (network, _) = cloud
        .network(cloud.tenant(), "narrow", "192.0.2.0/30")
        .await;
    let port = || cloud.port_of(network.id, Uuid::new_v4());
    let error = client.create_port(&at("198.51.100.1", port())).await;
    assert!(
        matches!(error, Err(NetworkClientError::InvalidAddress(_))),
        "{error:?}"
    );
    let made = client.create_port(&at("192.0.2.2", port())).await;
    let made = made.expect("a port");
    let error = client.create_port(&at("192.0.2.2", port())).await;
    let error = error.expect_err("it is taken");
    assert!(
        matches!(error, NetworkClientError::AddressInUse(_)),
        "{error:?}"
    );
    assert_eq!(error.disposition(), Disposition::Fatal);
    let error = client
        .create_port(&port())
        .await
        .expect_err("all are taken");
    assert!(
        matches!(error, NetworkClientError::NoFreeAddress(_)),
        "{error:?}"
    );
    assert!(
        error.what().contains("No more IP addresses available"),
        "{error}"
    );
    client.delete_port(made.id).await.expect("it is deleted");
    client.create_port(&port()).await.expect("it is free again");
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let cloud = NetworkCloud::shared();
    let (client, unknown) = (cloud.client(), Uuid::new_v4());
    assert_eq!(client.port(unknown).await, Ok(None));
    assert_eq!(client.network(unknown).await, Ok(None));
    let error = client
        .bind_port(unknown, &binding(unknown, HOST), None)
        .await;
    let error = error.expect_err("there is none");
    assert!(
        matches!(error, NetworkClientError::NotFound(_)),
        "{error:?}"
    );
    assert_eq!(error.disposition(), Disposition::Refresh);
    let error = client.create_port(&cloud.port_of(unknown, unknown)).await;
    assert!(
        matches!(error, Err(NetworkClientError::NotFound(_))),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_host_that_is_no_chassis_binds_no_port() {
    let cloud = NetworkCloud::shared();
    let (client, server) = (cloud.client(), Uuid::new_v4());
    let (network, _) = cloud
        .network(cloud.tenant(), "nowhere", "192.0.2.0/24")
        .await;
    let port = client.create_port(&cloud.port_of(network.id, server)).await;
    let port = port.expect("a port").id;
    let error = client
        .bind_port(port, &binding(server, "no-such-host"), None)
        .await;
    let error = error.expect_err("no chassis has this name");
    let host = "no-such-host".to_owned();
    assert_eq!(error, NetworkClientError::BindingFailed { port, host });
    assert_eq!(error.disposition(), Disposition::Refresh);
    // The next attempt is on another host.
    client
        .bind_port(port, &binding(server, HOST), None)
        .await
        .expect("it is bound");
}

#[tokio::test]
async fn ports_beyond_the_quota_and_a_mac_address_twice_are_refused() {
    let cloud = NetworkCloud::shared();
    let client = cloud.client();
    let project = "0000000000000000000000000000000c";
    let quota = json!({"quota": {"port": 1}});
    cloud.ask(Method::PUT, &format!("/v2.0/quotas/{project}"), &quota);
    let (network, _) = cloud.network(project, "small", "192.0.2.0/24").await;
    let port = || CreatePortBody {
        tenant_id: project.to_owned(),
        ..cloud.port_of(network.id, Uuid::new_v4())
    };
    let made = client.create_port(&port()).await.expect("a port");
    let error = client.create_port(&port()).await.expect_err("no quota");
    assert!(
        matches!(error, NetworkClientError::OverQuota(_)),
        "{error:?}"
    );
    assert_eq!(error.disposition(), Disposition::Fatal);
    let mac = json!({"port": {"network_id": network.id, "mac_address": made.mac_address}});
    let token = cloud.keystone.kept_token(&cloud.keystone.berth());
    let url = format!("{}/v2.0/ports", cloud.neutron.url());
    let answer = berth_tests::exchange::HttpCall::post(url)
        .header("x-auth-token", &token.expect("a token"))
        .json(&mac)
        .send()
        .expect("an answer");
    assert_eq!(answer.status, 409);
    assert_eq!(answer.json()["NeutronError"]["type"], "MacAddressInUse");
}

#[tokio::test]
async fn an_account_that_is_no_administrator_may_not_bind() {
    let cloud = NetworkCloud::shared();
    let (client, server) = (cloud.client(), Uuid::new_v4());
    let (network, _) = cloud
        .network(cloud.tenant(), "forbidden", "192.0.2.0/24")
        .await;
    let port = client.create_port(&cloud.port_of(network.id, server)).await;
    let port = port.expect("a port").id;
    let tenants = cloud.client_of("tenant", "tenant");
    let error = tenants.bind_port(port, &binding(server, HOST), None).await;
    let error = error.expect_err("only administrators bind ports");
    assert!(
        matches!(error, NetworkClientError::Forbidden(_)),
        "{error:?}"
    );
    assert!(error.to_string().contains("role admin"), "{error}");
    let unknown = cloud.client_of("tenant", "service");
    let error = unknown.port(port).await.expect_err("no login");
    assert!(matches!(error, NetworkClientError::Call(_)), "{error:?}");
}
