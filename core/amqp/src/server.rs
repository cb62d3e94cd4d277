//! The server's side: requests that arrive, their acknowledgement and their replies.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::broker::{Publication, PublishOutcome, ReceivedMessage, Settlement};
use crate::envelope::{EnvelopeError, ReplyAddress, RpcReply, RpcRequest};
use crate::error::MessagingError;
use crate::failure::RemoteFailure;
use crate::messaging::{Messaging, random_id};
use crate::self_ping::{PING_METHOD, PING_NAMESPACE};
use crate::session::{Command, ServerRegistration};
use crate::topology::Topology;

/// Requests that wait for the caller of [`RpcServer::next`], in addition to those that the broker sent ahead.
const WAITING: usize = 16;
/// The shortest pause between two signs of life of a call: a caller's own timeout sets it, and could be tiny.
const SHORTEST_KEEP_ALIVE: Duration = Duration::from_millis(100);
/// The longest one: a timeout of some centuries would not fit a clock.
const LONGEST_KEEP_ALIVE: Duration = Duration::from_secs(3600);

pub(crate) type ArrivedRequest = Result<(RpcRequest, ReceivedMessage), RejectedMessage>;

/// What a server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedTopics {
    /// The exchange of the service, such as `nova`.
    pub exchange: String,
    /// Such as `compute` and `compute-alt`. For each, `TOPIC` and `TOPIC.HOST` are consumed.
    pub topics: Vec<String>,
    pub host: String,
    /// The service's name in the answer to a ping.
    pub service: String,
}

/// A message that is no request. It was dropped, because it would otherwise come again for ever.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message in the queue {queue} was dropped: {error}")]
pub struct RejectedMessage {
    pub queue: String,
    pub error: EnvelopeError,
}

/// The requests to a host. Dropping it stops its consumers; requests that were not acknowledged stay in their queues.
#[derive(Debug)]
pub struct RpcServer {
    messaging: Messaging,
    service: String,
    requests: mpsc::Receiver<ArrivedRequest>,
}

/// What became of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyOutcome {
    /// The caller's queue has it.
    Delivered,
    /// The caller's queue is gone, and the caller with it.
    CallerGone,
    /// The request is a cast, which has no reply.
    NotACall,
}

/// A request that arrived.
pub struct RpcDelivery {
    pub request: RpcRequest,
    /// Whether the broker delivered it before, perhaps to another process.
    pub redelivered: bool,
    /// How often the broker delivered it before. Quorum queues alone count.
    pub delivery_count: Option<u64>,
    settlement: Arc<dyn Settlement>,
    messaging: Messaging,
}

impl std::fmt::Debug for RpcDelivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RpcDelivery")
            .field("request", &self.request)
            .field("redelivered", &self.redelivered)
            .field("delivery_count", &self.delivery_count)
            .finish_non_exhaustive()
    }
}

impl Messaging {
    /// Starts to consume the topics' queues; those that are absent are declared. It returns when all are consumed, and from then on they
    /// are consumed again after each failure.
    ///
    /// Errors: no broker is connected within `rpc_response_timeout`.
    pub async fn serve(&self, served: &ServedTopics) -> Result<RpcServer, MessagingError> {
        let options = &self.shared.options;
        let mut topology = Topology::default();
        for topic in &served.topics {
            let mut of_topic = Topology::of_topic(options, &served.exchange, topic, &served.host);
            topology.exchanges = of_topic.exchanges;
            topology.queues.append(&mut of_topic.queues);
            topology.bindings.append(&mut of_topic.bindings);
        }
        let (sender, requests) = mpsc::channel(WAITING);
        let (ready, is_ready) = oneshot::channel();
        let command = Command::Serve(ServerRegistration {
            topology,
            requests: sender,
            ready: Some(ready),
        });
        let server = RpcServer {
            messaging: self.clone(),
            service: served.service.clone(),
            requests,
        };
        let limit = options.rpc_response_timeout;
        let started = async {
            let sent = self.commands.send(command).await;
            sent.map_err(|_| MessagingError::Closed)?;
            is_ready.await.map_err(|_| MessagingError::Closed)
        };
        match timeout(limit, started).await {
            Ok(started) => started.map(|()| server),
            Err(_) => Err(MessagingError::NotConnected {
                waited: limit,
                reason: format!("{:?}", self.state()),
            }),
        }
    }
}

impl RpcServer {
    /// The next request. Pings of this service are answered here, so that a ping tells whether somebody takes requests. `None` when the
    /// messaging is closed.
    pub async fn next(&mut self) -> Option<Result<RpcDelivery, RejectedMessage>> {
        loop {
            let (request, message) = match self.requests.recv().await? {
                Ok(arrived) => arrived,
                Err(rejected) => return Some(Err(rejected)),
            };
            let delivery = RpcDelivery {
                request,
                redelivered: message.redelivered,
                delivery_count: message.delivery_count,
                settlement: message.settlement,
                messaging: self.messaging.clone(),
            };
            if !delivery.is_ping() {
                return Some(Ok(delivery));
            }
            let service = self.service.clone();
            // A task of its own: a slow broker must not hold up the requests behind a ping. The task is bounded in time.
            tokio::spawn(async move { delivery.answer_ping(&service).await });
        }
    }
}

