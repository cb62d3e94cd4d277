//! [`RemoteFailure`]: the exception that a call ended with, on either side.

use std::fmt;

use serde_json::{Map, Value, json};

/// An exception of the other side, or one for the other side. The caller raises it again if its class is one that it allows: so class and
/// module are those of the service that this program stands in for, such as `InstanceNotFound` of `nova.exception`.
#[derive(Clone, PartialEq)]
pub struct RemoteFailure {
    pub class: String,
    pub module: String,
    pub message: String,
    /// Positional arguments of the exception's constructor.
    pub args: Vec<Value>,
    /// Keyword arguments of the exception's constructor. Nova's exceptions format their message with them.
    pub kwargs: Map<String, Value>,
}

impl RemoteFailure {
    /// The module of Nova's own exceptions.
    pub const NOVA: &'static str = "nova.exception";
    /// The module of oslo.messaging's exceptions about requests.
    const DISPATCHER: &'static str = "oslo_messaging.rpc.dispatcher";

    /// A failure of the class and module. Nova's exceptions take the text as their only positional argument.
    #[must_use]
    pub fn new(module: &str, class: &str, message: &str) -> Self {
        Self {
            class: class.to_owned(),
            module: module.to_owned(),
            message: message.to_owned(),
            args: vec![Value::from(message)],
            kwargs: Map::new(),
        }
    }

    /// A failure of `nova.exception`.
    #[must_use]
    pub fn nova(class: &str, message: &str) -> Self {
        Self::new(Self::NOVA, class, message)
    }

    /// The failure that oslo.messaging has for a method that its server does not have.
    #[must_use]
    pub fn no_such_method(method: &str) -> Self {
        let message = format!("Endpoint does not support RPC method {method}");
        Self::new(Self::DISPATCHER, "NoSuchMethod", &message)
    }

    /// The failure that oslo.messaging has for a version that its server does not have.
    #[must_use]
    pub fn unsupported_version(version: &str, method: &str) -> Self {
        let message =
            format!("Endpoint does not support RPC version {version}. Attempted method: {method}");
        Self::new(Self::DISPATCHER, "UnsupportedVersion", &message)
    }

    /// Whether the failure is of this class of `nova.exception`. A service that passes a failure on adds `_Remote` to both names.
    #[must_use]
    pub fn is_nova(&self, class: &str) -> bool {
        let plain = |name: &str| name.strip_suffix("_Remote").unwrap_or(name).to_owned();
        plain(&self.class) == class && plain(&self.module) == Self::NOVA
    }

    /// The text that stands in the reply's `failure`. The traceback is empty: there is none.
    pub(crate) fn to_json(&self) -> Value {
        let failure = json!({
            "class": self.class,
            "module": self.module,
            "message": self.message,
            "tb": [],
            "args": self.args,
            "kwargs": self.kwargs,
        });
        Value::from(failure.to_string())
    }

    /// Reads the reply's `failure`. What is absent is empty: a failure has to end the call, whatever it looks like.
    pub(crate) fn from_json(failure: &Value) -> Self {
        let parsed = failure.as_str().map(serde_json::from_str::<Value>);
        let object = match (parsed, failure) {
            (Some(Ok(Value::Object(object))), _) => object,
            (None, Value::Object(object)) => object.clone(),
            _ => {
                let text = failure
                    .as_str()
                    .map_or_else(|| failure.to_string(), str::to_owned);
                return Self::new("", "", &text);
            }
        };
        let text = |key: &str| {
            let text = object.get(key).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        Self {
            class: text("class"),
            module: text("module"),
            message: text("message"),
            args: object
                .get("args")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            kwargs: object
                .get("kwargs")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
        }
    }
}

/// Arguments of exceptions can hold anything, also what is secret: they are not shown.
impl fmt::Debug for RemoteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteFailure({self})")
    }
}

impl fmt::Display for RemoteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class.as_str() {
            "" => write!(f, "an exception without a class: {}", self.message),
            class => write!(f, "{class}: {}", self.message),
        }
    }
}

impl std::error::Error for RemoteFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_same_after_the_wire() {
        let mut failure = RemoteFailure::nova("ComputeHostNotFound", "Compute host cmp1 is gone");
        failure.kwargs.insert("host".to_owned(), json!("cmp1"));
        assert_eq!(RemoteFailure::from_json(&failure.to_json()), failure);
        assert_eq!(
            failure.to_string(),
            "ComputeHostNotFound: Compute host cmp1 is gone"
        );
        assert!(failure.is_nova("ComputeHostNotFound") && !failure.is_nova("InstanceNotFound"));
    }

    #[test]
    fn a_failure_that_was_passed_on_keeps_its_class() {
        let passed = RemoteFailure::new("nova.exception_Remote", "InstanceNotFound_Remote", "gone");
        assert!(passed.is_nova("InstanceNotFound"));
    }

    #[test]
    fn a_failure_of_another_shape_is_still_a_failure() {
        for odd in [
            json!("not json"),
            json!("[1]"),
            json!(5),
            json!("{\"message\": 3}"),
            json!({}),
        ] {
            let read = RemoteFailure::from_json(&odd);
            assert_eq!(read.class, "", "{odd}");
        }
        let object = json!({"class": "A", "module": "b", "message": "c"});
        assert_eq!(RemoteFailure::from_json(&object).to_string(), "A: c");
    }
}
