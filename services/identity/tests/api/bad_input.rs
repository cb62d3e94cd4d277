//! What is no question the API knows is a 4xx in Keystone's words, never a 500, whatever it is.

use berth_identity::IdentityApiOptions;
use http::Request;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::service::{PASSWORD, Service, cloud};

fn good() -> Value {
    json!({"auth": {
        "identity": {
            "methods": ["password", "token"],
            "password": {"user": {"name": "alice", "domain": {"id": "default"}, "password": PASSWORD}},
            "token": {"id": "x"}
        },
        "scope": {"project": {"name": "research", "domain": {"name": "Default"}}}
    }})
}

/// Every place in a document, as pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                places(member, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn any_other_type_at_any_place_is_a_400_that_names_it_or_a_lawful_question() {
    let service = Service::start().await;
    let mut all = Vec::new();
    places(&good(), "", &mut all);
    assert!(all.len() > 15, "{all:?}");
    let kinds = [
        json!(null),
        json!(true),
        json!(7),
        json!(1.5e300),
        json!(""),
        json!("\u{0}"),
        json!([]),
        json!([[]]),
        json!({}),
        json!({"a": {}}),
    ];
    for place in &all {
        for kind in &kinds {
            let mut body = good();
            *body.pointer_mut(place).unwrap() = kind.clone();
            let reply = service.post_text(&body.to_string()).await;
            let status = reply.status.as_u16();
            assert!(
                [201, 400, 401, 429].contains(&status),
                "{place} = {kind}: {status} {}",
                reply.body
            );
            if status != 201 {
                assert_eq!(reply.body["error"]["code"], status, "{place} = {kind}");
                assert!(reply.body["error"]["title"].is_string());
            }
        }
        if let Some((parent, key)) = place.rsplit_once('/') {
            let mut body = good();
            if let Some(members) = body.pointer_mut(parent).and_then(Value::as_object_mut) {
                members.remove(key);
            }
            let status = service.post_text(&body.to_string()).await.status.as_u16();
            assert!(
                [201, 400, 401, 429].contains(&status),
                "without {place}: {status}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_missing_or_of_another_type_is_named() {
    let service = Service::start().await;
    for (body, status, words) in [
        ("", 400, "JSON"),
        ("{", 400, "JSON"),
        ("[]", 400, "body"),
        ("{}", 400, "auth"),
        (r#"{"auth": {}}"#, 400, "identity"),
        (r#"{"auth": {"identity": {}}}"#, 400, "methods"),
        (
            r#"{"auth": {"identity": {"methods": "password"}}}"#,
            400,
            "auth.identity.methods",
        ),
        (
            r#"{"auth": {"identity": {"methods": []}}}"#,
            400,
            "auth.identity.methods",
        ),
        (
            r#"{"auth": {"identity": {"methods": ["password"]}}}"#,
            400,
            "auth.identity.password",
        ),
        (
            r#"{"auth": {"identity": {"methods": ["password"], "password": {}}}}"#,
            400,
            "user",
        ),
        (
            r#"{"auth": {"identity": {"methods": ["password"], "password": {"user": {"id": "x"}}}}}"#,
            400,
            "user.password",
        ),
        (
            r#"{"auth": {"identity": {"methods": ["password"], "password": {"user": {"password": "x"}}}}}"#,
            400,
            "id or name",
        ),
        (
            r#"{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": "a", "password": "x"}}}}}"#,
            400,
            "domain",
        ),
        (
            r#"{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": "a", "domain": {}, "password": "x"}}}}}"#,
            400,
            "domain",
        ),
        (
            r#"{"auth": {"identity": {"methods": ["token"], "token": {}}}}"#,
            400,
            "id",
        ),
        (
            r#"{"auth": {"identity": {"methods": ["totp"]}}}"#,
            401,
            "unsupported method",
        ),
    ] {
        let reply = service.post_text(body).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.body);
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{body}: {message}");
    }
}

#[tokio::test]
async fn a_password_in_a_wrong_body_is_not_repeated() {
    let service = Service::start().await;
    let of = |user: &str| {
        format!(
            r#"{{"auth": {{"identity": {{"password": {{"user": {user}}}, "methods": ["password"]}}}}}}"#
        )
    };
    for body in [
        of(r#"{"name": 7, "password": "hunter2"}"#),
        of(r#"{"name": "a", "password": 123456}"#),
        of(r#"{"name": "a", "password": ["hunter2"]}"#),
        of(r#""hunter2""#),
        r#"{"auth": {"password": "hunter2", "#.to_owned(),
        r#"{"auth": {"password": "hunter2"} {}"#.to_owned(),
    ] {
        let reply = service.post_text(&body).await;
        assert_eq!(reply.status, 400, "{body}");
        let message = reply.body.to_string();
        let repeated = message.contains("hunter2") || message.contains("123456");
        assert!(!repeated, "{message}");
    }
}

#[tokio::test]
async fn other_paths_methods_and_sizes_are_refused_in_keystones_words() {
    let service = Service::start().await;
    let admin = service.token("admin", None).await;
    let own = ("x-auth-token", admin.as_str());
    for (method, path, status) in [
        ("GET", "/v3/no-such", 404),
        ("GET", "/v2.0/tokens", 404),
        ("GET", "/v3/users/u/no-such", 404),
        ("PUT", "/v3/auth/tokens", 405),
        ("DELETE", "/v3/auth/catalog", 405),
        ("POST", "/v3", 405),
        ("GET", "/v3/users?name=%ff", 400),
    ] {
        let reply = service.ask(method, path, &[own]).await;
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.body);
        assert_eq!(reply.body["error"]["code"], status, "{method} {path}");
        assert!(!reply.body["error"]["message"].as_str().unwrap().is_empty());
    }
    let untyped = Request::post("/v3/auth/tokens")
        .body(good().to_string().into())
        .unwrap();
    assert_eq!(service.send(untyped).await.status, 415);
    let options = IdentityApiOptions {
        body_limit: 64,
        ..IdentityApiOptions::default()
    };
    let small = Service::with(&cloud(), options).await;
    assert_eq!(small.post_text(&good().to_string()).await.status, 413);
}

#[test]
fn no_bytes_make_a_500() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let service = runtime.block_on(Service::start());
    let config = ProptestConfig::with_cases(256);
    proptest!(config, |(text in "[\\[\\]{}\",:a-z0-9 ]{0,80}", prefix in 0_usize..120)| {
        let whole = good().to_string();
        let cut = format!("{}{text}", whole.get(..prefix).unwrap_or_default());
        let reply = runtime.block_on(service.post_text(&cut));
        prop_assert!(reply.status.is_client_error(), "{cut}: {}", reply.status);
    });
}
