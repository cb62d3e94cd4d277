//! What an agent tells the scheduler of its host, against scripted answers.

use berth_client::hosts::HeartbeatOutcome;
use berth_client::{Auth, Disposition, HostsClient, HostsError, Secret};
use berth_wire::host_state::{HostSeenBody, HostStateBody, HostWanted, ServiceBody};

use crate::script::{Reply, Script, answer, connection_reset, error_reply, options};

fn client(script: &Script) -> HostsClient {
    let auth = Auth::admin_token("http://conductor", &Secret::from("admin")).unwrap();
    HostsClient::new(script.http.clone(), auth, &options())
}

fn state() -> HostStateBody {
    HostStateBody {
        service: ServiceBody {
            version: "1".to_owned(),
            disabled_reason: Some("new card".to_owned()),
        },
        nodes: Vec::new(),
    }
}

fn seen(state: &str) -> HostSeenBody {
    HostSeenBody {
        state: state.to_owned(),
    }
}

#[tokio::test]
async fn a_state_is_reported_and_named_and_seen_by_its_name() {
    let script = Script::new(|_, seen| match seen.method.as_str() {
        "GET" => answer(
            200,
            seen.body.clone() + r#"{"service":{"version":"1"},"nodes":[]}"#,
        ),
        _ => answer(200, r#"{"state":"7","disabled_reason":"moved"}"#),
    });
    let hosts = client(&script);
    let wanted = HostWanted {
        state: "7".to_owned(),
        disabled_reason: Some("moved".to_owned()),
    };
    assert_eq!(hosts.report_state("c1", &state()).await.unwrap(), wanted);
    let answered = hosts.send_heartbeat("c1", &seen("7")).await.unwrap();
    assert_eq!(answered, HeartbeatOutcome::Known(wanted));
    let known = hosts.state("c1").await.unwrap().unwrap();
    assert_eq!(known.service.version, "1");

    let asked = script.seen();
    let lines = asked
        .iter()
        .map(|it| format!("{} {} {}", it.method, it.uri, it.body));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            r#"PUT http://conductor/internal/v1/hosts/c1/state {"service":{"version":"1","disabled_reason":"new card"},"nodes":[]}"#,
            r#"PUT http://conductor/internal/v1/hosts/c1/seen {"state":"7"}"#,
            "GET http://conductor/internal/v1/hosts/c1/state ",
        ]
    );
    assert!(asked.iter().all(|it| it.token.as_deref() == Some("admin")));
}

#[tokio::test]
async fn a_state_that_is_not_known_is_an_answer_and_a_host_that_is_not_is_none() {
    let script = Script::new(|_, seen| match seen.method.as_str() {
        "GET" => error_reply(404, "placement.undefined_code", "No host c1."),
        _ => error_reply(409, "placement.undefined_code", "Another state is known."),
    });
    let hosts = client(&script);
    assert_eq!(
        hosts.send_heartbeat("c1", &seen("7")).await.unwrap(),
        HeartbeatOutcome::Unknown
    );
    assert_eq!(hosts.state("c1").await.unwrap(), None);
    let deleted = Script::of(vec![error_reply(404, "x", "No host c1.")]);
    let answered = client(&deleted)
        .send_heartbeat("c1", &seen("7"))
        .await
        .unwrap();
    assert_eq!(answered, HeartbeatOutcome::Unknown);
}

#[tokio::test]
async fn each_refusal_says_what_a_loop_does_about_it() {
    let coded = r#"{"error": {"code": "bad_body", "message": "nodes: none"}}"#;
    let table: Vec<(Reply, Disposition, &str)> = vec![
        (answer(503, ""), Disposition::Retry, "503"),
        (connection_reset(), Disposition::Retry, "conductor"),
        (answer(200, "{}"), Disposition::Retry, "state"),
        (answer(400, coded), Disposition::Fatal, "nodes: none"),
        (
            error_reply(409, "x", "Node n is on host c2."),
            Disposition::Refresh,
            "Node n is on host c2",
        ),
        (answer(404, "<html>"), Disposition::Fatal, "[conductor]"),
        (answer(405, ""), Disposition::Fatal, "[conductor]"),
        (answer(403, ""), Disposition::Fatal, "role service"),
        (answer(401, ""), Disposition::Fatal, "[conductor]"),
    ];
    for (reply, disposition, words) in table {
        let script = Script::of(vec![reply.clone()]);
        let error = client(&script)
            .report_state("c1", &state())
            .await
            .unwrap_err();
        assert_eq!(error.disposition(), disposition, "{error}");
        assert!(error.to_string().contains(words), "{reply:?}: {error}");
    }
    // The page of a proxy says nothing about the host.
    let script = Script::of(vec![answer(404, "<html>")]);
    let error = client(&script).state("c1").await.unwrap_err();
    assert!(matches!(error, HostsError::NoRoute(_)), "{error}");
}
