//! Tests of the guest routes: create, show and delete.

mod actions;
mod hostile;

use axum::body::Body;
use axum::http::Request;
use berth_agent_instances::fault_harness::FaultHarness;
use berth_agent_instances::{FileRefusal, ReconcileOutcome};
use berth_agent_journal::samples::{guest, request};
use berth_virt::guest_spec::HostPath;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

async fn send(router: &Router, method: &str, path: &str, body: impl Into<Body>) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(body.into()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20)
        .await
        .unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn asked_for(number: u32, arqs: &[u32]) -> String {
    serde_json::to_string(&request(number, arqs)).unwrap()
}

#[tokio::test]
async fn a_guest_is_made_shown_stopped_and_deleted() {
    let stage = FaultHarness::new().await;
    stage.bind(1, &[1]);
    let guests = stage.guests();
    let router = routes(&guests);
    let one = format!("/v1/guests/{}", guest(1));
    let action = format!("{one}/action");
    for _ in 0..2 {
        let (status, made) = send(&router, "POST", "/v1/guests", asked_for(1, &[1])).await;
        assert_eq!(status, 202, "{made}");
        assert_eq!(made["uuid"], guest(1).to_string());
    }
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Settled
    ));
    let (status, shown) = send(&router, "GET", &one, "").await;
    assert_eq!((status, &shown["status"]), (200, &json!("active")));
    assert_eq!(shown["devices"], json!(["PCI function 0000:01:00.0"]));
    assert_eq!(shown["steps"][4], json!({"step": "start", "state": "done"}));
    let stop = r#"{"action": "stop", "grace_seconds": 0}"#;
    let (status, stopped) = send(&router, "POST", &action, stop).await;
    assert_eq!((status, &stopped["status"]), (202, &json!("stopped")));
    let (_, list) = send(&router, "GET", "/v1/guests", "").await;
    assert_eq!(list["guests"][0]["status"], "stopped");
    let (status, _) = send(&router, "DELETE", &one, "").await;
    assert_eq!(status, 202);
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    assert_eq!(send(&router, "GET", &one, "").await.0, 404);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_a_sentence() {
    let stage = FaultHarness::new().await;
    stage.start_binding(1, &[1]);
    let guests = stage.guests_waiting(std::time::Duration::from_secs(600));
    let router = routes(&guests);
    assert_eq!(
        send(&router, "POST", "/v1/guests", asked_for(1, &[1]))
            .await
            .0,
        202
    );
    let good = asked_for(2, &[]);
    let named = good.replace("instance-00000002", "in/stance");
    let many: Vec<_> = (0..300)
        .map(|n| format!("\"{}\"", berth_agent_journal::samples::arq(n)))
        .collect();
    let many = good.replace(
        "\"accelerator_requests\":[]",
        &format!("\"accelerator_requests\":[{}]", many.join(",")),
    );
    let one = format!("/v1/guests/{}", guest(1));
    for (method, path, body, status, sentence) in [
        (
            "POST",
            "/v1/guests",
            asked_for(1, &[2]),
            409,
            "already exists with a different request",
        ),
        ("POST", "/v1/guests", "{".to_owned(), 400, "JSON"),
        ("POST", "/v1/guests", "{}".to_owned(), 400, "uuid"),
        (
            "POST",
            "/v1/guests",
            r#"{"spec": {}}"#.to_owned(),
            400,
            "spec",
        ),
        ("POST", "/v1/guests", named, 400, "name"),
        ("POST", "/v1/guests", many, 400, "at most 256"),
        ("POST", "/v1/guests", "x".repeat(300 << 10), 413, "bytes"),
        ("GET", "/v1/guests/one", String::new(), 404, "UUID"),
        (
            "DELETE",
            "/v1/guests/5c965fc9-a7cd-4d38-8ccb-d8821db50d03",
            String::new(),
            404,
            "no guest",
        ),
        (
            "POST",
            &format!("{one}/action"),
            r#"{"action": "fly"}"#.to_owned(),
            400,
            "fly",
        ),
    ] {
        let (found, answer) = send(&router, method, path, body).await;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(found, status, "{method} {path}: {answer}");
        assert!(message.contains(sentence), "{message}");
    }
    assert_eq!(
        guests.list().await.unwrap().len(),
        1,
        "nothing was left behind"
    );
    guests.delete(guest(1)).await.unwrap();
    let (status, answer) = send(&router, "POST", "/v1/guests", asked_for(1, &[1])).await;
    assert_eq!(status, 409, "{answer}");
}

