//! A session with a scripted broker in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Map, json};
use tokio::sync::{mpsc, watch};

use crate::broker::{
    AmqpConnection, AmqpConnector, Consumption, Publication, PublishOutcome, ReceivedMessage,
    Settlement,
};
use crate::client::{CallLimits, RpcMethod, RpcTarget};
use crate::context::RpcContext;
use crate::envelope::{RpcReply, RpcRequest};
use crate::error::{CallError, MessagingError};
use crate::messaging::{Messaging, ReplyQueueName};
use crate::options::MessagingOptions;
use crate::topology::Topology;
use crate::transport_url::BrokerAddress;

const LIMIT: Duration = Duration::from_secs(60);

/// Accepts connections from a moment on, and counts the attempts.
#[derive(Debug)]
struct ScriptedConnector {
    accepts: AtomicBool,
    attempts: watch::Sender<usize>,
    answers: bool,
    /// The connections fail as soon as this is true.
    fails: watch::Sender<bool>,
}

/// Answers each call with the name of its method, or never.
#[derive(Debug)]
struct EchoConnection {
    answers: bool,
    replies: mpsc::UnboundedSender<Vec<u8>>,
    received: Mutex<Option<mpsc::UnboundedReceiver<Vec<u8>>>>,
    fails: watch::Receiver<bool>,
}

struct NoSettlement;

impl Settlement for NoSettlement {
    fn ack(&self) -> BoxFuture<'_, Result<(), MessagingError>> {
        async { Ok(()) }.boxed()
    }

    fn reject(&self) -> BoxFuture<'_, Result<(), MessagingError>> {
        async { Ok(()) }.boxed()
    }
}

impl ScriptedConnector {
    fn new(accepts: bool, answers: bool) -> Arc<Self> {
        Arc::new(Self {
            accepts: AtomicBool::new(accepts),
            attempts: watch::Sender::new(0),
            answers,
            fails: watch::Sender::new(false),
        })
    }

    async fn attempts(&self, count: usize) {
        let mut attempts = self.attempts.subscribe();
        let reached = attempts.wait_for(|it| *it >= count);
        let reached = tokio::time::timeout(LIMIT, reached).await;
        reached.expect("the session tries again").unwrap();
    }

    fn messaging(self: &Arc<Self>) -> Messaging {
        let url = "rabbit://a:b@mq1/".parse().unwrap();
        let options = MessagingOptions {
            rabbit_retry_interval: Duration::from_millis(5),
            rabbit_retry_backoff: Duration::ZERO,
            ..MessagingOptions::default()
        };
        let name = ReplyQueueName::by_options(&options, "cmp1", "1");
        Messaging::start(url, options, Arc::clone(self) as _, name).unwrap()
    }
}

impl AmqpConnector for ScriptedConnector {
    fn connect<'a>(
        &'a self,
        broker: &'a BrokerAddress,
        _virtual_host: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn AmqpConnection>, MessagingError>> {
        async move {
            self.attempts.send_modify(|it| *it += 1);
            if !self.accepts.load(Ordering::SeqCst) {
                return Err(MessagingError::Connect {
                    broker: broker.to_string(),
                    reason: "not yet".to_owned(),
                });
            }
            let (replies, received) = mpsc::unbounded_channel();
            Ok(Arc::new(EchoConnection {
                answers: self.answers,
                replies,
                received: Mutex::new(Some(received)),
                fails: self.fails.subscribe(),
            }) as Arc<dyn AmqpConnection>)
        }
        .boxed()
    }
}

impl AmqpConnection for EchoConnection {
    fn declare<'a>(&'a self, _: &'a Topology) -> BoxFuture<'a, Result<(), MessagingError>> {
        async { Ok(()) }.boxed()
    }

    fn publish(
        &self,
        publication: Publication,
    ) -> BoxFuture<'_, Result<PublishOutcome, MessagingError>> {
        async move {
            let request = RpcRequest::decode(&publication.body).unwrap();
            if let (true, Some(address)) = (self.answers, request.reply_to) {
                let reply = RpcReply::End {
                    message_id: address.message_id,
                    outcome: Ok(json!(request.method)),
                };
                self.replies.send(reply.encode("1")).unwrap();
            }
            Ok(PublishOutcome::Taken)
        }
        .boxed()
    }

    fn consume<'a>(
        &'a self,
        _: &'a Consumption,
    ) -> BoxFuture<'a, Result<BoxStream<'static, ReceivedMessage>, MessagingError>> {
        async move {
            let received = self.received.lock().unwrap().take().unwrap();
            let messages = stream::unfold(received, async |mut received| {
                let message = ReceivedMessage {
                    body: received.recv().await?,
                    redelivered: false,
                    delivery_count: None,
                    settlement: Arc::new(NoSettlement),
                };
                Some((message, received))
            });
            Ok(messages.boxed())
        }
        .boxed()
    }

    fn failed(&self) -> BoxFuture<'_, String> {
        async move {
            let mut fails = self.fails.clone();
            fails.wait_for(|it| *it).await.unwrap();
            "the script says so".to_owned()
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

async fn call(messaging: Messaging) -> Result<serde_json::Value, CallError> {
    let target = RpcTarget {
        exchange: "nova".to_owned(),
        topic: "conductor".to_owned(),
        server: None,
    };
    let method = RpcMethod::new("ping", "1.0", Map::new());
    let context = RpcContext::default();
    messaging
        .call(&target, &context, method, CallLimits::from(LIMIT))
        .await
}

#[tokio::test]
async fn a_call_waits_through_attempts_that_fail_and_gets_its_reply() {
    let connector = ScriptedConnector::new(false, true);
    let messaging = connector.messaging();
    connector.attempts(2).await;
    let calling = tokio::spawn(call(messaging));
    // The call waits from the first of these attempts on; each of them fails.
    let begun = *connector.attempts.borrow();
    connector.attempts(begun + 3).await;
    connector.accepts.store(true, Ordering::SeqCst);
    assert_eq!(calling.await.unwrap(), Ok(json!("ping")));
}

#[tokio::test]
async fn a_call_under_way_ends_with_its_connection() {
    let connector = ScriptedConnector::new(true, false);
    let messaging = connector.messaging();
    messaging.connected(LIMIT).await.unwrap();
    let calling = tokio::spawn(call(messaging.clone()));
    while messaging.shared.pending.is_empty() {
        tokio::task::yield_now().await;
    }
    connector.accepts.store(false, Ordering::SeqCst);
    connector.fails.send_replace(true);
    let ended = tokio::time::timeout(LIMIT, calling).await;
    let error = ended.expect("the call ends").unwrap().unwrap_err();
    let CallError::Messaging(error) = error else {
        panic!("{error}")
    };
    assert!(
        matches!(error, MessagingError::ConnectionLost { .. }),
        "{error}"
    );
    assert!(error.effect_is_unknown());
}
