//! Tests of quotas and the quota hook.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use berth_compute::{OnQuotaFailure, QuotaHook, QuotaOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::service::Service;

/// A program of this text.
fn program(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("quota");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn options(program: PathBuf, on_failure: OnQuotaFailure) -> QuotaOptions {
    QuotaOptions {
        program,
        time_budget: Duration::from_secs(60),
        on_failure,
    }
}

async fn service(text: &str, on_failure: OnQuotaFailure) -> (Service, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options = options(program(&folder, text), on_failure);
    let hook = QuotaHook::open(options).unwrap();
    let service = Service::with_quota(Some(hook)).await;
    service.flavor("f", json!({"vcpus": 3, "ram": 640})).await;
    (service, folder)
}

#[tokio::test]
async fn a_project_has_no_limits_but_that_of_metadata() {
    let service = Service::start().await;
    service.flavor("f", json!({"vcpus": 3, "ram": 640})).await;
    service.server(json!({})).await;
    let path = "/os-quota-sets/project-of-alice";
    let set = service.get("alice", "2.82", path).await.body;
    let expected = json!({"id": "project-of-alice", "cores": -1, "instances": -1, "key_pairs": -1, "ram": -1,
        "server_group_members": -1, "server_groups": -1, "metadata_items": 128});
    assert_eq!(set, json!({ "quota_set": expected }));
    let early = service.get("alice", "2.35", path).await.body;
    assert_eq!(early["quota_set"]["floating_ips"], -1);
    assert_eq!(early["quota_set"]["injected_files"], -1);
    let late = service.get("alice", "2.36", path).await.body;
    assert_eq!(late["quota_set"].get("floating_ips"), None);
    let detail = service
        .get("alice", "2.82", &format!("{path}/detail"))
        .await;
    let of = |key: &str| detail.body["quota_set"][key].clone();
    assert_eq!(
        of("cores"),
        json!({"in_use": 3, "limit": -1, "reserved": 0})
    );
    assert_eq!(of("ram")["in_use"], 640);
    assert_eq!(of("instances")["in_use"], 1);
    let defaults = service
        .get("bob", "2.82", &format!("{path}/defaults"))
        .await;
    assert_eq!(defaults.body, set);
    for (token, path, status) in [
        ("bob", path.to_owned(), 403),
        ("bob", format!("{path}/detail"), 403),
        ("admin", path.to_owned(), 200),
    ] {
        let reported = service.get(token, "2.82", &path).await;
        assert_eq!(reported.status, status, "{token} {path}");
    }
}

#[tokio::test]
async fn the_program_is_asked_before_servers_are_written_down() {
    let text = r#"cat > "$(dirname "$0")/asked"; echo '{"allowed": true}'"#;
    let (service, folder) = service(text, OnQuotaFailure::Refuse).await;
    service.server(json!({})).await;
    let made = service.ask_for("alice", "2.82", json!({"min_count": 2}));
    assert_eq!(made.await.status, 202);
    let asked = fs::read(folder.path().join("asked")).unwrap();
    let mut asked: Value = serde_json::from_slice(&asked).unwrap();
    let request = asked["request_id"].take();
    assert!(request.as_str().unwrap().starts_with("req-"), "{request}");
    let expected = json!({"schema": "berth-quota/1", "request_id": null, "project_id": "project-of-alice",
        "user_id": "alice", "count": 2, "flavor": "f", "vcpus": 3, "ram_mb": 640, "root_gb": 10, "ephemeral_gb": 0,
        "extra_specs": {}, "availability_zone": null, "used": {"instances": 1, "cores": 3, "ram_mb": 640}});
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn a_refusal_shows_the_hooks_text_and_nothing_is_created() {
    let text = r#"printf '%s' '{"allowed": false, "reason": "the project has paid\nfor two"}'"#;
    let (service, _folder) = service(text, OnQuotaFailure::Allow).await;
    let refused = service.ask_for("alice", "2.82", json!({})).await;
    assert_eq!(refused.status, 403);
    let shown = refused.message("forbidden");
    assert_eq!(shown, "Quota exceeded: the project has paid for two");
    let all = service.get("alice", "2.82", "/servers").await;
    assert_eq!(all.body["servers"], json!([]));
}

#[tokio::test]
async fn an_unanswered_hook_fails_by_its_policy() {
    for text in [
        "exit 3",
        "echo yes",
        r#"echo '{"allowed": "yes"}'"#,
        r#"echo '{"allowed": true, "limit": 1}'"#,
    ] {
        let (closed, _folder) = service(text, OnQuotaFailure::Refuse).await;
        let refused = closed.ask_for("alice", "2.82", json!({})).await;
        assert_eq!(refused.status, 503, "{text}");
        let (open, _folder) = service(text, OnQuotaFailure::Allow).await;
        let made = open.ask_for("alice", "2.82", json!({})).await;
        assert_eq!(made.status, 202, "{text}");
    }
}

#[tokio::test]
async fn a_hanging_hook_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let options = QuotaOptions {
        time_budget: Duration::from_millis(50),
        ..options(program(&folder, "sleep 1000"), OnQuotaFailure::Refuse)
    };
    let hook = QuotaHook::open(options).unwrap();
    let service = Service::with_quota(Some(hook)).await;
    service.flavor("f", json!({})).await;
    let refused = service.ask_for("alice", "2.82", json!({})).await;
    assert_eq!(refused.status, 503);
}

#[test]
fn a_program_that_is_not_there_is_refused_at_the_start() {
    let nowhere = options("/nowhere/quota".into(), OnQuotaFailure::Refuse);
    let error = QuotaHook::open(nowhere).unwrap_err().to_string();
    assert!(
        error.starts_with("the quota hook /nowhere/quota cannot be used"),
        "{error}"
    );
}
