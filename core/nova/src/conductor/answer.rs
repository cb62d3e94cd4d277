//! Answers of nova-conductor.

use serde_json::{Map, Value};

use crate::field::{NovaFieldError, kind_of};
use crate::object::{NotAnObject, NovaObject};
use crate::objects::{NovaObjectList, NovaObjectType};

/// Why an answer is not one of the call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConductorAnswerError {
    #[error("nova-conductor answered {found}; {expected} is right")]
    Kind {
        found: &'static str,
        expected: &'static str,
    },
    #[error("nova-conductor answered with another object than was asked for: {0}")]
    Object(#[from] NotAnObject),
}

/// What a method of an object changed on the conductor's side.
#[derive(Clone, PartialEq)]
pub struct ObjectUpdates {
    updates: Map<String, Value>,
    result: Value,
}

impl ObjectUpdates {
    /// Merges the changes into the object of the call, and returns what the method itself returned.
    pub fn merge_into(self, object: &mut impl NovaObjectType) -> Result<Value, NovaFieldError> {
        object.object_mut().merge(self.updates)?;
        Ok(self.result)
    }
}

/// Fields may hold passwords and tokens, so only their names are shown.
impl std::fmt::Debug for ObjectUpdates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ObjectUpdates")
            .field(&self.updates.keys().collect::<Vec<_>>())
            .finish()
    }
}

fn kind<T>(value: &Value, expected: &'static str) -> Result<T, ConductorAnswerError> {
    Err(ConductorAnswerError::Kind {
        found: kind_of(value),
        expected,
    })
}

/// `[updates, result]`.
pub(super) fn updates(value: Value) -> Result<ObjectUpdates, ConductorAnswerError> {
    const EXPECTED: &str = "a list of updates and a result";
    let Value::Array(pair) = value else {
        return kind(&value, EXPECTED);
    };
    match <[Value; 2]>::try_from(pair) {
        Ok([Value::Object(updates), result]) => Ok(ObjectUpdates { updates, result }),
        Ok([other, _]) => kind(&other, "an object of updates"),
        Err(pair) => kind(&Value::Array(pair), EXPECTED),
    }
}

pub(super) fn object<T: NovaObjectType>(value: Value) -> Result<T, ConductorAnswerError> {
    Ok(T::from_json(value)?)
}

pub(super) fn object_or_none<T: NovaObjectType>(
    value: Value,
) -> Result<Option<T>, ConductorAnswerError> {
    match value {
        Value::Null => Ok(None),
        value => object(value).map(Some),
    }
}

pub(super) fn list<T: NovaObjectType>(value: Value) -> Result<Vec<T>, ConductorAnswerError> {
    Ok(NovaObjectList::from_json(value)?.into_items())
}

pub(super) fn list_or_none<T: NovaObjectType>(
    value: Value,
) -> Result<Vec<T>, ConductorAnswerError> {
    match value {
        Value::Null => Ok(Vec::new()),
        value => list(value),
    }
}

pub(super) fn any_object(value: Value) -> Result<NovaObject, ConductorAnswerError> {
    Ok(NovaObject::from_json(value)?)
}

pub(super) fn integer(value: Value) -> Result<i64, ConductorAnswerError> {
    value
        .as_i64()
        .map_or_else(|| kind(&value, "an integer"), Ok)
}

/// The answer of methods that return nothing, or a value without a use here.
pub(super) fn ignored(_: Value) -> Result<(), ConductorAnswerError> {
    Ok(())
}
