//! What reads text from outside: never a panic, and what it reads it gives back.

use berth_http::schema::{
    BodySchema, CUSTOM_NAME, ListOf, MapOf, NAME, ObjectSchema, OtherKeys, TextFormat, TextSchema,
    UUID_KEY, Unique, is_uuid_like, normal_uuid,
};
use berth_http::{Fault, Microversion, MicroversionRange, QueryString};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};

const RANGE: MicroversionRange = MicroversionRange {
    service: "placement",
    min: Microversion::new(1, 0),
    max: Microversion::new(1, 39),
    error_codes_since: Microversion::new(1, 23),
};

const BODY: BodySchema = BodySchema::Object(&ObjectSchema {
    properties: &[
        (
            "name",
            BodySchema::Text(TextSchema {
                min: 1,
                max: Some(5),
                pattern: Some(CUSTOM_NAME),
                format: None,
            }),
        ),
        (
            "uuid",
            BodySchema::Text(TextSchema {
                format: Some(TextFormat::DashedUuid),
                ..TextSchema::ANY
            }),
        ),
        ("total", BodySchema::Integer(Some(1), Some(10))),
        ("ratio", BodySchema::Number(Some(2.5))),
        ("generation", BodySchema::IntegerOrNull),
        ("parent", BodySchema::UuidOrNull),
        (
            "traits",
            BodySchema::List(&ListOf {
                items: BodySchema::Text(TextSchema::ANY),
                min: 1,
                unique: Unique::Yes,
            }),
        ),
        (
            "held",
            BodySchema::Map(&MapOf {
                keys: UUID_KEY,
                values: BodySchema::Integer(None, None),
                min: 1,
                others: OtherKeys::Refused,
            }),
        ),
        (
            "free",
            BodySchema::Map(&MapOf {
                keys: NAME,
                values: BodySchema::Integer(None, None),
                min: 0,
                others: OtherKeys::Ignored,
            }),
        ),
    ],
    required: &["total"],
});

#[test]
fn violations_name_rule_and_place() {
    let uuid = "11111111-2222-3333-4444-555555555555";
    for (member, expected) in [
        (json!({"total": "x"}), "'x' is not of type 'integer'"),
        (json!({"total": 0}), "0 is less than the minimum of 1"),
        (json!({"total": 11}), "11 is greater than the maximum of 10"),
        (json!({"total": 1e30}), "is greater than the maximum of 10"),
        (json!({"total": 1.0}), ""),
        (json!({"name": "CUSTOM_A"}), "'CUSTOM_A' is too long"),
        (json!({"name": ""}), "'' should be non-empty"),
        (
            json!({"name": "abc"}),
            "'abc' does not match '^CUSTOM_[A-Z0-9_]+$'",
        ),
        (json!({"uuid": uuid.replace('-', "")}), "is not a 'uuid'"),
        (json!({"uuid": uuid}), ""),
        (
            json!({"ratio": 2.6}),
            "Failed validating 'maximum' in schema['properties']['ratio']",
        ),
        (
            json!({"generation": "1"}),
            "'1' is not of type 'integer', 'null'",
        ),
        (json!({"generation": null}), ""),
        (json!({"parent": uuid.replace('-', "")}), ""),
        (json!({"parent": "x"}), "'x' is not a 'uuid'"),
        (json!({"traits": []}), "[] should be non-empty"),
        (
            json!({"traits": ["a", "a"]}),
            "['a', 'a'] has non-unique elements",
        ),
        (json!({"traits": ["a", 1]}), "On instance['traits'][1]"),
        (json!({"held": {}}), "{} should be non-empty"),
        (
            json!({"held": {"x": 1}}),
            "'x' does not match any of the regexes: '^[0-9a-fA-F-]{36}$'",
        ),
        (
            json!({"held": {uuid: true}}),
            "True is not of type 'integer'",
        ),
        (json!({"free": {"lower": "anything"}}), ""),
        (
            json!({"odd": 1}),
            "Additional properties are not allowed ('odd' was unexpected)",
        ),
        (
            json!({"odd": 1, "even": 2}),
            "('even', 'odd' were unexpected)",
        ),
    ] {
        let mut body = json!({"total": 1});
        body.as_object_mut()
            .unwrap()
            .extend(member.as_object().unwrap().clone());
        match BODY.check(&body) {
            Ok(()) => assert_eq!(expected, "", "{body}"),
            Err(violation) => {
                let text = violation.to_string();
                assert!(
                    !expected.is_empty() && text.contains(expected),
                    "{body}: {text}"
                );
            }
        }
    }
    let missing = BODY.check(&json!({})).unwrap_err().to_string();
    assert!(
        missing.contains("'total' is a required property"),
        "{missing}"
    );
    let not_an_object = BODY.check(&json!([])).unwrap_err().to_string();
    assert!(
        not_an_object.starts_with("[] is not of type 'object'"),
        "{not_an_object}"
    );
}

