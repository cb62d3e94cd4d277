//! Tests of the quota hook.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_quota::{OnQuotaFailure, QuotaHook, QuotaOptions};
use http::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

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

/// A hook that allows requests only to projects without servers.
const FIRST_ONLY: &str = r#"grep -q '"used":{"instances":0,' && echo '{"allowed": true}' || echo '{"allowed": false, "reason": "one request is enough"}'"#;

#[tokio::test]
async fn requests_at_once_do_not_outrun_the_hook() {
    let (service, folder) = service(FIRST_ONLY, OnQuotaFailure::Refuse).await;
    let hook = QuotaHook::open(options(folder.path().join("quota"), OnQuotaFailure::Refuse));
    // Two processes of one cloud: a lock in memory would not be enough.
    let other = Arc::new(service.second_process_with_quota(hook.ok()).await);
    let service = Arc::new(service);
    let mut requests = JoinSet::new();
    for number in 0..12 {
        let service = Arc::clone([&service, &other][number % 2]);
        let two = json!({"min_count": 2});
        requests.spawn(async move { service.ask_for("alice", "2.82", two).await.status });
    }
    let mut statuses = requests.join_all().await;
    statuses.sort_unstable();
    let mut expected = vec![202];
    expected.extend([403; 11]);
    assert_eq!(statuses, expected);
    let all = service.get("alice", "2.82", "/servers").await;
    assert_eq!(all.body["servers"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_hook_is_asked_of_different_projects_at_once() {
    // Each waits for the other: one after the other would fail.
    let text = r#"cd "$(dirname "$0")"; touch "ran.$$"
        for i in $(seq 600); do set -- ran.*; [ $# -ge 2 ] && echo '{"allowed": true}' && exit; sleep 0.1; done; exit 1"#;
    let (service, _folder) = service(text, OnQuotaFailure::Refuse).await;
    let (one, other) = tokio::join!(
        service.ask_for("alice", "2.82", json!({})),
        service.ask_for("bob", "2.82", json!({})),
    );
    assert_eq!(
        (one.status, other.status),
        (StatusCode::ACCEPTED, StatusCode::ACCEPTED)
    );
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
        "swap_mb": 0, "extra_specs": {}, "availability_zone": null, "used": {"instances": 1, "cores": 3, "ram_mb": 640}});
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
