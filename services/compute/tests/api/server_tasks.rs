//! Tests of pending actions: each is executed once, despite lost answers, crashes, temporary refusals and full disks.

use std::future::ready;
use std::time::Duration;

use berth_store::Dialect;
use berth_wire::guest::GuestAction;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cloud::IMAGE;
use super::service::Service;

async fn running() -> (Service, Uuid) {
    let service = Service::start().await;
    service.flavor("f", json!({})).await;
    let uuid = service.running(json!({})).await;
    (service, uuid)
}

/// Requests an action. Returns the request id.
async fn act(service: &Service, server: Uuid, body: Value) -> String {
    let path = format!("/servers/{server}/action");
    let done = service
        .ask("alice", "2.82", "POST", &path, Some(body))
        .await;
    assert_eq!(done.status, 202, "{done:?}");
    done.header("x-openstack-request-id").to_owned()
}

async fn task(service: &Service, server: Uuid) -> Value {
    service.shown("alice", "2.82", server).await["OS-EXT-STS:task_state"].clone()
}

/// The history of a server, newest first.
async fn actions(service: &Service, server: Uuid, query: &str) -> Vec<Value> {
    let path = format!("/servers/{server}/os-instance-actions{query}");
    let reply = service.get("admin", "2.82", &path).await;
    reply.body["instanceActions"].as_array().unwrap().clone()
}

/// The event of a request.
async fn event(service: &Service, server: Uuid, request: &str) -> Value {
    let path = format!("/servers/{server}/os-instance-actions/{request}");
    let one = service.get("admin", "2.82", &path).await;
    assert_eq!(one.status, 200, "{one:?}");
    one.body["instanceAction"]["events"][0].clone()
}

/// The results of the last actions, newest first; `null` for pending ones.
async fn results(service: &Service, server: Uuid, last: usize) -> Vec<Value> {
    let mut results = Vec::new();
    for action in &actions(service, server, "").await[..last] {
        let request = action["request_id"].as_str().unwrap();
        let event = event(service, server, request).await;
        assert_eq!(event["finish_time"].is_null(), event["result"].is_null());
        results.push(event["result"].clone());
    }
    results
}

#[tokio::test]
async fn an_action_whose_answer_is_lost_is_asked_for_again_by_its_id_after_a_kill_too() {
    let (service, uuid) = running().await;
    let agent = &service.cloud.agent;
    agent.lose_answers(true);
    act(&service, uuid, json!({"rebuild": {"imageRef": IMAGE}})).await;
    service.settle().await;
    assert_eq!(task(&service, uuid).await, "rebuilding");
    service.restart().await;
    agent.lose_answers(false);
    service.restart().await;
    assert_eq!(task(&service, uuid).await, Value::Null);
    assert_eq!(results(&service, uuid, 1).await, ["Success"]);
    let ids = agent.received_ids();
    assert!(
        ids.len() > 2 && ids.iter().all(|id| *id == ids[0]),
        "{ids:?}"
    );
    // The delays grow, although the reconciler ran hundreds of times.
    assert!(ids.len() < 60, "{} times", ids.len());
    act(&service, uuid, json!({"rebuild": {"imageRef": IMAGE}})).await;
    service.settle().await;
    assert_ne!(agent.received_ids().last(), ids.last(), "another rebuild");
}

#[tokio::test]
async fn what_was_read_of_a_server_before_an_action_ended_is_not_kept_over_what_was_read_then() {
    let (service, uuid) = running().await;
    let other = service.running(json!({})).await;
    service.cloud.agent.ignore_guest(other);
    let (listed, ()) = tokio::join!(service.get("alice", "2.82", "/servers/detail"), async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        act(&service, uuid, json!({"pause": null})).await;
        service.settle().await;
    });
    let of = |it: &&Value| it["id"] == uuid.to_string();
    let listed = listed.body["servers"].as_array().unwrap().iter().find(of);
    assert_eq!(listed.unwrap()["status"], "ACTIVE", "read before it");
    service.cloud.agent.set_unreachable(true);
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(shown["status"], "PAUSED");
}

#[tokio::test]
async fn what_the_agent_cannot_do_now_is_asked_for_again_until_it_can() {
    for refusal in [
        (409, "busy"),
        (503, "held"),
        (503, "journal"),
        (409, "not_there"),
    ] {
        let (service, uuid) = running().await;
        service.cloud.agent.refuse_actions(Some(refusal));
        act(&service, uuid, json!({"pause": null})).await;
        service.settle().await;
        assert_eq!(task(&service, uuid).await, "pausing", "{refusal:?}");
        service.cloud.agent.refuse_actions(None);
        service.settle().await;
        let shown = service.shown("alice", "2.82", uuid).await;
        assert_eq!(shown["status"], "PAUSED", "{refusal:?}");
        assert_eq!(results(&service, uuid, 1).await, ["Success"]);
    }
}

