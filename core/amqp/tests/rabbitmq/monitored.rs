//! Calls whose callers want signs of life.

use std::time::Duration;

use berth_amqp::{CallError, CallLimits, MessagingError};
use serde_json::json;

use crate::broker::Broker;
use crate::peer::OsloPeer;
use crate::process::{LIMIT, within};
use crate::setup::{connect, context, method, next, options, serve, target};

/// Longer than a monitored caller waits without a sign of life.
const WORK: Duration = Duration::from_secs(5);
const MONITOR: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signs_of_life_keep_a_call_of_oslo_messaging_waiting() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    let messaging = connect(&url, &options()).await;
    let mut server = serve(&messaging, &["slow-here"], "cmp1").await;
    peer.send(&json!({
        "do": "call", "exchange": "nova", "topic": "slow-here", "server": "cmp1", "method": "m", "args": {},
        "monitor": MONITOR.as_secs(), "timeout": 60,
    }));
    let delivery = next(&mut server).await;
    delivery.ack().await.unwrap();
    let monitor = delivery
        .request
        .reply_to
        .as_ref()
        .unwrap()
        .call_monitor_timeout;
    assert_eq!(monitor, Some(MONITOR));
    // The work takes time; it does not wait for anything.
    let work = async {
        tokio::time::sleep(WORK).await;
        Ok(json!("done"))
    };
    delivery.answer(work).await.unwrap();
    assert_eq!(peer.answer(), json!({"result": "done"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signs_of_life_of_oslo_messaging_keep_a_call_waiting_and_silence_ends_it() {
    let url = Broker::shared().url();
    let mut peer = OsloPeer::start(&url, &options());
    peer.serve("slow-there", "vm");
    let messaging = connect(&url, &options()).await;
    let limits = CallLimits {
        timeout: LIMIT,
        call_monitor_timeout: Some(MONITOR),
    };
    let there = target("slow-there", "vm");
    let sleep = method("sleep", json!({"seconds": WORK.as_secs()}));
    let result = messaging.call(&there, context(), sleep, limits).await;
    assert_eq!(result, Ok(json!("slept")));

    // Nobody takes the requests of this one.
    let _server = serve(&messaging, &["slow-nowhere"], "cmp1").await;
    let nowhere = target("slow-nowhere", "cmp1");
    let call = messaging.call(&nowhere, context(), method("sleep", json!({})), limits);
    let error = within("the call ends", call).await.unwrap_err();
    let CallError::Messaging(MessagingError::TimedOut { limit, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!(limit, MONITOR);
}
