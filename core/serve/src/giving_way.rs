//! Who gives way when no more connections are served: of those that wait for a request, the one that has waited longest. Whoever
//! opens connections and asks nothing so keeps nobody out who does.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The connections that wait for a request.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Each with what ends it, the longest first.
    since: Mutex<Since>,
    more: Notify,
}

#[derive(Default)]
struct Since {
    next: u64,
    ends: BTreeMap<u64, (Instant, CancellationToken)>,
}

impl Waiting {
    fn since(&self) -> MutexGuard<'_, Since> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection that has waited longest, as soon as one has waited for `idle`: what was opened a moment ago may have
    /// its request on the way.
    pub(crate) async fn give_way(&self, idle: Duration) {
        loop {
            match self.longest(idle) {
                Longest::Ended => return,
                Longest::Until(due) => sleep_until(due).await,
                Longest::None => self.more.notified().await,
            }
        }
    }

    fn longest(&self, idle: Duration) -> Longest {
        let mut since = self.since();
        let Some(longest) = since.ends.first_entry() else {
            return Longest::None;
        };
        let due = longest.get().0 + idle;
        if due > Instant::now() {
            return Longest::Until(due);
        }
        longest.remove().1.cancel();
        Longest::Ended
    }
}

/// What came of a look for the one that has waited longest.
enum Longest {
    Ended,
    /// It is to be left alone until then.
    Until(Instant),
    None,
}

/// A connection, which waits for a request until it has one.
pub(crate) struct Connection {
    waiting: Arc<Waiting>,
    since: Mutex<Option<u64>>,
    end: CancellationToken,
}

impl Connection {
    pub(crate) fn of(waiting: &Arc<Waiting>) -> Arc<Self> {
        let connection = Self {
            waiting: Arc::clone(waiting),
            since: Mutex::default(),
            end: CancellationToken::new(),
        };
        connection.waits();
        Arc::new(connection)
    }

    /// All that is done for it, unless it gives way before.
    pub(crate) async fn unless_ended(&self, serving: impl Future<Output = ()>) {
        // One that gave way was asked nothing, so nobody waits for an answer.
        let _ = self.end.run_until_cancelled(serving).await;
    }

    /// It has a request, as long as the answer is under way.
    pub(crate) fn asks(self: &Arc<Self>) -> Asking {
        self.waits_no_more();
        Asking(Arc::clone(self))
    }

    fn own(&self) -> MutexGuard<'_, Option<u64>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waits(&self) {
        let mut own = self.own();
        let mut since = self.waiting.since();
        since.next += 1;
        let now = since.next;
        let end = (Instant::now(), self.end.clone());
        since.ends.insert(now, end);
        *own = Some(now);
        drop(since);
        self.waiting.more.notify_one();
    }

    fn waits_no_more(&self) {
        if let Some(then) = self.own().take() {
            self.waiting.since().ends.remove(&then);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.waits_no_more();
    }
}

/// A request of a connection, until its answer is given away.
pub(crate) struct Asking(Arc<Connection>);

impl Asking {
    /// The answer, which keeps the connection until the last of it is.
    pub(crate) fn answered(self, response: Response) -> Response {
        response.map(|body| {
            Body::new(Answer {
                body,
                _asking: self,
            })
        })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.waits();
    }
}

struct Answer {
    body: Body,
    _asking: Asking,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
