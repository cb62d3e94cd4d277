//! The socket of a connection: [`ServedSocket`] measures how fast the peer reads its responses, and closes without
//! losing one.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::body::LeastRate;
use crate::connections::ServedConnection;
use crate::pace::Pace;

/// How long the rest of a body is read and dropped before the connection closes.
const LINGER: Duration = Duration::from_secs(2);

/// A socket whose peer must read responses at a least rate.
pub(crate) struct ServedSocket<I> {
    socket: I,
    connection: Arc<ServedConnection>,
    rate: LeastRate,
    pace: Pace,
    /// When the peer is too late, while this side waits for it.
    overdue: Option<Pin<Box<Sleep>>>,
    /// When the connection closes although the peer still sends.
    linger: Option<Pin<Box<Sleep>>>,
}

impl<I> ServedSocket<I> {
    pub(crate) fn new(socket: I, rate: LeastRate, connection: &Arc<ServedConnection>) -> Self {
        Self {
            socket,
            connection: Arc::clone(connection),
            rate,
            pace: Pace::default(),
            overdue: None,
            linger: None,
        }
    }

    /// The result of a write, or a timeout. `bytes` is how many were written.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        let now = Instant::now();
        if let Poll::Ready(result) = written {
            if let Ok(bytes) = result.as_ref().map(bytes) {
                self.overdue = None;
                self.pace.moved(bytes, self.rate.rate, now);
                self.connection.sent(bytes, now);
            }
            return Poll::Ready(result);
        }
        self.pace.waits(now);
        self.connection.waits_for_reader(now);
        let LeastRate { rate, allowed } = self.rate;
        let left = allowed.saturating_sub(self.pace.behind(now));
        let overdue = self.overdue.get_or_insert_with(|| Box::pin(sleep(left)));
        overdue.as_mut().poll(context).map(|()| {
            let why = format!(
                "timed out: the peer reads the response {allowed:?} behind the least rate of {rate} bytes per second"
            );
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }
}

impl<I: AsyncRead + Unpin> ServedSocket<I> {
    /// Reads and drops the rest of a body. The kernel resets a connection that is closed with unread bytes, and the peer
    /// would lose its response.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let end = self.linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if end.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        loop {
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for ServedSocket<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ServedSocket<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, buffer);
        self.judge(context, written, |bytes| *bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, buffers);
        self.judge(context, written, |bytes| *bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        self.judge(context, flushed, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.linger.is_none() {
            let ended = Pin::new(&mut self.socket).poll_shutdown(context);
            ready!(self.judge(context, ended, |()| 0))?;
        }
        if self.connection.has_unread_body() {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }
}
