//! Why the conversation with a child ended.

use std::time::Duration;

use crate::protocol::Method;

/// Why a child ended, or was ended. Each is a sentence about the driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChildEnd {
    #[error("it exited ({status}){}", last(last_line.as_deref()))]
    Exited {
        status: String,
        last_line: Option<String>,
    },
    #[error("it closed its standard output and was killed")]
    ClosedOutput,
    #[error("it closed its standard input and was killed")]
    ClosedInput,
    #[error("it did not answer {method} within {limit:?} and was killed")]
    Silent { method: Method, limit: Duration },
    #[error("it sent a line of more than {limit} bytes and was killed")]
    LineTooLong { limit: usize },
    #[error("it sent a line that is not JSON ({reason}) and was killed: {excerpt:?}")]
    NotJson { reason: String, excerpt: String },
    #[error("it sent a line that is not a protocol message ({reason}) and was killed: {excerpt:?}")]
    NotAMessage {
        reason: &'static str,
        excerpt: String,
    },
    #[error("it answered call {id} a second time and was killed")]
    AnsweredTwice { id: u64 },
    #[error("it answered the unknown call {id} and was killed")]
    UnknownCall { id: String },
    #[error("it could not read a message and was killed: {message}")]
    CouldNotRead { message: String },
    #[error("it sent the unknown notification {method:?} (known is \"changed\") and was killed")]
    UnknownNotification { method: String },
    #[error("it sent a notification \"changed\" with invalid params ({reason}) and was killed")]
    WrongNotification { reason: String },
    #[error(
        "it sent too many notifications (more than {at_once} at once, {per_second} each second) and was killed"
    )]
    Flood { at_once: u32, per_second: u32 },
    #[error("it refused hello and was killed: {message}")]
    RefusedHello { message: String },
    #[error("its answer to hello is invalid and it was killed: {reason}")]
    WrongHello { reason: String },
    #[error("reading from it failed: {reason}")]
    Unreadable { reason: String },
    #[error("it was stopped")]
    LetGo,
}

fn last(last_line: Option<&str>) -> String {
    last_line
        .map(|last_line| format!("; its last line was: {last_line}"))
        .unwrap_or_default()
}
