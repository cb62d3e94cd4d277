//! Messages of oslo.messaging as JSON: the envelope, requests and replies.
//!
//! A body is an object of two keys, `oslo.version` and `oslo.message`; the second is a text that holds the message as JSON again. Keys
//! of a message that begin with an underscore are oslo.messaging's, and those that begin with `_context_` are the context.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::context::RpcContext;
use crate::failure::RemoteFailure;

const VERSION_KEY: &str = "oslo.version";
const MESSAGE_KEY: &str = "oslo.message";
const VERSION: &str = "2.0";
const CONTEXT: &str = "_context_";

/// Why a body is not a request or a reply. It holds names of keys alone, no values: those can be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error("the body is not a JSON object of oslo.messaging: {reason}")]
    NotAnEnvelope { reason: String },
    #[error("the envelope has the version {version}; version 2.x is known")]
    Version { version: String },
    #[error("the text of oslo.message is not a JSON object: {reason}")]
    NotAMessage { reason: String },
    #[error("the message has no {key}")]
    Absent { key: &'static str },
    #[error("{key} of the message has to be {expected}")]
    Kind {
        key: &'static str,
        expected: &'static str,
    },
}

/// Where the reply to a call goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyAddress {
    /// The caller's queue (`_reply_q`).
    pub queue: String,
    /// Which of its calls the reply is for (`_msg_id`).
    pub message_id: String,
    /// How long the caller waits for a sign of life (`_timeout`). `None` if it does not want any.
    pub call_monitor_timeout: Option<Duration>,
}

/// A request: a call if it has a reply address, otherwise a cast.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcRequest {
    pub namespace: Option<String>,
    pub method: String,
    /// The version of the method, such as `6.5`. oslo.messaging takes an absent one for `1.0`.
    pub version: String,
    pub args: RpcArguments,
    pub context: RpcContext,
    pub reply_to: Option<ReplyAddress>,
    /// The same for each delivery of the request (`_unique_id`). oslo.messaging always sends one; other programs may not.
    pub unique_id: Option<String>,
}

/// The arguments of a request. They hold whole objects, and passwords among them: `Debug` shows their names alone.
#[derive(Clone, PartialEq, Default)]
pub struct RpcArguments(pub Map<String, Value>);

impl std::fmt::Debug for RpcArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What the server of a call sends back.
#[derive(Debug, Clone, PartialEq)]
pub enum RpcReply {
    /// The call still runs: `ending` is false.
    KeepAlive { message_id: String },
    /// The call ended.
    End {
        message_id: String,
        outcome: Result<Value, RemoteFailure>,
    },
}

impl RpcRequest {
    /// Reads a published body.
    pub fn decode(body: &[u8]) -> Result<Self, EnvelopeError> {
        let mut message = opened(body)?;
        let method = required_text(&mut message, "method")?;
        let args = match message.remove("args") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(args)) => args,
            Some(_) => return Err(kind("args", "an object")),
        };
        let version = optional_text(&mut message, "version")?.unwrap_or_else(|| "1.0".to_owned());
        let namespace = optional_text(&mut message, "namespace")?;
        let unique_id = optional_text(&mut message, "_unique_id")?;
        let reply_to = reply_address(&mut message)?;
        let context = message.into_iter().filter_map(|(key, value)| {
            let name = key.strip_prefix(CONTEXT)?;
            Some((name.to_owned(), value))
        });
        Ok(Self {
            namespace,
            method,
            version,
            args: RpcArguments(args),
            context: RpcContext::new(context.collect()),
            reply_to,
            unique_id,
        })
    }

    /// The body to publish.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Map::new();
        message.insert("method".to_owned(), json!(self.method));
        message.insert("args".to_owned(), Value::Object(self.args.0.clone()));
        message.insert("version".to_owned(), json!(self.version));
        if let Some(namespace) = &self.namespace {
            message.insert("namespace".to_owned(), json!(namespace));
        }
        if let Some(address) = &self.reply_to {
            let timeout = address
                .call_monitor_timeout
                .map(|it| match it.subsec_nanos() {
                    0 => json!(it.as_secs()),
                    _ => json!(it.as_secs_f64()),
                });
            message.insert("_msg_id".to_owned(), json!(address.message_id));
            message.insert("_reply_q".to_owned(), json!(address.queue));
            message.insert("_timeout".to_owned(), json!(timeout));
        }
        if let Some(unique_id) = &self.unique_id {
            message.insert("_unique_id".to_owned(), json!(unique_id));
        }
        for (key, value) in self.context.values() {
            message.insert(format!("{CONTEXT}{key}"), value.clone());
        }
        closed(message)
    }
}

