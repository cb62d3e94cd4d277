//! The client's side: calls, casts and fanout casts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};

use crate::broker::{AmqpConnection, Publication, PublishOutcome};
use crate::context::RpcContext;
use crate::envelope::{ReplyAddress, RpcArguments, RpcRequest};
use crate::error::{CallError, MessagingError};
use crate::messaging::{Messaging, random_id};
use crate::pending::PendingCall;
use crate::topology::fanout_exchange;

/// Who receives a request: any server of a topic, or the one on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcTarget {
    /// The exchange of the service, such as `nova`.
    pub exchange: String,
    pub topic: String,
    /// The host of the server; `None` for any.
    pub server: Option<String>,
}

impl RpcTarget {
    fn routing_key(&self) -> String {
        match &self.server {
            None => self.topic.clone(),
            Some(server) => format!("{}.{server}", self.topic),
        }
    }
}

/// A method with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcMethod {
    pub namespace: Option<String>,
    pub name: String,
    /// The version of the method, such as `3.0`.
    pub version: String,
    pub args: RpcArguments,
}

impl RpcMethod {
    /// A method without a namespace.
    #[must_use]
    pub fn new(name: &str, version: &str, args: Map<String, Value>) -> Self {
        Self {
            namespace: None,
            name: name.to_owned(),
            version: version.to_owned(),
            args: RpcArguments(args),
        }
    }

    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    fn request(self, context: &RpcContext, reply_to: Option<ReplyAddress>) -> RpcRequest {
        RpcRequest {
            namespace: self.namespace,
            method: self.name,
            version: self.version,
            args: self.args,
            context: context.clone(),
            reply_to,
            unique_id: Some(random_id()),
        }
    }
}

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// The whole call.
    pub timeout: Duration,
    /// Without a sign of life in this time, a call ends before its timeout. In whole seconds; `None` for calls without them.
    pub call_monitor_timeout: Option<Duration>,
}

impl From<Duration> for CallLimits {
    fn from(timeout: Duration) -> Self {
        Self {
            timeout,
            call_monitor_timeout: None,
        }
    }
}

impl Messaging {
    /// Calls a method, and waits for its result. If no broker is connected, the call waits for one within its timeout.
    ///
    /// Errors: [`CallError::Failure`] is the exception of the server. For other errors,
    /// [`effect_is_unknown`](MessagingError::effect_is_unknown) tells whether the server may have had the request.
    pub async fn call(
        &self,
        target: &RpcTarget,
        context: &RpcContext,
        method: RpcMethod,
        limits: CallLimits,
    ) -> Result<Value, CallError> {
        let deadline = Instant::now() + limits.timeout;
        let connection = self.connection(deadline, limits.timeout).await?;
        // From here on the call ends with its connection. While it waits for one, attempts that fail are nothing to it.
        let message_id = random_id();
        let call = self.shared.pending.expect(&message_id)?;
        let name = method.name.clone();
        let reply_to = ReplyAddress {
            queue: self.shared.reply_queue.as_str().to_owned(),
            message_id,
            call_monitor_timeout: limits.call_monitor_timeout,
        };
        let request = method.request(context, Some(reply_to));
        let publication = Publication {
            expiration: Some(limits.timeout),
            ..publication(target, &request)
        };
        self.publish_to_topic(&connection, publication, deadline, limits.timeout)
            .await?;
        let object = format!("{} of {}", name, target.routing_key());
        match reply(call, deadline, limits, object).await? {
            Ok(result) => Ok(result),
            Err(failure) => Err(CallError::Failure(Box::new(failure))),
        }
    }

    /// Sends a request that has no reply. The function returns when the broker has the request.
    ///
    /// Errors: after [`effect_is_unknown`](MessagingError::effect_is_unknown), sending it again may make it arrive twice.
    pub async fn cast(
        &self,
        target: &RpcTarget,
        context: &RpcContext,
        method: RpcMethod,
    ) -> Result<(), MessagingError> {
        let limit = self.shared.options.rpc_response_timeout;
        let deadline = Instant::now() + limit;
        let publication = publication(target, &method.request(context, None));
        let connection = self.connection(deadline, limit).await?;
        self.publish_to_topic(&connection, publication, deadline, limit)
            .await
    }

    /// Sends a request to all servers of a topic. The exchange is not declared. Without servers it may not exist
    /// ([`PublishOutcome::NoExchange`]), and then the request has no receiver.
    pub async fn fanout_cast(
        &self,
        topic: &str,
        context: &RpcContext,
        method: RpcMethod,
    ) -> Result<PublishOutcome, MessagingError> {
        let limit = self.shared.options.rpc_response_timeout;
        let publication = Publication {
            exchange: fanout_exchange(topic),
            routing_key: String::new(),
            body: method.request(context, None).encode(),
            mandatory: false,
            expiration: None,
        };
        self.publish(publication, Instant::now() + limit, limit)
            .await
    }

    async fn publish_to_topic(
        &self,
        connection: &Arc<dyn AmqpConnection>,
        publication: Publication,
        deadline: Instant,
        limit: Duration,
    ) -> Result<(), MessagingError> {
        let exchange = publication.exchange.clone();
        let routing_key = publication.routing_key.clone();
        let published = self.publish_on(connection, publication, deadline, limit);
        match published.await? {
            PublishOutcome::Taken => Ok(()),
            PublishOutcome::Returned | PublishOutcome::NoExchange => {
                Err(MessagingError::Unroutable {
                    exchange,
                    routing_key,
                })
            }
        }
    }
}

fn publication(target: &RpcTarget, request: &RpcRequest) -> Publication {
    Publication {
        exchange: target.exchange.clone(),
        routing_key: target.routing_key(),
        body: request.encode(),
        mandatory: true,
        expiration: None,
    }
}

/// Waits for the end of a call. Each sign of life extends a monitored call, up to its timeout.
async fn reply(
    mut call: PendingCall,
    deadline: Instant,
    limits: CallLimits,
    object: String,
) -> crate::pending::CallOutcome {
    let monitored = |now: Instant| match limits.call_monitor_timeout {
        Some(silence) => deadline.min(now + silence),
        None => deadline,
    };
    let mut until = monitored(Instant::now());
    loop {
        tokio::select! {
            ended = &mut call.end => return ended.unwrap_or(Err(MessagingError::Closed)),
            () = call.alive.notified() => until = monitored(Instant::now()),
            () = sleep_until(until) => {
                let limit = match limits.call_monitor_timeout {
                    Some(silence) if until < deadline => silence,
                    _ => limits.timeout,
                };
                return Err(MessagingError::TimedOut { object, limit });
            }
        }
    }
}

#[cfg(test)]
mod tests;
