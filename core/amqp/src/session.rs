//! [`Session`]: the task that connects, restores queues and consumers after each failure, and passes messages on.

use std::sync::Arc;
use std::time::Duration;

use berth_client::JitterRng;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::broker::{AmqpConnection, Consumption, ReceivedMessage};
use crate::envelope::{RpcReply, RpcRequest};
use crate::error::MessagingError;
use crate::messaging::{Link, MessagingState};
use crate::server::{ArrivedRequest, RejectedMessage};
use crate::topology::Topology;

/// How long a connection may take, with the TLS handshake and the login.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// How long the declaration of a queue may take, and the start of its consumer. A broker never answers about a quorum queue without a
/// leader; another broker of the list may.
const RESTORE_LIMIT: Duration = Duration::from_secs(10);
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// What the handles ask of the session.
#[derive(Debug)]
pub(crate) enum Command {
    Serve(ServerRegistration),
    Resubscribe,
    Reconnect,
}

/// A server's queues and where their requests go.
#[derive(Debug)]
pub(crate) struct ServerRegistration {
    pub(crate) topology: Topology,
    pub(crate) requests: mpsc::Sender<ArrivedRequest>,
    /// Notified when all queues are consumed for the first time.
    pub(crate) ready: Option<oneshot::Sender<()>>,
}

/// Where the messages of a queue go.
#[derive(Debug, Clone)]
enum Receiver {
    Replies(Arc<MessagingState>),
    Requests(mpsc::Sender<ArrivedRequest>),
}

/// A queue that is consumed: what declares it again, and where its messages go.
#[derive(Debug, Clone)]
struct Consumer {
    topology: Topology,
    queue: String,
    receiver: Receiver,
}

/// Why a consumer ended; without an error, the broker cancelled it.
type ConsumerEnd = (Consumer, Result<(), MessagingError>);

pub(crate) struct Session {
    shared: Arc<MessagingState>,
    commands: mpsc::Receiver<Command>,
    servers: Vec<ServerRegistration>,
    consumers: JoinSet<ConsumerEnd>,
    rng: JitterRng,
}

impl Session {
    pub(crate) fn new(
        shared: Arc<MessagingState>,
        commands: mpsc::Receiver<Command>,
        rng: JitterRng,
    ) -> Self {
        Self {
            shared,
            commands,
            servers: Vec::new(),
            consumers: JoinSet::new(),
            rng,
        }
    }

    /// Runs until the messaging is closed.
    pub(crate) async fn run(mut self) {
        let closed = self.shared.closed.clone();
        let brokers = self.shared.url.brokers().len();
        // The hosts of a cell begin at different brokers, as with oslo.messaging.
        let mut next = usize::try_from(self.rng.next() >> 32).unwrap_or(0);
        let mut failures = 0;
        while !closed.is_cancelled() {
            let (reason, was_connected) = self.connect_once(next % brokers).await;
            if closed.is_cancelled() {
                break;
            }
            failures = if was_connected { 1 } else { failures + 1 };
            next = next.wrapping_add(1);
            tracing::warn!(reason, "the connection to the message broker failed");
            self.end_connection(&reason);
            let pause = self
                .shared
                .options
                .retry_pause(failures, self.rng.fraction());
            // The other brokers are tried at once.
            if was_connected || usize::try_from(failures).unwrap_or(usize::MAX) % brokers == 0 {
                closed.run_until_cancelled(sleep(pause)).await;
            }
        }
        self.shared.link.send_replace(Link::Closed);
        self.end_connection("the messaging was closed");
    }

    /// Stops consumers and ends the calls under way.
    fn end_connection(&mut self, reason: &str) {
        self.consumers = JoinSet::new();
        self.shared
            .pending
            .fail_all(&MessagingError::ConnectionLost {
                operation: "wait for",
                object: "a reply".to_owned(),
                reason: reason.to_owned(),
            });
    }

