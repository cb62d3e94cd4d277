//! Adds an explanation to the response of a request that the HTTP library refuses because its `content-length` is not a number. The library
//! answers 400 with an empty body, and has no hook to change it.
//!
//! [`ExplainedRefusals`] therefore wraps the socket and replaces that response in the byte stream.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes of a request are examined.
const KEPT: usize = 8 << 10;
/// The beginning of the library's response, and its header for an empty body.
const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\n";
const NO_BODY: &str = "content-length: 0\r\n";
const REASON: &str = "content-length header must be an integer\n";

/// A socket that explains refusals of the HTTP library.
pub(crate) struct ExplainedRefusals<I> {
    socket: I,
    /// The first bytes received since the last response.
    asked: Vec<u8>,
    answered: bool,
    /// The replacement of a response, and how many bytes of it are written.
    own: Vec<u8>,
    written: usize,
}

impl<I> ExplainedRefusals<I> {
    pub(crate) fn new(socket: I) -> Self {
        Self {
            socket,
            asked: Vec::new(),
            answered: false,
            own: Vec::new(),
            written: 0,
        }
    }

    fn retain_bytes(&mut self, came: &[u8]) {
        if std::mem::take(&mut self.answered) {
            self.asked.clear();
        }
        let room = KEPT - self.asked.len();
        self.asked.extend_from_slice(&came[..came.len().min(room)]);
    }

    /// The replacement, if this is the library's response to such a request.
    fn reworded(&mut self, answer: &[u8]) -> Option<Vec<u8>> {
        self.answered = true;
        if !answer.starts_with(BAD_REQUEST) || !has_malformed_length(&self.asked) {
            return None;
        }
        let answer = str::from_utf8(answer).ok()?;
        let (before, after) = answer.split_once(NO_BODY)?;
        let length = REASON.len();
        let head =
            format!("content-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n");
        Some(format!("{before}{head}{after}{REASON}").into_bytes())
    }
}

/// Whether a header line has a malformed length. All lines are examined, because requests may be pipelined.
fn has_malformed_length(asked: &[u8]) -> bool {
    let lines = asked.split(|byte| *byte == b'\n');
    let mut lengths = lines.filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..at], &line[at + 1..]);
        name.eq_ignore_ascii_case(b"content-length")
            .then(|| value.trim_ascii())
    });
    lengths.any(|value| value.is_empty() || !value.iter().all(u8::is_ascii_digit))
}

impl<I: AsyncWrite + Unpin> ExplainedRefusals<I> {
    fn poll_own(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.own.len() {
            let rest = &self.own[self.written..];
            match ready!(Pin::new(&mut self.socket).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for ExplainedRefusals<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        self.retain_bytes(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for ExplainedRefusals<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(own) = self.reworded(buffer) {
            (self.own, self.written) = (own, 0);
            return Poll::Ready(Ok(buffer.len()));
        }
        ready!(self.poll_own(context))?;
        Pin::new(&mut self.socket).poll_write(context, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The head is one buffer, and the first one.
        let first = buffers.iter().find(|buffer| !buffer.is_empty());
        let first = first.map_or(&[][..], |buffer| &**buffer);
        if let Some(own) = self.reworded(first) {
            (self.own, self.written) = (own, 0);
            return Poll::Ready(Ok(first.len()));
        }
        ready!(self.poll_own(context))?;
        Pin::new(&mut self.socket).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_own(context))?;
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_own(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
