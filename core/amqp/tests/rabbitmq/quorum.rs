//! Quorum queues, streams and the queue manager, and queues that have other arguments than the options say.

use berth_amqp::{CallLimits, MessagingOptions, PublishOutcome};
use serde_json::json;

use crate::broker::Broker;
use crate::peer::OsloPeer;
use crate::process::LIMIT;
use crate::setup::{connect, context, method, next, options, serve, target};

/// As kolla-ansible and OpenStack-Ansible set them.
fn modern() -> MessagingOptions {
    MessagingOptions {
        rabbit_quorum_queue: true,
        rabbit_transient_quorum_queue: true,
        rabbit_stream_fanout: true,
        use_queue_manager: true,
        rabbit_qos_prefetch_count: 10,
        ..options()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_queues_and_streams_serve_both_sides_with_the_same_arguments() {
    // The exchange `nova` is durable here, so the broker is another one.
    let broker = Broker::start();
    let url = broker.url();
    let messaging = connect(&url, &modern()).await;
    let mut server = serve(&messaging, &["q-here"], "cmp1").await;
    let mut peer = OsloPeer::start(&url, &modern());
    // oslo.messaging declares our queues again with its own arguments, which have to be the same.
    peer.serve("q-here", "cmp1");
    peer.serve("q-there", "vm");

    let echo = method("echo", json!({"n": 1}));
    let limits = CallLimits::from(LIMIT);
    let result = messaging
        .call(&target("q-there", "vm"), context(), echo, limits)
        .await;
    assert_eq!(result.unwrap()["args"]["n"], 1);
    let note = method("note", json!({"text": "fanout"}));
    let outcome = messaging.fanout_cast("q-there", context(), note).await;
    assert_eq!(outcome, Ok(PublishOutcome::Taken));
    assert_eq!(peer.casts(1)[0]["text"], "fanout");

    let mut alone = serve(&messaging, &["q-alone"], "cmp1").await;
    peer.send(&json!({
        "do": "call", "exchange": "nova", "topic": "q-alone", "server": "cmp1", "method": "m", "args": {},
    }));
    for count in [None, Some(1), Some(2)] {
        let delivery = next(&mut alone).await;
        assert_eq!(delivery.redelivered, count.is_some());
        assert_eq!(delivery.delivery_count.filter(|it| *it > 0), count);
        if count == Some(2) {
            delivery.ack().await.unwrap();
            delivery.reply(Ok(json!("counted"))).await.unwrap();
        } else {
            messaging.resubscribe().await.unwrap();
        }
    }
    assert_eq!(peer.answer(), json!({"result": "counted"}));
    server_takes_its_share(&mut server, &messaging).await;
}

/// Two servers of one queue take turns.
async fn server_takes_its_share(
    server: &mut berth_amqp::RpcServer,
    messaging: &berth_amqp::Messaging,
) {
    for _ in 0..2 {
        let note = method("note", json!({"text": "shared"}));
        messaging
            .cast(&target("q-here", "cmp1"), context(), note)
            .await
            .unwrap();
    }
    next(server).await.ack().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_with_other_arguments_are_taken_as_they_are() {
    let url = Broker::shared().url();
    // Another server made them, classic ones.
    let mut peer = OsloPeer::start(&url, &options());
    peer.serve("other", "cmp1");
    drop(peer);
    let messaging = connect(&url, &modern()).await;
    let mut server = serve(&messaging, &["other"], "cmp1").await;
    messaging
        .cast(&target("other", "cmp1"), context(), method("m", json!({})))
        .await
        .unwrap();
    next(&mut server).await.ack().await.unwrap();
}
