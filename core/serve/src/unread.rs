//! A write timeout: [`WriteTimeout`] wraps a socket and fails if nothing could be written for a time, because the peer does not read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A socket with a write timeout.
pub(crate) struct WriteTimeout<I> {
    socket: I,
    allowed: Duration,
    /// The deadline: started by the first write that has to wait, cleared by a write that does not.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl<I> WriteTimeout<I> {
    /// `allowed` is how long the peer may read nothing.
    pub(crate) fn new(socket: I, allowed: Duration) -> Self {
        Self {
            socket,
            allowed,
            overdue: None,
        }
    }

    /// The result of a write, or a timeout.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.overdue = None;
            return written;
        }
        let allowed = self.allowed;
        let overdue = self.overdue.get_or_insert_with(|| Box::pin(sleep(allowed)));
        overdue.as_mut().poll(context).map(|()| {
            let why = format!("timed out: the peer read nothing of the response for {allowed:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WriteTimeout<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, buffer);
        self.judge(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, buffers);
        self.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.socket).poll_shutdown(context);
        self.judge(context, ended)
    }
}
