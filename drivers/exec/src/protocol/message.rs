//! The messages between Berth and an exec driver, an external program that drives a hypervisor: JSON-RPC 2.0, one message per
//! line. Berth sends requests with numeric ids; the driver sends answers and notifications.

use berth_virt::HostEvent;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::method::Method;
use super::value::{Text, decode};
use crate::lines::shown;

/// The maximum length of a line in bytes, without the line feed.
pub const LONGEST_LINE: usize = 16 << 20;
/// The maximum number of characters kept of an error's message.
const LONGEST_MESSAGE: usize = 2048;

/// A request of Berth, as a line.
pub(crate) fn request(id: u64, method: Method, params: &Value) -> Vec<u8> {
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method.as_str(), "params": params});
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// An error returned by a driver.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorObject {
    /// A code of JSON-RPC, or of the protocol of exec drivers. It is not checked here.
    pub code: i64,
    /// The reason, for people: what prevents the operation, and how to repair it.
    pub message: String,
    /// The data that the code requires; null if it requires none.
    pub data: Value,
}

/// A message that the driver sent.
#[derive(Debug, PartialEq)]
pub(crate) enum IncomingMessage {
    /// The answer to a call.
    Answer {
        id: Value,
        answer: Result<Value, ErrorObject>,
    },
    /// An error without a call id: the driver could not read a message.
    ErrorWithoutId(ErrorObject),
    Notification {
        method: String,
        params: Value,
    },
}

impl IncomingMessage {
    pub(crate) fn of(value: Value) -> Result<Self, &'static str> {
        let Value::Object(mut fields) = value else {
            return Err("it is no JSON object");
        };
        if fields.remove("jsonrpc") != Some(Value::from("2.0")) {
            return Err("it lacks \"jsonrpc\": \"2.0\"");
        }
        let message = match (fields.remove("method"), fields.remove("id")) {
            (Some(_), Some(_)) => return Err("it is a request, which drivers may not send"),
            (Some(Value::String(method)), None) => IncomingMessage::Notification {
                method,
                params: fields.remove("params").unwrap_or(json!({})),
            },
            (Some(_), None) => return Err("its method is not a string"),
            (None, None) => return Err("it has neither id nor method"),
            (None, Some(id)) => Self::answer(id, &mut fields)?,
        };
        match fields.is_empty() {
            true => Ok(message),
            false => Err("it has fields unknown to JSON-RPC"),
        }
    }

    fn answer(id: Value, fields: &mut Map<String, Value>) -> Result<Self, &'static str> {
        match (fields.remove("result"), fields.remove("error")) {
            (Some(_), Some(_)) => Err("it has result and error"),
            (None, None) => Err("it has neither result nor error"),
            (Some(_), None) if id.is_null() => Err("its id is null"),
            (Some(result), None) => Ok(IncomingMessage::Answer {
                id,
                answer: Ok(result),
            }),
            (None, Some(error)) => {
                let error = ErrorObject::of(error)?;
                Ok(match id.is_null() {
                    true => IncomingMessage::ErrorWithoutId(error),
                    false => IncomingMessage::Answer {
                        id,
                        answer: Err(error),
                    },
                })
            }
        }
    }
}

impl ErrorObject {
    fn of(value: Value) -> Result<Self, &'static str> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            code: i64,
            message: String,
            #[serde(default)]
            data: Value,
        }
        let fields: Fields = decode(value)
            .map_err(|_| "its error does not consist of code, message and optional data")?;
        Ok(Self {
            code: fields.code,
            message: shown(&fields.message, LONGEST_MESSAGE),
            data: fields.data,
        })
    }
}

/// The notification `changed`: something on the host has changed. Berth then asks the driver for the state of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangedNotification {
    pub what: ChangeKind,
    /// For the driver's own log; Berth ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Text<1024>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Devices appeared, disappeared or changed.
    Devices,
    /// Guests were defined, started, stopped or removed.
    Guests,
    /// The kind of change is not known, or events were lost.
    Unknown,
}

impl From<ChangeKind> for HostEvent {
    fn from(what: ChangeKind) -> Self {
        match what {
            ChangeKind::Devices => HostEvent::Devices,
            ChangeKind::Guests => HostEvent::Guests,
            ChangeKind::Unknown => HostEvent::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_an_answer_an_error_without_id_or_a_notification() {
        let error = json!({"code": 1, "message": "no"});
        for (value, expected) in [
            (json!({"jsonrpc": "2.0", "id": 1, "result": null}), "Answer"),
            (json!({"jsonrpc": "2.0", "id": 1, "error": error}), "Answer"),
            (
                json!({"jsonrpc": "2.0", "id": null, "error": error}),
                "ErrorWithoutId",
            ),
            (
                json!({"jsonrpc": "2.0", "method": "changed", "params": {}}),
                "Notification",
            ),
        ] {
            let message = format!("{:?}", IncomingMessage::of(value).unwrap());
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for (value, reason) in [
            (json!([]), "object"),
            (json!({"id": 1, "result": 1}), "jsonrpc"),
            (json!({"jsonrpc": "1.0", "id": 1, "result": 1}), "jsonrpc"),
            (json!({"jsonrpc": "2.0"}), "neither id nor method"),
            (
                json!({"jsonrpc": "2.0", "id": 1}),
                "neither result nor error",
            ),
            (
                json!({"jsonrpc": "2.0", "id": 1, "result": 1, "error": {}}),
                "result and error",
            ),
            (json!({"jsonrpc": "2.0", "id": null, "result": 1}), "null"),
            (
                json!({"jsonrpc": "2.0", "id": 1, "method": "observe"}),
                "request",
            ),
            (json!({"jsonrpc": "2.0", "method": 1}), "not a string"),
            (
                json!({"jsonrpc": "2.0", "id": 1, "result": 1, "x": 1}),
                "fields",
            ),
            (
                json!({"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}}),
                "code",
            ),
        ] {
            let error = IncomingMessage::of(value.clone()).unwrap_err();
            assert!(error.contains(reason), "{value}: {error}");
        }
    }

    #[test]
    fn a_request_is_one_line() {
        let line = request(7, Method::Observe, &json!({"text": "a\nb"}));
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with('\n') && text.contains("\"id\":7"), "{text}");
    }
}
