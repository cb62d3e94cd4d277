//! A shape in JSON Schema's own words, for an OpenAPI document: what a reader is told is what is judged by.

use serde_json::{Map, Value, json};

use super::{Format, ListOf, MapOf, Object, OtherKeys, Schema, Text, Unique};

impl Schema {
    /// The shape as a JSON Schema (draft 2020-12).
    ///
    /// A pattern that the shape decides by a function is told by the regular expression that its messages show.
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

impl Object {
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

impl Text {
    fn to_json_schema(self) -> Value {
        let min = (self.min > 0).then(|| ("minLength", Value::from(self.min)));
        let max = self.max.map(|max| ("maxLength", Value::from(max)));
        let pattern = self
            .pattern
            .map(|pattern| ("pattern", pattern.shown.into()));
        let format = self.format.map(|format| match format {
            Format::Uuid | Format::DashedUuid => ("format", "uuid".into()),
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
        const NAMES: Schema = Schema::List(&ListOf {
            items: Schema::Text(Text {
                min: 1,
                max: Some(9),
                pattern: Some(NAME),
                format: None,
            }),
            min: 2,
            unique: Unique::Yes,
        });
        const SHAPE: Schema = Schema::Object(&Object {
            properties: &[
                ("names", NAMES),
                (
                    "by_uuid",
                    Schema::Map(&MapOf {
                        keys: UUID_KEY,
                        values: Schema::Integer(Some(1), Some(7)),
                        min: 1,
                        others: OtherKeys::Refused,
                    }),
                ),
                ("ratio", Schema::Number(Some(2.5))),
                ("generation", Schema::IntegerOrNull),
                ("parent", Schema::UuidOrNull),
                (
                    "uuid",
                    Schema::Text(Text {
                        format: Some(Format::Uuid),
                        ..Text::ANY
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
