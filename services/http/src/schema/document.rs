//! Converts a schema to JSON Schema for the OpenAPI document.

use serde_json::{Map, Value, json};

use super::{BodySchema, ListOf, MapOf, ObjectSchema, OtherKeys, TextFormat, TextSchema, Unique};

impl BodySchema {
    /// The schema as JSON Schema (draft 2020-12). A pattern is represented by its regular expression.
    #[must_use]
    pub fn to_json_schema(&self) -> Value {
        match self {
            Self::Object(object) => object.to_json_schema(),
            Self::Map(map_of) => map_of.to_json_schema(),
            Self::List(list) => list.to_json_schema(),
            Self::Text(text) => text.to_json_schema(),
            Self::Integer(min, max) => {
                let bounds = [("minimum", *min), ("maximum", *max)];
                let bounds = bounds
                    .into_iter()
                    .filter_map(|(word, bound)| Some((word, Value::from(bound?))));
                with(json!({"type": "integer"}), bounds)
            }
            Self::Number(max) => {
                let bound = max.map(|max| ("maximum", Value::from(max)));
                with(json!({"type": "number"}), bound)
            }
            Self::IntegerOrNull => json!({"type": ["integer", "null"]}),
            Self::UuidOrNull => json!({"type": ["string", "null"], "format": "uuid"}),
        }
    }
}

impl ObjectSchema {
    fn to_json_schema(&self) -> Value {
        let properties = self.properties.iter();
        let properties: Map<String, Value> = properties
            .map(|(name, schema)| ((*name).to_owned(), schema.to_json_schema()))
            .collect();
        let required = (!self.required.is_empty()).then(|| ("required", json!(self.required)));
        with(
            json!({"type": "object", "properties": properties, "additionalProperties": false}),
            required,
        )
    }
}

impl MapOf {
    fn to_json_schema(&self) -> Value {
        let values = self.values.to_json_schema();
        let refused = (self.others == OtherKeys::Refused)
            .then(|| ("additionalProperties", Value::from(false)));
        let min = (self.min > 0).then(|| ("minProperties", Value::from(self.min)));
        with(
            json!({"type": "object", "patternProperties": {self.keys.shown: values}}),
            refused.into_iter().chain(min),
        )
    }
}

impl ListOf {
    fn to_json_schema(&self) -> Value {
        let unique = (self.unique == Unique::Yes).then(|| ("uniqueItems", Value::from(true)));
        let min = (self.min > 0).then(|| ("minItems", Value::from(self.min)));
        with(
            json!({"type": "array", "items": self.items.to_json_schema()}),
            unique.into_iter().chain(min),
        )
    }
}

impl TextSchema {
    fn to_json_schema(self) -> Value {
        let min = (self.min > 0).then(|| ("minLength", Value::from(self.min)));
        let max = self.max.map(|max| ("maxLength", Value::from(max)));
        let pattern = self
            .pattern
            .map(|pattern| ("pattern", pattern.shown.into()));
        let format = self.format.map(|format| match format {
            TextFormat::Uuid | TextFormat::DashedUuid => ("format", "uuid".into()),
        });
        with(
            json!({"type": "string"}),
            min.into_iter().chain(max).chain(pattern).chain(format),
        )
    }
}

fn with(mut schema: Value, more: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    for (word, value) in more {
        schema[word] = value;
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::super::{NAME, UUID_KEY};
    use super::*;

    #[test]
    fn every_word_of_a_shape_is_there() {
        const NAMES: BodySchema = BodySchema::List(&ListOf {
            items: BodySchema::Text(TextSchema {
                min: 1,
                max: Some(9),
                pattern: Some(NAME),
                format: None,
            }),
            min: 2,
            unique: Unique::Yes,
        });
        const SHAPE: BodySchema = BodySchema::Object(&ObjectSchema {
            properties: &[
                ("names", NAMES),
                (
                    "by_uuid",
                    BodySchema::Map(&MapOf {
                        keys: UUID_KEY,
                        values: BodySchema::Integer(Some(1), Some(7)),
                        min: 1,
                        others: OtherKeys::Refused,
                    }),
                ),
                ("ratio", BodySchema::Number(Some(2.5))),
                ("generation", BodySchema::IntegerOrNull),
                ("parent", BodySchema::UuidOrNull),
                (
                    "uuid",
                    BodySchema::Text(TextSchema {
                        format: Some(TextFormat::Uuid),
                        ..TextSchema::ANY
                    }),
                ),
            ],
            required: &["names"],
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "names": {
                    "type": "array", "minItems": 2, "uniqueItems": true,
                    "items": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[A-Z0-9_]+$"},
                },
                "by_uuid": {
                    "type": "object", "minProperties": 1, "additionalProperties": false,
                    "patternProperties": {"^[0-9a-fA-F-]{36}$": {"type": "integer", "minimum": 1, "maximum": 7}},
                },
                "ratio": {"type": "number", "maximum": 2.5},
                "generation": {"type": ["integer", "null"]},
                "parent": {"type": ["string", "null"], "format": "uuid"},
                "uuid": {"type": "string", "format": "uuid"},
            },
            "additionalProperties": false,
            "required": ["names"],
        });
        assert_eq!(SHAPE.to_json_schema(), expected);
    }
}
