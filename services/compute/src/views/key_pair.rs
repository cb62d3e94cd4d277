//! A key pair as it is told.

use berth_http::Call;
use serde_json::{Value, json};

use crate::key_pairs::KeyPair;
use crate::microversions::KEY_PAIR_TYPE;

/// As a list has it.
pub(crate) fn brief(call: &Call, key: &KeyPair) -> Value {
    let mut shown = json!({
        "name": key.name,
        "public_key": key.public_key,
        "fingerprint": key.fingerprint,
    });
    if call.version.has(KEY_PAIR_TYPE) {
        shown["type"] = json!("ssh");
    }
    shown
}

/// As its maker is told.
pub(crate) fn made(call: &Call, key: &KeyPair) -> Value {
    let mut shown = brief(call, key);
    shown["user_id"] = json!(key.user_id);
    shown
}

pub(crate) fn whole(call: &Call, key: &KeyPair) -> Value {
    let mut shown = made(call, key);
    shown["id"] = json!(key.id);
    // Of this noun alone Nova writes moments so.
    shown["created_at"] = json!(key.created_at.to_string().replace(' ', "T"));
    shown["updated_at"] = Value::Null;
    shown["deleted_at"] = Value::Null;
    shown["deleted"] = json!(false);
    shown
}
