//! Remote procedure calls of oslo.messaging over AMQP 0-9-1, as the services of an OpenStack cell call each other over RabbitMQ.
//!
//! | module | contents |
//! |---|---|
//! | `transport_url` | the brokers, from oslo's `transport_url` |
//! | `options` | the options of `[oslo_messaging_rabbit]`, with oslo.messaging's names and defaults |
//! | `topology` | exchanges, queues and bindings of a service: a pure function of the options |
//! | `envelope`, `context`, `failure` | messages as JSON, without I/O |
//! | `broker` | the connection to a broker as a trait: tests put a decorator there, and another AMQP library fits behind it |
//! | `lapin_broker`, `socket`, `tls` | that trait on the crate `lapin` |
//! | `messaging`, `session` | one connection that is restored, with its reply queue and its consumers |
//! | `client`, `pending` | calls, casts, fanout casts |
//! | `server` | requests that arrive, their acknowledgement and replies |
//! | `self_ping` | whether this process still receives what is sent to it |
//!
//! # What callers rely on
//!
//! *A request is acknowledged by the caller*, after it wrote the request to its journal. A request that was not acknowledged comes again,
//! after a kill too; [`RpcRequest::unique_id`] tells that it is the same one ([`RecentUniqueIds`]).
//!
//! *Each call ends.* A call under way when the connection fails ends with [`MessagingError::ConnectionLost`]: its effect is unknown.
//!
//! *Memory is bounded*: calls under way, requests that wait for the caller, and messages that a broker sends ahead all have a limit.

mod broker;
mod client;
mod context;
mod duplicates;
mod envelope;
mod error;
mod failure;
mod lapin_broker;
mod messaging;
mod options;
mod pending;
mod self_ping;
mod server;
mod session;
mod socket;
mod tls;
mod topology;
mod transport_url;

pub use broker::{
    AmqpConnection, AmqpConnector, Consumption, Publication, PublishOutcome, ReceivedMessage,
    Settlement,
};
pub use client::{CallLimits, RpcMethod, RpcTarget};
pub use context::RpcContext;
pub use duplicates::RecentUniqueIds;
pub use envelope::{EnvelopeError, ReplyAddress, RpcArguments, RpcReply, RpcRequest};
pub use error::{CallError, MessagingError};
pub use failure::RemoteFailure;
pub use lapin_broker::LapinConnector;
pub use messaging::{ConnectionState, Messaging, ReplyQueueName};
pub use options::{MessagingOptions, MessagingOptionsError};
pub use self_ping::{PING_METHOD, PING_NAMESPACE};
pub use server::{RejectedMessage, ReplyOutcome, RpcDelivery, RpcServer, ServedTopics};
pub use topology::{
    AmqpExchange, AmqpExchangeKind, AmqpQueue, QueueArgument, QueueBinding, Topology,
};
pub use transport_url::{BrokerAddress, TransportUrl, TransportUrlError};
