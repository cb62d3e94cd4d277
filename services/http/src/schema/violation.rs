//! Where a value left its schema, and how.

use std::fmt;

use serde_json::Value;

use super::python;

/// One step into a schema.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'a> {
    /// A keyword of the schema itself.
    Word(&'a str),
    /// A property's name or pattern.
    Key(&'a str),
}

/// A place in a value and in the schema over it.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    schema: String,
    instance: String,
    depth: usize,
}

impl Place {
    pub(super) fn within(&self, steps: &[Step<'_>], key: &str) -> Self {
        Self {
            schema: self.extended(steps),
            instance: format!("{}['{key}']", self.instance),
            depth: self.depth + 1,
        }
    }

    pub(super) fn within_item(&self, steps: &[Step<'_>], index: usize) -> Self {
        Self {
            schema: self.extended(steps),
            instance: format!("{}[{index}]", self.instance),
            depth: self.depth + 1,
        }
    }

    fn extended(&self, steps: &[Step<'_>]) -> String {
        steps.iter().fold(self.schema.clone(), |path, step| {
            let (Step::Word(name) | Step::Key(name)) = step;
            format!("{path}['{name}']")
        })
    }

    pub(super) fn violation(
        &self,
        rule: &'static str,
        message: String,
        value: &Value,
    ) -> Violation {
        Violation {
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
pub struct Violation {
    rule: &'static str,
    message: String,
    schema: String,
    instance: String,
    value: String,
    depth: usize,
}

impl Violation {
    pub(super) fn depth(&self) -> usize {
        self.depth
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n\nFailed validating '{}' in schema{}\n\nOn instance{}:\n    {}",
            self.message, self.rule, self.schema, self.instance, self.value
        )
    }
}
