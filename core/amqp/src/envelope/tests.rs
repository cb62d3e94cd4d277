use proptest::prelude::*;

use super::*;

/// Messages of a Nova 34 cell, as published; `message` is already read from its text.
const RECORDED: &str = include_str!("../../tests/captures/messages.json");

struct RecordedMessage {
    pattern: String,
    message: Value,
    body: Vec<u8>,
}

fn recorded() -> Vec<RecordedMessage> {
    let all: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    let one = |it: Value| RecordedMessage {
        pattern: it["pattern"].as_str().unwrap().to_owned(),
        message: it["message"].clone(),
        body: body(&it["message"]),
    };
    all.into_iter().map(one).collect()
}

fn body(message: &Value) -> Vec<u8> {
    json!({"oslo.version": "2.0", "oslo.message": message.to_string()})
        .to_string()
        .into_bytes()
}

fn message_of(body: &[u8]) -> Value {
    let envelope: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(envelope["oslo.version"], "2.0");
    serde_json::from_str(envelope["oslo.message"].as_str().unwrap()).unwrap()
}

#[test]
fn recorded_requests_are_the_same_after_reading_and_writing() {
    let mut calls = 0;
    for it in recorded().iter().filter(|it| it.pattern != "reply") {
        let request = RpcRequest::decode(&it.body).unwrap();
        assert_eq!(message_of(&request.encode()), it.message);
        assert_eq!(request.reply_to.is_some(), it.pattern == "call");
        assert!(request.unique_id.is_some() && request.context.values().len() > 3);
        calls += usize::from(it.pattern == "call");
    }
    assert!(calls >= 5, "{calls} recorded calls");
}

#[test]
fn recorded_replies_are_read_and_what_is_written_is_read_the_same() {
    let mut failures = 0;
    for it in recorded().iter().filter(|it| it.pattern == "reply") {
        let reply = RpcReply::decode(&it.body).unwrap();
        let RpcReply::End {
            outcome,
            message_id,
        } = &reply
        else {
            panic!("{:?}", it.message)
        };
        match outcome {
            Ok(result) => assert_eq!(*result, it.message["result"]),
            Err(failure) => {
                assert!(!failure.class.is_empty() && !failure.module.is_empty());
                failures += 1;
            }
        }
        assert_eq!(it.message["_msg_id"], **message_id);
        assert_eq!(RpcReply::decode(&reply.encode("u")).unwrap(), reply);
        let keys = |message: &Value| -> Vec<String> {
            message.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(&message_of(&reply.encode("u"))), keys(&it.message));
    }
    assert!(failures >= 1, "no recorded failure");
}

#[test]
fn a_reply_without_an_end_and_without_a_result_is_a_sign_of_life() {
    let alive = RpcReply::KeepAlive {
        message_id: "m".to_owned(),
    };
    let message = message_of(&alive.encode("u"));
    assert_eq!(message["ending"], false);
    assert_eq!(RpcReply::decode(&alive.encode("u")), Ok(alive));
    let first_of_two =
        body(&json!({"_msg_id": "m", "result": 5, "failure": null, "ending": false}));
    let end = RpcReply::End {
        message_id: "m".to_owned(),
        outcome: Ok(json!(5)),
    };
    assert_eq!(RpcReply::decode(&first_of_two), Ok(end));
}

#[test]
fn a_monitored_call_says_how_long_its_caller_waits() {
    let request = |timeout: Value| {
        RpcRequest::decode(&body(&json!({
            "method": "m", "args": {}, "_msg_id": "i", "_reply_q": "q", "_timeout": timeout,
        })))
    };
    let timeout = |value| {
        request(value)
            .unwrap()
            .reply_to
            .unwrap()
            .call_monitor_timeout
    };
    assert_eq!(timeout(json!(60)), Some(Duration::from_secs(60)));
    assert_eq!(timeout(json!(0.5)), Some(Duration::from_millis(500)));
    assert_eq!(timeout(json!(0)), None);
    assert_eq!(timeout(Value::Null), None);
    for wrong in [json!(-1), json!("60"), json!(1e300)] {
        let error = request(wrong).unwrap_err();
        assert_eq!(error, kind("_timeout", "seconds or null"));
    }
}