impl RpcReply {
    /// Reads a published body.
    pub fn decode(body: &[u8]) -> Result<Self, EnvelopeError> {
        let mut message = opened(body)?;
        let message_id = required_text(&mut message, "_msg_id")?;
        let failure = message.remove("failure").unwrap_or_default();
        let result = message.remove("result").unwrap_or_default();
        let ending = match message.remove("ending") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(ending)) => ending,
            Some(_) => return Err(kind("ending", "true or false")),
        };
        if !failure.is_null() {
            let outcome = Err(RemoteFailure::from_json(&failure));
            return Ok(Self::End {
                message_id,
                outcome,
            });
        }
        // Older releases send the result first, and the end of the call in a message of its own.
        if !ending && result.is_null() {
            return Ok(Self::KeepAlive { message_id });
        }
        Ok(Self::End {
            message_id,
            outcome: Ok(result),
        })
    }

    /// The body to publish.
    #[must_use]
    pub fn encode(&self, unique_id: &str) -> Vec<u8> {
        let (message_id, ending, result, failure) = match self {
            Self::KeepAlive { message_id } => (message_id, false, Value::Null, Value::Null),
            Self::End {
                message_id,
                outcome,
            } => match outcome {
                Ok(result) => (message_id, true, result.clone(), Value::Null),
                Err(failure) => (message_id, true, Value::Null, failure.to_json()),
            },
        };
        let mut message = Map::new();
        message.insert("result".to_owned(), result);
        message.insert("failure".to_owned(), failure);
        message.insert("ending".to_owned(), json!(ending));
        message.insert("_msg_id".to_owned(), json!(message_id));
        message.insert("_unique_id".to_owned(), json!(unique_id));
        closed(message)
    }
}

fn reply_address(message: &mut Map<String, Value>) -> Result<Option<ReplyAddress>, EnvelopeError> {
    let Some(message_id) = optional_text(message, "_msg_id")? else {
        return Ok(None);
    };
    let queue = required_text(message, "_reply_q")?;
    let seconds = match message.remove("_timeout") {
        None | Some(Value::Null) => None,
        Some(value) => Some(value.as_f64().ok_or(kind("_timeout", "seconds or null"))?),
    };
    let call_monitor_timeout = match seconds.map(Duration::try_from_secs_f64) {
        None => None,
        Some(Ok(timeout)) if timeout.is_zero() => None,
        Some(Ok(timeout)) => Some(timeout),
        Some(Err(_)) => return Err(kind("_timeout", "seconds or null")),
    };
    Ok(Some(ReplyAddress {
        queue,
        message_id,
        call_monitor_timeout,
    }))
}

/// The message in a body.
fn opened(body: &[u8]) -> Result<Map<String, Value>, EnvelopeError> {
    let not_an_envelope = |reason: String| EnvelopeError::NotAnEnvelope { reason };
    let mut envelope: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| not_an_envelope(position(&error)))?;
    let version = envelope.get(VERSION_KEY).and_then(Value::as_str);
    let version = version.ok_or_else(|| not_an_envelope(format!("it has no {VERSION_KEY}")))?;
    let (major, _minor) = version.split_once('.').unwrap_or((version, ""));
    if major != "2" {
        let version = version.chars().take(20).collect();
        return Err(EnvelopeError::Version { version });
    }
    let Some(Value::String(message)) = envelope.remove(MESSAGE_KEY) else {
        return Err(not_an_envelope(format!("it has no text {MESSAGE_KEY}")));
    };
    serde_json::from_str(&message).map_err(|error| EnvelopeError::NotAMessage {
        reason: position(&error),
    })
}

/// What is wrong with JSON, without a piece of it.
fn position(error: &serde_json::Error) -> String {
    let problem = match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Data => "it is another type",
        _ => "it is no JSON",
    };
    format!(
        "{problem} (line {}, column {})",
        error.line(),
        error.column()
    )
}

fn closed(message: Map<String, Value>) -> Vec<u8> {
    let text = Value::Object(message).to_string();
    json!({VERSION_KEY: VERSION, MESSAGE_KEY: text})
        .to_string()
        .into_bytes()
}

fn required_text(
    message: &mut Map<String, Value>,
    key: &'static str,
) -> Result<String, EnvelopeError> {
    optional_text(message, key)?.ok_or(EnvelopeError::Absent { key })
}

fn optional_text(
    message: &mut Map<String, Value>,
    key: &'static str,
) -> Result<Option<String>, EnvelopeError> {
    match message.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(kind(key, "a text")),
    }
}

fn kind(key: &'static str, expected: &'static str) -> EnvelopeError {
    EnvelopeError::Kind { key, expected }
}

#[cfg(test)]
mod tests;
