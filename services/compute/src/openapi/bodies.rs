//! The schemas of request bodies, for the newest microversion.

use serde_json::{Map, Value, json};

/// The schema of a request body; `None` if the method takes none.
pub(super) fn of(method: &str, path: &str) -> Option<Value> {
    let noun = path.strip_prefix("/v2.1/")?;
    let body = match (method, noun) {
        ("POST", "flavors") => in_key("flavor", flavor()),
        ("PUT", "flavors/{flavor}") => in_key(
            "flavor",
            object(&["description"], [("description", text_or_null(0, 65_535))]),
        ),
        ("POST", "flavors/{flavor}/action") => flavor_action(),
        ("POST", "flavors/{flavor}/os-extra_specs") => in_key("extra_specs", texts()),
        ("PUT", "flavors/{flavor}/os-extra_specs/{key}") => texts(),
        ("POST", "os-keypairs") => in_key("keypair", key_pair()),
        ("POST", "servers") => servers(),
        ("PUT", "servers/{server}") => in_key("server", object(&[], server_words())),
        ("POST", "servers/{server}/action") => server_action(),
        ("POST" | "PUT", "servers/{server}/metadata") => in_key("metadata", texts()),
        ("PUT", "servers/{server}/metadata/{key}") => in_key("meta", texts()),
        ("PUT", "servers/{server}/tags") => in_key(
            "tags",
            json!({"type": "array", "items": text(1, 60), "maxItems": 50}),
        ),
        ("POST", "os-server-external-events") => events(),
        ("POST", "os-server-groups") => in_key("server_group", server_group()),
        ("PUT", "os-services/{service}") => service(),
        ("POST", "os-aggregates") => in_key("aggregate", object(&["name"], aggregate_words())),
        ("PUT", "os-aggregates/{aggregate}") => in_key("aggregate", object(&[], aggregate_words())),
        ("POST", "os-aggregates/{aggregate}/action") => aggregate_action(),
        _ => return None,
    };
    Some(body)
}

fn object<const N: usize>(required: &[&str], properties: [(&str, Value); N]) -> Value {
    let properties: Map<String, Value> = properties
        .into_iter()
        .map(|(key, shape)| (key.to_owned(), shape))
        .collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// An object with this key only.
fn in_key(key: &str, shape: Value) -> Value {
    object(&[key], [(key, shape)])
}

fn one_of<const N: usize>(actions: [(&str, Value); N]) -> Value {
    let all: Vec<Value> = actions
        .into_iter()
        .map(|(word, shape)| in_key(word, shape))
        .collect();
    json!({ "oneOf": all })
}

fn text(min: usize, max: usize) -> Value {
    json!({"type": "string", "minLength": min, "maxLength": max})
}

fn text_or_null(min: usize, max: usize) -> Value {
    json!({"type": ["string", "null"], "minLength": min, "maxLength": max})
}

/// An object with arbitrary keys and text values.
fn texts() -> Value {
    json!({
        "type": "object", "propertyNames": {"pattern": "^[a-zA-Z0-9_:. -]{1,255}$"}, "additionalProperties": text(0, 255),
    })
}

fn number(min: i64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": crate::fields::MOST})
}

fn uuid() -> Value {
    json!({"type": "string", "format": "uuid"})
}

fn flavor() -> Value {
    object(
        &["name", "ram", "vcpus", "disk"],
        [
            ("name", text(1, 255)),
            (
                "id",
                json!({"type": ["string", "null"], "pattern": "^[a-zA-Z0-9_.-]{1,255}$"}),
            ),
            ("ram", number(1)),
            ("vcpus", number(1)),
            ("disk", number(0)),
            ("OS-FLV-EXT-DATA:ephemeral", number(0)),
            ("swap", number(0)),
            (
                "rxtx_factor",
                json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1000}),
            ),
            ("os-flavor-access:is_public", json!({"type": "boolean"})),
            ("description", text_or_null(0, 65_535)),
        ],
    )
}

fn flavor_action() -> Value {
    let tenant = || object(&["tenant"], [("tenant", text(1, 255))]);
    one_of([
        ("addTenantAccess", tenant()),
        ("removeTenantAccess", tenant()),
    ])
}

fn key_pair() -> Value {
    object(
        &["name", "public_key"],
        [
            ("name", text(1, 255)),
            ("public_key", text(0, 16_384)),
            ("type", json!({"enum": ["ssh"]})),
            ("user_id", text(1, 255)),
        ],
    )
}

