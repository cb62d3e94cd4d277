//! [`NovaConsoleAuthToken`] and [`NovaKeyPair`].

use uuid::Uuid;

use crate::field::NovaFieldError;
use crate::objects::object_type;

object_type! {
    /// The right to use a console. The conductor's `authorize` makes the token.
    NovaConsoleAuthToken = "ConsoleAuthToken", None;
    console_type / set_console_type: &str;
    host / set_host: &str;
    port / set_port: i64;
    internal_access_path / set_internal_access_path: Option<&str>;
    instance_uuid / set_instance_uuid: Uuid;
    access_url_base / set_access_url_base: Option<&str>;
    /// Secret until it is used.
    token: &str;
}

object_type! {
    /// A public key.
    NovaKeyPair = "KeyPair", Some("KeyPairList");
    name: &str;
    user_id: Option<&str>;
    fingerprint: Option<&str>;
    public_key: Option<&str>;
}

impl NovaKeyPair {
    /// `ssh` or `x509`.
    pub fn key_type(&self) -> Result<&str, NovaFieldError> {
        self.0.get("type")
    }
}
