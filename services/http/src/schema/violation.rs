//! A schema violation: the place in the value and in the schema, and the message.

use std::fmt;

use serde_json::Value;

use super::python;

/// One step into a schema.
#[derive(Debug, Clone, Copy)]
pub(super) enum SchemaStep<'a> {
    /// A keyword of the schema itself.
    Word(&'a str),
    /// A property's name or pattern.
    Key(&'a str),
}

/// The current path in a value and in its schema.
#[derive(Debug, Clone, Default)]
pub(super) struct SchemaPath {
    schema: String,
    instance: String,
    depth: usize,
}

impl SchemaPath {
    pub(super) fn within(&self, steps: &[SchemaStep<'_>], key: &str) -> Self {
        Self {
            schema: self.extended(steps),
            instance: format!("{}['{key}']", self.instance),
            depth: self.depth + 1,
        }
    }

    pub(super) fn within_item(&self, steps: &[SchemaStep<'_>], index: usize) -> Self {
        Self {
            schema: self.extended(steps),
            instance: format!("{}[{index}]", self.instance),
            depth: self.depth + 1,
        }
    }

    fn extended(&self, steps: &[SchemaStep<'_>]) -> String {
        steps.iter().fold(self.schema.clone(), |path, step| {
            let (SchemaStep::Word(name) | SchemaStep::Key(name)) = step;
            format!("{path}['{name}']")
        })
    }

    pub(super) fn violation(
        &self,
        rule: &'static str,
        message: String,
        value: &Value,
    ) -> SchemaViolation {
        SchemaViolation {
            rule,
            message,
            schema: self.schema.clone(),
            instance: self.instance.clone(),
            value: python::repr(value),
            depth: self.depth,
        }
    }
}

/// A value that does not have its schema's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaViolation {
    rule: &'static str,
    message: String,
    schema: String,
    instance: String,
    value: String,
    depth: usize,
}

impl SchemaViolation {
    pub(super) fn depth(&self) -> usize {
        self.depth
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n\nFailed validating '{}' in schema{}\n\nOn instance{}:\n    {}",
            self.message, self.rule, self.schema, self.instance, self.value
        )
    }
}
