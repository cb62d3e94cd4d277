//! [`LapinConnector`]: the traits of [`broker`](crate::broker) on the crate `lapin`.

mod declaration;
mod received;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::BoxStream;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
};
use lapin::tcp::AsyncTcpStream;
use lapin::types::{FieldTable, ShortString};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ErrorKind, Event,
};
use rustls::ClientConfig;
use tracing::Dispatch;

use crate::broker::{
    AmqpConnection, AmqpConnector, Consumption, Publication, PublishOutcome, ReceivedMessage,
};
use crate::error::MessagingError;
use crate::options::MessagingOptions;
use crate::socket::{self, BrokerReactor};
use crate::tls;
use crate::topology::Topology;
use crate::transport_url::BrokerAddress;

const NOT_FOUND: u16 = 404;
const INTERNAL_ERROR: u16 = 541;
const LAPINS_THREAD: &str = "lapin-io-loop";
/// AMQP's mark for a message that is written to disk in a durable queue.
const PERSISTENT: u8 = 2;
/// lapin reports a failed connection by an event; should that be missed, the state is looked at this often.
const STATE_CHECK: Duration = Duration::from_secs(5);

/// Connects with lapin, by the options for TLS and heartbeats.
#[derive(Debug)]
pub struct LapinConnector {
    tls: Option<Arc<ClientConfig>>,
    heartbeat: u16,
}

impl LapinConnector {
    /// Reads the files of certificates.
    pub fn new(options: &MessagingOptions) -> Result<Self, MessagingError> {
        options.check()?;
        Ok(Self {
            tls: tls::client_config(options)?,
            heartbeat: options.heartbeat_timeout_threshold,
        })
    }

    fn uri(&self, broker: &BrokerAddress, virtual_host: &str) -> AMQPUri {
        AMQPUri {
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: broker.username.clone(),
                    password: broker.password.reveal().to_owned(),
                },
                host: broker.host.clone(),
                port: broker.port,
            },
            vhost: virtual_host.to_owned(),
            query: AMQPQueryString {
                heartbeat: Some(self.heartbeat),
                ..AMQPQueryString::default()
            },
        }
    }
}

impl AmqpConnector for LapinConnector {
    fn connect<'a>(
        &'a self,
        broker: &'a BrokerAddress,
        virtual_host: &'a str,
    ) -> BoxFuture<'a, Result<Arc<dyn AmqpConnection>, MessagingError>> {
        async move {
            let runtime = Runtime::new(RuntimeParts::new(
                Tokio::current(),
                BrokerReactor(Tokio::current()),
            ));
            let tls = self.tls.clone();
            let open = async move |uri: AMQPUri, _: Runtime<_>| {
                silence_lapins_thread();
                let host = &uri.authority.host;
                let socket = socket::connect(host, uri.authority.port, tls.clone()).await;
                Ok(AsyncTcpStream::Plain(socket?))
            };
            let name = format!("berth:{}", std::process::id());
            let properties = ConnectionProperties::default().with_connection_name(name.into());
            let uri = self.uri(broker, virtual_host);
            let connection = Connection::connector(uri, runtime, open, properties).await;
            let connection = connection.map_err(|error| MessagingError::Connect {
                broker: broker.to_string(),
                reason: error.to_string(),
            })?;
            Ok(Arc::new(LapinConnection {
                broker: broker.to_string(),
                connection,
                idle: Mutex::default(),
            }) as Arc<dyn AmqpConnection>)
        }
        .boxed()
    }
}

struct LapinConnection {
    broker: String,
    connection: Connection,
    /// Channels with confirmations that no message uses now. A message has its channel for itself: lapin gives a returned message to the
    /// next confirmation of its channel, whichever that is, and a message to an absent exchange closes its channel.
    idle: Mutex<Vec<Channel>>,
}

impl fmt::Debug for LapinConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LapinConnection({})", self.broker)
    }
}

