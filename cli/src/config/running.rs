//! The configuration the running agent has in force, asked over its admin socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::view::Public;
use crate::listing::API;

/// How long the agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any configuration takes.
const LARGEST_ANSWER: usize = 4 << 20;

/// Why the running configuration is not known.
#[derive(Debug, thiserror::Error)]
pub enum RunningError {
    /// Nobody answers on the socket.
    #[error("the agent does not answer on {}", socket.display())]
    Away {
        /// The admin socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The agent answered with an error.
    #[error("the agent on {} answered {status}", socket.display())]
    Refused {
        /// The admin socket.
        socket: PathBuf,
        /// The HTTP status.
        status: u16,
    },
    /// The answer is not what this version expects.
    #[error("the agent's answer on {} is not understood", socket.display())]
    Answer {
        /// The admin socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The body of `GET /v1/config`.
#[derive(Deserialize)]
struct Answer {
    api: String,
    config: Public,
}

/// Asks the agent for its configuration, secrets masked.
///
/// # Errors
/// The agent is away, refuses, or answers what this version does not understand.
pub async fn running_config(socket: &Path) -> Result<Public, RunningError> {
    let (status, body) = match timeout(PATIENCE, get(socket, "/v1/config")).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(source)) => {
            return Err(RunningError::Away {
                socket: socket.to_owned(),
                source,
            });
        }
        Err(_) => {
            return Err(RunningError::Away {
                socket: socket.to_owned(),
                source: io::ErrorKind::TimedOut.into(),
            });
        }
    };
    if !status.is_success() {
        return Err(RunningError::Refused {
            socket: socket.to_owned(),
            status: status.as_u16(),
        });
    }
    understand(&body).map_err(|source| RunningError::Answer {
        socket: socket.to_owned(),
        source,
    })
}

fn understand(body: &[u8]) -> io::Result<Public> {
    let answer: Answer = serde_json::from_slice(body)?;
    if answer.api == API {
        Ok(answer.config)
    } else {
        let what = format!("it speaks {:?}, this is {API:?}", answer.api);
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }
}

async fn get(socket: &Path, path: &str) -> io::Result<(http::StatusCode, bytes::Bytes)> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let request = http::Request::get(path)
        .header(http::header::HOST, "agent")
        .body(Empty::<bytes::Bytes>::new())
        .map_err(io::Error::other)?;
    let exchange = async move {
        let answer = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LARGEST_ANSWER)
            .collect()
            .await
            .map_err(io::Error::other)?;
        Ok((status, body.to_bytes()))
    };
    let driving = async move {
        // Ends when the exchange does; its errors reach the exchange.
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        outcome = exchange => outcome,
        () = driving => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_api_is_understood() {
        assert!(understand(br#"{"api": "berth/1", "config": {"host": "a"}}"#).is_ok());
        for other in [
            &br#"{"api": "berth/2", "config": {}}"#[..],
            b"{}",
            b"[]",
            b"",
            b"\xff",
        ] {
            assert!(understand(other).is_err());
        }
    }

    #[tokio::test]
    async fn a_socket_nobody_listens_on_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent.sock");
        let error = running_config(&socket).await.unwrap_err();
        assert!(matches!(error, RunningError::Away { .. }), "{error:?}");
        assert!(error.to_string().contains("agent.sock"));
    }
}
