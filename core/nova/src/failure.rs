//! [`RemoteFailure`]: an exception of Python as it travels in a reply.
//!
//! Nova's services make the exception again from its module and its class, if the module is allowed: `nova.exception` and `builtins`.
//! Another module becomes a general error of the user's request.

use serde_json::{Value, json};

/// An exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFailure {
    pub module: String,
    pub class: String,
    pub message: String,
}

/// The text is not a failure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the failure in a reply is not JSON in a string with class, module and message")]
pub struct NotAFailure;

const NOVA: &str = "nova.exception";
const PYTHON: &str = "builtins";
const DISPATCHER: &str = "oslo_messaging.rpc.dispatcher";
const VERSIONED_OBJECTS: &str = "oslo_versionedobjects.exception";

/// The exceptions with which a compute service answers calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
pub enum ReplyFailure {
    /// The method or the operation is not there. The API answers 501.
    NotImplementedError,
    InstanceNotFound,
    InstanceNotRunning,
    InstanceNotReady,
    InstanceInvalidState,
    ConsoleNotAvailable,
    ConsoleTypeInvalid,
    ConsoleTypeUnavailable,
    InterfaceAttachFailed,
    InterfaceAttachFailedNoNetwork,
    InterfaceAttachPciClaimFailed,
    NetworkAmbiguous,
    PortNotFound,
    PortInUse,
    PortBindingFailed,
    /// A request that cannot be right on this host. The API answers 400.
    InvalidInput,
    /// This host cannot receive a live migration; the conductor tries another.
    MigrationPreCheckError,
    /// An exception without a class of its own.
    NovaException,
    /// There is no such method.
    NoSuchMethod,
    /// The method is not there in this version.
    UnsupportedVersion,
    /// An argument is an object of a version that this service does not have.
    IncompatibleObjectVersion,
}

impl ReplyFailure {
    #[must_use]
    pub fn class(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn module(self) -> &'static str {
        match self {
            Self::NotImplementedError => PYTHON,
            Self::NoSuchMethod | Self::UnsupportedVersion => DISPATCHER,
            Self::IncompatibleObjectVersion => VERSIONED_OBJECTS,
            _ => NOVA,
        }
    }

    /// The failure with a message for the user.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> RemoteFailure {
        RemoteFailure {
            module: self.module().to_owned(),
            class: self.class().to_owned(),
            message: message.into(),
        }
    }
}

/// A failure from nova-conductor, by what a compute service does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConductorFailure {
    /// The cell has no record of this host or hypervisor.
    HostNotFound,
    InstanceNotFound,
    /// The instance has no record of its addresses.
    InfoCacheNotFound,
    /// Another action has begun: `expected_task_state` does not hold.
    UnexpectedTaskState,
    /// The instance is being deleted.
    UnexpectedDeletingTaskState,
    /// The cell has only newer services.
    ServiceTooOld,
    /// The conductor does not understand a version that it was told.
    IncompatibleObject,
    Other,
}

impl RemoteFailure {
    /// Reads `failure` of a reply: JSON in a string.
    pub fn parse(failure: &str) -> Result<Self, NotAFailure> {
        let json: Value = serde_json::from_str(failure).map_err(|_| NotAFailure)?;
        let text = |key: &str| {
            let value = json.get(key)?.as_str()?;
            Some(value.to_owned())
        };
        Some(())
            .and_then(|()| {
                Some(Self {
                    module: text("module")?,
                    class: text("class")?,
                    message: text("message")?,
                })
            })
            .ok_or(NotAFailure)
    }

    /// `failure` of a reply. Its traceback is empty.
    #[must_use]
    pub fn to_text(&self) -> String {
        json!({
            "module": self.module,
            "class": self.class,
            "message": self.message,
            "tb": [],
            "args": [self.message],
            "kwargs": {},
        })
        .to_string()
    }

    /// What a failure from nova-conductor means.
    #[must_use]
    pub fn of_conductor(&self) -> ConductorFailure {
        // oslo.messaging adds this to the class of an exception that was remote before.
        let class = self.class.strip_suffix("_Remote").unwrap_or(&self.class);
        match class {
            "ComputeHostNotFound" | "HostNotFound" => ConductorFailure::HostNotFound,
            "InstanceNotFound" => ConductorFailure::InstanceNotFound,
            "InstanceInfoCacheNotFound" => ConductorFailure::InfoCacheNotFound,
            "UnexpectedTaskStateError" => ConductorFailure::UnexpectedTaskState,
            "UnexpectedDeletingTaskStateError" => ConductorFailure::UnexpectedDeletingTaskState,
            "ServiceTooOld" => ConductorFailure::ServiceTooOld,
            "IncompatibleObjectVersion" => ConductorFailure::IncompatibleObject,
            _ => ConductorFailure::Other,
        }
    }
}
