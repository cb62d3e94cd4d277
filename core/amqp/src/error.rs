//! Why a message was not sent, or a call has no result.

use std::time::Duration;

use crate::failure::RemoteFailure;
use crate::options::MessagingOptionsError;

/// What went wrong between this process and a broker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessagingError {
    #[error(transparent)]
    Options(#[from] MessagingOptionsError),
    /// A file of the TLS options cannot be used.
    #[error("[oslo_messaging_rabbit] {option} names {path}, which cannot be used: {reason}")]
    TlsFile {
        option: &'static str,
        path: String,
        reason: String,
    },
    #[error("cannot connect to the broker {broker}: {reason}")]
    Connect { broker: String, reason: String },
    /// The broker refused an operation on this object.
    #[error("the broker refused to {operation} {object}: {reason}")]
    Refused {
        operation: &'static str,
        object: String,
        /// The reply code of AMQP, such as 403.
        code: u16,
        reason: String,
    },
    /// The connection, or the channel of the operation, ended. Whether the operation had its effect is unknown.
    #[error("the connection to the broker was lost while it had to {operation} {object}: {reason}")]
    ConnectionLost {
        operation: &'static str,
        object: String,
        reason: String,
    },
    /// No broker could be reached. Nothing was sent.
    #[error("no broker was reached in {} s: {reason}", waited.as_secs_f64())]
    NotConnected { waited: Duration, reason: String },
    /// No queue is there for the message. Nobody received it.
    #[error("no queue receives messages of {exchange} with the routing key {routing_key}")]
    Unroutable {
        exchange: String,
        routing_key: String,
    },
    /// The broker could not take the message.
    #[error("the broker did not take the message for {object}")]
    NotTaken { object: String },
    /// An answer did not come in time. Whether the operation had its effect is unknown.
    #[error("{object} did not answer in {} s", limit.as_secs_f64())]
    TimedOut { object: String, limit: Duration },
    /// The request was settled before, or its connection is gone: it will be delivered again.
    #[error(
        "the request cannot be acknowledged: its connection is gone, and the broker delivers it again"
    )]
    NotAcknowledged,
    #[error("{limit} calls are under way, the most at the same time; wait for one to end")]
    TooManyCalls { limit: usize },
    #[error("{object} has a name of {length} bytes; a name in AMQP has at most 255")]
    NameTooLong { object: &'static str, length: usize },
    /// The messaging was closed.
    #[error("the messaging is closed")]
    Closed,
}

impl MessagingError {
    /// Whether the other side may have received the message.
    #[must_use]
    pub fn effect_is_unknown(&self) -> bool {
        matches!(self, Self::ConnectionLost { .. } | Self::TimedOut { .. })
    }
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The other side raised an exception.
    #[error("{0}")]
    Failure(Box<RemoteFailure>),
    #[error(transparent)]
    Messaging(#[from] MessagingError),
}

const _: () = assert!(size_of::<MessagingError>() < 128 && size_of::<CallError>() < 128);
