//! Tests of the limits of projects.

use std::sync::Arc;

use berth_compute::{ProjectQuota, ProjectQuotaError};
use berth_quota::{QuotaLimit, QuotaLimits, QuotaResource};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::service::{Reply, Service};

const SETS: &str = "/os-quota-sets/project-of-alice";

/// A cloud with Nova's default limits.
async fn cloud() -> Service {
    let service = Service::with_limits(QuotaLimits::default()).await;
    service.flavor("f", json!({"vcpus": 3, "ram": 640})).await;
    service
}

/// Sets quotas of alice's project.
async fn set(service: &Service, quotas: Value) -> Reply {
    let body = Some(json!({ "quota_set": quotas }));
    service.ask("admin", "2.82", "PUT", SETS, body).await
}

async fn servers(service: &Service) -> usize {
    let all = service.get("alice", "2.82", "/servers").await;
    all.body["servers"].as_array().unwrap().len()
}

async fn create_group(service: &Service, name: &str) -> Reply {
    let body = json!({"server_group": {"name": name, "policy": "soft-anti-affinity"}});
    let path = "/os-server-groups";
    service.ask("alice", "2.82", "POST", path, Some(body)).await
}

#[tokio::test]
async fn limits_are_novas_defaults_and_are_told_with_the_usage() {
    let service = cloud().await;
    service.server(json!({})).await;
    let expected = json!({"id": "project-of-alice", "cores": 20, "instances": 10, "key_pairs": 100, "ram": 51_200,
        "server_group_members": 10, "server_groups": 10, "metadata_items": 128});
    let expected = json!({ "quota_set": expected });
    assert_eq!(service.get("alice", "2.82", SETS).await.body, expected);
    let defaults = format!("{SETS}/defaults");
    let defaults = service.get("bob", "2.82", &defaults).await;
    assert_eq!(defaults.body, expected);
    let early = service.get("alice", "2.35", SETS).await.body;
    assert_eq!(early["quota_set"]["floating_ips"], -1);
    assert_eq!(early["quota_set"]["injected_files"], 0);
    let late = service.get("alice", "2.36", SETS).await.body;
    assert_eq!(late["quota_set"].get("floating_ips"), None);
    let detail = format!("{SETS}/detail");
    let detail = service.get("alice", "2.82", &detail).await.body;
    let of = |key: &str| detail["quota_set"][key].clone();
    let row = |in_use, limit| json!({"in_use": in_use, "limit": limit, "reserved": 0});
    assert_eq!(of("cores"), row(3, 20));
    assert_eq!(of("ram"), row(640, 51_200));
    assert_eq!(of("instances"), row(1, 10));
    let limits = service.get("alice", "2.82", "/limits").await.body;
    let absolute = &limits["limits"]["absolute"];
    for (key, number) in [
        ("maxTotalInstances", 10),
        ("maxTotalCores", 20),
        ("maxTotalRAMSize", 51_200),
        ("maxTotalKeypairs", 100),
        ("maxServerMeta", 128),
        ("maxServerGroups", 10),
        ("maxServerGroupMembers", 10),
        ("totalCoresUsed", 3),
    ] {
        assert_eq!(absolute[key], number, "{key}");
    }
}