impl LapinConnection {
    async fn channel(
        &self,
        operation: &'static str,
        object: &str,
    ) -> Result<Channel, MessagingError> {
        let channel = self.connection.create_channel().await;
        channel.map_err(|error| failed(operation, object, &error))
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Channel>> {
        // Each change of the list is a single operation, so a panic elsewhere left it whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A channel for one message.
    async fn confirming_channel(&self, object: &str) -> Result<Channel, MessagingError> {
        let usable = |channels: &mut Vec<Channel>| {
            channels.retain(|it| it.status().connected());
            channels.pop()
        };
        if let Some(channel) = usable(&mut self.idle()) {
            return Ok(channel);
        }
        let channel = self.channel("publish to", object).await?;
        let selected = channel.confirm_select(ConfirmSelectOptions::default());
        selected
            .await
            .map_err(|error| failed("publish to", object, &error))?;
        Ok(channel)
    }

    async fn confirmed(&self, message: Publication) -> Result<PublishOutcome, MessagingError> {
        let object = format!("{} {}", message.exchange, message.routing_key);
        let lost = |error: lapin::Error| match reply_code(&error) {
            Some((NOT_FOUND, _)) => Ok(PublishOutcome::NoExchange),
            _ => Err(failed("publish to", &object, &error)),
        };
        let exchange = short("an exchange", &message.exchange)?;
        let routing_key = short("a routing key", &message.routing_key)?;
        let channel = self.confirming_channel(&object).await?;
        let mut properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_content_encoding("utf-8".into())
            .with_headers(FieldTable::default())
            .with_priority(0)
            .with_delivery_mode(PERSISTENT);
        if let Some(expiration) = message.expiration {
            properties = properties.with_expiration(expiration.as_millis().to_string().into());
        }
        let options = BasicPublishOptions {
            mandatory: message.mandatory,
            ..BasicPublishOptions::default()
        };
        let published = channel
            .basic_publish(exchange, routing_key, options, &message.body, properties)
            .await;
        let confirmation = match published {
            Ok(confirmation) => confirmation.await,
            Err(error) => return lost(error),
        };
        // Without a confirmation the channel is not used again: a late one would count for the next message.
        if confirmation.is_ok() {
            self.idle().push(channel);
        }
        match confirmation {
            Ok(Confirmation::Ack(Some(_))) => Ok(PublishOutcome::Returned),
            Ok(Confirmation::Ack(None)) => Ok(PublishOutcome::Taken),
            Ok(Confirmation::Nack(_) | Confirmation::NotRequested) => {
                Err(MessagingError::NotTaken { object })
            }
            Err(error) => lost(error),
        }
    }

    async fn consumer(
        &self,
        consumption: &Consumption,
    ) -> Result<BoxStream<'static, ReceivedMessage>, MessagingError> {
        let queue = &consumption.queue;
        let wrong = |error| failed("consume", queue, &error);
        let channel = self.channel("consume", queue).await?;
        let qos = channel.basic_qos(consumption.prefetch, BasicQosOptions::default());
        qos.await.map_err(wrong)?;
        let consumer = channel.basic_consume(
            short("a queue", queue)?,
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = consumer.await.map_err(wrong)?;
        Ok(received::messages(channel, consumer).boxed())
    }
}

impl AmqpConnection for LapinConnection {
    fn declare<'a>(&'a self, topology: &'a Topology) -> BoxFuture<'a, Result<(), MessagingError>> {
        declaration::declare(self, topology).boxed()
    }

    fn publish(
        &self,
        publication: Publication,
    ) -> BoxFuture<'_, Result<PublishOutcome, MessagingError>> {
        self.confirmed(publication).boxed()
    }

    fn consume<'a>(
        &'a self,
        consumption: &'a Consumption,
    ) -> BoxFuture<'a, Result<BoxStream<'static, ReceivedMessage>, MessagingError>> {
        self.consumer(consumption).boxed()
    }

    fn failed(&self) -> BoxFuture<'_, String> {
        async move {
            let mut events = std::pin::pin!(self.connection.events_listener());
            let mut reason = "the connection ended".to_owned();
            while self.connection.status().connected() {
                match tokio::time::timeout(STATE_CHECK, events.next()).await {
                    Ok(Some(Event::Error(error))) => reason = error.to_string(),
                    Ok(None) => break,
                    Ok(Some(_)) | Err(_) => {}
                }
            }
            reason
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            // A connection that cannot be closed is gone already.
            self.connection.close(200, "closed".into()).await.ok();
        }
        .boxed()
    }
}

/// Ends the logging of this thread, which is lapin's own for the connection: lapin logs each returned message with its body, where the
/// user's token is. All of lapin's errors also come as results.
fn silence_lapins_thread() {
    if std::thread::current().name() == Some(LAPINS_THREAD) {
        // The thread stays silent until it ends.
        std::mem::forget(tracing::dispatcher::set_default(&Dispatch::none()));
    }
}

/// A name for the wire; lapin panics for one that is too long.
fn short(object: &'static str, name: &str) -> Result<ShortString, MessagingError> {
    ShortString::try_new(name).map_err(|_| MessagingError::NameTooLong {
        object,
        length: name.len(),
    })
}

/// The reply code and the text, if the broker closed a channel or the connection with one.
fn reply_code(error: &lapin::Error) -> Option<(u16, String)> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some((error.get_id(), error.get_message().to_string())),
        _ => None,
    }
}

/// Codes from 400 on say that the operation was wrong. Those below say that the broker or an operator closed the connection, and 541
/// that the broker failed.
fn failed(operation: &'static str, object: &str, error: &lapin::Error) -> MessagingError {
    let object = object.to_owned();
    match reply_code(error) {
        Some((code, reason)) if code >= 400 && code != INTERNAL_ERROR => MessagingError::Refused {
            operation,
            object,
            code,
            reason,
        },
        _ => MessagingError::ConnectionLost {
            operation,
            object,
            reason: error.to_string(),
        },
    }
}
