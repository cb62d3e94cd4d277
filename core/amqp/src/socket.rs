//! The socket to a broker, with or without TLS, in the form that lapin needs.
//!
//! lapin's own TLS would need a second implementation of cryptography, and settings that hold for the whole process.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_rs::Tokio;
use async_rs::traits::Reactor;
use futures_core::Stream;
use futures_util::io::{AsyncRead, AsyncWrite};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

/// A connected socket.
pub(crate) type BrokerSocket = Compat<Box<dyn Socket>>;

pub(crate) trait Socket:
    tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin
{
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Socket for S {}

/// Connects, and completes the TLS handshake if there are settings for it.
pub(crate) async fn connect(
    host: &str,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
) -> io::Result<BrokerSocket> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let Some(config) = tls else {
        return Ok((Box::new(stream) as Box<dyn Socket>).compat());
    };
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(config).connect(name, stream).await?;
    Ok((Box::new(stream) as Box<dyn Socket>).compat())
}

/// tokio, with [`BrokerSocket`] as the type of its sockets.
#[derive(Debug, Clone)]
pub(crate) struct BrokerReactor(pub(crate) Tokio);

impl Reactor for BrokerReactor {
    type TcpStream = BrokerSocket;
    type Sleep = <Tokio as Reactor>::Sleep;

    /// lapin registers no sockets of others; the trait's bound for them is private to its crate.
    fn register<H: io::Read + io::Write + Send + 'static>(
        &self,
        _socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<BrokerSocket, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    /// Plain sockets; those with TLS need a host name, and come from [`connect`].
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an async fn would borrow self"
    )]
    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        async move { connect(&address.ip().to_string(), address.port(), None).await }
    }
}
