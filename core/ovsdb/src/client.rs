//! [`OvsdbClient`]: sends transactions to a database server.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::endpoint::OvsdbEndpoint;
use crate::error::OvsdbError;
use crate::operation::{Operation, OperationResult};

/// The database of a switch.
const OPEN_VSWITCH: &str = "Open_vSwitch";

/// The id of the transaction on its connection.
const TRANSACTION: u64 = 1;

/// Maximum size of an answer in bytes. The rows of a switch with 10,000 interfaces have some 5 MB.
const LARGEST_ANSWER: usize = 64 << 20;

/// A client of a switch's database. It has no lasting connection.
#[derive(Debug, Clone)]
pub struct OvsdbClient {
    endpoint: OvsdbEndpoint,
    limit: Duration,
}

impl OvsdbClient {
    /// A client of the server at `endpoint`. Each transaction may take `limit`, and the time of its `wait` operations.
    #[must_use]
    pub fn new(endpoint: OvsdbEndpoint, limit: Duration) -> Self {
        Self { endpoint, limit }
    }

    #[must_use]
    pub fn endpoint(&self) -> &OvsdbEndpoint {
        &self.endpoint
    }

    /// Runs a transaction, and returns the result of each operation.
    ///
    /// Errors: [`OvsdbError::Refused`] if the server applied nothing. After another error the effect is unknown.
    pub async fn transact(
        &self,
        operations: &[Operation],
    ) -> Result<Vec<OperationResult>, OvsdbError> {
        let waits = operations.iter().map(|operation| match operation {
            Operation::Wait { timeout, .. } => Duration::from_millis(*timeout),
            _ => Duration::ZERO,
        });
        let limit = waits.fold(self.limit, Duration::saturating_add);
        let endpoint = || self.endpoint.clone();
        let connected = async {
            match &self.endpoint {
                OvsdbEndpoint::Unix(path) => {
                    let stream = UnixStream::connect(path).await;
                    self.exchange(
                        stream.map_err(|source| self.no_connection(source))?,
                        operations,
                    )
                    .await
                }
                OvsdbEndpoint::Tcp { host, port } => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await;
                    self.exchange(
                        stream.map_err(|source| self.no_connection(source))?,
                        operations,
                    )
                    .await
                }
            }
        };
        match timeout(limit, connected).await {
            Ok(results) => results,
            Err(_) => Err(OvsdbError::TimedOut {
                endpoint: endpoint(),
                limit,
            }),
        }
    }

    async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        mut stream: S,
        operations: &[Operation],
    ) -> Result<Vec<OperationResult>, OvsdbError> {
        let mut params = vec![json!(OPEN_VSWITCH)];
        for operation in operations {
            params.push(serde_json::to_value(operation).map_err(|e| self.unreadable(&e))?);
        }
        let request = json!({"method": "transact", "params": params, "id": TRANSACTION});
        self.send(&mut stream, &request).await?;
        let mut received = Vec::new();
        loop {
            let message = self.next_message(&mut stream, &mut received).await?;
            match message.method.as_deref() {
                // The server checks whether an idle client is alive.
                Some("echo") => {
                    let reply = json!({"result": message.params, "error": null, "id": message.id});
                    self.send(&mut stream, &reply).await?;
                }
                Some(_) => {}
                None if message.id == json!(TRANSACTION) => {
                    return self.results(message, operations.len());
                }
                None => {}
            }
        }
    }

    async fn send<S: AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        message: &Value,
    ) -> Result<(), OvsdbError> {
        let sent = stream.write_all(message.to_string().as_bytes()).await;
        sent.map_err(|source| self.broken(source))
    }

    /// The next message of the stream. Messages follow each other without a separator.
    async fn next_message<S: AsyncRead + Unpin>(
        &self,
        stream: &mut S,
        received: &mut Vec<u8>,
    ) -> Result<Message, OvsdbError> {
        loop {
            let mut messages =
                serde_json::Deserializer::from_slice(received).into_iter::<Message>();
            match messages.next() {
                Some(Ok(message)) => {
                    let end = messages.byte_offset();
                    received.drain(..end);
                    return Ok(message);
                }
                Some(Err(error)) if !error.is_eof() => return Err(self.unreadable(&error)),
                Some(Err(_)) | None => {}
            }
            if received.len() > LARGEST_ANSWER {
                let reason = format!("it has more than {LARGEST_ANSWER} bytes");
                return Err(self.unreadable(&reason));
            }
            // Grow with the answer, so that a long one is not parsed again after every few bytes.
            received.reserve(received.len().max(16 << 10));
            let read = stream.read_buf(received).await;
            if read.map_err(|source| self.broken(source))? == 0 {
                return Err(self.broken(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// The results of all operations, or the first error.
    fn results(
        &self,
        message: Message,
        operations: usize,
    ) -> Result<Vec<OperationResult>, OvsdbError> {
        if let Some(error) = message.error {
            return Err(refusal(&error));
        }
        let Value::Array(results) = message.result else {
            return Err(self.unreadable(&"the result is not an array"));
        };
        // A failed operation has an error, those after it are null, and an error of the whole follows the operations.
        if let Some(error) = results.iter().find(|result| result.get("error").is_some()) {
            return Err(refusal(error));
        }
        if results.len() < operations {
            let found = results.len();
            return Err(self.unreadable(&format!("{found} results for {operations} operations")));
        }
        let results = results.into_iter().map(serde_json::from_value);
        results
            .collect::<Result<_, _>>()
            .map_err(|error| self.unreadable(&error))
    }

    fn no_connection(&self, source: io::Error) -> OvsdbError {
        OvsdbError::Connect {
            endpoint: self.endpoint.clone(),
            source,
        }
    }

    fn broken(&self, source: io::Error) -> OvsdbError {
        OvsdbError::Connection {
            endpoint: self.endpoint.clone(),
            source,
        }
    }

    fn unreadable(&self, reason: &dyn std::fmt::Display) -> OvsdbError {
        OvsdbError::Unreadable {
            endpoint: self.endpoint.clone(),
            reason: reason.to_string(),
        }
    }
}

/// A request or an answer.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    id: Value,
}

fn refusal(error: &Value) -> OvsdbError {
    let text = |key: &str| {
        let text = error.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let (kind, details) = (text("error"), text("details"));
    OvsdbError::Refused {
        error: if kind.is_empty() {
            error.to_string()
        } else {
            kind
        },
        details,
    }
}

#[cfg(test)]
mod tests;
