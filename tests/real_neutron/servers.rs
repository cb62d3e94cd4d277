//! Servers with ports: what the compute API takes, refuses and shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use berth_client::HttpService;
use berth_compute::{
    Compute, ComputeApiOptions, ComputeOptions, ComputeParts, FoundImage, prepare, router,
};
use berth_model::ConsumerUuid;
use berth_store::SqlStore;
use berth_tests::wait::poll_until;
use berth_wire::guest::{ImageBody, ImageLocation};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::real_neutron::cloud::NetworkCloud;
use crate::real_neutron::port_stage::PortStage;

const IMAGE: Uuid = Uuid::from_u128(0x9a17_439a_85d0_4c53_a3d3_0f68_a2ea_c896);

/// Only tests that run the reconciler read interfaces again without an event.
const HEAL_INTERVAL: Duration = Duration::from_millis(200);

/// A compute API whose conductor has the real Neutron.
pub(super) struct ComputeStage {
    pub(super) ports: PortStage,
    pub(super) compute: Compute,
    api: HttpService,
}

impl ComputeStage {
    pub(super) async fn new(name: &str) -> Self {
        Self::over(PortStage::new(name).await).await
    }

    pub(super) async fn over(ports: PortStage) -> Self {
        ports.stage.effects.begin(None);
        let image = FoundImage {
            body: ImageBody {
                location: ImageLocation::Url("http://images/zeros".to_owned()),
                checksum: Some(format!("sha256:{}", "a".repeat(64))),
                format: "raw".to_owned(),
                properties: BTreeMap::new(),
            },
            min_ram: 0,
            min_disk: 0,
        };
        let store = SqlStore::in_memory().await.expect("memory");
        prepare(&store).await.expect("an empty database");
        let parts = ComputeParts {
            store,
            conductor: ports.stage.conductor(),
            hosts: ports.stage.hosts.clone(),
            images: Arc::new(BTreeMap::from([(IMAGE, image)])),
            quota: None,
        };
        let options = ComputeOptions {
            heal_interval: Some(HEAL_INTERVAL),
            ..ComputeOptions::default()
        };
        let compute = Compute::new(parts, options);
        let router = router(compute.clone(), ComputeApiOptions::default());
        let stage = Self {
            ports,
            compute,
            api: HttpService::in_process::<_, Body, _>(router, 1 << 20),
        };
        let flavor =
            json!({"flavor": {"id": "1", "name": "small", "ram": 64, "vcpus": 1, "disk": 1}});
        stage.ask(Method::POST, "/flavors", Some(flavor), 200).await;
        stage
    }

    /// Asks as an administrator in the project `tenant`.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        status: u16,
    ) -> Value {
        self.ask_since("2.82", method, path, body, status).await
    }

    /// The same with this microversion.
    pub(super) async fn ask_since(
        &self,
        version: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
        status: u16,
    ) -> Value {
        let token = format!("admin:{}", NetworkCloud::shared().tenant());
        let request = Request::builder()
            .method(method)
            .uri(format!("http://compute/v2.1{path}"))
            .header("x-auth-token", token)
            .header("content-type", "application/json")
            .header("openstack-api-version", format!("compute {version}"));
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let answer = self.api.send(request.body(body).expect("a request")).await;
        let answer = answer.expect("an answer");
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        assert_eq!(answer.status(), status, "{path}: {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub(super) fn server(more: &Value) -> Value {
        let mut server = json!({"name": "web", "flavorRef": "1", "imageRef": IMAGE});
        for (key, value) in more.as_object().into_iter().flatten() {
            server[key] = value.clone();
        }
        json!({ "server": server })
    }

    /// A server that was asked for.
    pub(super) async fn building(&self, more: &Value) -> String {
        let made = self
            .ask(Method::POST, "/servers", Some(Self::server(more)), 202)
            .await;
        made["server"]["id"].as_str().expect("an id").to_owned()
    }

    pub(super) async fn wait_until_active(&self, id: &str) {
        poll_until("the server is active", async || {
            let shown = self.shown(id).await;
            match shown["status"] == "ACTIVE" {
                true => Ok(()),
                false => Err(shown),
            }
        })
        .await;
    }

    /// A server that is active.
    pub(super) async fn active(&self, more: &Value) -> String {
        let id = self.building(more).await;
        self.wait_until_active(&id).await;
        id
    }

    pub(super) async fn shown(&self, id: &str) -> Value {
        let path = format!("/servers/{id}");
        let mut shown = self.ask(Method::GET, &path, None, 200).await;
        shown["server"].take()
    }

    /// The addresses of a server in its only network.
    pub(super) async fn addresses(&self, id: &str, network: &str) -> Vec<Value> {
        let shown = self.shown(id).await;
        let networks = shown["addresses"].as_object().expect("networks");
        assert_eq!(networks.len(), 1, "{networks:?}");
        networks[network].as_array().expect("addresses").clone()
    }
}

