//! Errors of calls to the driver process, and their conversion to the errors of the driver contract.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use berth_virt::{DeviceError, GuestError, HostDeviceId, ObserveError};

use crate::child_end::ChildEnd;
use crate::protocol::{
    ErrorObject, GuestQuestion, Method, device_error, guest_error, observe_error,
};

/// The driver's name, by `compute_driver`.
pub(crate) const NAME: &str = "exec";

/// A call without an answer. Each text states whether the operation may have been executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("it cannot be started: {source}")]
    NotStarted { source: io::Error },
    #[error("{reason}")]
    Version { reason: String },
    #[error("{last}; next restart in {left:?}")]
    Waits { last: String, left: Duration },
    #[error("it was busy with other calls for {limit:?}; this call was not sent")]
    NoTurn { limit: Duration },
    #[error("{0}; this call was not sent")]
    EndedBefore(Arc<ChildEnd>),
    #[error("{0}; the operation may still be executed")]
    Ended(Arc<ChildEnd>),
    #[error("it timed out after {limit:?} and was killed; the operation may still be executed")]
    TimedOut { limit: Duration },
    #[error("{}", .0.message)]
    Refused(ErrorObject),
    #[error("{reason}")]
    WrongAnswer { reason: String },
    #[error("it does not support {0}")]
    Unknown(Method),
}

/// A failed call, with its program and method.
#[derive(Debug)]
pub(crate) struct FailedCall<'a> {
    pub(crate) program: &'a str,
    pub(crate) method: Method,
    /// Whether the program ever ran. One that never ran indicates a configuration error.
    pub(crate) has_run: bool,
    pub(crate) error: CallError,
}

impl FailedCall<'_> {
    fn target(&self) -> String {
        format!("exec:{}", self.program)
    }

    fn origin(&self) -> String {
        format!("the answer of {} to {}", self.target(), self.method)
    }

    pub(crate) fn of_observe(self) -> ObserveError {
        let target = self.target();
        match self.error {
            CallError::TimedOut { limit } => ObserveError::TimedOut {
                target,
                call: self.method.as_str(),
                limit,
            },
            CallError::Refused(error) => observe_error(error, target),
            CallError::WrongAnswer { ref reason } => ObserveError::Malformed {
                origin: self.origin(),
                reason: reason.clone(),
            },
            CallError::Version { reason } => misconfigured(&target, &reason),
            CallError::NotStarted { source } if !self.has_run => {
                misconfigured(&target, &format!("it cannot be started: {source}"))
            }
            other => ObserveError::Unreachable {
                target,
                reason: other.to_string(),
            },
        }
    }

    pub(crate) fn of_guest(self, question: &GuestQuestion) -> GuestError {
        let target = self.target();
        match self.error {
            CallError::TimedOut { limit } => GuestError::TimedOut {
                target,
                call: self.method.as_str(),
                limit,
            },
            CallError::Refused(error) => guest_error(error, target, question),
            CallError::WrongAnswer { ref reason } => GuestError::Malformed {
                origin: self.origin(),
                reason: reason.clone(),
            },
            CallError::Unknown(method) => match method.unsupported() {
                Some(action) => GuestError::Unsupported {
                    driver: NAME,
                    action,
                },
                None => GuestError::NotSupported { driver: NAME },
            },
            other => GuestError::Unreachable {
                target,
                reason: other.to_string(),
            },
        }
    }

    pub(crate) fn of_device(self, device: HostDeviceId) -> DeviceError {
        let call = self.method.as_str();
        match self.error {
            CallError::TimedOut { limit } => DeviceError::TimedOut {
                device,
                call,
                limit,
            },
            CallError::Refused(error) => device_error(error, device, call),
            CallError::Unknown(_) => DeviceError::NotSupported { driver: NAME },
            CallError::WrongAnswer { ref reason } => DeviceError::Unfinished {
                device,
                call,
                reason: format!("{}: {reason}", self.origin()),
            },
            other => DeviceError::Unfinished {
                device,
                call,
                reason: format!("{}: {other}", Self::named(self.program)),
            },
        }
    }

    /// A failure that is no one device's.
    pub(crate) fn of_host(self) -> DeviceError {
        DeviceError::Unobservable {
            reason: format!(
                "{} of {}: {}",
                self.method,
                Self::named(self.program),
                self.error
            ),
        }
    }

    fn named(program: &str) -> String {
        format!("exec:{program}")
    }
}

fn misconfigured(target: &str, reason: &str) -> ObserveError {
    ObserveError::Configuration {
        option: "compute_driver".to_owned(),
        reason: format!("{target}: {reason}"),
    }
}
