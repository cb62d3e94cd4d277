//! Messages that a broker returns, because no queue is there for them.

use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex};

use berth_amqp::{CallError, CallLimits, Messaging, MessagingError, MessagingOptions, RpcContext};
use futures_util::future::join_all;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::broker::Broker;
use crate::process::{LIMIT, within};
use crate::setup::{connect, context, method, options, serve, target};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_sender_learns_what_became_of_its_own_message() {
    // Quorum queues confirm after the broker returned later messages; for classic ones, one confirmation stands for several messages.
    for (topic, rabbit_quorum_queue) in [("mixed", false), ("mixed-quorum", true)] {
        let options = MessagingOptions {
            rabbit_quorum_queue,
            ..options()
        };
        let messaging = connect(&Broker::shared().url(), &options).await;
        let _server = serve(&messaging, &[topic], "cmp1").await;
        for _ in 0..10 {
            mixed_casts(&messaging, topic).await;
        }
    }
}

/// Casts at the same time: each third one has no receiver.
async fn mixed_casts(messaging: &Messaging, topic: &str) {
    let (here, nowhere) = (target(topic, "cmp1"), target(topic, "nowhere"));
    let casts = (0..60).map(|n| {
        let target = if n % 3 == 0 { &nowhere } else { &here };
        messaging.cast(target, context(), method("note", json!({"n": n})))
    });
    let outcomes = within("the casts end", join_all(casts)).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let is_unroutable = matches!(&outcome, Err(MessagingError::Unroutable { .. }));
        let as_expected = if n % 3 == 0 {
            is_unroutable
        } else {
            outcome == Ok(())
        };
        assert!(as_expected, "{topic}, cast {n}: {outcome:?}");
    }
}

/// What all threads logged.
static LOGGED: Mutex<String> = Mutex::new(String::new());

/// Keeps each event at the level WARN or above.
struct KeptEvents;

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl tracing::Subscriber for KeptEvents {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(format!("{}:", event.metadata().target()));
        event.record(&mut fields);
        LOGGED.lock().unwrap().push_str(&(fields.0 + "\n"));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

static LOG: LazyLock<()> =
    LazyLock::new(|| tracing::subscriber::set_global_default(KeptEvents).unwrap());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_in_a_returned_request_is_in_no_log() {
    LazyLock::force(&LOG);
    let messaging = connect(&Broker::shared().url(), &options()).await;
    let _server = serve(&messaging, &["quiet"], "cmp1").await;
    let token = "gAAAA-hunter2";
    let values = json!({"request_id": "req-2", "auth_token": token});
    let context = RpcContext::new(values.as_object().unwrap().clone());
    let (nowhere, limits) = (target("quiet", "nowhere"), CallLimits::from(LIMIT));
    let call = messaging.call(&nowhere, &context, method("m", json!({})), limits);
    let error = call.await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Messaging(MessagingError::Unroutable { .. })
        ),
        "{error}"
    );
    // A library that prints a body prints it as text or as a list of numbers.
    let bytes = format!("{:?}", token.as_bytes());
    let bytes = bytes.trim_matches(['[', ']']);
    tracing::warn!(body = ?b"the log works", "this line is kept");
    let logged = LOGGED.lock().unwrap();
    assert!(logged.contains("this line is kept"), "{logged}");
    assert!(
        !logged.contains(token) && !logged.contains(bytes),
        "{logged}"
    );
}