    /// Connects, and serves the connection until it fails. Returns why, and whether it had been connected.
    async fn connect_once(&mut self, broker: usize) -> (String, bool) {
        let shared = Arc::clone(&self.shared);
        let broker = &shared.url.brokers()[broker];
        let down = |reason: &str| {
            let reason = reason.to_owned();
            shared.link.send_replace(Link::Down { reason });
        };
        let connecting = shared.connector.connect(broker, shared.url.virtual_host());
        let connecting = timeout(CONNECT_LIMIT, connecting);
        let connection = match shared.closed.run_until_cancelled(connecting).await {
            None => return ("the messaging was closed".to_owned(), false),
            Some(Err(_)) => {
                let seconds = CONNECT_LIMIT.as_secs();
                let reason = format!("{broker} did not accept a connection in {seconds} s");
                down(&reason);
                return (reason, false);
            }
            Some(Ok(Err(error))) => {
                down(&error.to_string());
                return (error.to_string(), false);
            }
            Some(Ok(Ok(connection))) => connection,
        };
        let outcome = self.serve_connection(&connection).await;
        // New messages wait from now on. Those that still have the connection fail with it, and then the calls under way are ended.
        down(&outcome.0);
        timeout(CLOSE_LIMIT, connection.close()).await.ok();
        outcome
    }

    async fn serve_connection(&mut self, connection: &Arc<dyn AmqpConnection>) -> (String, bool) {
        let closed = self.shared.closed.clone();
        match closed.run_until_cancelled(self.restore(connection)).await {
            None => return ("the messaging was closed".to_owned(), false),
            Some(Err(error)) => return (error.to_string(), false),
            Some(Ok(())) => {}
        }
        self.shared
            .link
            .send_replace(Link::Up(Arc::clone(connection)));
        tracing::info!(broker = ?connection, "connected to the message broker");
        let mut failed = std::pin::pin!(connection.failed());
        loop {
            let done = tokio::select! {
                () = closed.cancelled() => Err("the messaging was closed".to_owned()),
                reason = &mut failed => Err(reason),
                Some(command) = self.commands.recv() => self.obey(connection, command).await,
                Some(ended) = self.consumers.join_next() => match ended {
                    Ok(ended) => self.restart(connection, ended),
                    Err(error) => Err(format!("a consumer failed: {error}")),
                },
            };
            if let Err(reason) = done {
                return (reason, true);
            }
        }
    }

    async fn obey(
        &mut self,
        connection: &Arc<dyn AmqpConnection>,
        command: Command,
    ) -> Result<(), String> {
        let done = match command {
            Command::Reconnect => return Err("a new connection was asked for".to_owned()),
            Command::Resubscribe => self.restore(connection).await,
            Command::Serve(served) => {
                self.servers.push(served);
                let last = self.servers.len() - 1;
                self.start_server(connection, last).await
            }
        };
        done.map_err(|error| error.to_string())
    }

    /// Declares and consumes everything again.
    async fn restore(
        &mut self,
        connection: &Arc<dyn AmqpConnection>,
    ) -> Result<(), MessagingError> {
        self.consumers = JoinSet::new();
        self.servers.retain(|served| !served.requests.is_closed());
        let name = self.shared.reply_queue.as_str();
        let replies = Consumer {
            topology: Topology::of_replies(&self.shared.options, name),
            queue: name.to_owned(),
            receiver: Receiver::Replies(Arc::clone(&self.shared)),
        };
        self.start(connection, replies).await?;
        for index in 0..self.servers.len() {
            self.start_server(connection, index).await?;
        }
        Ok(())
    }

    async fn start_server(
        &mut self,
        connection: &Arc<dyn AmqpConnection>,
        index: usize,
    ) -> Result<(), MessagingError> {
        let served = &self.servers[index];
        let consumers: Vec<Consumer> = served
            .topology
            .queues
            .iter()
            .map(|queue| Consumer {
                topology: served.topology.clone(),
                queue: queue.name.clone(),
                receiver: Receiver::Requests(served.requests.clone()),
            })
            .collect();
        for consumer in consumers {
            self.start(connection, consumer).await?;
        }
        if let Some(ready) = self.servers[index].ready.take() {
            // A server that was dropped meanwhile does not wait.
            ready.send(()).ok();
        }
        Ok(())
    }

