//! The audit records of logins, tokens from tokens, and revocations.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use axum::body::Body;
use axum::extract::ConnectInfo;
use berth_http::AuditTrail;
use berth_http::audit::AuditOptions;
use http::Request;
use serde_json::{Value, json};

use super::limits;
use super::service::{PASSWORD, Service, by_name, project};

fn trail(file: &Path, required: bool) -> AuditTrail {
    let options = AuditOptions {
        file: Some(file.to_owned()),
        required,
        reads: false,
    };
    AuditTrail::open(&options).unwrap()
}

fn records(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[tokio::test]
async fn a_login_leaves_a_record_with_the_name_as_it_was_sent_and_never_the_password_or_the_token()
{
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.log");
    let service = Service::start().await.audited(&trail(&file, false));
    let peer: SocketAddr = "192.0.2.7:4711".parse().unwrap();
    let log_in = |user: Value| {
        let auth = json!({"identity": {"methods": ["password"], "password": {"user": user}},
            "scope": project("research").unwrap()});
        let request = Request::post("/v3/auth/tokens")
            .header("content-type", "application/json")
            .extension(ConnectInfo(peer));
        let body = Body::from(json!({"auth": auth}).to_string());
        service.send(request.body(body).unwrap())
    };
    let reply = log_in(by_name("alice")).await;
    let token = reply.header("x-subject-token").to_owned();
    let domain = json!({"id": "default"});
    log_in(json!({"name": "mallory", "domain": domain, "password": "planted-1"})).await;
    log_in(json!({"name": "alice", "domain": domain, "password": "planted-2"})).await;

    let text = fs::read_to_string(&file).unwrap();
    for secret in [PASSWORD, "planted", token.as_str()] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let records = records(&file);
    assert_eq!(records.len(), 3, "{text}");
    let audit_id = &reply.body["token"]["audit_ids"][0];
    for (record, outcome, name, id) in [
        (&records[0], "success", "alice", "u-alice"),
        (&records[1], "failure", "mallory", "unknown"),
        (&records[2], "failure", "alice", "unknown"),
    ] {
        let initiator = &record["initiator"];
        assert_eq!(record["action"], "authenticate", "{record}");
        assert_eq!(record["outcome"], outcome, "{record}");
        assert_eq!(
            (&initiator["name"], &initiator["id"]),
            (&json!(name), &json!(id))
        );
        assert_eq!(initiator["domain"], "default", "{record}");
        assert_eq!(initiator["host"]["address"], "192.0.2.7", "{record}");
        assert_eq!(initiator["credential"]["type"], "password", "{record}");
        assert_eq!(record["target"]["typeURI"], "service/identity/auth/tokens");
    }
    assert_eq!(records[0]["initiator"]["project_id"], "p-research");
    assert_eq!(
        &records[0]["initiator"]["credential"]["audit_ids"][0],
        audit_id
    );
    assert_eq!(&records[0]["target"]["id"], audit_id);
    assert_eq!(records[1]["reason"]["reasonCode"], "401");
}

#[tokio::test]
async fn a_token_from_a_token_and_a_revocation_leave_records_with_audit_ids() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.log");
    let service = Service::start().await.audited(&trail(&file, false));
    let first = service.token("alice", project("research")).await;
    let auth = json!({"auth": {"identity": {"methods": ["token"], "token": {"id": first}}}});
    let second = service.post_text(&auth.to_string()).await;
    assert_eq!(second.status, 201);
    let doomed = second.header("x-subject-token").to_owned();
    let nobody = service.token("nobody", None).await;
    let headers = [
        ("x-auth-token", nobody.as_str()),
        ("x-subject-token", &doomed),
    ];
    let refused = service.ask("DELETE", "/v3/auth/tokens", &headers).await;
    assert_eq!(refused.status, 403);
    let headers = [
        ("x-auth-token", first.as_str()),
        ("x-subject-token", &first),
    ];
    let revoked = service.ask("DELETE", "/v3/auth/tokens", &headers).await;
    assert_eq!(revoked.status, 204);

    let records = records(&file);
    let from_token = &records[1];
    assert_eq!(from_token["initiator"]["credential"]["type"], "token");
    let ids = &from_token["initiator"]["credential"]["audit_ids"];
    assert_eq!(
        ids, &second.body["token"]["audit_ids"],
        "the chain is shown"
    );
    let refused = &records[3];
    assert_eq!(refused["reason"]["policyId"], "identity:revoke_token");
    assert_eq!(refused["target"]["id"], ids[0], "{refused}");
    let revocation = &records[4];
    assert_eq!(
        (&revocation["action"], &revocation["outcome"]),
        (&json!("revoke"), &json!("success"))
    );
    assert_eq!(revocation["target"]["id"], ids[1], "{revocation}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&first) && !text.contains(&doomed), "{text}");
}

#[tokio::test]
async fn changed_limits_leave_records_with_their_ids() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.log");
    let service = limits::start().await.audited(&trail(&file, false));
    let admin = service.token("admin", None).await;
    let created = limits::create(&service, &admin, &[("servers", 4)]).await;
    let id = &created.body["limits"][0]["id"];
    let path = format!("/v3/limits/{}", id.as_str().unwrap());
    let alice = service.token("alice", project("research")).await;
    for token in [&alice, &admin] {
        limits::send(&service, token, ("DELETE", &path), json!({})).await;
    }
    let records = records(&file);
    let of_limits = records
        .iter()
        .filter(|it| it["target"]["typeURI"] == "service/identity/limits");
    let found: Vec<_> = of_limits
        .map(|it| {
            (
                it["action"].clone(),
                it["outcome"].clone(),
                &it["target"]["id"],
            )
        })
        .collect();
    let deleted = |outcome: &str| (json!("delete"), json!(outcome), id);
    assert_eq!(
        (&found[0].0, &found[0].1),
        (&json!("create"), &json!("success"))
    );
    assert_eq!(found[1..], [deleted("failure"), deleted("success")]);
}

#[tokio::test]
async fn nobody_logs_in_while_a_required_record_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("log");
    fs::create_dir(&inner).unwrap();
    let file = inner.join("audit.log");
    let service = Service::start().await.audited(&trail(&file, true));
    let token = service.token("admin", None).await;
    let outcomes: Vec<Value> = records(&file)
        .iter()
        .map(|it| it["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["pending", "success"]);
    fs::remove_dir_all(&inner).unwrap();
    let before = service.count().await;
    let refused = service.log_in(by_name("alice"), None).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(
        refused.body["error"]["message"],
        "Nothing was changed: the audit record of this request cannot be written."
    );
    assert_eq!(service.count().await, before);
    assert_eq!(
        service.get(&token, "/v3/users").await.status,
        200,
        "reads go on"
    );
}
