//! [`RpcContext`]: the user, the project and the token of a request.

use std::fmt;

use berth_client::Secret;
use serde_json::{Map, Value};

const TOKEN: &str = "auth_token";

/// The context of a request, a JSON object. It is kept whole, so that keys this program does not know come back unchanged.
///
/// The user's token is a part of it. `Debug` shows the names of the keys and the request ID alone.
#[derive(Clone, PartialEq, Default)]
pub struct RpcContext(Map<String, Value>);

impl RpcContext {
    #[must_use]
    pub fn new(values: Map<String, Value>) -> Self {
        Self(values)
    }

    /// The value of a key, such as `project_id`; `None` if it is absent or null.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.text("request_id")
    }

    /// The user's token.
    #[must_use]
    pub fn auth_token(&self) -> Option<Secret> {
        self.text(TOKEN).map(Secret::from)
    }

    /// The same context with a null token: what may be written to a journal, and goes along with calls to other services.
    #[must_use]
    pub fn without_auth_token(mut self) -> Self {
        if let Some(token) = self.0.get_mut(TOKEN) {
            *token = Value::Null;
        }
        self
    }

    /// All values, with the token. They are for the wire, not for a log.
    #[must_use]
    pub fn values(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl fmt::Debug for RpcContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcContext")
            .field("request_id", &self.request_id())
            .field("keys", &self.0.keys().collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn context() -> RpcContext {
        let Value::Object(values) = json!({
            "request_id": "req-1", "auth_token": "gAAAA-hunter2", "project_id": "p", "new_in_35": [1],
        }) else {
            unreachable!()
        };
        RpcContext::new(values)
    }

    #[test]
    fn the_token_is_never_shown_and_can_be_removed() {
        let context = context();
        assert_eq!(context.auth_token().unwrap().reveal(), "gAAAA-hunter2");
        assert!(!format!("{context:?} {context:#?}").contains("hunter2"));
        let without = context.without_auth_token();
        assert_eq!(without.auth_token(), None);
        assert_eq!(without.values()["auth_token"], Value::Null);
        assert_eq!(without.values()["new_in_35"], json!([1]));
        assert_eq!(without.request_id(), Some("req-1"));
    }
}