#[tokio::test]
async fn a_guest_that_failed_says_why() {
    let stage = FaultHarness::new().await;
    stage.bind(1, &[1]);
    stage.add_failure(berth_agent_instances::fault_harness::SimulatedFailure::TestPci(1));
    let guests = stage.guests();
    let router = routes(&guests);
    assert_eq!(
        send(&router, "POST", "/v1/guests", asked_for(1, &[1]))
            .await
            .0,
        202
    );
    guests.reconcile_instance(guest(1)).await;
    let (_, shown) = send(&router, "GET", &format!("/v1/guests/{}", guest(1)), "").await;
    assert_eq!(shown["status"], "failed");
    assert!(
        shown["reason"].as_str().unwrap().contains("TEST_PCI"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_blocked_guest_shows_why_until_it_continues() {
    let stage = FaultHarness::new().await;
    stage.bind(1, &[1]);
    let guests = stage.guests();
    let router = routes(&guests);
    let one = format!("/v1/guests/{}", guest(1));
    assert_eq!(
        send(&router, "POST", "/v1/guests", asked_for(1, &[1]))
            .await
            .0,
        202
    );
    guests.reconcile_instance(guest(1)).await;
    stage.add_failure(berth_agent_instances::fault_harness::SimulatedFailure::ServiceAway);
    assert_eq!(send(&router, "DELETE", &one, "").await.0, 202);
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Blocked { .. }
    ));
    for path in [one.as_str(), "/v1/guests"] {
        let (_, shown) = send(&router, "GET", path, "").await;
        let shown = shown.get("guests").map_or(&shown, |all| &all[0]).clone();
        assert_eq!(shown["status"], "deleting");
        let reason = shown["reason"].as_str().unwrap();
        assert!(reason.contains("cannot be released"), "{reason}");
    }
    stage.clear_failures();
    assert!(matches!(
        guests.reconcile_instance(guest(1)).await,
        ReconcileOutcome::Gone
    ));
    assert!(guests.blocked().is_empty());
}

/// The caller of a delete gives the devices of a deleted guest to other guests.
#[tokio::test]
async fn a_guest_that_runs_is_never_reported_as_gone_because_the_journal_was_lost() {
    let stage = FaultHarness::new().await;
    stage.bind(1, &[1]);
    let guests = stage.guests();
    guests.create(&request(1, &[1])).await.unwrap();
    guests.reconcile_instance(guest(1)).await;
    stage.loses_the_journal_of(1).await;
    let one = format!("/v1/guests/{}", guest(1));
    for (failing, status, code, sentence) in [
        (None, 409, "guest_orphan", "restore guests.db"),
        // The journal is the first fault injection point of a delete, the hypervisor is the second.
        (
            Some(2),
            503,
            "hypervisor",
            "cannot tell whether the guest exists",
        ),
    ] {
        let guests = match failing {
            None => guests.clone(),
            Some(crossing) => stage.guests_failing_at(crossing),
        };
        let (found, answer) = send(&routes(&guests), "DELETE", &one, "").await;
        assert_eq!((found, &answer["error"]["code"]), (status, &json!(code)));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(sentence), "{message}");
        assert_eq!(stage.devices_of_running_guest(1).len(), 1);
    }
}

/// The folder may be unmounted, or the file may exist on other hosts.
#[tokio::test]
async fn a_file_that_this_host_cannot_give_is_no_word_about_other_hosts() {
    let (field, path) = ("console_log", HostPath::new("/instances/1/log").unwrap());
    for refusal in [
        FileRefusal::Unreadable {
            field,
            path: path.clone(),
            reason: "Stale file handle (os error 116)".to_owned(),
        },
        FileRefusal::Missing { field, path },
    ] {
        let answer = guests_refusal(&GuestsError::File(refusal));
        assert_eq!(answer.status(), StatusCode::CONFLICT);
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await;
        let body: Value = serde_json::from_slice(&body.unwrap()).unwrap();
        assert_eq!(body["error"]["code"], "file");
    }
}
