//! The conversation with one child process: pending calls and the child's notifications.
//!
//! It is open until it has ended, which happens once. Then every pending call fails with the reason, and the child's
//! process is being killed. A new child is started only after the old one has exited.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use berth_virt::HostEvent;
use serde_json::Value;
use tokio::io::{AsyncRead, BufReader};
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot, watch};
use tokio::time::{timeout, timeout_at};

use crate::budget::Budget;
use crate::call_error::CallError;
use crate::child;
use crate::child_end::ChildEnd;
use crate::lines::{Line, next_line, shown};
use crate::options::ExecOptions;
use crate::protocol::{
    ChangedNotification, ErrorObject, Hello, HelloResult, IncomingMessage, LONGEST_LINE, Method,
    decode, request,
};

/// The most notifications at once, and each second after that.
const NEWS_AT_ONCE: u32 = 100;
const NEWS_PER_SECOND: u32 = 20;
/// How much of a wrong line is shown.
const EXCERPT: usize = 120;

type CallAnswer = Result<Value, ErrorObject>;

/// The state shared with the task that owns the child.
#[derive(Debug)]
pub(crate) struct Conversation {
    calls: Mutex<Calls>,
    ended: watch::Sender<Option<Arc<ChildEnd>>>,
    gone: watch::Sender<bool>,
    events: broadcast::Sender<HostEvent>,
}

#[derive(Debug, Default)]
struct Calls {
    made: u64,
    waiting: BTreeMap<u64, oneshot::Sender<CallAnswer>>,
}

impl Conversation {
    fn new(events: broadcast::Sender<HostEvent>) -> Self {
        Self {
            calls: Mutex::default(),
            ended: watch::Sender::new(None),
            gone: watch::Sender::new(false),
            events,
        }
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why it ended, if it did.
    pub(crate) fn ended(&self) -> Option<Arc<ChildEnd>> {
        self.ended.borrow().clone()
    }

    /// Ends the conversation and fails all pending calls. Only the first reason counts.
    pub(crate) fn end(&self, why: ChildEnd) {
        self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert_with(|| Arc::new(why));
            is_first
        });
        self.calls().waiting.clear();
    }

    /// Waits for the end.
    pub(crate) async fn over(&self) -> Arc<ChildEnd> {
        let mut ended = self.ended.subscribe();
        let seen = ended.wait_for(Option::is_some).await;
        // The sender is ours, so the wait ends with an end.
        let seen = seen.ok().and_then(|ended| (*ended).clone());
        seen.unwrap_or_else(|| Arc::new(ChildEnd::LetGo))
    }

    /// The child's process is no more.
    pub(crate) fn is_gone(&self) {
        self.gone.send_replace(true);
    }

    /// Waits until the child's process is no more.
    pub(crate) async fn gone(&self) {
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// Registers a new call and returns its id and the receiver of its answer.
    fn open(&self) -> Result<(u64, oneshot::Receiver<CallAnswer>), Arc<ChildEnd>> {
        let mut calls = self.calls();
        if let Some(ended) = self.ended() {
            return Err(ended);
        }
        let (sender, receiver) = oneshot::channel();
        calls.made += 1;
        let id = calls.made;
        calls.waiting.insert(id, sender);
        Ok((id, receiver))
    }

    /// Reads the child's messages until it violates the protocol or closes the stream.
    pub(crate) async fn read(&self, from: impl AsyncRead + Unpin) -> ChildEnd {
        let mut from = BufReader::with_capacity(64 << 10, from);
        let mut news = Budget::new(NEWS_AT_ONCE, NEWS_PER_SECOND, Instant::now());
        loop {
            let line = match next_line(&mut from, LONGEST_LINE).await {
                Ok(Some(Line::Whole(line))) => line,
                Ok(Some(Line::TooLong(_))) => {
                    return ChildEnd::LineTooLong {
                        limit: LONGEST_LINE,
                    };
                }
                Ok(None) => return ChildEnd::ClosedOutput,
                Err(error) => {
                    return ChildEnd::Unreadable {
                        reason: error.to_string(),
                    };
                }
            };
            if let Err(broken) = self.receive(&line, &mut news) {
                return broken;
            }
        }
    }

    fn receive(&self, line: &[u8], news: &mut Budget) -> Result<(), ChildEnd> {
        let excerpt = || shown(&String::from_utf8_lossy(line), EXCERPT);
        let value: Value = serde_json::from_slice(line).map_err(|error| ChildEnd::NotJson {
            reason: error.to_string(),
            excerpt: excerpt(),
        })?;
        let message = IncomingMessage::of(value).map_err(|reason| ChildEnd::NotAMessage {
            reason,
            excerpt: excerpt(),
        })?;
        match message {
            IncomingMessage::Answer { id, answer } => self.answered(&id, answer),
            IncomingMessage::ErrorWithoutId(error) => Err(ChildEnd::CouldNotRead {
                message: error.message,
            }),
            IncomingMessage::Notification { method, params } => {
                if !news.take(Instant::now()) {
                    return Err(ChildEnd::Flood {
                        at_once: NEWS_AT_ONCE,
                        per_second: NEWS_PER_SECOND,
                    });
                }
                self.notification(&method, params)
            }
        }
    }

    fn answered(&self, id: &Value, answer: CallAnswer) -> Result<(), ChildEnd> {
        let mut calls = self.calls();
        let unknown = || ChildEnd::UnknownCall {
            id: shown(&id.to_string(), EXCERPT),
        };
        let number = id.as_u64().ok_or_else(unknown)?;
        match calls.waiting.remove(&number) {
            Some(waiting) => {
                // The receiver is dropped if the caller's task ended with the runtime.
                let _ = waiting.send(answer);
                Ok(())
            }
            None if (1..=calls.made).contains(&number) => {
                Err(ChildEnd::AnsweredTwice { id: number })
            }
            None => Err(unknown()),
        }
    }

    fn notification(&self, method: &str, params: Value) -> Result<(), ChildEnd> {
        if method != "changed" {
            return Err(ChildEnd::UnknownNotification {
                method: shown(method, EXCERPT),
            });
        }
        let changed: ChangedNotification =
            decode(params).map_err(|wrong| ChildEnd::WrongNotification {
                reason: wrong.to_string(),
            })?;
        // There may be no subscribers.
        let _ = self.events.send(changed.what.into());
        Ok(())
    }
}

