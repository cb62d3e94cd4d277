//! The JSON documents of key pairs.

use berth_http::ApiRequest;
use serde_json::{Value, json};

use crate::key_pairs::KeyPair;
use crate::microversions::KEY_PAIR_TYPE;

/// The entry in a list.
pub(crate) fn summary(call: &ApiRequest, key: &KeyPair) -> Value {
    let mut shown = json!({
        "name": key.name,
        "public_key": key.public_key,
        "fingerprint": key.fingerprint,
    });
    if call.version.has(KEY_PAIR_TYPE) {
        shown["type"] = json!(key.kind().as_str());
    }
    shown
}

/// The response to the creation.
pub(crate) fn created(call: &ApiRequest, key: &KeyPair) -> Value {
    let mut shown = summary(call, key);
    shown["user_id"] = json!(key.user_id);
    shown
}

pub(crate) fn document(call: &ApiRequest, key: &KeyPair) -> Value {
    let mut shown = created(call, key);
    shown["id"] = json!(key.id);
    // Nova uses this time format only for key pairs.
    shown["created_at"] = json!(key.created_at.to_string().replace(' ', "T"));
    shown["updated_at"] = Value::Null;
    shown["deleted_at"] = Value::Null;
    shown["deleted"] = json!(false);
    shown
}
