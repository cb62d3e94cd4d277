//! Chooses the connection to close if the maximum is reached: the connection that has been idle longest. Clients that
//! open connections without sending requests therefore cannot block others.

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

/// The idle connections, which wait for a request.
#[derive(Default)]
pub(crate) struct IdleConnections {
    /// Each with the token that closes it, the longest idle first.
    since: Mutex<Since>,
    more: Notify,
}

#[derive(Default)]
struct Since {
    next: u64,
    ends: BTreeMap<u64, (Instant, CancellationToken)>,
}

impl IdleConnections {
    fn since(&self) -> MutexGuard<'_, Since> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection that has been idle longest, once it has been idle for `idle`: the request of a new connection may be on its way.
    pub(crate) async fn close_idlest(&self, idle: Duration) {
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

/// The result of a search for the longest idle connection.
enum Longest {
    Ended,
    /// It may not be closed before this time.
    Until(Instant),
    None,
}

/// A connection; it counts as idle while it has no request.
pub(crate) struct ServedConnection {
    waiting: Arc<IdleConnections>,
    since: Mutex<Option<u64>>,
    end: CancellationToken,
}

impl ServedConnection {
    pub(crate) fn of(waiting: &Arc<IdleConnections>) -> Arc<Self> {
        let connection = Self {
            waiting: Arc::clone(waiting),
            since: Mutex::default(),
            end: CancellationToken::new(),
        };
        connection.waits();
        Arc::new(connection)
    }

    /// Serves the connection until it ends or is closed for another one.
    pub(crate) async fn unless_ended(&self, serving: impl Future<Output = ()>) {
        // Only an idle connection is closed, so no client waits for a response.
        let _ = self.end.run_until_cancelled(serving).await;
    }

    /// Marks the connection as busy until the response is sent.
    pub(crate) fn asks(self: &Arc<Self>) -> ActiveRequest {
        self.waits_no_more();
        ActiveRequest(Arc::clone(self))
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

impl Drop for ServedConnection {
    fn drop(&mut self) {
        self.waits_no_more();
    }
}

/// A request in progress, until its response is sent.
pub(crate) struct ActiveRequest(Arc<ServedConnection>);

impl ActiveRequest {
    /// The response with a body that keeps the connection busy until it is sent.
    pub(crate) fn answered(self, response: Response) -> Response {
        response.map(|body| {
            Body::new(AnswerBody {
                body,
                _asking: self,
            })
        })
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.waits();
    }
}

struct AnswerBody {
    body: Body,
    _asking: ActiveRequest,
}

impl http_body::Body for AnswerBody {
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