/// Fields of a server that can also be changed later.
fn server_words() -> [(&'static str, Value); 5] {
    [
        ("name", text(1, 255)),
        ("description", text_or_null(0, 255)),
        ("accessIPv4", json!({"type": "string", "format": "ipv4"})),
        ("accessIPv6", json!({"type": "string", "format": "ipv6"})),
        ("OS-DCF:diskConfig", json!({"enum": ["AUTO", "MANUAL"]})),
    ]
}

fn servers() -> Value {
    let mut server = object(
        &["name", "flavorRef", "imageRef", "networks"],
        [
            ("flavorRef", text(1, 2_048)),
            ("imageRef", uuid()),
            ("networks", json!({"enum": ["auto", "none"]})),
            (
                "min_count",
                json!({"type": "integer", "minimum": 1, "maximum": 3}),
            ),
            (
                "max_count",
                json!({"type": "integer", "minimum": 1, "maximum": 3}),
            ),
            ("return_reservation_id", json!({"type": "boolean"})),
            ("metadata", texts()),
            ("key_name", text_or_null(1, 255)),
            ("availability_zone", text_or_null(1, 255)),
            (
                "user_data",
                json!({"type": ["string", "null"], "contentEncoding": "base64", "maxLength": 65_535}),
            ),
            (
                "tags",
                json!({"type": "array", "items": text(1, 60), "maxItems": 50}),
            ),
            ("host", text(1, 255)),
            ("hypervisor_hostname", text(1, 255)),
            ("config_drive", json!({"type": "boolean"})),
        ],
    );
    for (key, shape) in server_words() {
        server["properties"][key] = shape;
    }
    let names = json!({"type": "array", "items": uuid(), "maxItems": 3});
    let hints = object(
        &[],
        [
            ("group", uuid()),
            ("same_host", names.clone()),
            ("different_host", names),
            ("query", text(1, 255)),
        ],
    );
    object(
        &["server"],
        [("server", server), ("os:scheduler_hints", hints)],
    )
}

fn server_action() -> Value {
    let nothing = || json!({"type": "null"});
    one_of([
        ("os-start", nothing()),
        ("os-stop", nothing()),
        ("pause", nothing()),
        ("unpause", nothing()),
        ("unrescue", nothing()),
        ("unlock", nothing()),
        ("forceDelete", nothing()),
        (
            "reboot",
            object(&["type"], [("type", json!({"enum": ["SOFT", "HARD"]}))]),
        ),
        ("rescue", object(&[], [("rescue_image_ref", uuid())])),
        (
            "rebuild",
            object(
                &["imageRef"],
                [
                    ("imageRef", uuid()),
                    ("name", text(1, 255)),
                    ("description", text_or_null(0, 255)),
                    ("metadata", texts()),
                    ("preserve_ephemeral", json!({"type": "boolean"})),
                ],
            ),
        ),
        ("lock", object(&[], [("locked_reason", text(1, 255))])),
        (
            "os-getConsoleOutput",
            object(
                &[],
                [(
                    "length",
                    json!({"type": ["integer", "null"], "minimum": -1, "maximum": 10_000}),
                )],
            ),
        ),
        (
            "os-resetState",
            object(&["state"], [("state", json!({"enum": ["active"]}))]),
        ),
    ])
}

fn events() -> Value {
    let names = [
        "network-changed",
        "network-vif-plugged",
        "volume-extended",
        "power-update",
        "accelerator-request-bound",
    ];
    let event = object(
        &["name", "server_uuid"],
        [
            ("name", json!({ "enum": names })),
            ("server_uuid", uuid()),
            (
                "status",
                json!({"enum": ["completed", "failed", "in-progress"]}),
            ),
            ("tag", text(1, 255)),
        ],
    );
    in_key(
        "events",
        json!({"type": "array", "items": event, "minItems": 1}),
    )
}

fn server_group() -> Value {
    let most = object(&[], [("max_server_per_host", number(1))]);
    let policies = [
        "affinity",
        "anti-affinity",
        "soft-affinity",
        "soft-anti-affinity",
    ];
    object(
        &["name", "policy"],
        [
            ("name", text(1, 255)),
            ("policy", json!({ "enum": policies })),
            ("rules", most),
        ],
    )
}

fn service() -> Value {
    object(
        &[],
        [
            ("status", json!({"enum": ["enabled", "disabled"]})),
            ("disabled_reason", text(1, 255)),
            ("forced_down", json!({"type": "boolean"})),
        ],
    )
}

fn aggregate_words() -> [(&'static str, Value); 2] {
    [
        ("name", text(1, 255)),
        (
            "availability_zone",
            json!({"type": ["string", "null"], "pattern": "^[^:]{1,255}$"}),
        ),
    ]
}

fn aggregate_action() -> Value {
    let host = || object(&["host"], [("host", text(1, 255))]);
    let mut metadata = texts();
    metadata["additionalProperties"] = text_or_null(0, 255);
    one_of([
        ("add_host", host()),
        ("remove_host", host()),
        (
            "set_metadata",
            object(&["metadata"], [("metadata", metadata)]),
        ),
    ])
}
