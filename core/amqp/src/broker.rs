//! The connection to a broker, as traits.
//!
//! Everything that this crate sends to a broker, and everything that it receives, passes [`AmqpConnection`]. So faults are injected by a
//! decorator there, and another AMQP library needs these methods alone. [`LapinConnector`](crate::LapinConnector) is the real one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::error::MessagingError;
use crate::topology::Topology;
use crate::transport_url::BrokerAddress;

/// Opens connections.
pub trait AmqpConnector: fmt::Debug + Send + Sync {
    /// A connection to this broker; the caller bounds the time.
    fn connect<'a>(
        &'a self,
        broker: &'a BrokerAddress,
        virtual_host: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn AmqpConnection>, MessagingError>>;
}

/// One connection to one broker. It is never repaired: after it failed, each method fails.
pub trait AmqpConnection: fmt::Debug + Send + Sync {
    /// Makes sure that the exchanges, queues and bindings are there. What is there already stays as it is, whatever its arguments are.
    fn declare<'a>(&'a self, topology: &'a Topology) -> BoxFuture<'a, Result<(), MessagingError>>;

    /// Publishes a message, and waits until the broker has it.
    fn publish(
        &self,
        publication: Publication,
    ) -> BoxFuture<'_, Result<PublishOutcome, MessagingError>>;

    /// Starts to consume a queue. The stream ends when the broker cancels the consumer, or the connection fails. Dropping it stops the
    /// consumer, and the broker delivers its unacknowledged messages again.
    fn consume<'a>(
        &'a self,
        consumption: &'a Consumption,
    ) -> BoxFuture<'a, Result<BoxStream<'static, ReceivedMessage>, MessagingError>>;

    /// Ends when the connection failed, with the reason.
    fn failed(&self) -> BoxFuture<'_, String>;

    /// Closes the connection.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A message to publish.
#[derive(Clone, PartialEq, Eq)]
pub struct Publication {
    /// The exchange; empty for the default exchange, which has each queue's name as a routing key.
    pub exchange: String,
    pub routing_key: String,
    pub body: Vec<u8>,
    /// Whether a message that no queue receives is returned, instead of dropped.
    pub mandatory: bool,
    /// After this time in a queue the broker drops the message.
    pub expiration: Option<Duration>,
}

/// The body holds what is secret, and is not shown.
impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.body.len();
        write!(
            f,
            "{bytes} bytes to {:?} {}",
            self.exchange, self.routing_key
        )
    }
}

/// What became of a message that the broker confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishOutcome {
    /// A queue has it, or, if it was not mandatory, no queue exists.
    Taken,
    /// No queue exists for a mandatory message.
    Returned,
    /// The exchange does not exist.
    NoExchange,
}

/// How to consume a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumption {
    pub queue: String,
    /// The most messages that the broker delivers ahead of their acknowledgement.
    pub prefetch: u16,
}

/// A message that arrived.
pub struct ReceivedMessage {
    pub body: Vec<u8>,
    /// Whether the broker delivered it before.
    pub redelivered: bool,
    /// How often the broker delivered it before. Quorum queues alone count.
    pub delivery_count: Option<u64>,
    pub settlement: Arc<dyn Settlement>,
}

impl fmt::Debug for ReceivedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedMessage")
            .field("bytes", &self.body.len())
            .field("redelivered", &self.redelivered)
            .field("delivery_count", &self.delivery_count)
            .finish_non_exhaustive()
    }
}

/// Tells the broker what became of a delivered message.
pub trait Settlement: Send + Sync {
    /// The message is done.
    fn ack(&self) -> BoxFuture<'_, Result<(), MessagingError>>;

    /// The message can never be handled: it is dropped, not delivered again.
    fn reject(&self) -> BoxFuture<'_, Result<(), MessagingError>>;
}