#[tokio::test]
async fn a_server_shows_the_addresses_of_its_ports_and_leaves_none_behind() {
    let stage = ComputeStage::new("servers").await;
    let client = &stage.ports.client;
    let networks = json!({"networks": [{"uuid": stage.ports.network, "fixed_ip": "192.0.2.55", "tag": "front"}],
        "security_groups": [{"name": "default"}]});
    let id = stage.active(&networks).await;
    let ports = client.ports_of_device(id.parse().expect("a UUID")).await;
    let ports = ports.expect("ports");
    let [port] = ports.as_slice() else {
        panic!("{ports:?}")
    };
    let addresses = stage.addresses(&id, "servers").await;
    assert_eq!(
        addresses,
        [
            json!({"version": 4, "addr": "192.0.2.55", "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": port.mac_address})
        ]
    );
    let path = format!("/servers/{id}/ips");
    let ips = stage.ask(Method::GET, &path, None, 200).await;
    let expected = json!({"addresses": {"servers": [{"version": 4, "addr": "192.0.2.55"}]}});
    assert_eq!(ips, expected);

    let path = format!("/servers/{id}/os-interface");
    let attached = stage.ask(Method::GET, &path, None, 200).await;
    let shown = &attached["interfaceAttachments"][0];
    assert_eq!(shown["port_id"], json!(port.id));
    assert_eq!(shown["net_id"], json!(stage.ports.network));
    assert_eq!(shown["fixed_ips"][0]["ip_address"], "192.0.2.55");
    assert_eq!(shown["tag"], "front");
    let path = format!("/servers/{id}/os-interface/{}", port.id);
    let one = stage.ask(Method::GET, &path, None, 200).await;
    assert_eq!(&one["interfaceAttachment"], shown);

    changes_its_groups(&stage, &id, port.id).await;

    // The tenant gives the port another address, and Neutron reports the change.
    let subnet = port.fixed_ips[0].subnet_id;
    let fixed_ips = json!([{"subnet_id": subnet, "ip_address": "192.0.2.55"}, {"subnet_id": subnet, "ip_address": "192.0.2.56"}]);
    let path = format!("/v2.0/ports/{}", port.id);
    let change = json!({"port": {"fixed_ips": fixed_ips}});
    NetworkCloud::shared().ask(Method::PUT, &path, &change);
    let event = json!({"events": [{"name": "network-changed", "server_uuid": id, "tag": port.id}]});
    let path = "/os-server-external-events";
    stage.ask(Method::POST, path, Some(event), 200).await;
    assert_eq!(stage.addresses(&id, "servers").await.len(), 2);

    let path = format!("/servers/{id}");
    stage.ask(Method::DELETE, &path, None, 204).await;
    poll_until("the port is deleted", async || {
        match client.port(port.id).await.expect("an answer") {
            None => Ok(()),
            Some(port) => Err(port),
        }
    })
    .await;
}

/// A security group is added to the only port of a server, shown and removed again.
async fn changes_its_groups(stage: &ComputeStage, id: &str, port: Uuid) {
    let cloud = NetworkCloud::shared();
    let group = json!({"security_group": {"name": "web", "tenant_id": cloud.tenant()}});
    let made = cloud.ask(Method::POST, "/v2.0/security-groups", &group);
    let web = &made["security_group"]["id"];
    let rule = json!({"security_group_rule": {"security_group_id": web, "tenant_id": cloud.tenant(), "direction": "ingress",
        "protocol": "tcp", "port_range_min": 80, "port_range_max": 80, "remote_ip_prefix": "192.0.2.0/24"}});
    cloud.ask(Method::POST, "/v2.0/security-group-rules", &rule);
    let act = async |word: &str, name: &str, status| {
        let body = Some(json!({word: {"name": name}}));
        let path = format!("/servers/{id}/action");
        stage.ask(Method::POST, &path, body, status).await
    };
    let names = async || stage.shown(id).await["security_groups"].clone();
    assert_eq!(names().await, json!([{"name": "default"}]));
    act("addSecurityGroup", "web", 202).await;
    assert_eq!(names().await, json!([{"name": "default"}, {"name": "web"}]));
    let path = format!("/servers/{id}/os-security-groups");
    let groups = stage.ask(Method::GET, &path, None, 200).await;
    let [default, shown] = groups["security_groups"]
        .as_array()
        .expect("groups")
        .as_slice()
    else {
        panic!("{groups}")
    };
    // Its rules name the group itself.
    let peer = json!({"name": "default", "tenant_id": cloud.tenant()});
    assert_eq!(default["rules"][0]["group"], peer, "{default}");
    assert_eq!(shown["id"], *web);
    assert_eq!(shown["rules"][0]["ip_range"]["cidr"], "192.0.2.0/24");
    assert_eq!(shown["rules"][0]["from_port"], 80);

    act("removeSecurityGroup", "default", 202).await;
    act("removeSecurityGroup", "default", 404).await;
    let now = stage.ports.client.port(port).await.expect("an answer");
    let groups = now.expect("the port").security_groups;
    assert_eq!(json!(groups), json!([web]));
    act("addSecurityGroup", "no-such", 404).await;
    act("addSecurityGroup", " ", 400).await;
}