#[tokio::test]
async fn an_end_that_cannot_be_written_down_is_kept_and_the_agent_is_asked_once() {
    let (service, uuid) = running().await;
    if service.store.dialect() != Dialect::Sqlite {
        // Other databases have another syntax of triggers.
        return;
    }
    service
        .change(
            "CREATE TRIGGER full BEFORE UPDATE OF outcome ON compute_server_actions \
             BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
        )
        .await;
    act(&service, uuid, json!({"os-stop": null})).await;
    service.settle().await;
    service.cloud.agent.set_unreachable(true);
    assert_eq!(task(&service, uuid).await, "powering-off");
    service.change("DROP TRIGGER full").await;
    service.settle().await;
    assert_eq!(task(&service, uuid).await, Value::Null);
    assert_eq!(results(&service, uuid, 1).await, ["Success"]);
    assert_eq!(service.cloud.agent.received_actions().len(), 1);
    // The agent's report of the guest is stored, too.
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(shown["status"], "SHUTOFF");
}

#[tokio::test]
async fn the_result_of_an_action_is_known_even_if_it_was_not_read_before_the_agent_went_down() {
    for refusal in [None, Some((409, "state"))] {
        let (service, uuid) = running().await;
        let agent = &service.cloud.agent;
        agent.block_actions(true);
        act(&service, uuid, json!({"os-stop": null})).await;
        if refusal.is_some() {
            // The first request executed it, but its answer was lost.
            agent.set_guest(uuid, "stopped", "shut off");
        }
        agent.refuse_actions(refusal);
        agent.block_actions(false);
        service.settle().await;
        assert_eq!(results(&service, uuid, 1).await, ["Success"]);
        agent.set_unreachable(true);
        service.restart().await;
        let shown = service.shown("alice", "2.82", uuid).await;
        assert_eq!(
            (
                &shown["status"],
                &shown["OS-EXT-STS:vm_state"],
                &shown["OS-EXT-STS:power_state"]
            ),
            (&json!("SHUTOFF"), &json!("stopped"), &json!(4)),
            "{refusal:?}"
        );
        let path = format!("/servers/{uuid}/action");
        let pause = service.ask("alice", "2.82", "POST", &path, Some(json!({"pause": null})));
        assert_eq!(pause.await.status, 409);
    }
}

#[tokio::test]
async fn what_a_server_is_after_an_action_that_failed_is_known_too() {
    let (service, uuid) = running().await;
    let agent = &service.cloud.agent;
    agent.block_actions(true);
    act(&service, uuid, json!({"reboot": {"type": "HARD"}})).await;
    agent.set_guest(uuid, "failed", "crashed");
    agent.refuse_actions(Some((409, "state")));
    agent.block_actions(false);
    service.settle().await;
    assert_eq!(results(&service, uuid, 1).await, ["Error"]);
    agent.set_unreachable(true);
    assert_eq!(
        service.shown("alice", "2.82", uuid).await["status"],
        "ERROR"
    );
}

