//! A fast check of a body against a schema while it is parsed, for the common case of valid bodies: no tree of values
//! is built. The result is only yes or no; [`BodySchema::check`] produces the error message.
//!
//! A yes implies that `check` accepts the body. A no is inconclusive: duplicate keys and lists of unique elements are
//! left to `check`.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use super::{BodySchema, ListOf, MapOf, ObjectSchema, OtherKeys, TextSchema, Unique, is_uuid_like};

impl BodySchema {
    /// Whether this JSON text surely has the shape.
    #[must_use]
    pub fn admits(&self, json: &[u8]) -> bool {
        let mut reader = serde_json::Deserializer::from_slice(json);
        Admit(self).deserialize(&mut reader).is_ok() && reader.end().is_ok()
    }
}

struct Admit<'a>(&'a BodySchema);

impl<'de> DeserializeSeed<'de> for Admit<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

fn check<E: Error>(admitted: bool) -> Result<(), E> {
    // The message is discarded: `check` produces a better one.
    admitted
        .then_some(())
        .ok_or_else(|| E::custom("not of the schema's shape"))
}

impl<'de> Visitor<'de> for Admit<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the schema's shape")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        check(matches!(
            self.0,
            BodySchema::IntegerOrNull | BodySchema::UuidOrNull
        ))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        #[allow(
            clippy::cast_precision_loss,
            reason = "compared with a bound, as `check` does"
        )]
        let double = number as f64;
        check(match self.0 {
            BodySchema::Integer(min, max) => {
                min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
            }
            BodySchema::Number(max) => max.is_none_or(|max| double <= max),
            BodySchema::IntegerOrNull => true,
            _ => false,
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => check(false),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        check(match self.0 {
            BodySchema::Number(max) => max.is_none_or(|max| number <= max),
            _ => false,
        })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        check(match self.0 {
            BodySchema::Text(shape) => shape.admits(text),
            BodySchema::UuidOrNull => is_uuid_like(text),
            _ => false,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        match self.0 {
            BodySchema::List(shape) => shape.admit(list),
            _ => check(false),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        match self.0 {
            BodySchema::Object(shape) => shape.admit(map),
            BodySchema::Map(shape) => shape.admit(map),
            _ => check(false),
        }
    }
}

impl TextSchema {
    fn admits(&self, text: &str) -> bool {
        // Bytes are never fewer than characters.
        let short_enough = |max: usize| text.len() <= max || text.chars().count() <= max;
        self.max.is_none_or(short_enough)
            && (self.min == 0 || text.chars().take(self.min).count() == self.min)
            && self.pattern.is_none_or(|pattern| (pattern.matches)(text))
            && self.format.is_none_or(|format| format.admits(text))
    }
}

impl ListOf {
    fn admit<'de, A: SeqAccess<'de>>(&self, mut list: A) -> Result<(), A::Error> {
        check(self.unique == Unique::No)?;
        let mut length = 0;
        while list.next_element_seed(Admit(&self.items))?.is_some() {
            length += 1;
        }
        check(length >= self.min)
    }
}

impl ObjectSchema {
    fn admit<'de, A: MapAccess<'de>>(&self, mut map: A) -> Result<(), A::Error> {
        let mut seen: Vec<&str> = Vec::with_capacity(self.properties.len());
        let position = |key: &str| self.properties.iter().position(|(name, _)| *name == key);
        while let Some(found) = map.next_key_seed(KeyVisitor(position))? {
            let (name, shape) = found
                .and_then(|at| self.properties.get(at))
                .ok_or_else(|| A::Error::custom("a key that is not known"))?;
            check(!seen.contains(name))?;
            seen.push(name);
            map.next_value_seed(Admit(shape))?;
        }
        check(self.required.iter().all(|name| seen.contains(name)))
    }
}

impl MapOf {
    fn admit<'de, A: MapAccess<'de>>(&self, mut map: A) -> Result<(), A::Error> {
        let mut length = 0;
        while let Some(follows) = map.next_key_seed(KeyVisitor(self.keys.matches))? {
            length += 1;
            if follows {
                map.next_value_seed(Admit(&self.values))?;
            } else {
                check(self.others == OtherKeys::Ignored)?;
                map.next_value_seed(AnyJson)?;
            }
        }
        check(length >= self.min)
    }
}

/// Accepts any JSON. Serde's `IgnoredAny` would also accept invalid UTF-8 and numbers of any size.
struct AnyJson;

impl<'de> DeserializeSeed<'de> for AnyJson {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyJson {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(KeyVisitor(|_: &str| ()))?.is_some() {
            map.next_value_seed(Self)?;
        }
        Ok(())
    }
}

/// Passes a key to a function without storing it.
struct KeyVisitor<F>(F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for KeyVisitor<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for KeyVisitor<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<T, E> {
        Ok((self.0)(key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::{NAME, TextFormat, UUID_KEY};
    use super::*;

    #[test]
    fn what_passes_unchecked_is_json_nevertheless() {
        const OPEN: BodySchema = BodySchema::Map(&MapOf {
            keys: NAME,
            values: BodySchema::Integer(None, None),
            min: 0,
            others: OtherKeys::Ignored,
        });
        let admitted =
            br#"{"A": 1, "b": [null, true, {"c": -1.5, "d": "\u00e9"}, 18446744073709551615]}"#;
        assert!(OPEN.admits(admitted));
        let corrupt: [&[u8]; 4] = [
            b"{\"b\": \"\xff\"}",
            b"{\"b\": {\"\xff\": 1}}",
            br#"{"b": "\ud800"}"#,
            br#"{"b": [1e999]}"#,
        ];
        for body in corrupt {
            assert!(!OPEN.admits(body), "{}", String::from_utf8_lossy(body));
            assert!(serde_json::from_slice::<Value>(body).is_err());
        }
    }

    const BOUNDED: TextSchema = TextSchema {
        min: 1,
        max: Some(3),
        ..TextSchema::ANY
    };
    const UUID: TextSchema = TextSchema {
        format: Some(TextFormat::Uuid),
        ..TextSchema::ANY
    };
    const ALL: BodySchema = BodySchema::Object(&ObjectSchema {
        properties: &[
            ("text", BodySchema::Text(BOUNDED)),
            ("uuid", BodySchema::Text(UUID)),
            ("whole", BodySchema::Integer(Some(0), Some(9))),
            ("number", BodySchema::Number(Some(9.5))),
            ("generation", BodySchema::IntegerOrNull),
            ("parent", BodySchema::UuidOrNull),
            (
                "list",
                BodySchema::List(&ListOf {
                    items: BodySchema::Integer(None, None),
                    min: 1,
                    unique: Unique::No,
                }),
            ),
            (
                "map",
                BodySchema::Map(&MapOf {
                    keys: NAME,
                    values: BodySchema::Integer(Some(1), None),
                    min: 1,
                    others: OtherKeys::Ignored,
                }),
            ),
            (
                "strict",
                BodySchema::Map(&MapOf {
                    keys: UUID_KEY,
                    values: BodySchema::Text(TextSchema::ANY),
                    min: 0,
                    others: OtherKeys::Refused,
                }),
            ),
        ],
        required: &["whole"],
    });

    const SOME_UUID: &str = "6f2a4c2e-0f0e-4d0f-9d65-2b3c5f3a1c01";

    #[test]
    fn a_body_of_the_shape_is_admitted() {
        let body = json!({
            "text": "äöü", "uuid": SOME_UUID, "whole": 9, "number": 9.5, "generation": null, "parent": null,
            "list": [1], "map": {"VCPU": 1, "other": []}, "strict": {SOME_UUID: ""},
        });
        assert!(ALL.admits(body.to_string().as_bytes()));
    }

    #[test]
    fn what_is_no_json_is_not_admitted() {
        for text in ["", "{", r#"{"whole": 1} 2"#, r#"{"whole": 1, "whole": 2}"#] {
            assert!(!ALL.admits(text.as_bytes()), "{text}");
        }
    }

    fn scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-2..12_i64).prop_map(Value::from),
            (0..24_i64).prop_map(|half| Value::from(f64::from(i32::try_from(half).unwrap()) / 2.0)),
            prop_oneof![
                Just(""),
                Just("a"),
                Just("äöü"),
                Just("abcd"),
                Just(SOME_UUID)
            ]
            .prop_map(Value::from),
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        let key = prop_oneof![Just("VCPU"), Just("other"), Just(SOME_UUID)];
        prop_oneof![
            4 => scalar(),
            1 => proptest::collection::vec(scalar(), 0..3).prop_map(Value::from),
            1 => proptest::collection::btree_map(key.prop_map(str::to_owned), scalar(), 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    }

    proptest! {
        #[test]
        fn a_body_is_admitted_only_where_no_violation_is_found(
            names in proptest::sample::subsequence(
                vec!["text", "uuid", "number", "generation", "parent", "list", "map", "strict", "odd"], 0..3),
            values in proptest::collection::vec(value(), 3),
            whole in prop_oneof![4 => Just(json!(1)), 1 => value()],
        ) {
            let mut body: serde_json::Map<String, Value> =
                names.into_iter().map(str::to_owned).zip(values).collect();
            body.insert("whole".to_owned(), whole);
            let body = Value::Object(body);
            let admitted = ALL.admits(body.to_string().as_bytes());
            let lawful = ALL.check(&body).is_ok();
            prop_assert!(!admitted || lawful, "{body}");
            // Whole numbers with a decimal point are the only valid shape that is left to `check`.
            prop_assert!(admitted || !lawful || body.to_string().contains(".0"), "{body}");
        }
    }
}
