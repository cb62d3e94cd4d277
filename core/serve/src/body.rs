//! A request body with a deadline.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

/// The body of a request. Reading it fails after its deadline.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    allowed: Duration,
    /// Starts with the first read, because most requests have no body.
    overdue: Option<Pin<Box<Sleep>>>,
    /// Set when it was read to its end; `None` without a body.
    whole: Option<Arc<AtomicBool>>,
}

/// Whether a body was read to its end. The rest of it would be taken for the next request of the connection.
pub(crate) struct Remainder(Option<Arc<AtomicBool>>);

impl Remainder {
    pub(crate) fn is_left(&self) -> bool {
        let whole = self.0.as_ref();
        whole.is_some_and(|whole| !whole.load(Ordering::Relaxed))
    }
}

/// The body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RequestBodyError {
    #[error("the body was incomplete after {allowed:?}")]
    Late { allowed: Duration },
    #[error("the connection broke: {0}")]
    Broken(hyper::Error),
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, allowed: Duration) -> Self {
        let overdue = None;
        let none = incoming.is_end_stream();
        Self {
            incoming,
            allowed,
            overdue,
            whole: (!none).then(Arc::default),
        }
    }

    pub(crate) fn remainder(&self) -> Remainder {
        Remainder(self.whole.clone())
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) {
            let read = frame.is_none() || self.incoming.is_end_stream();
            if let Some(whole) = self.whole.as_ref().filter(|_| read) {
                whole.store(true, Ordering::Relaxed);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(RequestBodyError::Broken)));
        }
        let allowed = self.allowed;
        let overdue = self.overdue.get_or_insert_with(|| Box::pin(sleep(allowed)));
        match overdue.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(RequestBodyError::Late { allowed }))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