#[tokio::test]
async fn a_hard_reboot_that_came_after_another_is_done_after_a_kill_too() {
    let (service, uuid) = running().await;
    service.shown("alice", "2.82", uuid).await;
    let agent = &service.cloud.agent;
    agent.set_unreachable(true);
    for _ in 0..2 {
        act(&service, uuid, json!({"reboot": {"type": "HARD"}})).await;
    }
    agent.set_unreachable(false);
    agent.fail_after(1);
    service.restart().await;
    assert_eq!(task(&service, uuid).await, "rebooting_hard");
    assert_eq!(
        results(&service, uuid, 2).await,
        [Value::Null, json!("Success")]
    );
    agent.set_unreachable(false);
    service.restart().await;
    assert_eq!(task(&service, uuid).await, Value::Null);
    assert_eq!(results(&service, uuid, 2).await, ["Success", "Success"]);
    assert_eq!(agent.received_actions().len(), 2);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_agents_and_the_next_process_continues() {
    let (service, uuid) = running().await;
    service.shown("alice", "2.82", uuid).await;
    service.cloud.agent.block_actions(true);
    act(&service, uuid, json!({"os-stop": null})).await;
    service.settle().await;
    let stop = service.compute.run_reconciler(ready(()));
    let stopped = tokio::time::timeout(Duration::from_secs(20), stop).await;
    stopped.expect("it stops");
    service.cloud.agent.block_actions(false);
    service.restart().await;
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(shown["status"], "SHUTOFF");
    assert_eq!(results(&service, uuid, 1).await, ["Success"]);
}

#[tokio::test]
async fn a_server_is_shown_where_what_its_agent_says_cannot_be_kept() {
    let (service, uuid) = running().await;
    if service.store.dialect() != Dialect::Sqlite {
        return;
    }
    service
        .change(
            "CREATE TRIGGER full BEFORE UPDATE OF seen_status ON compute_servers \
             BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
        )
        .await;
    service.cloud.agent.set_guest(uuid, "paused", "paused");
    let shown = service.shown("alice", "2.82", uuid).await;
    assert_eq!(shown["status"], "PAUSED");
}

#[tokio::test]
async fn of_hard_reboots_one_waits_behind_what_is_under_way_and_no_more() {
    let (service, uuid) = running().await;
    service.shown("alice", "2.82", uuid).await;
    let agent = &service.cloud.agent;
    agent.set_unreachable(true);
    act(&service, uuid, json!({"reboot": {"type": "SOFT"}})).await;
    let mut requests = Vec::new();
    for _ in 0..5 {
        requests.push(act(&service, uuid, json!({"reboot": {"type": "HARD"}})).await);
    }
    // Each is known by its request.
    for request in &requests {
        let event = event(&service, uuid, request).await;
        assert_eq!(event["event"], "compute_reboot_instance");
        assert_eq!(event["finish_time"], Value::Null);
    }
    agent.set_unreachable(false);
    service.settle().await;
    assert_eq!(task(&service, uuid).await, Value::Null);
    assert_eq!(
        agent.received_actions().len(),
        2,
        "{:?}",
        agent.received_actions()
    );
    assert_eq!(results(&service, uuid, 7).await, ["Success"; 7]);
}

#[tokio::test]
async fn a_hard_reboot_ends_together_with_a_waiting_one() {
    let (service, uuid) = running().await;
    service.shown("alice", "2.82", uuid).await;
    let agent = &service.cloud.agent;
    agent.set_unreachable(true);
    for kind in ["SOFT", "HARD", "HARD"] {
        act(&service, uuid, json!({"reboot": {"type": kind}})).await;
    }
    // The agent executes the soft reboot and receives the next one without answering. Two more may not end together
    // with that one.
    agent.set_unreachable(false);
    agent.fail_after(1);
    service.settle().await;
    assert_eq!(results(&service, uuid, 1).await, [Value::Null]);
    for _ in 0..2 {
        act(&service, uuid, json!({"reboot": {"type": "HARD"}})).await;
    }
    agent.set_unreachable(false);
    agent.fail_after(1);
    service.settle().await;
    let success = || json!("Success");
    assert_eq!(
        results(&service, uuid, 5).await,
        [Value::Null, Value::Null, success(), success(), success()]
    );
    agent.set_unreachable(false);
    service.settle().await;
    assert_eq!(results(&service, uuid, 5).await, ["Success"; 5]);
    assert_eq!(
        agent.received_actions().len(),
        3,
        "{:?}",
        agent.received_actions()
    );
}

#[tokio::test]
async fn what_an_operator_gave_up_is_not_asked_for_behind_what_is_in_the_agent() {
    let (service, uuid) = running().await;
    service.shown("alice", "2.82", uuid).await;
    let agent = &service.cloud.agent;
    agent.set_unreachable(true);
    for kind in ["SOFT", "HARD", "HARD"] {
        act(&service, uuid, json!({"reboot": {"type": kind}})).await;
    }
    service.settle().await;
    agent.block_actions(true);
    agent.set_unreachable(false);
    service.settle().await;
    let path = format!("/servers/{uuid}/action");
    let reset = json!({"os-resetState": {"state": "active"}});
    let given_up = service.ask("admin", "2.82", "POST", &path, Some(reset));
    assert_eq!(given_up.await.status, 202);
    agent.block_actions(false);
    service.settle().await;
    assert_eq!(agent.received_actions(), [GuestAction::SoftReboot {}]);
    assert_eq!(task(&service, uuid).await, Value::Null);
    assert_eq!(results(&service, uuid, 3).await, ["Error"; 3]);
}

#[tokio::test]
async fn what_was_under_way_with_a_server_ends_with_it() {
    let (service, uuid) = running().await;
    service.shown("alice", "2.82", uuid).await;
    service.settle().await;
    service.cloud.agent.set_unreachable(true);
    act(&service, uuid, json!({"os-stop": null})).await;
    let path = format!("/servers/{uuid}");
    service.ask("alice", "2.82", "DELETE", &path, None).await;
    service.cloud.forget_guest(uuid).await;
    service.settle().await;
    assert_eq!(
        results(&service, uuid, 3).await,
        ["Success", "Error", "Success"]
    );
}

#[tokio::test]
async fn actions_are_listed_in_pages_and_by_change_time() {
    let (service, uuid) = running().await;
    for action in ["pause", "unpause", "os-stop"] {
        service.settle().await;
        act(&service, uuid, json!({ action: null })).await;
    }
    service.settle().await;
    let all = actions(&service, uuid, "").await;
    let words = ["stop", "unpause", "pause", "create"];
    let request = |at: usize| all[at]["request_id"].as_str().unwrap();
    let at = |at: usize| all[at]["updated_at"].as_str().unwrap();
    for (query, expected) in [
        (String::new(), &words[..]),
        ("?limit=0".to_owned(), &[]),
        ("?limit=2".to_owned(), &words[..2]),
        (format!("?marker={}", request(1)), &words[2..]),
        (format!("?limit=1&marker={}", request(0)), &words[1..2]),
        (format!("?marker={}", request(3)), &[]),
        (format!("?changes-since={}", at(1)), &words[..2]),
        (format!("?changes-before={}", at(1)), &words[1..]),
        (
            format!("?changes-before={}&limit=1&marker={}", at(1), request(0)),
            &words[1..2],
        ),
    ] {
        let done = actions(&service, uuid, &query).await;
        let done: Vec<&Value> = done.iter().map(|it| &it["action"]).collect();
        assert_eq!(done, expected, "{query}");
    }
}