#[test]
fn a_large_body_is_quoted_in_part() {
    let body = json!({"total": 1, "x": "ü".repeat(100_000)});
    assert!(BODY.check(&body).unwrap_err().to_string().len() < 5_000);
}

#[test]
fn uuids_are_taken_in_any_notation() {
    let normal = "12345678-1234-1234-1234-123456789abc";
    for text in [
        normal,
        "12345678123412341234123456789ABC",
        "{12345678-1234-1234-1234-123456789abc}",
        "urn:uuid:12345678-1234-1234-1234-123456789abc",
    ] {
        assert_eq!(normal_uuid(text).as_deref(), Some(normal), "{text}");
    }
    for text in ["", "x", "12345678", "g2345678-1234-1234-1234-123456789abc"] {
        assert!(!is_uuid_like(text), "{text}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop_oneof![Just("total".to_owned()), Just("held".to_owned()), ".{0,4}"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_panics_the_schema(value in any_json()) {
        if let Err(violation) = BODY.check(&value) {
            prop_assert!(violation.to_string().contains("Failed validating"));
        }
    }

    #[test]
    fn no_query_panics(text in ".{0,60}") {
        QueryString::parse(&text).ok();
    }

    #[test]
    fn an_encoded_query_is_read_back(value in "\\PC{0,20}") {
        let encoded: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let query = QueryString::parse(&format!("a=1&key={encoded}&b=2")).unwrap();
        prop_assert_eq!(query.last("key"), Some(value.as_str()));
    }

    #[test]
    fn no_version_header_panics(text in "[ -~]{0,30}") {
        let mut headers = HeaderMap::new();
        headers.insert("openstack-api-version", HeaderValue::from_str(&text).unwrap());
        RANGE.negotiate(&headers).ok();
    }

    #[test]
    fn every_version_in_the_range_is_granted(minor in 0..=39_u16) {
        let mut headers = HeaderMap::new();
        let text = format!("placement 1.{minor}");
        headers.insert("openstack-api-version", HeaderValue::from_str(&text).unwrap());
        prop_assert_eq!(RANGE.negotiate(&headers).unwrap(), Microversion::new(1, minor));
    }

    #[test]
    fn no_uuid_text_panics(text in ".{0,50}") {
        if let Some(normal) = normal_uuid(&text) {
            prop_assert_eq!(normal_uuid(&normal), Some(normal.clone()));
        }
    }
}

#[test]
fn a_fault_says_no_more_of_a_long_value_than_its_ends() {
    let body = json!({"total": 1, "n".repeat(70_000): 1});
    let violation = BODY.check(&body).unwrap_err().to_string();
    assert!(violation.len() > 70_000);
    let fault = Fault::bad_request(format!("JSON does not validate: {violation}"));
    let message = fault.message();
    assert!(message.chars().count() < 4_100, "{message}");
    assert!(message.starts_with("JSON does not validate: "), "{message}");
    assert!(message.contains(" bytes) …"), "{message}");
}
