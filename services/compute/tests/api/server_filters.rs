//! Tests of the filters of server lists, by microversion.

use serde_json::json;

use super::cloud::HOST;
use super::service::{Reply, Service};

async fn service() -> Service {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    service
}

fn names(reply: &Reply) -> Vec<&str> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let servers = reply.body["servers"].as_array().unwrap().iter();
    servers.map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn operators_filter_by_whatever_a_server_has() {
    let service = service().await;
    let web = service
        .running(json!({"name": "web", "accessIPv4": "192.0.2.7", "accessIPv6": "2001:db8::7", "description": "shop",
            "OS-DCF:diskConfig": "AUTO"}))
        .await;
    service.running(json!({"name": "db"})).await;
    service.server(json!({"name": "new"})).await;
    let lock = json!({"lock": null});
    let path = format!("/servers/{web}/action");
    let locked = service.ask("alice", "2.1", "POST", &path, Some(lock)).await;
    assert_eq!(locked.status, 202);
    service.settle().await;
    let shown = service.shown("admin", "2.82", web).await;
    let created = shown["created"].as_str().unwrap();
    let launched = shown["OS-SRV-USG:launched_at"].as_str().unwrap();
    let all = vec!["new", "db", "web"];
    for (query, expected) in [
        ("hostname=web".to_owned(), vec!["web"]),
        ("hostname=^w.b$".to_owned(), vec!["web"]),
        ("hostname=nothing".to_owned(), vec![]),
        ("access_ip_v4=192.0.2".to_owned(), vec!["web"]),
        ("access_ip_v6=2001:db8::7".to_owned(), vec!["web"]),
        ("access_ip_v4=198.51".to_owned(), vec![]),
        ("config_drive=True".to_owned(), all.clone()),
        ("config_drive=False".to_owned(), vec![]),
        ("config_drive=".to_owned(), vec![]),
        ("auto_disk_config=true".to_owned(), vec!["web"]),
        ("auto_disk_config=false".to_owned(), vec!["new", "db"]),
        ("progress=0".to_owned(), all.clone()),
        ("progress=50".to_owned(), vec![]),
        ("launch_index=0".to_owned(), all.clone()),
        ("launch_index=1".to_owned(), vec![]),
        ("root_device_name=vda".to_owned(), all.clone()),
        ("root_device_name=/dev/sda".to_owned(), vec![]),
        ("locked_by=owner".to_owned(), vec!["web"]),
        ("locked_by=admin".to_owned(), vec![]),
        ("created_at=2020-01-01T00:00:00Z".to_owned(), vec![]),
        ("launched_at=2020-01-01T00:00:00Z".to_owned(), vec![]),
        ("terminated_at=2020-01-01T00:00:00Z".to_owned(), vec![]),
        ("kernel_id=x".to_owned(), vec![]),
        ("ramdisk_id=x".to_owned(), vec![]),
        ("soft_deleted=true".to_owned(), all.clone()),
        ("display_name=web".to_owned(), vec!["web"]),
        ("display_description=shop".to_owned(), vec!["web"]),
        (format!("image_ref={}", super::cloud::IMAGE), all.clone()),
        (
            "image_ref=00000000-0000-4000-8000-000000000000".to_owned(),
            vec![],
        ),
    ] {
        for path in ["/servers", "/servers/detail"] {
            let path = format!("{path}?all_tenants=1&{query}");
            let found = service.get("admin", "2.82", &path).await;
            assert_eq!(names(&found), expected, "{path}");
        }
    }
    for query in [
        format!("created_at={created}"),
        format!("launched_at={launched}"),
    ] {
        let path = format!("/servers?all_tenants=1&{query}");
        let found = service.get("admin", "2.82", &path).await;
        assert!(names(&found).contains(&"web"), "{path}: {found:?}");
    }
    for query in [
        "config_drive=maybe",
        "progress=half",
        "launch_index=first",
        "created_at=yesterday",
        "soft_deleted=maybe",
        "hostname=(",
    ] {
        let path = format!("/servers?all_tenants=1&{query}");
        let refused = service.get("admin", "2.82", &path).await;
        assert_eq!(refused.status, 400, "{path}");
    }
}

#[tokio::test]
async fn the_zone_filter_compares_the_shown_zone() {
    let service = service().await;
    service.running(json!({"name": "there"})).await;
    service.server(json!({"name": "nowhere"})).await;
    let body = json!({"aggregate": {"name": "a", "availability_zone": "north"}});
    let made = service.ask("admin", "2.82", "POST", "/os-aggregates", Some(body));
    let id = made.await.body["aggregate"]["id"].clone();
    let path = format!("/os-aggregates/{id}/action");
    let body = json!({"add_host": {"host": HOST}});
    let joined = service
        .ask("admin", "2.82", "POST", &path, Some(body))
        .await;
    assert_eq!(joined.status, 200, "{joined:?}");
    for (query, expected) in [
        ("availability_zone=north", vec!["there"]),
        ("availability_zone=nova", vec![]),
        (
            "sort_key=availability_zone&sort_dir=desc",
            vec!["there", "nowhere"],
        ),
        (
            "sort_key=availability_zone&sort_dir=asc",
            vec!["nowhere", "there"],
        ),
    ] {
        let path = format!("/servers/detail?all_tenants=1&{query}");
        let found = service.get("admin", "2.82", &path).await;
        assert_eq!(names(&found), expected, "{query}");
    }
}

