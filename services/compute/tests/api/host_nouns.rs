//! Tests of server groups, aggregates, availability zones, services, hypervisors and limits.

use serde_json::{Value, json};

use super::cloud::HOST;
use super::service::{Reply, Service};

async fn post(service: &Service, token: &str, version: &str, path: &str, body: Value) -> Reply {
    service.ask(token, version, "POST", path, Some(body)).await
}

#[tokio::test]
async fn a_server_group_has_the_policies_of_its_version_and_the_servers_asked_for_in_it() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let path = "/os-server-groups";
    let early = json!({"server_group": {"name": "g", "policies": ["anti-affinity"]}});
    let made = post(&service, "alice", "2.1", path, early.clone()).await;
    let group = &made.body["server_group"];
    let id = group["id"].as_str().unwrap().to_owned();
    let expected = json!({"id": id, "name": "g", "members": [], "policies": ["anti-affinity"], "metadata": {}});
    assert_eq!(group, &expected);
    let late = json!({"server_group": {"name": "h", "policy": "anti-affinity", "rules": {"max_server_per_host": 2}}});
    let made = post(&service, "alice", "2.64", path, late).await;
    let group = &made.body["server_group"];
    assert_eq!(
        (&group["policy"], &group["rules"], &group["project_id"]),
        (
            &json!("anti-affinity"),
            &json!({"max_server_per_host": 2}),
            &json!("project-of-alice")
        )
    );
    let soft = json!({"server_group": {"name": "s", "policies": ["soft-affinity"]}});
    assert_eq!(
        post(&service, "alice", "2.14", path, soft.clone())
            .await
            .status,
        400
    );
    assert_eq!(
        post(&service, "alice", "2.15", path, soft).await.status,
        200
    );
    for (version, group) in [
        ("2.64", json!({"name": "g", "policies": ["affinity"]})),
        (
            "2.64",
            json!({"name": "g", "policy": "affinity", "rules": {"max_server_per_host": 2}}),
        ),
        ("2.64", json!({"name": "g", "policy": "apart"})),
        (
            "2.1",
            json!({"name": "g", "policies": ["affinity", "anti-affinity"]}),
        ),
        ("2.1", json!({"name": "", "policies": ["affinity"]})),
    ] {
        let refused = post(
            &service,
            "alice",
            version,
            path,
            json!({ "server_group": group }),
        )
        .await;
        assert_eq!(refused.status, 400, "{group}");
    }
    let server = json!({"name": "s", "flavorRef": "f", "imageRef": super::cloud::IMAGE});
    let body = json!({"server": server, "os:scheduler_hints": {"group": id}});
    let made = post(&service, "alice", "2.1", "/servers", body).await;
    let one = service.get("alice", "2.1", &format!("{path}/{id}")).await;
    assert_eq!(
        one.body["server_group"]["members"],
        json!([made.body["server"]["id"]])
    );
    assert_eq!(
        service
            .get("bob", "2.1", &format!("{path}/{id}"))
            .await
            .status,
        404
    );
    let names = |reply: &Reply| -> Vec<String> {
        let groups = reply.body["server_groups"].as_array().unwrap().iter();
        groups
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&service.get("alice", "2.1", path).await),
        ["g", "h", "s"]
    );
    let paged = format!("{path}?offset=1&limit=1");
    assert_eq!(names(&service.get("alice", "2.1", &paged).await), ["h"]);
    assert!(
        names(
            &service
                .get("bob", "2.1", &format!("{path}?all_projects=1"))
                .await
        )
        .is_empty()
    );
    let all = service
        .get("admin", "2.1", &format!("{path}?all_projects=1"))
        .await;
    assert_eq!(names(&all).len(), 3);
    let members = all.body["server_groups"].as_array().unwrap().iter();
    let members: Vec<&Value> = members.map(|it| &it["members"]).collect();
    let server = json!([made.body["server"]["id"]]);
    assert_eq!(members, [&server, &json!([]), &json!([])]);
    let gone = service
        .ask("alice", "2.1", "DELETE", &format!("{path}/{id}"), None)
        .await;
    assert_eq!(gone.status, 204);
    assert_eq!(
        service
            .get("alice", "2.1", &format!("{path}/{id}"))
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn an_aggregate_makes_a_zone_of_its_hosts() {
    let service = Service::start().await;
    let path = "/os-aggregates";
    let body = json!({"aggregate": {"name": "left", "availability_zone": "az1"}});
    let made = post(&service, "admin", "2.41", path, body.clone()).await;
    let aggregate = &made.body["aggregate"];
    assert_eq!(
        (&aggregate["name"], &aggregate["availability_zone"]),
        (&json!("left"), &json!("az1"))
    );
    assert!(aggregate["uuid"].is_string() && aggregate.get("hosts").is_none());
    assert_eq!(
        post(&service, "admin", "2.41", path, body).await.status,
        409
    );
    let one = format!("{path}/{}", aggregate["id"]);
    let action = format!("{one}/action");
    let added = post(
        &service,
        "admin",
        "2.1",
        &action,
        json!({"add_host": {"host": HOST}}),
    )
    .await;
    assert_eq!(added.body["aggregate"]["hosts"], json!([HOST]), "{added:?}");
    let none = post(
        &service,
        "admin",
        "2.1",
        &action,
        json!({"add_host": {"host": "x"}}),
    )
    .await;
    assert_eq!(none.status, 404);
    let twice = post(
        &service,
        "admin",
        "2.1",
        &action,
        json!({"add_host": {"host": HOST}}),
    )
    .await;
    assert_eq!(twice.status, 409);
    let set = json!({"set_metadata": {"metadata": {"ssd": "true", "none": null}}});
    let set = post(&service, "admin", "2.1", &action, set).await;
    assert_eq!(
        set.body["aggregate"]["metadata"],
        json!({"ssd": "true", "availability_zone": "az1"})
    );
    let zones = service.get("alice", "2.1", "/os-availability-zone").await;
    let zone = json!({"zoneName": "az1", "zoneState": {"available": true}, "hosts": null});
    assert_eq!(zones.body["availabilityZoneInfo"], json!([zone]));
    let detail = service
        .get("admin", "2.1", "/os-availability-zone/detail")
        .await;
    let host = &detail.body["availabilityZoneInfo"][0]["hosts"][HOST]["nova-compute"];
    assert_eq!(
        (&host["available"], &host["active"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        service
            .get("alice", "2.1", "/os-availability-zone/detail")
            .await
            .status,
        403
    );
    let full = service.ask("admin", "2.1", "DELETE", &one, None).await;
    assert!(full.message("badRequest").contains("is not empty"));
    // An update that puts a host into two zones is a bad request; adding a host to a second zone is a conflict.
    let other = json!({"aggregate": {"name": "other"}});
    let other = post(&service, "admin", "2.1", path, other).await;
    let other = format!("{path}/{}", other.body["aggregate"]["id"]);
    let actions = format!("{other}/action");
    let join = json!({"add_host": {"host": HOST}});
    let joined = post(&service, "admin", "2.1", &actions, join.clone()).await;
    assert_eq!(joined.status, 200);
    let zone = json!({"aggregate": {"availability_zone": "az2"}});
    let zoned = service.ask("admin", "2.1", "PUT", &other, Some(zone.clone()));
    assert_eq!(zoned.await.status, 400);
    let set = json!({"set_metadata": {"metadata": {"availability_zone": "az2"}}});
    let set = post(&service, "admin", "2.1", &actions, set).await;
    assert_eq!(set.status, 400);
    let leave = json!({"remove_host": {"host": HOST}});
    let left = post(&service, "admin", "2.1", &actions, leave).await;
    assert_eq!(left.status, 200);
    let zoned = service.ask("admin", "2.1", "PUT", &other, Some(zone));
    assert_eq!(zoned.await.status, 200);
    let joined = post(&service, "admin", "2.1", &actions, join).await;
    assert_eq!(joined.status, 409, "{joined:?}");
    let put = json!({"aggregate": {"name": "right", "availability_zone": null}});
    let put = service.ask("admin", "2.1", "PUT", &one, Some(put)).await;
    assert_eq!(
        (
            &put.body["aggregate"]["name"],
            &put.body["aggregate"]["availability_zone"]
        ),
        (&json!("right"), &Value::Null)
    );
    let out = post(
        &service,
        "admin",
        "2.1",
        &action,
        json!({"remove_host": {"host": HOST}}),
    )
    .await;
    assert_eq!(out.status, 200);
    assert_eq!(
        service
            .ask("admin", "2.1", "DELETE", &one, None)
            .await
            .status,
        200
    );
    assert_eq!(service.get("admin", "2.1", &one).await.status, 404);
    assert_eq!(service.get("alice", "2.1", path).await.status, 403);
}

#[tokio::test]
async fn a_host_is_disabled_and_forced_down_by_the_forms_of_each_version() {
    let service = Service::start().await;
    let all = service
        .get("admin", "2.53", "/os-services?binary=nova-compute")
        .await;
    let row = &all.body["services"][0];
    assert_eq!(
        (
            &row["host"],
            &row["status"],
            &row["state"],
            &row["zone"],
            &row["forced_down"]
        ),
        (
            &json!(HOST),
            &json!("enabled"),
            &json!("up"),
            &json!("nova"),
            &json!(false)
        )
    );
    let path = format!("/os-services/{}", row["id"].as_str().unwrap());
    let put = |version, path: String, body: Value| {
        let service = &service;
        async move {
            service
                .ask("admin", version, "PUT", &path, Some(body))
                .await
        }
    };
    let body = json!({"status": "disabled", "disabled_reason": "maintenance"});
    let disabled = put("2.53", path.clone(), body).await;
    let row = &disabled.body["service"];
    assert_eq!(
        (&row["status"], &row["disabled_reason"]),
        (&json!("disabled"), &json!("maintenance"))
    );
    let body = json!({"host": HOST, "binary": "nova-compute"});
    let enabled = put("2.1", "/os-services/enable".to_owned(), body).await;
    assert_eq!(enabled.body["service"]["status"], "enabled");
    let body = json!({"host": HOST, "binary": "nova-compute", "disabled_reason": "r"});
    let disabled = put("2.1", "/os-services/disable-log-reason".to_owned(), body).await;
    assert_eq!(disabled.body["service"]["disabled_reason"], "r");
    let body = json!({"host": HOST, "binary": "nova-compute", "forced_down": true});
    let forced = put("2.11", "/os-services/force-down".to_owned(), body.clone()).await;
    assert_eq!(forced.body["service"]["forced_down"], true);
    let early = service
        .get("admin", "2.1", &format!("/os-services?host={HOST}"))
        .await;
    let row = &early.body["services"][0];
    assert!(row["id"].is_u64() && row.get("forced_down").is_none());
    assert_eq!(row["state"], "down");
    // The service is also disabled; a forced-down host is DOWN all the same.
    service.flavor("f", json!({})).await;
    let server = service.running(json!({})).await;
    let shown = service.shown("admin", "2.82", server).await;
    assert_eq!(shown["host_status"], "DOWN");
    for (version, path, body, status) in [
        ("2.53", path.clone(), json!({"status": "off"}), 400),
        ("2.53", path.clone(), json!({}), 400),
        (
            "2.53",
            path.clone(),
            json!({"status": "enabled", "disabled_reason": "x"}),
            400,
        ),
        (
            "2.53",
            "/os-services/x".to_owned(),
            json!({"status": "enabled"}),
            404,
        ),
        (
            "2.10",
            "/os-services/force-down".to_owned(),
            body.clone(),
            404,
        ),
        ("2.1", "/os-services/dance".to_owned(), body.clone(), 404),
        (
            "2.1",
            "/os-services/enable".to_owned(),
            json!({"host": "x", "binary": "nova-compute"}),
            404,
        ),
    ] {
        let refused = put(version, path.clone(), body.clone()).await;
        assert_eq!(refused.status, status, "{path} {body}");
    }
    assert_eq!(
        service.get("alice", "2.53", "/os-services").await.status,
        403
    );
    service
        .change_hosts("UPDATE compute_nodes SET instances = 2")
        .await;
    let refused = service.ask("admin", "2.53", "DELETE", &path, None).await;
    assert_eq!(refused.status, 409);
    let sentence = refused.message("conflictingRequest");
    let next = format!(
        "Host {HOST} reported 2 last: delete them first (openstack server list --all-projects --host {HOST})"
    );
    assert!(sentence.contains(&next), "{sentence}");
    service
        .change_hosts("UPDATE compute_nodes SET instances = 0")
        .await;
    let gone = service.ask("admin", "2.53", "DELETE", &path, None).await;
    assert_eq!(gone.status, 204);
    let all = service.get("admin", "2.53", "/os-services").await;
    assert_eq!(all.body["services"], json!([]));
}

#[tokio::test]
async fn a_hypervisor_is_shown_with_its_agents_report() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let server = service.running(json!({})).await;
    let all = service
        .get("admin", "2.53", "/os-hypervisors?with_servers=true")
        .await;
    let shown = &all.body["hypervisors"][0];
    assert_eq!(
        (
            &shown["hypervisor_hostname"],
            &shown["state"],
            &shown["status"]
        ),
        (&json!(HOST), &json!("up"), &json!("enabled"))
    );
    assert_eq!(shown["servers"][0]["uuid"], json!(server));
    let id = shown["id"].as_str().unwrap();
    let one = service
        .get("admin", "2.53", &format!("/os-hypervisors/{id}"))
        .await;
    let one = &one.body["hypervisor"];
    assert_eq!(
        (
            &one["vcpus"],
            &one["memory_mb"],
            &one["hypervisor_type"],
            &one["service"]["host"]
        ),
        (&json!(8), &json!(8192), &json!("QEMU"), &json!(HOST))
    );
    let detail = service.get("admin", "2.1", "/os-hypervisors/detail").await;
    let shown = &detail.body["hypervisors"][0];
    assert!(shown["id"].is_u64() && shown["cpu_info"] == "", "{shown}");
    let sums = service
        .get("admin", "2.1", "/os-hypervisors/statistics")
        .await;
    assert_eq!(sums.body["hypervisor_statistics"]["vcpus"], 8);
    let found = service
        .get(
            "admin",
            "2.53",
            "/os-hypervisors?hypervisor_hostname_pattern=comp",
        )
        .await;
    assert_eq!(found.body["hypervisors"].as_array().unwrap().len(), 1);
    let none = service
        .get(
            "admin",
            "2.53",
            "/os-hypervisors?hypervisor_hostname_pattern=x",
        )
        .await;
    assert_eq!(none.status, 404);
    // Older versions have a path for patterns. A pattern cannot be combined with paging.
    let pattern = "/os-hypervisors?hypervisor_hostname_pattern=x";
    let early = service.get("admin", "2.52", pattern).await;
    assert_eq!(early.body["hypervisors"].as_array().unwrap().len(), 1);
    let paged = service
        .get("admin", "2.53", &format!("{pattern}&limit=1"))
        .await;
    assert!(paged.message("badRequest").starts_with("Paging"));
    assert_eq!(
        service
            .get("admin", "2.53", "/os-hypervisors/x")
            .await
            .status,
        404
    );
    assert_eq!(
        service.get("alice", "2.53", "/os-hypervisors").await.status,
        403
    );
}

#[tokio::test]
async fn limits_say_what_is_used_and_that_nothing_is_limited() {
    let service = Service::start().await;
    service.flavor("f", json!({"vcpus": 2})).await;
    service.server(json!({})).await;
    let reply = service.get("alice", "2.82", "/limits").await;
    let absolute = &reply.body["limits"]["absolute"];
    assert_eq!(
        (
            &absolute["totalInstancesUsed"],
            &absolute["totalCoresUsed"],
            &absolute["maxTotalCores"]
        ),
        (&json!(1), &json!(2), &json!(-1))
    );
    let other = "/limits?tenant_id=project-of-alice";
    assert_eq!(service.get("bob", "2.82", other).await.status, 403);
    let reply = service.get("admin", "2.82", other).await;
    assert_eq!(reply.body["limits"]["absolute"]["totalInstancesUsed"], 1);
    assert_eq!(reply.body["limits"]["absolute"]["totalServerGroupsUsed"], 0);
    let group = json!({"server_group": {"name": "g", "policies": ["affinity"]}});
    let made = post(&service, "alice", "2.1", "/os-server-groups", group).await;
    assert_eq!(made.status, 200);
    service.flavor("g", json!({"vcpus": 3, "ram": 640})).await;
    for flavor in ["f", "g", "g"] {
        service.server(json!({"flavorRef": flavor})).await;
    }
    let reply = service.get("alice", "2.38", "/limits").await;
    let absolute = &reply.body["limits"]["absolute"];
    let of = |key: &str| absolute[key].as_i64().unwrap();
    assert_eq!(
        (
            of("totalInstancesUsed"),
            of("totalCoresUsed"),
            of("totalRAMUsed"),
            of("totalServerGroupsUsed"),
            of("maxImageMeta"),
        ),
        (4, 10, 2 * 512 + 2 * 640, 1, 128)
    );
    let late = service.get("alice", "2.39", "/limits").await;
    assert_eq!(late.body["limits"]["absolute"].get("maxImageMeta"), None);
    let detail = "/os-quota-sets/project-of-alice/detail";
    let detail = service.get("alice", "2.82", detail).await;
    assert_eq!(detail.body["quota_set"]["server_groups"]["in_use"], 1);
}

#[tokio::test]
async fn a_hypervisor_without_servers_says_so_from_2_75_on() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    service.server(json!({})).await;
    let path = "/os-hypervisors?with_servers=true";
    let early = service.get("admin", "2.74", path).await;
    assert_eq!(early.body["hypervisors"][0].get("servers"), None);
    let late = service.get("admin", "2.75", path).await;
    assert_eq!(late.body["hypervisors"][0]["servers"], json!([]));
}

#[tokio::test]
async fn what_a_database_holds_and_how_to_repair_it_is_no_tenants_business() {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let uuid = service.running(json!({})).await;
    let aggregate = json!({"aggregate": {"name": "a"}});
    let made = post(&service, "admin", "2.1", "/os-aggregates", aggregate).await;
    assert_eq!(made.status, 200);
    let of_server = format!("/servers/{uuid}");
    let fault_of = async |path: &str| {
        let failed = service.get("alice", "2.82", path).await;
        assert_eq!(failed.status, 500, "{failed:?}");
        failed.message("computeFault").to_owned()
    };
    service
        .change_hosts("UPDATE host_aggregates SET metadata = 'the rack of a rival'")
        .await;
    let foreign = "The database holds what this service did not write.";
    assert_eq!(fault_of(&of_server).await, foreign);
    service
        .change_hosts("ALTER TABLE host_aggregates RENAME TO elsewhere")
        .await;
    let failed = "The database failed.";
    assert_eq!(fault_of(&of_server).await, failed);
    service
        .change("ALTER TABLE compute_key_pairs RENAME TO elsewhere")
        .await;
    assert_eq!(fault_of("/os-keypairs").await, failed);
}

#[tokio::test]
async fn what_a_query_may_not_have_is_refused_from_the_version_that_says_so() {
    let service = Service::start().await;
    for (since, before, path, named) in [
        ("2.75", "2.74", "/os-services?colour=red", "'colour'"),
        ("2.75", "2.74", "/os-server-groups?colour=red", "'colour'"),
        ("2.53", "2.52", "/os-hypervisors?colour=red", "'colour'"),
        (
            "2.53",
            "2.52",
            "/os-hypervisors/detail?colour=red",
            "'colour'",
        ),
        (
            "2.53",
            "2.52",
            "/os-hypervisors?with_servers=perhaps",
            "neither true nor false",
        ),
        (
            "2.53",
            "2.52",
            "/os-hypervisors?with_servers=true&with_servers=false",
            "more than once",
        ),
        (
            "2.53",
            "2.52",
            "/os-hypervisors/detail?hypervisor_hostname_pattern=%28",
            "not part of a host name",
        ),
        (
            "2.53",
            "2.52",
            "/os-hypervisors?hypervisor_hostname_pattern=",
            "not part of a host name",
        ),
    ] {
        let early = service.get("admin", before, path).await;
        assert_eq!(early.status, 200, "{path}");
        let late = service.get("admin", since, path).await;
        let message = late.message("badRequest");
        assert!(message.contains(named), "{path}: {message}");
    }
    let all = service.get("admin", "2.53", "/os-hypervisors").await;
    let id = all.body["hypervisors"][0]["id"].as_str().unwrap();
    for (query, status) in [
        ("with_servers=yes", 200),
        ("with_servers=perhaps", 400),
        ("limit=1", 400),
    ] {
        let path = format!("/os-hypervisors/{id}?{query}");
        let one = service.get("admin", "2.53", &path).await;
        assert_eq!(one.status, status, "{query}");
    }
    for path in [
        "/os-services?binary=nova-compute&host=x",
        "/os-server-groups?all_projects=1&limit=1&offset=0",
        "/os-hypervisors?limit=1&with_servers=0",
    ] {
        assert_eq!(service.get("admin", "2.82", path).await.status, 200);
    }
}
