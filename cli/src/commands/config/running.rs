//! Reads the configuration of the running agent over its admin socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_client::{HttpService, TransportError, TransportOptions};
use berth_compose::agent_away;
use berth_config::Public;
use berth_output::{API, ErrorCode, Failure};
use bytes::Bytes;
use http::{Request, Uri};
use serde::Deserialize;
use tokio::time::timeout;

/// The time limit for the agent's answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The limit of the answer's size; no configuration is as large.
const LARGEST_ANSWER: usize = 4 << 20;

/// Why the running configuration could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunningError {
    /// The agent does not answer: no connection, or no answer within the limit.
    #[error("the agent does not answer on {}", socket.display())]
    Away {
        socket: PathBuf,
        #[source]
        source: TransportError,
    },
    /// The agent answered with an error.
    #[error("the agent on {} answered {status}", socket.display())]
    Refused { socket: PathBuf, status: u16 },
    /// The answer is not what this version expects.
    #[error("the agent's answer on {} is invalid", socket.display())]
    Answer {
        socket: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The body of `GET /v1/config`.
#[derive(Deserialize)]
struct RunningConfigBody {
    api: String,
    config: Public,
}

/// Reads the agent's configuration, with secrets masked.
pub(super) async fn running_config(socket: &Path) -> Result<Public, RunningError> {
    let away = |source| RunningError::Away {
        socket: socket.to_owned(),
        source,
    };
    let options = TransportOptions {
        connect_timeout: PATIENCE,
        body_limit: LARGEST_ANSWER,
        ..TransportOptions::default()
    };
    let agent = HttpService::unix(socket, &options).map_err(away)?;
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = Uri::from_static("http://agent/v1/config");
    let slow = TransportError::Timeout { after: PATIENCE };
    let answer = timeout(PATIENCE, agent.send(request))
        .await
        .unwrap_or(Err(slow))
        .map_err(away)?;
    if !answer.status().is_success() {
        return Err(RunningError::Refused {
            socket: socket.to_owned(),
            status: answer.status().as_u16(),
        });
    }
    understand(answer.body()).map_err(|source| RunningError::Answer {
        socket: socket.to_owned(),
        source,
    })
}

fn understand(body: &[u8]) -> io::Result<Public> {
    let answer: RunningConfigBody = serde_json::from_slice(body)?;
    if answer.api == API {
        Ok(answer.config)
    } else {
        let what = format!("it speaks {:?}, this is {API:?}", answer.api);
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }
}

impl From<RunningError> for Failure {
    fn from(error: RunningError) -> Self {
        match &error {
            RunningError::Away { source, .. } => agent_away(&error, source),
            RunningError::Answer { .. } | RunningError::Refused { .. } => {
                Failure::from_error(ErrorCode::AgentAnswer, &error)
                    .hint("systemctl status berth-agent")
            }
        }
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
    async fn a_socket_without_a_listener_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent.sock");
        let error = running_config(&socket).await.unwrap_err();
        assert!(matches!(error, RunningError::Away { .. }), "{error:?}");
        assert!(error.to_string().contains("agent.sock"));
    }
}