/// A child that has answered `hello`.
#[derive(Debug)]
pub(crate) struct Connection {
    conversation: Arc<Conversation>,
    lines: mpsc::Sender<Vec<u8>>,
    turns: Semaphore,
    hello: HelloResult,
}

impl Connection {
    /// Starts a child and calls `hello`.
    pub(crate) async fn open(
        options: &ExecOptions,
        events: broadcast::Sender<HostEvent>,
    ) -> Result<Self, CallError> {
        let conversation = Arc::new(Conversation::new(events));
        let lines = child::start(options, Arc::clone(&conversation))
            .map_err(|source| CallError::NotStarted { source })?;
        let mut connection = Self {
            conversation,
            lines,
            turns: Semaphore::new(1),
            hello: HelloResult::unsaid(),
        };
        match connection.greet(options).await {
            Ok(hello) => {
                connection.turns = Semaphore::new(hello.concurrent_calls());
                connection.hello = hello;
                Ok(connection)
            }
            Err(error) => {
                // Wait for its exit: the next child must not start before.
                connection.conversation.gone().await;
                Err(error)
            }
        }
    }

    async fn greet(&self, options: &ExecOptions) -> Result<HelloResult, CallError> {
        let method = Method::Hello;
        let limit = options.deadlines.of(method);
        let params = Hello::of(options);
        let end = |why: ChildEnd| {
            self.conversation.end(why);
            CallError::Ended(self.why())
        };
        match self.ask(method, &params.to_value(), limit).await {
            Ok(value) => {
                let hello = HelloResult::of(value)
                    .map_err(|reason| end(ChildEnd::WrongHello { reason }))?;
                match hello.is_understood() {
                    Ok(()) => Ok(hello),
                    Err(reason) => {
                        end(ChildEnd::WrongHello {
                            reason: reason.clone(),
                        });
                        Err(CallError::Version { reason })
                    }
                }
            }
            Err(CallError::Refused(error)) => Err(end(ChildEnd::RefusedHello {
                message: error.message,
            })),
            Err(error) => Err(error),
        }
    }

    /// The child's answer to `hello`.
    pub(crate) fn hello(&self) -> &HelloResult {
        &self.hello
    }

    /// The conversation, for callers that wait for its end.
    pub(crate) fn conversation(&self) -> &Arc<Conversation> {
        &self.conversation
    }

    fn why(&self) -> Arc<ChildEnd> {
        let ended = self.conversation.ended();
        ended.unwrap_or_else(|| Arc::new(ChildEnd::LetGo))
    }

    /// Sends a call once a slot is free, and waits for its answer. Waiting for the slot is limited like waiting for the
    /// answer.
    pub(crate) async fn call(
        &self,
        method: Method,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, CallError> {
        let turn = timeout(limit, self.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(match self.conversation.ended() {
                Some(ended) => CallError::EndedBefore(ended),
                None => CallError::NoTurn { limit },
            });
        };
        self.ask(method, params, limit).await
    }

    async fn ask(
        &self,
        method: Method,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, CallError> {
        let deadline = tokio::time::Instant::now() + limit;
        let (id, answer) = self.conversation.open().map_err(CallError::EndedBefore)?;
        let line = request(id, method, params);
        let silent = || {
            self.conversation.end(ChildEnd::Silent { method, limit });
            CallError::TimedOut { limit }
        };
        match timeout_at(deadline, self.lines.send(line)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(CallError::Ended(self.conversation.over().await)),
            Err(_) => return Err(silent()),
        }
        match timeout_at(deadline, answer).await {
            Ok(Ok(Ok(result))) => Ok(result),
            Ok(Ok(Err(error))) => Err(CallError::Refused(error)),
            Ok(Err(_)) => Err(CallError::Ended(self.why())),
            Err(_) => Err(silent()),
        }
    }
}
