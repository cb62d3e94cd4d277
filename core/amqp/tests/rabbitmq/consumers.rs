//! Acknowledgement, repeated deliveries, bad messages, and consumers that are started again.

use std::time::Duration;

use berth_amqp::{CallError, MessagingError, MessagingOptions, RecentUniqueIds, RpcContext};
use berth_options::OptionGroup as _;
use serde_json::json;

use crate::broker::Broker;
use crate::peer::OsloPeer;
use crate::process::{LIMIT, within};
use crate::setup::{connect, context, method, next, options, serve, target};

#[test]
fn names_and_defaults_of_the_options_are_those_of_the_installed_oslo_messaging() {
    let mut peer = OsloPeer::start(&Broker::shared().url(), &options());
    let defaults = peer.ask(&json!({"do": "defaults"}));
    for option in MessagingOptions::default().values() {
        let key = option.row.key;
        let theirs = defaults
            .get(key)
            .unwrap_or_else(|| panic!("oslo.messaging has no {key}"));
        // Theirs are the host's name, the program's name, and an empty text for no file.
        if matches!(key, "hostname" | "processname") {
            continue;
        }
        let none = option.value.is_null() && *theirs == json!("");
        assert!(
            none || option.value.as_f64() == theirs.as_f64(),
            "{key}: {theirs}"
        );
        if !option.value.is_number() {
            assert!(none || option.value == *theirs, "{key}: {theirs}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_comes_again_until_it_is_acknowledged_and_its_id_tells() {
    let messaging = connect(&Broker::shared().url(), &options()).await;
    let mut server = serve(&messaging, &["again"], "cmp1").await;
    let here = target("again", "cmp1");
    messaging
        .cast(&here, context(), method("m", json!({"n": 1})))
        .await
        .unwrap();
    let mut recent = RecentUniqueIds::new(16);
    let first = next(&mut server).await;
    assert!(recent.insert(first.request.unique_id.as_ref().unwrap()));

    messaging.resubscribe().await.unwrap();
    let second = next(&mut server).await;
    assert!(second.redelivered);
    assert!(!recent.insert(second.request.unique_id.as_ref().unwrap()));
    // The first delivery's consumer is gone: its acknowledgement says so.
    assert_eq!(first.ack().await, Err(MessagingError::NotAcknowledged));
    second.ack().await.unwrap();

    messaging.reconnect().await.unwrap();
    // The cast may meet the old connection, and then fails.
    let cast = async || {
        messaging
            .cast(&here, context(), method("m", json!({"n": 2})))
            .await
    };
    while let Err(error) = cast().await {
        assert!(error.effect_is_unknown(), "{error}");
    }
    let third = next(&mut server).await;
    assert_eq!(third.request.args.0["n"], 2);
    third.ack().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_no_request_is_dropped_and_reported() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    let messaging = connect(&url, &options()).await;
    let mut server = serve(&messaging, &["bad"], "cmp1").await;
    for body in [
        "",
        "[]",
        "{\"oslo.version\": \"9.0\", \"oslo.message\": \"{}\"}",
    ] {
        peer.ask(&json!({"do": "put", "queue": "bad.cmp1", "body": body}));
        let rejected = within("the report arrives", server.next())
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(rejected.queue, "bad.cmp1");
    }
    messaging
        .cast(&target("bad", "cmp1"), context(), method("m", json!({})))
        .await
        .unwrap();
    let good = next(&mut server).await;
    assert!(!good.redelivered);
    good.ack().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_were_deleted_are_declared_and_consumed_again() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    let messaging = connect(&url, &options()).await;
    let mut server = serve(&messaging, &["deleted"], "cmp1").await;
    let here = target("deleted", "cmp1");
    peer.ask(&json!({"do": "delete_queue", "queue": "deleted.cmp1"}));
    let cast_again = async {
        loop {
            let cast = messaging.cast(&here, context(), method("m", json!({})));
            match cast.await {
                Ok(()) => return,
                Err(MessagingError::Unroutable { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    within("the queue is there again", cast_again).await;
    next(&mut server).await.ack().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ping_to_itself_tells_whether_a_process_is_deaf() {
    let url = Broker::shared().url();
    let options = MessagingOptions {
        use_queue_manager: true,
        processname: "deaf".to_owned(),
        // The broker's own notice must not heal what this test breaks.
        kombu_reconnect_delay: LIMIT,
        ..options()
    };
    let mut peer = OsloPeer::start(&url, &crate::setup::options());
    let messaging = connect(&url, &options).await;
    let mut server = serve(&messaging, &["deaf"], "cmp1").await;
    let here = target("deaf", "cmp1");
    let serving = tokio::spawn(async move { server.next().await.is_none() });
    let ping = async |limit| {
        messaging
            .ping_self(&here, &RpcContext::default(), limit)
            .await
    };
    ping(LIMIT).await.unwrap();

    peer.ask(&json!({"do": "delete_queue", "queue": "deaf.cmp1"}));
    let error = ping(Duration::from_secs(2)).await.unwrap_err();
    assert!(matches!(error, CallError::Messaging(_)), "{error}");
    messaging.resubscribe().await.unwrap();
    let heard = async {
        // The session takes the command in its own time.
        while ping(Duration::from_secs(2)).await.is_err() {}
    };
    within("the ping arrives", heard).await;

    messaging.close().await;
    assert!(within("the server ends", serving).await.unwrap());
    let error = ping(LIMIT).await.unwrap_err();
    assert_eq!(error, CallError::Messaging(MessagingError::Closed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_stay_in_the_queue_of_a_server_that_was_dropped() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    let messaging = connect(&url, &options()).await;
    let kept = serve(&messaging, &["stops-alt"], "cmp1").await;
    drop(serve(&messaging, &["stops"], "cmp1").await);
    let here = target("stops", "cmp1");
    messaging
        .cast(&here, context(), method("m", json!({})))
        .await
        .unwrap();
    let mut waits = || peer.ask(&json!({"do": "length", "queue": "stops.cmp1"})) == 1;
    crate::process::wait_until("the request is in the queue", &mut waits);
    drop(kept);
    let mut server = serve(&messaging, &["stops"], "cmp1").await;
    next(&mut server).await.ack().await.unwrap();
}
