//! A request body with a least rate, and a limit of the memory of all bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};

use crate::connections::ServedConnection;
use crate::memory::{BodyMemoryExhausted, ReservedMemory};
use crate::pace::Pace;

/// The body of a request. Reading it fails if it arrives too slowly, or if all bodies of the listener need too much
/// memory.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    rate: LeastRate,
    pace: Pace,
    /// When the body is too late, while it is waited for.
    overdue: Option<Pin<Box<Sleep>>>,
    /// Set when it was read to its end; `None` without a body.
    whole: Option<Arc<AtomicBool>>,
    connection: Arc<ServedConnection>,
    memory: Arc<ReservedMemory>,
}

/// The rate that a peer must keep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeastRate {
    /// In bytes per second.
    pub(crate) rate: u32,
    /// How far behind the rate it may be.
    pub(crate) allowed: Duration,
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
    /// It arrived too slowly.
    #[error("it is {allowed:?} behind the least rate of {rate} bytes per second")]
    Late { allowed: Duration, rate: u32 },
    /// The unfinished bodies of all requests need more memory than the listener has for them.
    #[error("the request bodies of all clients need too much memory")]
    NoMemory,
    /// The unfinished bodies of this account, or of this address, need more memory than its share.
    #[error("the request bodies of this account or address need too much memory")]
    ShareUsed,
    #[error("the connection broke: {0}")]
    Broken(hyper::Error),
}

impl RequestBody {
    pub(crate) fn new(
        incoming: Incoming,
        rate: LeastRate,
        connection: &Arc<ServedConnection>,
        memory: &Arc<ReservedMemory>,
    ) -> Self {
        let none = incoming.is_end_stream();
        Self {
            incoming,
            rate,
            pace: Pace::default(),
            overdue: None,
            whole: (!none).then(Arc::default),
            connection: Arc::clone(connection),
            memory: Arc::clone(memory),
        }
    }

    pub(crate) fn remainder(&self) -> Remainder {
        Remainder(self.whole.clone())
    }

    fn arrived(
        &mut self,
        frame: Option<Result<Frame<Bytes>, hyper::Error>>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let data = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        let now = Instant::now();
        self.overdue = None;
        self.pace.moved(data, self.rate.rate, now);
        if !self.connection.received(data, now) {
            // The connection is being closed, and with it the handler.
            return Poll::Pending;
        }
        let is_end = frame.is_none() || self.incoming.is_end_stream();
        if let Some(whole) = self.whole.as_ref().filter(|_| is_end) {
            whole.store(true, Ordering::Relaxed);
        }
        match self.memory.grow(data) {
            Ok(()) => {}
            Err(BodyMemoryExhausted::Listener) => {
                return Poll::Ready(Some(Err(RequestBodyError::NoMemory)));
            }
            Err(BodyMemoryExhausted::Share) => {
                return Poll::Ready(Some(Err(RequestBodyError::ShareUsed)));
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(RequestBodyError::Broken)))
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
            return self.arrived(frame);
        }
        let now = Instant::now();
        self.pace.waits(now);
        self.connection.waits_for_body(now);
        let LeastRate { rate, allowed } = self.rate;
        let left = allowed.saturating_sub(self.pace.behind(now));
        let overdue = self.overdue.get_or_insert_with(|| Box::pin(sleep(left)));
        match overdue.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(RequestBodyError::Late { allowed, rate }))),
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