#[tokio::test]
async fn every_quota_class_has_the_default_limits_with_novas_keys_of_the_version() {
    let vgpu: QuotaResource = "class:VGPU".parse().unwrap();
    let limits = QuotaLimits::default().with(vgpu, QuotaLimit::AtMost(2));
    let service = Service::with_limits(limits).await;
    assert_eq!(set(&service, json!({"cores": 5})).await.status, 200);
    for class in ["default", "gold"] {
        let expected = json!({"id": class, "cores": 20, "instances": 10, "key_pairs": 100, "ram": 51_200,
            "server_group_members": 10, "server_groups": 10, "metadata_items": 128, "class:VGPU": 2});
        let path = format!("/os-quota-class-sets/{class}");
        let shown = service.get("admin", "2.82", &path).await.body;
        assert_eq!(shown, json!({ "quota_class_set": expected }));
    }
    let path = "/os-quota-class-sets/default";
    for (version, key, limit) in [
        ("2.49", "server_groups", None),
        ("2.49", "server_group_members", None),
        ("2.50", "server_groups", Some(json!(10))),
        ("2.49", "floating_ips", Some(json!(-1))),
        ("2.50", "floating_ips", None),
        ("2.56", "injected_files", Some(json!(0))),
        ("2.57", "injected_files", None),
    ] {
        let shown = service.get("admin", version, path).await.body;
        let found = shown["quota_class_set"].get(key).cloned();
        assert_eq!(found, limit, "{version} {key}");
    }
    let refused = service.get("alice", "2.82", path).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let body = Some(json!({"quota_class_set": {"cores": 30}}));
    let changed = service.ask("admin", "2.82", "PUT", path, body).await;
    assert_eq!(changed.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_request_over_a_limit_is_refused_with_novas_sentence_and_stores_nothing() {
    let service = cloud().await;
    set(
        &service,
        json!({"cores": 10, "instances": 3, "class:VCPU": 20}),
    )
    .await;
    service.server(json!({})).await;
    service.server(json!({})).await;
    let refused = service
        .ask_for("alice", "2.82", json!({"min_count": 2}))
        .await;
    assert_eq!(
        refused.message("forbidden"),
        "Quota exceeded for cores, instances: Requested 6, 2, but already used 6, 2 of 10, 3 cores, instances"
    );
    assert_eq!(servers(&service).await, 2);
    let other = service.ask_for("bob", "2.82", json!({})).await;
    assert_eq!(other.status, 202, "another project has its own");
}

#[tokio::test]
async fn requests_at_once_do_not_outrun_a_limit() {
    let service = cloud().await;
    set(&service, json!({"cores": -1, "instances": 7})).await;
    let other = Arc::new(
        service
            .second_process_with_limits(QuotaLimits::default())
            .await,
    );
    let service = Arc::new(service);
    let mut requests = JoinSet::new();
    for number in 0..16 {
        let service = Arc::clone([&service, &other][number % 2]);
        let two = json!({"min_count": 2});
        requests.spawn(async move { service.ask_for("alice", "2.82", two).await.status });
    }
    let statuses = requests.join_all().await;
    let accepted = statuses.iter().filter(|it| **it == StatusCode::ACCEPTED);
    assert_eq!(accepted.count(), 3, "{statuses:?}");
    let refused = statuses.iter().filter(|it| **it == StatusCode::FORBIDDEN);
    assert_eq!(refused.count(), 13, "{statuses:?}");
    assert_eq!(servers(&service).await, 6);
}

#[tokio::test]
async fn between_least_and_most_as_many_servers_are_made_as_are_allowed() {
    let service = cloud().await;
    set(&service, json!({"instances": 3})).await;
    let more = json!({"min_count": 1, "max_count": 5, "name": "web"});
    assert_eq!(service.ask_for("alice", "2.82", more).await.status, 202);
    assert_eq!(servers(&service).await, 3);
    let more = json!({"min_count": 1, "max_count": 2});
    let refused = service.ask_for("alice", "2.82", more).await;
    assert_eq!(
        refused.message("forbidden"),
        "Quota exceeded for instances: Requested 1-2, but already used 3 of 3 instances"
    );
}

#[tokio::test]
async fn a_deleted_server_gives_its_share_back_when_it_is_gone() {
    let service = cloud().await;
    set(&service, json!({"instances": 1})).await;
    let server = service.running(json!({})).await;
    let path = format!("/servers/{server}");
    assert_eq!(
        service
            .ask("alice", "2.82", "DELETE", &path, None)
            .await
            .status,
        204
    );
    let refused = service.ask_for("alice", "2.82", json!({})).await;
    assert_eq!(refused.status, 403, "its guest is still there");
    service.cloud.forget_guest(server).await;
    service.settle().await;
    assert_eq!(
        service.ask_for("alice", "2.82", json!({})).await.status,
        202
    );
}

#[tokio::test]
async fn a_resource_class_has_a_limit_by_the_name_of_unified_limits() {
    let vgpu: QuotaResource = "class:VGPU".parse().unwrap();
    let limits = QuotaLimits::default().with(vgpu, QuotaLimit::AtMost(2));
    let service = Service::with_limits(limits).await;
    let dedicated = json!({"hw:cpu_policy": "dedicated", "resources:VGPU": "1"});
    service.flavor("f", json!({"vcpus": 2})).await;
    let body = Some(json!({ "extra_specs": dedicated }));
    let path = "/flavors/f/os-extra_specs";
    assert_eq!(
        service
            .ask("admin", "2.82", "POST", path, body)
            .await
            .status,
        200
    );
    let shown = set(&service, json!({"class:PCPU": 2, "class:DISK_GB": "100"})).await;
    let of = |key: &str| shown.body["quota_set"][key].clone();
    assert_eq!(
        (of("class:VGPU"), of("class:PCPU"), of("class:DISK_GB")),
        (json!(2), json!(2), json!(100))
    );
    service.server(json!({})).await;
    let refused = service.ask_for("alice", "2.82", json!({})).await;
    assert_eq!(
        refused.message("forbidden"),
        "Quota exceeded for class:PCPU: Requested 2, but already used 2 of 2 class:PCPU"
    );
    let detail = service
        .get("alice", "2.82", &format!("{SETS}/detail"))
        .await;
    let detail = &detail.body["quota_set"]["class:DISK_GB"];
    assert_eq!(*detail, json!({"in_use": 10, "limit": 100, "reserved": 0}));
    let wrong = set(&service, json!({"class:vgpu": 1})).await;
    assert_eq!(
        wrong.message("badRequest"),
        "\"class:vgpu\" is not a resource class: write CLASS as Placement does, for example class:VGPU"
    );
}

#[tokio::test]
async fn limits_changed_one_by_one_are_those_of_quota_sets_and_usage_is_not_checked() {
    let service = cloud().await;
    service.server(json!({})).await;
    let quota = |resource: &str, limit| ProjectQuota {
        project_id: "project-of-alice".to_owned(),
        resource: resource.parse().unwrap(),
        limit: QuotaLimit::from_number(limit),
    };
    let compute = &service.compute;
    // Three processors are used.
    let new = [quota("cores", 1), quota("class:VGPU", -1)];
    compute.create_quotas(&new).await.unwrap();
    let shown = service.get("alice", "2.82", SETS).await.body;
    let of = |key: &str| shown["quota_set"][key].clone();
    assert_eq!((of("cores"), of("class:VGPU")), (json!(1), json!(-1)));
    let refused = service.ask_for("alice", "2.82", json!({})).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let twice = [quota("ram", 5), quota("cores", 9)];
    let twice = compute.create_quotas(&twice).await.unwrap_err();
    assert!(matches!(twice, ProjectQuotaError::Exists { .. }), "{twice}");
    let large = [quota("metadata_items", -1)];
    let large = compute.create_quotas(&large).await.unwrap_err();
    assert_eq!(
        large.to_string(),
        "Quota limit -1 for metadata_items must be from 0 to 128."
    );
    compute.update_quota(&quota("cores", 6)).await.unwrap();
    let vgpu = &new[1];
    let deleted = compute.delete_quota(&vgpu.project_id, &vgpu.resource).await;
    deleted.unwrap();
    let missing = compute.update_quota(vgpu).await.unwrap_err();
    assert!(matches!(missing, ProjectQuotaError::NotFound), "{missing}");
    let missing = compute.delete_quota(&vgpu.project_id, &vgpu.resource).await;
    assert!(matches!(missing, Err(ProjectQuotaError::NotFound)));
    let all = compute.project_quotas().await.unwrap();
    assert_eq!(all, [quota("cores", 6)], "all or none were stored");
    service.server(json!({})).await;
}

#[tokio::test]
async fn key_pairs_groups_members_and_metadata_have_limits() {
    let service = cloud().await;
    let one =
        json!({"key_pairs": 1, "server_groups": 1, "server_group_members": 1, "metadata_items": 1});
    assert_eq!(set(&service, one).await.status, 200);
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINkujHrt2qfK9M3UlXu7CR4A+TAVjzIf8+1bcHGl/frw a";
    let import = async |name: &str| {
        let body = json!({"keypair": {"name": name, "public_key": key}});
        service
            .ask("alice", "2.82", "POST", "/os-keypairs", Some(body))
            .await
    };
    assert_eq!(import("a").await.status, 201);
    let refused = import("b").await;
    assert_eq!(
        refused.message("forbidden"),
        "Quota exceeded, too many key pairs."
    );
    let group = create_group(&service, "a").await.body;
    let group = group["server_group"]["id"].clone();
    let refused = create_group(&service, "b").await;
    assert_eq!(
        refused.message("forbidden"),
        "Quota exceeded, too many server groups."
    );
    let server =
        json!({"name": "s", "flavorRef": "f", "imageRef": super::cloud::IMAGE, "networks": "none"});
    let body = json!({"server": server, "os:scheduler_hints": {"group": group}});
    let join = async || {
        let body = Some(body.clone());
        service.ask("alice", "2.82", "POST", "/servers", body).await
    };
    assert_eq!(join().await.status, 202);
    let refused = join().await;
    assert_eq!(
        refused.message("forbidden"),
        "Quota exceeded, too many servers in group"
    );
    let two = json!({"metadata": {"a": "1", "b": "2"}});
    let refused = service.ask_for("alice", "2.82", two.clone()).await;
    let sentence = "Maximum number of metadata items exceeds 1";
    assert_eq!(refused.message("forbidden"), sentence);
    let server = service.running(json!({})).await;
    let path = format!("/servers/{server}/metadata");
    let refused = service.ask("alice", "2.82", "PUT", &path, Some(two)).await;
    assert_eq!(refused.message("forbidden"), sentence);
    let large = set(&service, json!({"metadata_items": 129})).await;
    assert_eq!(
        large.message("badRequest"),
        "Quota limit 129 for metadata_items must be less than or equal to 128."
    );
}

#[tokio::test]
async fn a_limit_below_the_usage_needs_force_and_a_deleted_one_is_the_default_again() {
    let service = cloud().await;
    service.server(json!({})).await;
    service.server(json!({})).await;
    let refused = set(&service, json!({"ram": 4, "instances": 1})).await;
    let sentences = [
        "Quota limit 1 for instances must be greater than or equal to already used and reserved 2.",
        "Quota limit 4 for ram must be greater than or equal to already used and reserved 1280.",
    ];
    assert!(
        sentences.contains(&refused.message("badRequest")),
        "{refused:?}"
    );
    let shown = service.get("alice", "2.82", SETS).await.body;
    assert_eq!(shown["quota_set"]["instances"], 10, "nothing was set");
    let forced = set(
        &service,
        json!({"instances": 1, "cores": "-1", "force": "True"}),
    )
    .await;
    assert_eq!(forced.status, 200, "{forced:?}");
    let of = |key: &str| forced.body["quota_set"][key].clone();
    assert_eq!(
        (of("instances"), of("cores"), of("ram")),
        (json!(1), json!(-1), json!(51_200))
    );
    assert_eq!(of("id"), Value::Null, "as in Nova");
    assert_eq!(
        service.ask_for("alice", "2.82", json!({})).await.status,
        403
    );
    let deleted = service.ask("admin", "2.82", "DELETE", SETS, None).await;
    assert_eq!(deleted.status, 202);
    let shown = service.get("alice", "2.82", SETS).await.body;
    assert_eq!(shown["quota_set"]["instances"], 10);
}

#[tokio::test]
async fn quotas_are_set_by_operators_for_projects_that_exist() {
    let service = cloud().await;
    let body = || Some(json!({"quota_set": {"instances": 1}}));
    for (token, method, path, body, status) in [
        ("alice", "PUT", SETS.to_owned(), body(), 403),
        ("alice", "DELETE", SETS.to_owned(), None, 403),
        ("bob", "GET", SETS.to_owned(), None, 403),
        ("bob", "GET", format!("{SETS}/detail"), None, 403),
        ("admin", "GET", SETS.to_owned(), None, 200),
        (
            "admin",
            "PUT",
            "/os-quota-sets/nobody".to_owned(),
            body(),
            400,
        ),
        (
            "admin",
            "GET",
            "/os-quota-sets/nobody".to_owned(),
            None,
            400,
        ),
        (
            "admin",
            "GET",
            "/os-quota-sets/nobody/detail".to_owned(),
            None,
            400,
        ),
        (
            "admin",
            "GET",
            "/os-quota-sets/nobody/defaults".to_owned(),
            None,
            400,
        ),
        // The project may have been deleted.
        (
            "admin",
            "DELETE",
            "/os-quota-sets/nobody".to_owned(),
            None,
            202,
        ),
        ("admin", "GET", format!("{SETS}?user_id=alice"), None, 400),
        ("admin", "GET", format!("{SETS}?color=red"), None, 400),
    ] {
        let reply = service.ask(token, "2.82", method, &path, body).await;
        assert_eq!(reply.status, status, "{token} {method} {path}: {reply:?}");
    }
    let unknown = service.get("admin", "2.82", "/os-quota-sets/nobody").await;
    assert_eq!(
        unknown.message("badRequest"),
        "Project ID nobody is not a valid project."
    );
    for (quotas, sentence) in [
        (
            json!({"instances": -2}),
            "-2 is less than the minimum of -1",
        ),
        (json!({"instances": "many"}), "it is not a whole number"),
        (json!({"floating_ips": 1}), "'floating_ips' was unexpected"),
    ] {
        let wrong = set(&service, quotas).await;
        assert!(wrong.message("badRequest").contains(sentence), "{wrong:?}");
    }
    let body = Some(json!({"quota_set": {"floating_ips": 1}}));
    let early = service.ask("admin", "2.35", "PUT", SETS, body).await;
    assert_eq!(
        early.message("badRequest"),
        "The quota floating_ips cannot be set: it has no effect in this cloud."
    );
}
