//! Calls with a scripted broker behind the trait: what a real one does only now and then.

use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;
use crate::broker::{AmqpConnection, AmqpConnector, Consumption, ReceivedMessage};
use crate::messaging::{ConnectionState, ReplyQueueName};
use crate::options::MessagingOptions;
use crate::topology::Topology;
use crate::transport_url::BrokerAddress;

const LIMIT: Duration = Duration::from_secs(60);

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behaviour {
    Refuses,
    /// Accepts the connection, and fails its declarations.
    FailsToDeclare,
    /// Takes messages, and answers none.
    Takes,
    /// Never confirms a message.
    NeverConfirms,
}

/// Gives each attempt the next behaviour of its list; the last one again and again.
#[derive(Debug)]
struct Script {
    behaviours: Mutex<Vec<Behaviour>>,
    attempts: Mutex<Vec<String>>,
    fail: watch::Sender<bool>,
}

#[derive(Debug)]
struct ScriptedConnection(Behaviour, watch::Receiver<bool>);

impl AmqpConnector for Script {
    fn connect<'a>(
        &'a self,
        broker: &'a BrokerAddress,
        _virtual_host: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn AmqpConnection>, MessagingError>> {
        self.attempts.lock().unwrap().push(broker.to_string());
        let mut behaviours = self.behaviours.lock().unwrap();
        let behaviour = match behaviours.len() {
            1 => behaviours[0],
            _ => behaviours.remove(0),
        };
        let connection: Result<Arc<dyn AmqpConnection>, _> = match behaviour {
            Behaviour::Refuses => Err(MessagingError::Connect {
                broker: broker.to_string(),
                reason: "scripted".to_owned(),
            }),
            behaviour => Ok(Arc::new(ScriptedConnection(
                behaviour,
                self.fail.subscribe(),
            ))),
        };
        async move { connection }.boxed()
    }
}

impl AmqpConnection for ScriptedConnection {
    fn declare<'a>(&'a self, _: &'a Topology) -> BoxFuture<'a, Result<(), MessagingError>> {
        let declared = match self.0 {
            Behaviour::FailsToDeclare => Err(MessagingError::Refused {
                operation: "declare",
                object: "compute".to_owned(),
                code: 403,
                reason: "ACCESS_REFUSED".to_owned(),
            }),
            _ => Ok(()),
        };
        async move { declared }.boxed()
    }

    fn publish(&self, _: Publication) -> BoxFuture<'_, Result<PublishOutcome, MessagingError>> {
        match self.0 {
            Behaviour::NeverConfirms => std::future::pending().boxed(),
            _ => async { Ok(PublishOutcome::Taken) }.boxed(),
        }
    }

    fn consume<'a>(
        &'a self,
        _: &'a Consumption,
    ) -> BoxFuture<'a, Result<BoxStream<'static, ReceivedMessage>, MessagingError>> {
        async { Ok(stream::pending().boxed()) }.boxed()
    }

    fn failed(&self) -> BoxFuture<'_, String> {
        let mut fail = self.1.clone();
        async move {
            fail.wait_for(|failed| *failed).await.ok();
            "scripted failure".to_owned()
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

fn start(behaviours: &[Behaviour], brokers: &str) -> (Messaging, Arc<Script>) {
    let script = Arc::new(Script {
        behaviours: Mutex::new(behaviours.to_vec()),
        attempts: Mutex::default(),
        fail: watch::Sender::new(false),
    });
    let options = MessagingOptions::default();
    let name = ReplyQueueName::by_options(&options, "cmp1", "1");
    let url = format!("rabbit://{brokers}/").parse().unwrap();
    let connector = Arc::clone(&script) as Arc<dyn AmqpConnector>;
    (
        Messaging::start(url, options, connector, name).unwrap(),
        script,
    )
}

async fn call(messaging: &Messaging, timeout: Duration) -> CallError {
    let target = RpcTarget {
        exchange: "nova".to_owned(),
        topic: "conductor".to_owned(),
        server: None,
    };
    let method = RpcMethod::new("m", "1.0", Map::new());
    let limits = CallLimits::from(timeout);
    let called = messaging
        .call(&target, &RpcContext::default(), method, limits)
        .await;
    called.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn all_brokers_are_tried_in_turn_before_a_pause_and_failures_are_told() {
    let behaviours = [
        Behaviour::Refuses,
        Behaviour::FailsToDeclare,
        Behaviour::Takes,
    ];
    let (messaging, script) = start(&behaviours, "mq1,mq2");
    messaging.connected(LIMIT).await.unwrap();
    let attempts = script.attempts.lock().unwrap();
    let [first, second, third] = attempts.as_slice() else {
        panic!("{attempts:?}")
    };
    assert_ne!(first, second);
    assert_eq!(first, third);
    assert_eq!(messaging.state(), ConnectionState::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_connection_says_why_and_that_nothing_was_sent() {
    let (messaging, script) = start(&[Behaviour::Refuses], "mq1");
    let error = call(&messaging, LIMIT).await;
    let text = error.to_string();
    assert!(
        text.contains("mq1:5672") && text.contains("scripted"),
        "{text}"
    );
    assert!(matches!(&error, CallError::Messaging(it) if !it.effect_is_unknown()));
    // Pauses of 1, 3, 5 … 29 s, each at least half: a minute has no more than these.
    let attempts = script.attempts.lock().unwrap().len();
    assert!((5..=12).contains(&attempts), "{attempts} attempts");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_a_call_whose_effect_is_then_unknown() {
    let (messaging, script) = start(&[Behaviour::Takes], "mq1");
    messaging.connected(LIMIT).await.unwrap();
    let failing = async {
        tokio::task::yield_now().await;
        script.fail.send_replace(true);
    };
    let (error, ()) = tokio::join!(call(&messaging, 100 * LIMIT), failing);
    let CallError::Messaging(error) = error else {
        panic!("{error}")
    };
    assert!(
        matches!(error, MessagingError::ConnectionLost { .. }),
        "{error}"
    );
    assert!(error.effect_is_unknown() && error.to_string().contains("scripted failure"));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_never_confirmed_and_a_call_that_is_never_answered_end() {
    for behaviour in [Behaviour::NeverConfirms, Behaviour::Takes] {
        let (messaging, _script) = start(&[behaviour], "mq1");
        let error = call(&messaging, LIMIT).await;
        let CallError::Messaging(error) = error else {
            panic!("{error}")
        };
        assert!(
            matches!(error, MessagingError::TimedOut { .. }),
            "{behaviour:?}: {error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_session_ends_with_the_last_handle() {
    let (messaging, script) = start(&[Behaviour::Takes], "mq1");
    messaging.connected(LIMIT).await.unwrap();
    drop(messaging);
    let script_is_dropped = async {
        while Arc::strong_count(&script) > 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, script_is_dropped)
        .await
        .expect("the session ends");
}