#[test]
fn bad_bodies_are_refused_with_the_key_and_without_their_values() {
    let cases = [
        (b"".to_vec(), "it ends too early"),
        (b"[1]".to_vec(), "it is another type"),
        (b"{hunter2".to_vec(), "it is no JSON"),
        (b"{}".to_vec(), "no oslo.version"),
        (
            br#"{"oslo.version":"3.0","oslo.message":"{}"}"#.to_vec(),
            "version 3.0",
        ),
        (
            br#"{"oslo.version":"2.0","oslo.message":{}}"#.to_vec(),
            "no text oslo.message",
        ),
        (
            br#"{"oslo.version":"2.1","oslo.message":"hunter2"}"#.to_vec(),
            "not a JSON object",
        ),
        (body(&json!({"args": {}})), "no method"),
        (
            body(&json!({"method": 5, "args": {}})),
            "method of the message has to be a text",
        ),
        (
            body(&json!({"method": "m", "args": "hunter2"})),
            "args of the message",
        ),
        (body(&json!({"method": "m", "_msg_id": "i"})), "no _reply_q"),
        (
            body(&json!({"method": "m", "_unique_id": ["hunter2"]})),
            "_unique_id of the message",
        ),
    ];
    for (body, expected) in cases {
        let error = RpcRequest::decode(&body).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let error = RpcReply::decode(&body(&json!({"_msg_id": "i", "ending": "yes"}))).unwrap_err();
    assert_eq!(error, kind("ending", "true or false"));
}

#[test]
fn debug_shows_no_argument_and_no_token() {
    let request = RpcRequest::decode(&body(&json!({
        "method": "rebuild", "args": {"new_pass": "hunter2"}, "_context_auth_token": "hunter3",
    })))
    .unwrap();
    let shown = format!("{request:?}");
    assert!(
        shown.contains("new_pass") && !shown.contains("hunter"),
        "{shown}"
    );
}

proptest! {
    /// Pieces of recorded messages are cut out, replaced and doubled: reading ends with a value or an error, never with a panic.
    #[test]
    fn a_mutated_message_is_read_or_refused(
        which in any::<prop::sample::Index>(),
        inner in any::<bool>(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..40, prop::collection::vec(any::<u8>(), 0..6)), 1..5),
    ) {
        let all = recorded();
        let it = which.get(&all);
        let mut bytes = if inner { it.message.to_string().into_bytes() } else { it.body.clone() };
        for (at, length, insert) in cuts {
            if bytes.is_empty() { break; }
            let start = at.index(bytes.len());
            let end = (start + length).min(bytes.len());
            bytes.splice(start..end, insert);
        }
        let mutated = if inner {
            json!({"oslo.version": "2.0", "oslo.message": String::from_utf8_lossy(&bytes)}).to_string().into_bytes()
        } else {
            bytes
        };
        if let Ok(request) = RpcRequest::decode(&mutated) {
            prop_assert_eq!(RpcRequest::decode(&request.encode()), Ok(request));
        }
        if let Ok(reply) = RpcReply::decode(&mutated) {
            prop_assert_eq!(RpcReply::decode(&reply.encode("u")), Ok(reply));
        }
    }

    /// Values of other types at each key of a message.
    #[test]
    fn a_message_with_values_of_other_types_is_read_or_refused(
        which in any::<prop::sample::Index>(),
        key in any::<prop::sample::Index>(),
        value in prop::sample::select(vec![json!(null), json!(1e308), json!(-1), json!([]), json!({}), json!(""), json!(true)]),
    ) {
        let all = recorded();
        let mut message = which.get(&all).message.clone();
        let keys: Vec<String> = message.as_object().unwrap().keys().cloned().collect();
        message[key.get(&keys)] = value;
        let _ = (RpcRequest::decode(&body(&message)), RpcReply::decode(&body(&message)));
    }
}
