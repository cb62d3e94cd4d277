//! The arguments of a request, which are taken one by one.

use serde_json::{Map, Value};

use crate::compute::ComputeMethod;
use crate::field::{FieldValue, kind_of};
use crate::object::NovaObject;
use crate::objects::{NovaObjectList, NovaObjectType};
use crate::release::{NovaRelease, UnsendableObject};
use crate::version::ObjectVersion;

/// Why a message is no request that this release understands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("the compute RPC interface has no method {0:?}")]
    Method(String),
    #[error("{method} has the version {version:?}, and this compute service has {supported}")]
    Version {
        method: String,
        version: String,
        supported: ObjectVersion,
    },
    #[error("{method} has no argument {argument}")]
    Missing {
        method: &'static str,
        argument: &'static str,
    },
    #[error("the argument {argument} of {method} is wrong: {reason}")]
    Argument {
        method: &'static str,
        argument: &'static str,
        reason: String,
    },
    /// The conductor can make the object older, if it is only newer.
    #[error("{method} has an object that this compute service does not understand: {source}")]
    Object {
        method: &'static str,
        source: UnsendableObject,
    },
}

/// Finds the arguments that contain an object newer than the release's, as JSON pointers into the arguments. The conductor makes each of
/// them older (`object_backport_versions`) before the request is parsed.
#[must_use]
pub fn arguments_to_backport(release: &NovaRelease, args: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in args {
        collect(release, value, below("", name), &mut found);
    }
    found
}

fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn collect(release: &NovaRelease, value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) if NovaObject::is_marked(map) => {
            found.extend(is_newer(release, value).then_some(path));
        }
        Value::Object(map) => {
            for (key, value) in map {
                collect(release, value, below(&path, key), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(release, value, format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn is_newer(release: &NovaRelease, object: &Value) -> bool {
    matches!(
        release.check_sendable(object),
        Err(UnsendableObject::Newer { .. })
    )
}

/// The arguments of a request that have not been taken yet.
pub(super) struct Arguments {
    method: &'static str,
    rest: Map<String, Value>,
}

impl Arguments {
    pub(super) fn new(method: ComputeMethod, rest: Map<String, Value>) -> Self {
        Self {
            method: method.name(),
            rest,
        }
    }

    fn wrong(&self, argument: &'static str, reason: String) -> RequestError {
        RequestError::Argument {
            method: self.method,
            argument,
            reason,
        }
    }

    /// The JSON of an argument, if it is there and not null.
    pub(super) fn json_if_given(&mut self, argument: &'static str) -> Option<Value> {
        self.rest.remove(argument).filter(|value| !value.is_null())
    }

    fn json(&mut self, argument: &'static str) -> Result<Value, RequestError> {
        self.rest.remove(argument).ok_or(RequestError::Missing {
            method: self.method,
            argument,
        })
    }

    fn read<T: for<'a> FieldValue<'a>>(
        &self,
        argument: &'static str,
        value: &Value,
    ) -> Result<T, RequestError> {
        T::read(value).ok_or_else(|| {
            let reason = format!("it is {}; {} is right", kind_of(value), T::EXPECTED);
            self.wrong(argument, reason)
        })
    }

    /// An argument that the interface requires.
    pub(super) fn value<T: for<'a> FieldValue<'a>>(
        &mut self,
        argument: &'static str,
    ) -> Result<T, RequestError> {
        let value = self.json(argument)?;
        self.read(argument, &value)
    }

    /// An argument that may be null or left out.
    pub(super) fn value_if_given<T: for<'a> FieldValue<'a>>(
        &mut self,
        argument: &'static str,
    ) -> Result<Option<T>, RequestError> {
        match self.json_if_given(argument) {
            None => Ok(None),
            Some(value) => self.read(argument, &value).map(Some),
        }
    }

    pub(super) fn map(
        &mut self,
        argument: &'static str,
    ) -> Result<Map<String, Value>, RequestError> {
        match self.json_if_given(argument) {
            None => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map),
            Some(other) => Err(self.wrong(
                argument,
                format!("it is {}; an object is right", kind_of(&other)),
            )),
        }
    }

    pub(super) fn object<T: NovaObjectType>(
        &mut self,
        argument: &'static str,
    ) -> Result<T, RequestError> {
        let value = self.json(argument)?;
        self.converted(argument, value)
    }

    /// JSON of this argument as an object.
    pub(super) fn converted<T: NovaObjectType>(
        &self,
        argument: &'static str,
        value: Value,
    ) -> Result<T, RequestError> {
        T::from_json(value).map_err(|error| self.wrong(argument, error.to_string()))
    }

    pub(super) fn object_if_given<T: NovaObjectType>(
        &mut self,
        argument: &'static str,
    ) -> Result<Option<T>, RequestError> {
        self.json_if_given(argument)
            .map(|value| self.converted(argument, value))
            .transpose()
    }

    /// A list object that may be null or left out.
    pub(super) fn list_if_given<T: NovaObjectType>(
        &mut self,
        argument: &'static str,
    ) -> Result<Option<NovaObjectList<T>>, RequestError> {
        self.json_if_given(argument)
            .map(NovaObjectList::from_json)
            .transpose()
            .map_err(|error| self.wrong(argument, error.to_string()))
    }

    /// A plain list of objects; none if it is null or left out.
    pub(super) fn objects<T: NovaObjectType>(
        &mut self,
        argument: &'static str,
    ) -> Result<Vec<T>, RequestError> {
        let items = match self.json_if_given(argument) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => {
                let reason = format!("it is {}; a list of Nova objects is right", kind_of(&other));
                return Err(self.wrong(argument, reason));
            }
        };
        items
            .into_iter()
            .map(|item| self.converted(argument, item))
            .collect()
    }
}
