//! Calls under way: who waits for which reply.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::envelope::RpcReply;
use crate::error::MessagingError;
use crate::failure::RemoteFailure;

/// The most calls under way at the same time.
const LIMIT: usize = 4096;

/// The result or the exception of the other side; or why there is neither.
pub(crate) type CallOutcome = Result<Result<Value, RemoteFailure>, MessagingError>;

#[derive(Debug, Default)]
pub(crate) struct PendingCalls(Mutex<HashMap<String, Waiter>>);

#[derive(Debug)]
struct Waiter {
    end: oneshot::Sender<CallOutcome>,
    alive: Arc<Notify>,
}

/// A call under way. Dropping it forgets the call; a late reply is then dropped.
#[derive(Debug)]
pub(crate) struct PendingCall {
    calls: Arc<PendingCalls>,
    message_id: String,
    pub(crate) end: oneshot::Receiver<CallOutcome>,
    /// Notified by each sign of life.
    pub(crate) alive: Arc<Notify>,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.message_id);
    }
}

impl PendingCalls {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiter>> {
        // Each change of the map is a single operation, so a panic elsewhere left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects the reply to a message.
    pub(crate) fn expect(
        self: &Arc<Self>,
        message_id: &str,
    ) -> Result<PendingCall, MessagingError> {
        let mut calls = self.lock();
        if calls.len() >= LIMIT {
            return Err(MessagingError::TooManyCalls { limit: LIMIT });
        }
        let (sender, end) = oneshot::channel();
        let alive = Arc::new(Notify::new());
        let waiter = Waiter {
            end: sender,
            alive: Arc::clone(&alive),
        };
        calls.insert(message_id.to_owned(), waiter);
        Ok(PendingCall {
            calls: Arc::clone(self),
            message_id: message_id.to_owned(),
            end,
            alive,
        })
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Passes a reply to its call. Returns whether a call waits for it.
    pub(crate) fn deliver(&self, reply: RpcReply) -> bool {
        match reply {
            RpcReply::KeepAlive { message_id } => match self.lock().get(&message_id) {
                Some(waiter) => {
                    waiter.alive.notify_one();
                    true
                }
                None => false,
            },
            RpcReply::End {
                message_id,
                outcome,
            } => {
                let waiter = self.lock().remove(&message_id);
                waiter.is_some_and(|waiter| waiter.end.send(Ok(outcome)).is_ok())
            }
        }
    }

    /// Ends all calls with this error.
    pub(crate) fn fail_all(&self, error: &MessagingError) {
        let calls: Vec<Waiter> = self.lock().drain().map(|(_, waiter)| waiter).collect();
        for waiter in calls {
            // A call that was given up needs no error.
            waiter.end.send(Err(error.clone())).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_reply_reaches_its_call_once_and_a_late_one_is_dropped() {
        let calls = Arc::new(PendingCalls::default());
        let (mut first, second) = (calls.expect("1").unwrap(), calls.expect("2").unwrap());
        let end = |id: &str| RpcReply::End {
            message_id: id.to_owned(),
            outcome: Ok(json!(id)),
        };
        assert!(calls.deliver(end("1")));
        assert!(!calls.deliver(end("1")) && !calls.deliver(end("3")));
        assert_eq!((&mut first.end).await.unwrap(), Ok(Ok(json!("1"))));
        drop(second);
        assert!(!calls.deliver(end("2")));
        assert!(calls.lock().is_empty());
    }

    #[tokio::test]
    async fn a_lost_connection_ends_all_calls() {
        let calls = Arc::new(PendingCalls::default());
        let mut call = calls.expect("1").unwrap();
        calls.fail_all(&MessagingError::Closed);
        assert_eq!((&mut call.end).await.unwrap(), Err(MessagingError::Closed));
    }

    #[test]
    fn the_number_of_calls_is_bounded() {
        let calls = Arc::new(PendingCalls::default());
        let held: Vec<_> = (0..LIMIT)
            .map(|it| calls.expect(&it.to_string()).unwrap())
            .collect();
        let error = calls.expect("one more").unwrap_err();
        assert_eq!(error, MessagingError::TooManyCalls { limit: LIMIT });
        drop(held);
        assert!(calls.expect("one more").is_ok());
    }
}
