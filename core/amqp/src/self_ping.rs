//! A ping to this process itself: whether it still receives what is sent to it.
//!
//! A connection can be healthy while its consumers or its reply queue are gone. The process then takes no request, and nothing fails. A
//! ping through the process's own queue, with the reply through its own reply queue, tells. What a caller does about missed pings:
//! [`Messaging::resubscribe`], then [`Messaging::reconnect`].

use std::time::Duration;

use serde_json::{Map, json};
use tokio::time::Instant;

use crate::client::{CallLimits, RpcMethod, RpcTarget};
use crate::context::RpcContext;
use crate::error::CallError;
use crate::messaging::Messaging;

/// The namespace of the methods that every service of Nova has.
pub const PING_NAMESPACE: &str = "baseapi";
pub const PING_METHOD: &str = "ping";

impl Messaging {
    /// Sends a ping to the server of this process, and returns how long the answer took.
    ///
    /// Errors: nothing answered. Another server of the same host name also answers: a host name has one process.
    pub async fn ping_self(
        &self,
        target: &RpcTarget,
        context: &RpcContext,
        limit: Duration,
    ) -> Result<Duration, CallError> {
        let started = Instant::now();
        let arg = json!(self.shared.reply_queue.as_str());
        let args = Map::from_iter([("arg".to_owned(), arg)]);
        let ping = RpcMethod::new(PING_METHOD, "1.0", args).in_namespace(PING_NAMESPACE);
        self.call(target, context, ping, CallLimits::from(limit))
            .await?;
        Ok(started.elapsed())
    }
}
