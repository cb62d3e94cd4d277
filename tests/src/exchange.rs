//! Sends one HTTP request and reads one answer on one connection. Tests use it to inspect a peer, and the fault proxy
//! to forward requests. It is deliberately not Berth's own client, which is under test.

use std::net::SocketAddr;
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// No single exchange of a test takes this long; the largest reshape of the slowest peer takes half a minute.
const LIMIT: Duration = Duration::from_secs(60);

/// Why an exchange gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The URL is not `http://ADDRESS:PORT/…` with an IP address or `localhost`.
    #[error("'{url}' is not an http URL with an IP address, or localhost, and a port")]
    Url { url: String },
    #[error("no connection to {address}: {source}")]
    Connect {
        address: SocketAddr,
        source: std::io::Error,
    },
    /// The request cannot be written as one.
    #[error("the request is malformed: {0}")]
    Request(#[from] http::Error),
    /// The connection ended without a whole answer.
    #[error("no whole answer from {address}: {source}")]
    Broken {
        address: SocketAddr,
        /// What went wrong with HTTP.
        source: hyper::Error,
    },
    /// The other side took too long.
    #[error("no answer from {address} within {} s", LIMIT.as_secs())]
    Slow { address: SocketAddr },
    /// The runtime of the tests ended meanwhile.
    #[error("the test process is ending")]
    Ending,
}

#[derive(Clone, Debug)]
pub struct HttpAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Body, at most what the peer sent.
    pub body: Bytes,
}

impl HttpAnswer {
    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value; empty if the header is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

/// The runtime of the harness, apart from any test's own: a test may block, or end its runtime, while a proxy serves.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("the system can start two threads")
    })
}

/// A request under construction: `Ask::get(url).header(…).send()`.
#[derive(Clone, Debug)]
pub struct HttpCall {
    method: Method,
    url: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl HttpCall {
    /// Any method, by its name in capitals.
    #[must_use]
    pub fn new(method: Method, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        Self::new(Method::GET, url)
    }

    #[must_use]
    pub fn post(url: impl Into<String>) -> Self {
        Self::new(Method::POST, url)
    }

    #[must_use]
    pub fn put(url: impl Into<String>) -> Self {
        Self::new(Method::PUT, url)
    }

    #[must_use]
    pub fn delete(url: impl Into<String>) -> Self {
        Self::new(Method::DELETE, url)
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends this JSON, with its content type.
    #[must_use]
    pub fn json(mut self, body: &serde_json::Value) -> Self {
        self.body = Bytes::from(body.to_string());
        self.header("content-type", "application/json")
    }

    /// Sends it and waits for the whole answer, of any status. May be called from inside a runtime; it blocks the
    /// thread.
    pub fn send(self) -> Result<HttpAnswer, ExchangeError> {
        let address = address_of(&self.url)?;
        let mut request = Request::builder()
            .method(self.method)
            .uri(path_of(&self.url));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(self.body)?;
        let host = host_of(&self.url).unwrap_or_default().to_owned();
        let (done, answer) = mpsc::channel();
        runtime().spawn(async move {
            // The test that asked waits below.
            let _ = done.send(exchange_as(&host, address, request).await);
        });
        let (parts, body) = answer
            .recv()
            .map_err(|_| ExchangeError::Ending)??
            .into_parts();
        Ok(HttpAnswer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }
}

/// The address in an `http://ADDRESS:PORT/path` URL; `localhost` is 127.0.0.1.
pub fn address_of(url: &str) -> Result<SocketAddr, ExchangeError> {
    let wrong = || ExchangeError::Url {
        url: url.to_owned(),
    };
    let host = host_of(url).ok_or_else(wrong)?;
    let address = match host.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => host.to_owned(),
    };
    address.parse().map_err(|_| wrong())
}

/// Host and port as the URL writes them; none where it is no http URL.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://")?;
    rest.split(['/', '?']).next()
}

/// What follows the address, at least `/`.
fn path_of(url: &str) -> &str {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// Opens a connection, sends, reads the whole answer, closes. `host` and hop-by-hop headers are this connection's.
pub(crate) async fn exchange(
    address: SocketAddr,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, ExchangeError> {
    exchange_as(&address.to_string(), address, request).await
}

/// The same, where the URL calls the host by another name than its address.
async fn exchange_as(
    host: &str,
    address: SocketAddr,
    mut request: Request<Bytes>,
) -> Result<Response<Bytes>, ExchangeError> {
    for hop in [
        header::CONNECTION,
        header::HOST,
        header::TRANSFER_ENCODING,
        header::CONTENT_LENGTH,
    ] {
        request.headers_mut().remove(hop);
    }
    let host = host.parse().map_err(http::Error::from)?;
    request.headers_mut().insert(header::HOST, host);
    request.headers_mut().insert(
        header::CONNECTION,
        header::HeaderValue::from_static("close"),
    );
    let work = async {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|source| ExchangeError::Connect { address, source })?;
        let broken = |source| ExchangeError::Broken { address, source };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        tokio::spawn(connection);
        let (parts, body) = sender
            .send_request(request.map(Full::new))
            .await
            .map_err(broken)?
            .into_parts();
        let body = body.collect().await.map_err(broken)?.to_bytes();
        Ok(Response::from_parts(parts, body))
    };
    tokio::time::timeout(LIMIT, work)
        .await
        .map_err(|_| ExchangeError::Slow { address })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_parsed() {
        let url = "http://127.0.0.1:8778/placement/resource_providers?name=a/b";
        assert_eq!(
            address_of(url).expect("an address"),
            SocketAddr::from(([127, 0, 0, 1], 8778))
        );
        assert_eq!(path_of(url), "/placement/resource_providers?name=a/b");
        assert_eq!(path_of("http://127.0.0.1:8778"), "/");
        assert_eq!(
            address_of("http://localhost:80/").expect("an address"),
            SocketAddr::from(([127, 0, 0, 1], 80))
        );
        for wrong in [
            "https://127.0.0.1:1/",
            "http://elsewhere:80/",
            "http://localhost/",
            "http://127.0.0.1/",
            "",
        ] {
            assert!(address_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_listening_is_an_error_that_names_the_address() {
        let port = crate::port::free_port().expect("a port");
        let error = HttpCall::get(format!("http://127.0.0.1:{port}/"))
            .send()
            .expect_err("refused");
        assert!(
            error.to_string().contains(&format!("127.0.0.1:{port}")),
            "{error}"
        );
    }
}
