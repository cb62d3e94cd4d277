//! Calls, casts and fanouts between this crate and oslo.messaging, in both directions, on classic queues.

use berth_amqp::{
    CallError, CallLimits, MessagingError, PublishOutcome, RemoteFailure, ReplyOutcome,
};
use serde_json::json;

use crate::broker::Broker;
use crate::peer::OsloPeer;
use crate::process::{LIMIT, within};
use crate::setup::{connect, context, method, next, options, serve, target};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_answers_calls_of_oslo_messaging() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    let messaging = connect(&url, &options()).await;
    let mut server = serve(&messaging, &["answers", "answers-alt"], "cmp1").await;
    let call = |topic: &str, method: &str| {
        json!({
            "do": "call", "exchange": "nova", "topic": topic, "server": "cmp1", "version": "6.0",
            "method": method, "args": {"instance": {"uuid": "u"}}, "context": {"request_id": "req-7"},
        })
    };

    peer.send(&call("answers", "get_host_uptime"));
    let delivery = next(&mut server).await;
    delivery.ack().await.unwrap();
    assert_eq!(delivery.request.method, "get_host_uptime");
    assert_eq!(delivery.request.version, "6.0");
    assert_eq!(delivery.request.args.0["instance"]["uuid"], "u");
    assert_eq!(delivery.request.context.request_id(), Some("req-7"));
    assert!(!delivery.redelivered);
    let outcome = delivery.answer(async { Ok(json!("up 5 days")) }).await;
    assert_eq!(outcome, Ok(ReplyOutcome::Delivered));
    assert_eq!(peer.answer(), json!({"result": "up 5 days"}));

    peer.send(&call("answers-alt", "attach"));
    let delivery = next(&mut server).await;
    delivery.ack().await.unwrap();
    let mut failure = RemoteFailure::nova("ComputeHostNotFound", "cmp1 has no such device");
    failure.kwargs.insert("host".to_owned(), json!("cmp1"));
    delivery.reply(Err(failure)).await.unwrap();
    let answer = peer.answer();
    assert_eq!(answer["class"], "ComputeHostNotFound_Remote", "{answer}");
    assert_eq!(answer["kwargs"]["host"], "cmp1");
    assert!(
        answer["text"]
            .as_str()
            .unwrap()
            .starts_with("cmp1 has no such device")
    );

    peer.send(&call("answers", "resize_instance"));
    let delivery = next(&mut server).await;
    delivery.ack().await.unwrap();
    delivery
        .reply(Err(RemoteFailure::no_such_method("resize_instance")))
        .await
        .unwrap();
    assert_eq!(peer.answer()["class"], "RemoteError");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_oslo_messaging_answers_calls() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    peer.serve("conduct", "vm");
    let messaging = connect(&url, &options()).await;
    let (target, limits) = (target("conduct", "vm"), CallLimits::from(LIMIT));

    let echo = method("echo", json!({"objinst": {"a": [1, null, "ü"]}}));
    let result = messaging
        .call(&target, context(), echo, limits)
        .await
        .unwrap();
    assert_eq!(result["args"], json!({"objinst": {"a": [1, null, "ü"]}}));
    assert_eq!(result["context"]["request_id"], "req-1");

    let refused = method("refuse", json!({"host": "cmp9"}));
    let error = messaging
        .call(&target, context(), refused, limits)
        .await
        .unwrap_err();
    let CallError::Failure(failure) = error else {
        panic!("{error}")
    };
    assert!(failure.is_nova("ComputeHostNotFound"), "{failure}");
    assert_eq!(failure.kwargs["host"], "cmp9");
    assert_eq!(failure.message, "Compute host cmp9 is not there.");

    let unknown = method("no_such_method", json!({}));
    let error = messaging
        .call(&target, context(), unknown, limits)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, CallError::Failure(it) if it.class == "NoSuchMethod"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn casts_and_fanouts_arrive_on_both_sides() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    peer.serve("cast-there", "vm");
    let messaging = connect(&url, &options()).await;
    let mut server = serve(&messaging, &["cast-here"], "cmp1").await;

    let note = |text: &str| method("note", json!({"text": text}));
    messaging
        .cast(&target("cast-there", "vm"), context(), note("cast"))
        .await
        .unwrap();
    let outcome = messaging
        .fanout_cast("cast-there", context(), note("fanout"))
        .await;
    assert_eq!(outcome, Ok(PublishOutcome::Taken));
    let mut casts: Vec<_> = peer.casts(2).iter().map(|it| it["text"].clone()).collect();
    casts.sort_by_key(ToString::to_string);
    assert_eq!(casts, [json!("cast"), json!("fanout")]);

    peer.ask(&json!({
        "do": "cast", "exchange": "nova", "topic": "cast-here", "server": "cmp1",
        "method": "stop_instance", "args": {"n": 1},
    }));
    let delivery = next(&mut server).await;
    assert_eq!(delivery.request.args.0["n"], 1);
    assert_eq!(delivery.request.unique_id.as_ref().unwrap().len(), 32);
    assert_eq!(
        delivery.reply(Ok(json!(1))).await,
        Ok(ReplyOutcome::NotACall)
    );
    delivery.ack().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fanout_without_servers_is_no_error_and_harms_no_other_message() {
    let messaging = connect(&Broker::shared().url(), &options()).await;
    let _server = serve(&messaging, &["alone"], "cmp1").await;
    for _ in 0..3 {
        let note = method("note", json!({}));
        let outcome = messaging.fanout_cast("nobody", context(), note).await;
        assert_eq!(outcome, Ok(PublishOutcome::NoExchange));
        let here = target("alone", "cmp1");
        messaging
            .cast(&here, context(), method("note", json!({})))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_no_queue_receives_ends_at_once() {
    let messaging = connect(&Broker::shared().url(), &options()).await;
    let _server = serve(&messaging, &["somebody"], "cmp1").await;
    let (elsewhere, limits) = (target("somebody", "cmp2"), CallLimits::from(10 * LIMIT));
    let call = messaging.call(&elsewhere, context(), method("echo", json!({})), limits);
    let error = within("the call ends", call).await.unwrap_err();
    let expected = MessagingError::Unroutable {
        exchange: "nova".to_owned(),
        routing_key: "somebody.cmp2".to_owned(),
    };
    assert_eq!(error, CallError::Messaging(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_an_answer_ends_at_its_timeout() {
    let messaging = connect(&Broker::shared().url(), &options()).await;
    let mut server = serve(&messaging, &["silent"], "cmp1").await;
    let limit = std::time::Duration::from_secs(1);
    let here = target("silent", "cmp1");
    let echo = method("echo", json!({}));
    let call = messaging.call(&here, context(), echo, CallLimits::from(limit));
    let error = within("the call ends", call).await.unwrap_err();
    let CallError::Messaging(error) = error else {
        panic!("{error}")
    };
    assert_eq!(
        error.to_string(),
        "echo of silent.cmp1 did not answer in 1 s"
    );
    assert!(error.effect_is_unknown());
    // Its late reply is dropped, and the next call is not confused by it.
    let delivery = next(&mut server).await;
    assert_eq!(
        delivery.reply(Ok(json!("late"))).await,
        Ok(ReplyOutcome::Delivered)
    );
    delivery.ack().await.unwrap();
    let echo = method("echo", json!({}));
    let call = messaging.call(&here, context(), echo, CallLimits::from(LIMIT));
    let answer = async {
        let delivery = next(&mut server).await;
        delivery.ack().await.unwrap();
        delivery.reply(Ok(json!("in time"))).await.unwrap();
    };
    assert_eq!(tokio::join!(call, answer).0, Ok(json!("in time")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_to_a_queue_that_is_gone_ends_the_call() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    let messaging = connect(&url, &options()).await;
    let mut server = serve(&messaging, &["gone"], "cmp1").await;
    peer.send(&json!({
        "do": "call", "exchange": "nova", "topic": "gone", "server": "cmp1", "method": "m", "args": {},
    }));
    let delivery = next(&mut server).await;
    delivery.ack().await.unwrap();
    let queue = delivery.request.reply_to.clone().unwrap().queue;
    drop(peer);
    OsloPeer::start(&url, &options()).ask(&json!({"do": "delete_queue", "queue": queue}));
    let outcome = within("the reply ends", delivery.reply(Ok(json!(1)))).await;
    assert_eq!(outcome, Ok(ReplyOutcome::CallerGone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_queue_with_a_name_too_long_for_amqp_is_an_error() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    let messaging = connect(&url, &options()).await;
    let mut server = serve(&messaging, &["long"], "cmp1").await;
    let message = json!({"method": "m", "args": {}, "_msg_id": "i", "_reply_q": "q".repeat(300)});
    let body = json!({"oslo.version": "2.0", "oslo.message": message.to_string()}).to_string();
    peer.ask(&json!({"do": "put", "queue": "long.cmp1", "body": body}));
    let delivery = next(&mut server).await;
    let error = delivery.reply(Ok(json!(1))).await.unwrap_err();
    assert!(
        matches!(error, MessagingError::NameTooLong { length: 300, .. }),
        "{error}"
    );
    delivery.ack().await.unwrap();
}