#[tokio::test]
async fn networks_that_a_server_cannot_have_are_refused_at_once() {
    let stage = ComputeStage::new("denied").await;
    let cloud = NetworkCloud::shared();
    let (own, given) = (stage.ports.network, stage.ports.given);
    let (foreign, _) = cloud
        .network("other-project", "foreign", "192.0.2.0/24")
        .await;
    // With two networks none is the project's only one.
    cloud
        .network(cloud.tenant(), "second", "192.0.2.0/24")
        .await;
    let used = cloud.port_of(own, Uuid::new_v4());
    let used = stage.ports.client.create_port(&used).await;
    let used = used.expect("a port").id;
    let unknown = Uuid::new_v4();
    for (more, status, reason) in [
        (
            json!({"networks": [{"uuid": unknown}]}),
            400,
            "could not be found",
        ),
        (
            json!({"networks": [{"uuid": foreign.id}]}),
            400,
            "could not be found",
        ),
        (
            json!({"networks": [{"port": unknown}]}),
            400,
            "could not be found",
        ),
        (
            json!({"networks": [{"port": used}]}),
            409,
            "is still in use",
        ),
        (
            json!({"networks": [{"port": given, "fixed_ip": "192.0.2.9"}]}),
            400,
            "cannot be specified together",
        ),
        (
            json!({"networks": [{"uuid": own, "fixed_ip": "x"}]}),
            400,
            "not a valid address",
        ),
        (json!({"networks": [{"tag": "a"}]}), 400, "missing"),
        (
            json!({"networks": [{"port": given}, {"port": given}]}),
            400,
            "a port is named once",
        ),
        (
            json!({"networks": [{"port": given}], "max_count": 2}),
            400,
            "single configured port",
        ),
        (
            json!({"networks": [{"uuid": own, "speed": 1}]}),
            400,
            "speed",
        ),
        (
            json!({"networks": [{"uuid": own}], "security_groups": [{"name": "no-such"}]}),
            400,
            "Security group no-such not found",
        ),
        (
            json!({"networks": "auto"}),
            409,
            "Multiple possible networks",
        ),
    ] {
        let body = Some(ComputeStage::server(&more));
        let refused = stage.ask(Method::POST, "/servers", body, status).await;
        assert!(refused.to_string().contains(reason), "{more}: {refused}");
    }
    let given = stage.ports.client.port(given).await.expect("an answer");
    assert_eq!(given.expect("a port").device_id, "");
    let none = stage.active(&json!({"networks": "none"})).await;
    assert_eq!(stage.shown(&none).await["addresses"], json!({}));
    let add = Some(json!({"addSecurityGroup": {"name": "default"}}));
    let path = format!("/servers/{none}/action");
    let refused = stage.ask(Method::POST, &path, add, 404).await;
    assert!(refused.to_string().contains("any ports"), "{refused}");
}

