//! Connections that carry another protocol after their request (status 101): [`UpgradedConnection`].

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::TransportError;
use super::network::root_cause;

/// Bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> ByteStream for T {}

/// The connection of an answer with status 101, as an extension of that answer. A service in this process adds it to its
/// answer itself. Clones share one connection, which can be taken once.
#[derive(Clone)]
pub struct UpgradedConnection(Arc<Mutex<Option<Box<dyn ByteStream>>>>);

impl UpgradedConnection {
    pub fn new(stream: impl ByteStream) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(stream)))))
    }

    /// The connection; `None` if it was taken before.
    #[must_use]
    pub fn take(&self) -> Option<Box<dyn ByteStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for UpgradedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpgradedConnection")
    }
}

/// Adds the connection of the network to an answer with status 101.
pub(super) async fn with_connection<B>(
    mut answer: Response<B>,
) -> Result<Response<B>, TransportError> {
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgraded = hyper::upgrade::on(&mut answer).await;
        let upgraded = upgraded.map_err(|error| TransportError::Closed {
            reason: root_cause(&error),
        })?;
        let connection = UpgradedConnection::new(TokioIo::new(upgraded));
        answer.extensions_mut().insert(connection);
    }
    Ok(answer)
}
