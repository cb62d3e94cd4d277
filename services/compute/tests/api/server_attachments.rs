//! Tests of addresses, ports and volumes, which are always empty, and of the search for hypervisors.

use serde_json::json;
use uuid::Uuid;

use super::cloud::HOST;
use super::service::Service;

#[tokio::test]
async fn a_server_has_no_addresses_ports_and_volumes_that_are_known_here() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let server = service.server(json!({})).await;
    for (path, key, none) in [
        ("ips", "addresses", json!({})),
        ("os-interface", "interfaceAttachments", json!([])),
        ("os-volume_attachments", "volumeAttachments", json!([])),
    ] {
        let path = format!("/servers/{server}/{path}");
        let reported = service.get("alice", "2.82", &path).await;
        assert_eq!(
            (reported.status.as_u16(), &reported.body[key]),
            (200, &none),
            "{path}"
        );
        for (token, path) in [
            ("bob", path.clone()),
            ("alice", format!("{path}/{}", Uuid::from_u128(7))),
            (
                "alice",
                path.replace(&server.to_string(), &Uuid::from_u128(7).to_string()),
            ),
        ] {
            let reported = service.get(token, "2.82", &path).await;
            assert_eq!(reported.status, 404, "{token} {path}");
        }
    }
}

#[tokio::test]
async fn a_server_shows_the_interfaces_of_its_guest_and_the_addresses_that_its_host_knows() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let server = service.running(json!({})).await;
    let shown = service.shown("alice", "2.82", server).await;
    let whole = |version: u8, addr: &str| json!({"version": version, "addr": addr, "OS-EXT-IPS-MAC:mac_addr": "fa:00:00:00:00:01", "OS-EXT-IPS:type": "fixed"});
    // A network without a known address is there all the same: the SDK deletes an active server without any network.
    let expected =
        json!({"br-ex": [], "default": [whole(4, "192.0.2.7"), whole(6, "2001:db8::7")]});
    assert_eq!(shown["addresses"], expected);
    assert_eq!(shown["accessIPv4"], "192.0.2.7");
    assert_eq!(shown["accessIPv6"], "2001:db8::7");
    let alone = json!([{"version": 4, "addr": "192.0.2.7"}, {"version": 6, "addr": "2001:db8::7"}]);
    let path = format!("/servers/{server}/ips");
    let listed = service.get("alice", "2.82", &path).await;
    assert_eq!(listed.body["addresses"]["default"], alone);
    let one = service
        .get("alice", "2.82", &format!("{path}/default"))
        .await;
    assert_eq!(one.body, json!({"default": alone}));
    let none = service.get("alice", "2.82", &format!("{path}/other")).await;
    assert_eq!(
        none.message("itemNotFound"),
        "Network other not found in instance."
    );
    // What the owner stored has precedence.
    let stored = json!({"server": {"accessIPv4": "198.51.100.1"}});
    let path = format!("/servers/{server}");
    service
        .ask("alice", "2.82", "PUT", &path, Some(stored))
        .await;
    let shown = service.shown("alice", "2.82", server).await;
    assert_eq!(shown["accessIPv4"], "198.51.100.1");
}

#[tokio::test]
async fn what_clients_read_of_a_server_without_asking_is_empty_and_not_missing() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let server = service.server(json!({})).await;
    for (token, path, key, none) in [
        ("alice", "os-security-groups", "security_groups", json!([])),
        ("alice", "os-server-password", "password", json!("")),
        ("admin", "migrations", "migrations", json!([])),
    ] {
        let path = format!("/servers/{server}/{path}");
        let reported = service.get(token, "2.82", &path).await;
        assert_eq!(reported.status, 200, "{path}");
        assert_eq!(reported.body[key], none, "{path}");
        assert_eq!(
            service.get("bob", "2.82", &path).await.status,
            404,
            "{path}"
        );
    }
    let early = format!("/servers/{server}/migrations");
    assert_eq!(service.get("admin", "2.22", &early).await.status, 404);
}

#[tokio::test]
async fn hypervisors_are_searched_by_name_up_to_2_52() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let server = service.running(json!({})).await;
    let found = service
        .get("admin", "2.52", "/os-hypervisors/mpute/search")
        .await;
    assert_eq!(found.body["hypervisors"][0]["hypervisor_hostname"], HOST);
    assert_eq!(found.body["hypervisors"][0].get("servers"), None);
    let found = service
        .get("admin", "2.52", "/os-hypervisors/mpute/servers")
        .await;
    let servers = &found.body["hypervisors"][0]["servers"];
    assert_eq!(servers[0]["uuid"], json!(server));
    for (token, version, path, status) in [
        ("admin", "2.52", "nothing/search", 404),
        ("admin", "2.52", "nothing/servers", 404),
        ("admin", "2.53", "mpute/search", 404),
        ("admin", "2.53", "mpute/servers", 404),
        ("alice", "2.52", "mpute/search", 403),
        ("alice", "2.52", "mpute/servers", 403),
        ("admin", "2.82", "nothing/uptime", 404),
        (
            "admin",
            "2.82",
            "00000000-0000-0000-0000-000000000002/uptime",
            501,
        ),
        (
            "alice",
            "2.82",
            "00000000-0000-0000-0000-000000000002/uptime",
            403,
        ),
    ] {
        let path = format!("/os-hypervisors/{path}");
        let reported = service.get(token, version, &path).await;
        assert_eq!(reported.status, status, "{token} {version} {path}");
    }
}
