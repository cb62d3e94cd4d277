//! A request's body that has to be whole within a time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

/// A request's body as it comes from a connection; reading it fails when its time is over.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    allowed: Duration,
    /// Counts from the first look at it: most requests have no body, and need no clock.
    overdue: Option<Pin<Box<Sleep>>>,
}

/// A body that did not come.
#[derive(Debug, thiserror::Error)]
pub enum RequestBodyError {
    /// It took too long.
    #[error("the body was not whole within {allowed:?}")]
    Late {
        /// What it may take.
        allowed: Duration,
    },
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(hyper::Error),
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, allowed: Duration) -> Self {
        let overdue = None;
        Self {
            incoming,
            allowed,
            overdue,
        }
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