#[tokio::test]
async fn ports_are_attached_to_a_server_and_detached_and_a_deleted_one_is_detached_too() {
    let stage = ComputeStage::new("attach").await;
    let (client, agent) = (&stage.ports.client, &stage.ports.stage.agent);
    let id = stage.active(&json!({"networks": "none"})).await;
    let guest = ConsumerUuid::from(id.parse::<Uuid>().expect("a UUID"));
    let path = format!("/servers/{id}/os-interface");
    let attach = async |body: Value, status| {
        let body = json!({ "interfaceAttachment": body });
        let answer = stage.ask(Method::POST, &path, Some(body), status).await;
        answer["interfaceAttachment"].clone()
    };
    // A new port, with an address and a tag.
    let made = attach(
        json!({"net_id": stage.ports.network, "fixed_ips": [{"ip_address": "192.0.2.66"}], "tag": "late"}),
        200,
    )
    .await;
    assert_eq!(made["fixed_ips"][0]["ip_address"], "192.0.2.66");
    assert_eq!(made["tag"], "late");
    let addresses = stage.addresses(&id, "attach").await;
    assert_eq!(addresses[0]["addr"], "192.0.2.66");
    assert_eq!(stage.shown(&id).await["accessIPv4"], "");
    // A given port; it cannot be attached twice.
    let given = attach(json!({"port_id": stage.ports.given}), 200).await;
    assert_eq!(given["port_id"], json!(stage.ports.given));
    attach(json!({"port_id": stage.ports.given}), 409).await;
    let attached = agent.attached(guest);
    let port = |shown: &Value| shown["port_id"].as_str().unwrap().parse::<Uuid>().unwrap();
    assert_eq!(attached, [port(&made), port(&given)].into());

    let detach = format!("{path}/{}", port(&given));
    stage.ask(Method::DELETE, &detach, None, 202).await;
    let is_detached = async |port: Uuid| match agent.attached(guest) {
        attached if attached.contains(&port) => Err(attached),
        _ => Ok(()),
    };
    poll_until("the given port is detached", async || {
        is_detached(port(&given)).await
    })
    .await;
    poll_until("the given port is free", async || {
        let found = client
            .port(port(&given))
            .await
            .expect("an answer")
            .expect("it");
        match found.device_id.is_empty() {
            true => Ok(()),
            false => Err(found),
        }
    })
    .await;

    // The tenant deletes the other port, and Neutron reports it.
    client
        .delete_port(port(&made))
        .await
        .expect("it is deleted");
    let event =
        json!({"events": [{"name": "network-vif-deleted", "server_uuid": id, "tag": port(&made)}]});
    stage
        .ask(Method::POST, "/os-server-external-events", Some(event), 200)
        .await;
    poll_until("the deleted port is detached", async || {
        is_detached(port(&made)).await
    })
    .await;
    poll_until("it is no address of the server", async || {
        let shown = stage.shown(&id).await["addresses"].clone();
        match shown == json!({}) {
            true => Ok(()),
            false => Err(shown),
        }
    })
    .await;
    let events = format!("/servers/{id}/os-instance-actions");
    let events = stage.ask(Method::GET, &events, None, 200).await;
    let actions = events["instanceActions"].as_array().expect("actions");
    let named = |name: &str| actions.iter().filter(|one| one["action"] == name).count();
    assert_eq!(
        (named("attach_interface"), named("detach_interface")),
        (2, 2)
    );
}

#[tokio::test]
async fn a_port_that_a_server_cannot_have_is_refused_at_once_and_one_that_it_has_not_is_unknown() {
    let stage = ComputeStage::new("unattachable").await;
    let (own, given) = (stage.ports.network, stage.ports.given);
    let id = stage.active(&json!({"networks": "none"})).await;
    let path = format!("/servers/{id}/os-interface");
    let unknown = Uuid::new_v4();
    for (attachment, status, reason) in [
        (
            json!({"net_id": own, "port_id": given}),
            400,
            "Must not input both",
        ),
        (
            json!({"fixed_ips": [{"ip_address": "192.0.2.9"}]}),
            400,
            "Must input network_id",
        ),
        (
            json!({"net_id": own, "fixed_ips": [{"ip_address": "x"}]}),
            400,
            "fixed_ips",
        ),
        (json!({"net_id": own, "speed": 1}), 400, "speed"),
        (json!({"net_id": "x"}), 400, "net_id"),
        (json!({"net_id": unknown}), 404, "could not be found"),
        (json!({"port_id": unknown}), 404, "could not be found"),
        (
            json!({"net_id": own, "fixed_ips": [{"ip_address": "198.51.100.9"}]}),
            500,
            "Failed to attach",
        ),
    ] {
        let body = json!({ "interfaceAttachment": attachment });
        let refused = stage.ask(Method::POST, &path, Some(body), status).await;
        assert!(
            refused.to_string().contains(reason),
            "{attachment}: {refused}"
        );
    }
    let guest: Uuid = id.parse().expect("a UUID");
    let ports = stage.ports.client.ports_of_device(guest).await;
    assert_eq!(ports.expect("ports"), []);
    let none = format!("{path}/{given}");
    stage.ask(Method::DELETE, &none, None, 404).await;
    // An action is possible after a failed one.
    let stop = Some(json!({"os-stop": null}));
    let action = format!("/servers/{id}/action");
    stage.ask(Method::POST, &action, stop, 202).await;
}