    async fn start(
        &mut self,
        connection: &Arc<dyn AmqpConnection>,
        consumer: Consumer,
    ) -> Result<(), MessagingError> {
        let prefetch = self.shared.options.prefetch();
        let messages = consume(connection.as_ref(), &consumer, prefetch).await?;
        self.consumers.spawn(async move {
            consumer.receiver.pass_on(&consumer.queue, messages).await;
            (consumer, Ok(()))
        });
        Ok(())
    }

    /// Starts a consumer again that the broker cancelled, for example because its queue was deleted.
    fn restart(
        &mut self,
        connection: &Arc<dyn AmqpConnection>,
        (consumer, end): ConsumerEnd,
    ) -> Result<(), String> {
        if let Err(error) = end {
            return Err(error.to_string());
        }
        if consumer.receiver.is_gone() {
            return Ok(());
        }
        tracing::warn!(
            queue = consumer.queue,
            "the broker cancelled the consumer of a queue"
        );
        let connection = Arc::clone(connection);
        let options = &self.shared.options;
        let (delay, prefetch) = (options.kombu_reconnect_delay, options.prefetch());
        self.consumers.spawn(async move {
            sleep(delay).await;
            match consume(connection.as_ref(), &consumer, prefetch).await {
                Ok(messages) => {
                    consumer.receiver.pass_on(&consumer.queue, messages).await;
                    (consumer, Ok(()))
                }
                Err(error) => (consumer, Err(error)),
            }
        });
        Ok(())
    }
}

async fn consume(
    connection: &dyn AmqpConnection,
    consumer: &Consumer,
    prefetch: u16,
) -> Result<BoxStream<'static, ReceivedMessage>, MessagingError> {
    let consumption = Consumption {
        queue: consumer.queue.clone(),
        prefetch,
    };
    let started = async {
        connection.declare(&consumer.topology).await?;
        connection.consume(&consumption).await
    };
    timeout(RESTORE_LIMIT, started).await.unwrap_or_else(|_| {
        Err(MessagingError::TimedOut {
            object: "the broker".to_owned(),
            limit: RESTORE_LIMIT,
        })
    })
}

impl Receiver {
    /// Whether the receiver of the messages is gone.
    fn is_gone(&self) -> bool {
        match self {
            Self::Replies(_) => false,
            Self::Requests(requests) => requests.is_closed(),
        }
    }

    async fn pass_on(&self, queue: &str, mut messages: BoxStream<'static, ReceivedMessage>) {
        match self {
            Self::Replies(shared) => {
                while let Some(message) = messages.next().await {
                    take_reply(shared, &message).await;
                }
            }
            Self::Requests(requests) => loop {
                let message = tokio::select! {
                    () = requests.closed() => return,
                    message = messages.next() => message,
                };
                let Some(message) = message else {
                    return;
                };
                let request = RpcRequest::decode(&message.body);
                if let Err(error) = &request {
                    // It would come again for ever. If the rejection fails, it comes once more.
                    message.settlement.reject().await.ok();
                    tracing::warn!(queue, %error, "a message that is no request was dropped");
                }
                let arrived = match request {
                    Ok(request) => Ok((request, message)),
                    Err(error) => Err(RejectedMessage {
                        queue: queue.to_owned(),
                        error,
                    }),
                };
                if requests.send(arrived).await.is_err() {
                    return;
                }
            },
        }
    }
}

/// A reply is acknowledged whatever it is: one without a waiting call is late, and would be late again.
async fn take_reply(shared: &MessagingState, message: &ReceivedMessage) {
    match RpcReply::decode(&message.body) {
        Ok(reply) => {
            if !shared.pending.deliver(reply) {
                tracing::debug!("a reply arrived that no call waits for");
            }
        }
        Err(error) => tracing::warn!(%error, "a message that is no reply was dropped"),
    }
    // Without the acknowledgement it comes again, and then no call waits for it.
    message.settlement.ack().await.ok();
}

#[cfg(test)]
mod tests;