impl RpcDelivery {
    /// Tells the broker that the request is done, or written to a journal: it does not come again.
    ///
    /// Errors: [`MessagingError::NotAcknowledged`]. The request comes again, with the same unique ID.
    pub async fn ack(&self) -> Result<(), MessagingError> {
        self.settlement.ack().await
    }

    /// Tells the broker to drop the request.
    pub async fn reject(&self) -> Result<(), MessagingError> {
        self.settlement.reject().await
    }

    /// Does the work of a call, and replies with its result. While a monitored call works, its caller gets a sign of life at half of the
    /// time that it waits for one. For a cast, the work is done and no reply is sent.
    pub async fn answer(
        &self,
        work: impl Future<Output = Result<Value, RemoteFailure>>,
    ) -> Result<ReplyOutcome, MessagingError> {
        let address = self.request.reply_to.as_ref();
        let outcome = match address.and_then(|it| it.call_monitor_timeout) {
            None => work.await,
            Some(monitor) => tokio::select! {
                outcome = work => outcome,
                never = self.keep_alive(monitor) => match never {},
            },
        };
        self.reply(outcome).await
    }

    /// Replies to a call. A reply is published again if the connection was lost meanwhile, within `rpc_response_timeout`.
    pub async fn reply(
        &self,
        outcome: Result<Value, RemoteFailure>,
    ) -> Result<ReplyOutcome, MessagingError> {
        let Some(address) = &self.request.reply_to else {
            return Ok(ReplyOutcome::NotACall);
        };
        let reply = RpcReply::End {
            message_id: address.message_id.clone(),
            outcome,
        };
        let body = reply.encode(&random_id());
        let limit = self.messaging.shared.options.rpc_response_timeout;
        let deadline = Instant::now() + limit;
        loop {
            let sent = self.send(address, body.clone(), deadline, limit).await;
            match sent {
                // A caller takes one reply for each call: a second one does no harm.
                Err(MessagingError::ConnectionLost { .. }) if Instant::now() < deadline => {
                    // The session may not know yet that the connection is gone.
                    tokio::time::sleep(SHORTEST_KEEP_ALIVE).await;
                }
                sent => return sent,
            }
        }
    }

    async fn send(
        &self,
        address: &ReplyAddress,
        body: Vec<u8>,
        deadline: Instant,
        limit: Duration,
    ) -> Result<ReplyOutcome, MessagingError> {
        let publication = Publication {
            exchange: String::new(),
            routing_key: address.queue.clone(),
            body,
            mandatory: true,
            expiration: None,
        };
        match self.messaging.publish(publication, deadline, limit).await? {
            PublishOutcome::Taken => Ok(ReplyOutcome::Delivered),
            PublishOutcome::Returned | PublishOutcome::NoExchange => Ok(ReplyOutcome::CallerGone),
        }
    }

    async fn keep_alive(&self, monitor: Duration) -> std::convert::Infallible {
        let Some(address) = &self.request.reply_to else {
            return std::future::pending().await;
        };
        let pause = keep_alive_pause(monitor);
        let mut ticks = interval_at(Instant::now() + pause, pause);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let alive = RpcReply::KeepAlive {
                message_id: address.message_id.clone(),
            };
            let body = alive.encode(&random_id());
            // The next one follows; if none arrives, the caller gives up, which its reply then tells.
            self.send(address, body, Instant::now() + pause, pause)
                .await
                .ok();
        }
    }

    fn is_ping(&self) -> bool {
        self.request.namespace.as_deref() == Some(PING_NAMESPACE)
            && self.request.method == PING_METHOD
    }

    async fn answer_ping(&self, service: &str) {
        let arg = self.request.args.0.get("arg").cloned().unwrap_or_default();
        let pong = json!({"service": service, "arg": arg});
        // A ping that is not acknowledged, or not answered, is what its sender looks for. The acknowledgement comes last: so the broker
        // sends no more pings ahead than other requests, however slow the replies are.
        self.reply(Ok(pong)).await.ok();
        self.ack().await.ok();
    }
}

/// The pause between two signs of life, for a caller that waits this long for one.
fn keep_alive_pause(monitor: Duration) -> Duration {
    (monitor / 2).clamp(SHORTEST_KEEP_ALIVE, LONGEST_KEEP_ALIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_is_due_at_half_of_any_timeout_that_a_caller_may_send() {
        let pause = |timeout: f64| {
            let message =
                json!({"method": "m", "_msg_id": "1", "_reply_q": "r", "_timeout": timeout});
            let body = json!({"oslo.version": "2.0", "oslo.message": message.to_string()});
            let request = RpcRequest::decode(body.to_string().as_bytes()).unwrap();
            let monitor = request.reply_to.unwrap().call_monitor_timeout.unwrap();
            keep_alive_pause(monitor)
        };
        assert_eq!(pause(30.0), Duration::from_secs(15));
        assert_eq!(pause(1e-9), SHORTEST_KEEP_ALIVE);
        // A clock cannot add half of this.
        assert_eq!(pause(1.8e19), LONGEST_KEEP_ALIVE);
    }
}
