//! A broker that is killed under load and started again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use berth_amqp::{CallError, CallLimits, Messaging, MessagingError, MessagingOptions, RpcServer};
use serde_json::json;
use tokio::sync::{Mutex, mpsc};

use crate::broker::Broker;
use crate::process::{LIMIT, within};
use crate::setup::{connect, context, method, options, serve, target};

/// Casts that were journaled.
type Journal = Arc<Mutex<BTreeSet<u64>>>;

/// Journals each cast, then acknowledges it; leaves calls unanswered.
async fn journal_requests(mut server: RpcServer, journal: Journal, calls: mpsc::Sender<()>) {
    while let Some(request) = server.next().await {
        let delivery = request.unwrap();
        if delivery.request.reply_to.is_some() {
            calls.send(()).await.ok();
            continue;
        }
        let number = delivery.request.args.0["n"].as_u64().unwrap();
        journal.lock().await.insert(number);
        // If the broker is gone, the request comes again.
        delivery.ack().await.ok();
    }
}

/// Casts one number after the other until it is told to stop; returns those that a broker confirmed.
async fn cast_numbers(
    messaging: Messaging,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
) -> BTreeSet<u64> {
    let mut confirmed = BTreeSet::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let cast = method("note", json!({"n": number}));
        match messaging
            .cast(&target("restart", "cmp1"), context(), cast)
            .await
        {
            Ok(()) => {
                confirmed.insert(number);
                sent.fetch_add(1, Ordering::Relaxed);
            }
            Err(MessagingError::NotConnected { .. } | MessagingError::Unroutable { .. }) => {}
            Err(error) => assert!(error.effect_is_unknown(), "{error}"),
        }
    }
    confirmed
}

async fn until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_true().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(what, waiting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_confirmed_cast_is_lost_and_no_call_hangs_when_a_broker_is_killed() {
    let broker = Arc::new(Broker::start());
    let options = MessagingOptions {
        // RabbitMQ 3.10 keeps the names of quorum queues in memory for minutes: one that is killed soon after their declaration leaves
        // them without a leader for good.
        amqp_durable_queues: true,
        rabbit_interval_max: Duration::from_secs(1),
        ..options()
    };
    let messaging = connect(&broker.url(), &options).await;
    let server = serve(&messaging, &["restart"], "cmp1").await;
    let journal = Journal::default();
    let (calls, mut call_arrived) = mpsc::channel(16);
    let serving = tokio::spawn(journal_requests(server, Arc::clone(&journal), calls));
    let (stop, sent) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let casting = tokio::spawn(cast_numbers(
        messaging.clone(),
        Arc::clone(&stop),
        Arc::clone(&sent),
    ));
    until("casts are confirmed", async || {
        sent.load(Ordering::Relaxed) > 20
    })
    .await;

    let caller = messaging.clone();
    let call = tokio::spawn(async move {
        let limits = CallLimits::from(10 * LIMIT);
        caller
            .call(
                &target("restart", "cmp1"),
                context(),
                method("m", json!({})),
                limits,
            )
            .await
    });
    within("the call arrives", call_arrived.recv())
        .await
        .unwrap();
    broker.kill();
    let error = within("the call ends", call).await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Messaging(MessagingError::ConnectionLost { .. })
        ),
        "{error}"
    );
    let again = Arc::clone(&broker);
    tokio::task::spawn_blocking(move || again.start_again())
        .await
        .unwrap();

    let before = sent.load(Ordering::Relaxed);
    until("casts are confirmed again", async || {
        sent.load(Ordering::Relaxed) > before + 20
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let confirmed = within("the last cast ends", casting).await.unwrap();
    until("all confirmed casts are journaled", async || {
        confirmed.is_subset(&*journal.lock().await)
    })
    .await;
    messaging.close().await;
    within("the server ends", serving).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_broker_of_the_list_is_used_when_one_does_not_answer() {
    let url = Broker::shared().url();
    let live = url.trim_start_matches("rabbit://").trim_end_matches('/');
    // Nothing listens on port 1.
    let url = format!("rabbit://guest:guest@127.0.0.1:1,{live},guest:guest@127.0.0.1:1/");
    let messaging = connect(&url, &options()).await;
    messaging.reconnect().await.unwrap();
    let server = serve(&messaging, &["failover"], "cmp1").await;
    drop(server);
    messaging.connected(LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_no_secret_in_the_reason() {
    let port = Broker::shared().port;
    let url = format!("rabbit://guest:hunter2@127.0.0.1:{port}/")
        .parse()
        .unwrap();
    let connector = Arc::new(berth_amqp::LapinConnector::new(&options()).unwrap());
    let name = berth_amqp::ReplyQueueName::by_options(&options(), "cmp1", "1");
    let messaging = Messaging::start(url, options(), connector, name).unwrap();
    let refused = async || format!("{messaging:?}").contains("ACCESS_REFUSED");
    until("the broker refuses the login", refused).await;
    let error = messaging
        .connected(Duration::from_millis(10))
        .await
        .unwrap_err();
    let shown = format!("{messaging:?} {error} {error:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}
