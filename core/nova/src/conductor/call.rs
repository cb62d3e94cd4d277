//! [`ConductorCall`]: a message to nova-conductor that may be sent.

use std::fmt;

use serde_json::{Map, Value};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::conductor::ConductorAnswerError;
use crate::release::{NovaRelease, UnsendableObject};
use crate::version::ObjectVersion;

/// A method of nova-conductor that a compute service uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ConductorMethod {
    /// A function of an object's class, such as a query.
    ObjectClassActionVersions,
    /// A method of an object, such as a save.
    ObjectAction,
    /// An older version of an object that was received.
    ObjectBackportVersions,
    /// A boot on another host. It has no answer.
    BuildInstances,
    Ping,
}

impl ConductorMethod {
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The namespace of the RPC interface; the main interface has none.
    #[must_use]
    pub fn namespace(self) -> Option<&'static str> {
        match self {
            Self::ObjectClassActionVersions | Self::ObjectAction | Self::ObjectBackportVersions => {
                None
            }
            Self::BuildInstances => Some("compute_task"),
            Self::Ping => Some("baseapi"),
        }
    }

    /// The version with which nova-compute sends the method: the one that introduced its arguments.
    #[must_use]
    pub fn version(self) -> ObjectVersion {
        let (major, minor) = match self {
            Self::ObjectClassActionVersions | Self::ObjectAction | Self::ObjectBackportVersions => {
                (3, 0)
            }
            Self::BuildInstances => (1, 19),
            Self::Ping => (1, 0),
        };
        ObjectVersion { major, minor }
    }

    /// Whether the method has no answer.
    #[must_use]
    pub fn is_cast(self) -> bool {
        self == Self::BuildInstances
    }
}

/// A message to nova-conductor, without the request's context. It contains no object that is newer than the release, except
/// one that the release is to make older.
#[derive(Clone, PartialEq)]
pub struct ConductorCall {
    method: ConductorMethod,
    args: Map<String, Value>,
}

/// Why a stored message is no call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotACall {
    #[error("nova-conductor has no method {0:?} for a compute service")]
    Method(String),
    #[error(transparent)]
    Unsendable(#[from] UnsendableObject),
}

impl ConductorCall {
    pub(super) fn new(
        release: &NovaRelease,
        method: ConductorMethod,
        args: Map<String, Value>,
    ) -> Result<Self, UnsendableObject> {
        args.values()
            .try_for_each(|value| release.check_sendable(value))?;
        Ok(Self { method, args })
    }

    /// A call whose object came from the bus and goes back unread.
    pub(super) fn returned(method: ConductorMethod, args: Map<String, Value>) -> Self {
        Self { method, args }
    }

    /// A call that was stored by its method and its arguments. It is checked again, because the release may be another.
    pub fn restored(
        release: &NovaRelease,
        method: &str,
        args: Map<String, Value>,
    ) -> Result<Self, NotACall> {
        let known = method
            .parse()
            .map_err(|_| NotACall::Method(crate::object::shortened(method)))?;
        if known == ConductorMethod::ObjectBackportVersions {
            return Ok(Self::returned(known, args));
        }
        Ok(Self::new(release, known, args)?)
    }

    #[must_use]
    pub fn method(&self) -> ConductorMethod {
        self.method
    }

    #[must_use]
    pub fn version(&self) -> ObjectVersion {
        self.method.version()
    }

    #[must_use]
    pub fn args(&self) -> &Map<String, Value> {
        &self.args
    }

    #[must_use]
    pub fn into_args(self) -> Map<String, Value> {
        self.args
    }
}

impl fmt::Display for ConductorCall {
    /// The method, or the object's name and its method: `Instance.save`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |key| self.args.get(key).and_then(Value::as_str);
        let objinst = self.args.get("objinst");
        let name = objinst
            .and_then(|object| object.get("nova_object.name")?.as_str())
            .or_else(|| text("objname"));
        match (name, text("objmethod")) {
            (Some(name), Some(method)) => write!(f, "{name}.{method}"),
            _ => f.write_str(self.method.name()),
        }
    }
}

/// Arguments may hold passwords and tokens, so they are not shown.
impl fmt::Debug for ConductorCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConductorCall({self})")
    }
}

/// A call together with the reader of its answer.
pub struct ConductorRequest<A> {
    call: ConductorCall,
    read: fn(Value) -> Result<A, ConductorAnswerError>,
}

impl<A> ConductorRequest<A> {
    pub(super) fn new(
        call: ConductorCall,
        read: fn(Value) -> Result<A, ConductorAnswerError>,
    ) -> Self {
        Self { call, read }
    }

    #[must_use]
    pub fn call(&self) -> &ConductorCall {
        &self.call
    }

    #[must_use]
    pub fn into_call(self) -> ConductorCall {
        self.call
    }

    /// Reads `result` of the reply.
    pub fn answer(&self, result: Value) -> Result<A, ConductorAnswerError> {
        (self.read)(result)
    }
}

impl<A> fmt::Debug for ConductorRequest<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}
