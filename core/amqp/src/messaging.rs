//! [`Messaging`]: one connection to the brokers of a cell, which is restored after each failure.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_client::JitterRng;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::broker::{AmqpConnection, AmqpConnector, Publication, PublishOutcome};
use crate::error::MessagingError;
use crate::options::MessagingOptions;
use crate::pending::PendingCalls;
use crate::session::{Command, Session};
use crate::transport_url::TransportUrl;

/// The most messages that wait for the broker's confirmation at the same time.
const PUBLISHES: usize = 64;
/// Commands that wait for the session.
const COMMANDS: usize = 16;

/// The name of the queue where a process receives the replies to its calls. No other process may have the same one: two processes with
/// one queue would take each other's replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyQueueName(String);

impl ReplyQueueName {
    /// The name by the options: with the queue manager, host, process and an ID of this run of the process (`boot_id`); otherwise random.
    #[must_use]
    pub fn by_options(options: &MessagingOptions, host: &str, boot_id: &str) -> Self {
        if !options.use_queue_manager {
            return Self(format!("reply_{}", random_id()));
        }
        let host = options.hostname.as_deref().unwrap_or(host);
        Self(format!("reply_{host}:{}:{boot_id}", options.processname))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// 32 hexadecimal digits, as oslo.messaging has them in message IDs.
pub(crate) fn random_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Where a [`Messaging`] stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionState {
    /// No broker is connected, because of this. Attempts go on.
    Connecting {
        reason: String,
    },
    /// Calls can be made, and everything that is served is consumed.
    Connected,
    Closed,
}

/// The state of the connection that the session reported last.
#[derive(Debug, Clone)]
pub(crate) enum Link {
    Down { reason: String },
    Up(Arc<dyn AmqpConnection>),
    Closed,
}

/// What a session and the handles of its messaging share.
#[derive(Debug)]
pub(crate) struct MessagingState {
    pub(crate) url: TransportUrl,
    pub(crate) options: MessagingOptions,
    pub(crate) connector: Arc<dyn AmqpConnector>,
    pub(crate) reply_queue: ReplyQueueName,
    pub(crate) pending: Arc<PendingCalls>,
    pub(crate) link: watch::Sender<Link>,
    pub(crate) closed: CancellationToken,
    publishes: Semaphore,
}

/// A connection to the brokers of a cell: clients call and cast with it, and servers are started on it. Copies share the connection. When
/// the last copy is dropped, the connection is closed.
#[derive(Clone)]
pub struct Messaging {
    pub(crate) shared: Arc<MessagingState>,
    pub(crate) commands: mpsc::Sender<Command>,
    _closed_with_the_last: Arc<DropGuard>,
}

impl fmt::Debug for Messaging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messaging")
            .field("brokers", &self.shared.url.brokers())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Messaging {
    /// Starts to connect, in the background.
    ///
    /// Errors: options that exclude each other.
    pub fn start(
        url: TransportUrl,
        options: MessagingOptions,
        connector: Arc<dyn AmqpConnector>,
        reply_queue: ReplyQueueName,
    ) -> Result<Self, MessagingError> {
        options.check()?;
        let closed = CancellationToken::new();
        let (commands, received) = mpsc::channel(COMMANDS);
        let reason = "the first attempt is under way".to_owned();
        let shared = Arc::new(MessagingState {
            url,
            options,
            connector,
            reply_queue,
            pending: Arc::default(),
            link: watch::Sender::new(Link::Down { reason }),
            closed: closed.clone(),
            publishes: Semaphore::new(PUBLISHES),
        });
        let session = Session::new(Arc::clone(&shared), received, JitterRng::from_os());
        tokio::spawn(session.run());
        Ok(Self {
            shared,
            commands,
            _closed_with_the_last: Arc::new(closed.drop_guard()),
        })
    }

    #[must_use]
    pub fn state(&self) -> ConnectionState {
        match &*self.shared.link.borrow() {
            Link::Down { reason } => ConnectionState::Connecting {
                reason: reason.clone(),
            },
            Link::Up(_) => ConnectionState::Connected,
            Link::Closed => ConnectionState::Closed,
        }
    }

    /// Waits until a broker is connected.
    pub async fn connected(&self, limit: Duration) -> Result<(), MessagingError> {
        let deadline = Instant::now() + limit;
        self.connection(deadline, limit).await.map(|_| ())
    }

    /// Declares all queues again where they are gone, and starts all consumers again. Messages that are not acknowledged come again.
    pub async fn resubscribe(&self) -> Result<(), MessagingError> {
        let sent = self.commands.send(Command::Resubscribe).await;
        sent.map_err(|_| MessagingError::Closed)
    }

    /// Closes the connection, and opens another one. Calls under way end.
    pub async fn reconnect(&self) -> Result<(), MessagingError> {
        let sent = self.commands.send(Command::Reconnect).await;
        sent.map_err(|_| MessagingError::Closed)
    }

    /// Closes the connection, and waits until it is closed. Calls under way end.
    pub async fn close(&self) {
        self.shared.closed.cancel();
        let mut link = self.shared.link.subscribe();
        // An error would say that the link's sender is gone, but this handle has it.
        link.wait_for(|link| matches!(link, Link::Closed))
            .await
            .ok();
    }

    /// The connection, as soon as there is one.
    pub(crate) async fn connection(
        &self,
        deadline: Instant,
        limit: Duration,
    ) -> Result<Arc<dyn AmqpConnection>, MessagingError> {
        let mut link = self.shared.link.subscribe();
        let up = link.wait_for(|link| !matches!(link, Link::Down { .. }));
        if let Ok(Ok(link)) = timeout_at(deadline, up).await {
            return match &*link {
                Link::Up(connection) => Ok(Arc::clone(connection)),
                Link::Down { .. } | Link::Closed => Err(MessagingError::Closed),
            };
        }
        let reason = match &*self.shared.link.borrow() {
            Link::Down { reason } => reason.clone(),
            Link::Up(_) | Link::Closed => "the time was over".to_owned(),
        };
        Err(MessagingError::NotConnected {
            waited: limit,
            reason,
        })
    }

    /// Publishes as soon as a broker is connected.
    pub(crate) async fn publish(
        &self,
        publication: Publication,
        deadline: Instant,
        limit: Duration,
    ) -> Result<PublishOutcome, MessagingError> {
        let connection = self.connection(deadline, limit).await?;
        self.publish_on(&connection, publication, deadline, limit)
            .await
    }

    /// Publishes on this connection.
    pub(crate) async fn publish_on(
        &self,
        connection: &Arc<dyn AmqpConnection>,
        publication: Publication,
        deadline: Instant,
        limit: Duration,
    ) -> Result<PublishOutcome, MessagingError> {
        let published = async {
            let permit = self.shared.publishes.acquire().await;
            let _permit = permit.map_err(|_| MessagingError::Closed)?;
            connection.publish(publication).await
        };
        timeout_at(deadline, published).await.unwrap_or_else(|_| {
            Err(MessagingError::TimedOut {
                object: "the broker".to_owned(),
                limit,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_queue_is_random_or_named_after_host_process_and_run() {
        let options = MessagingOptions::default();
        let name = ReplyQueueName::by_options(&options, "cmp1", "1");
        let digits = name.as_str().strip_prefix("reply_").unwrap();
        assert!(digits.len() == 32 && digits.chars().all(|it| it.is_ascii_hexdigit()));
        assert_ne!(name, ReplyQueueName::by_options(&options, "cmp1", "1"));
        let managed = MessagingOptions {
            use_queue_manager: true,
            ..options
        };
        let name = ReplyQueueName::by_options(&managed, "cmp1", "7f");
        assert_eq!(name.as_str(), "reply_cmp1:berth:7f");
        let named = MessagingOptions {
            hostname: Some("gpu-01".to_owned()),
            ..managed
        };
        let name = ReplyQueueName::by_options(&named, "cmp1", "7f");
        assert_eq!(name.as_str(), "reply_gpu-01:berth:7f");
    }
}