#[tokio::test]
async fn a_marker_need_not_be_in_the_list_any_more() {
    let service = service().await;
    service.server(json!({"name": "a"})).await;
    let gone_on = service.running(json!({"name": "b"})).await;
    service.server(json!({"name": "c"})).await;
    for query in [
        "status=BUILD&limit=1",
        "name=a&limit=1",
        "status=BUILD&limit=1&sort_key=display_name&sort_dir=desc",
        "name=a&limit=1&sort_key=display_name&sort_dir=desc",
    ] {
        let path = format!("/servers?{query}&marker={gone_on}");
        let found = service.get("alice", "2.82", &path).await;
        assert_eq!(names(&found), ["a"], "{query}");
        let unknown = "00000000-0000-4000-8000-000000000000";
        let path = format!("/servers?{query}&marker={unknown}");
        let refused = service.get("alice", "2.82", &path).await;
        let sentence = format!("marker [{unknown}] not found");
        assert_eq!(refused.message("badRequest"), sentence, "{query}");
        let path = format!("/servers?{query}&marker={gone_on}");
        let refused = service.get("bob", "2.82", &path).await;
        assert_eq!(refused.status, 400, "{query}");
    }
}

#[tokio::test]
async fn an_unknown_status_is_refused_from_2_38_on() {
    let service = service().await;
    service.server(json!({"name": "a"})).await;
    for (token, version, query, status) in [
        ("alice", "2.38", "status=nonsense", 400),
        ("alice", "2.37", "status=nonsense", 200),
        ("alice", "2.82", "status=nonsense&status=build", 200),
        ("alice", "2.82", "status=migrating", 200),
        ("alice", "2.1", "status=deleted", 403),
        ("alice", "2.82", "status=deleted", 403),
        ("admin", "2.82", "status=deleted", 200),
    ] {
        let path = format!("/servers?{query}");
        let reported = service.get(token, version, &path).await;
        assert_eq!(reported.status, status, "{token} {version} {query}");
        if status == 200 && !query.ends_with("build") {
            assert_eq!(names(&reported), [""; 0], "{query}");
        }
    }
}

#[tokio::test]
async fn a_sort_key_is_known_passed_over_or_refused_by_version() {
    let service = service().await;
    service.server(json!({"name": "a"})).await;
    for (token, version, key, status) in [
        ("alice", "2.82", "access_ip_v4", 200),
        ("alice", "2.82", "access_ip_v6", 200),
        ("alice", "2.82", "auto_disk_config", 200),
        ("alice", "2.82", "config_drive", 200),
        ("alice", "2.82", "kernel_id", 200),
        ("alice", "2.82", "ramdisk_id", 200),
        ("alice", "2.82", "locked_by", 200),
        ("alice", "2.82", "progress", 200),
        ("alice", "2.82", "root_device_name", 200),
        ("alice", "2.82", "terminated_at", 200),
        ("alice", "2.74", "vcpus", 200),
        ("alice", "2.74", "id", 200),
        ("alice", "2.72", "locked", 200),
        ("alice", "2.75", "vcpus", 400),
        ("alice", "2.74", "colour", 400),
        ("alice", "2.74", "host", 403),
        ("admin", "2.82", "node", 200),
    ] {
        let path = format!("/servers?sort_key={key}");
        let reported = service.get(token, version, &path).await;
        assert_eq!(reported.status, status, "{version} {key}: {reported:?}");
    }
}

#[tokio::test]
async fn a_change_is_asked_for_in_any_zone() {
    let service = service().await;
    service.server(json!({"name": "a"})).await;
    for (query, expected) in [
        ("changes-since=2020-11-23T07:56:44%2B02:00", 1),
        ("changes-since=2020-11-23T07:56:44+0000", 1),
        ("changes-since=2020-11-23T07:56:44-05", 1),
        ("changes-before=2020-11-23T07:56:44%2B0200", 0),
    ] {
        let path = format!("/servers?{query}");
        let found = service.get("alice", "2.82", &path).await;
        assert_eq!(names(&found).len(), expected, "{query}");
    }
    let path = "/servers?changes-since=2021-01-01&changes-before=2020-01-01";
    let refused = service.get("alice", "2.82", path).await;
    assert_eq!(
        refused.message("badRequest"),
        "The value of changes-since must be less than or equal to changes-before."
    );
}
