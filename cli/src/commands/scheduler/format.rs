//! Prints a document that is no list: as text, JSON or YAML.
//!
//! The YAML writer is a few lines: one line for each entry of a mapping or sequence, and scalars as JSON writes them,
//! which are valid YAML.

use std::io::{self, Write};

use serde_json::Value;

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DocumentFormat {
    /// Plain text for people to read.
    Text,
    /// One JSON document with `"api": "berth/1"`.
    Json,
    /// The JSON document as YAML.
    Yaml,
}

impl DocumentFormat {
    /// Prints a document; the text format prints it as JSON.
    ///
    /// Errors: the output cannot be written.
    pub(super) fn print(self, document: &Value, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Text | Self::Json => writeln!(out, "{document:#}"),
            Self::Yaml => yaml(document, "", out),
        }
    }
}

/// Writes the lines of a value, each after `indent`; the caller has begun the first line.
fn yaml(value: &Value, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    let below = format!("{indent}  ");
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (place, (key, entry)) in entries.iter().enumerate() {
                let begun = if place == 0 { "" } else { indent };
                write!(out, "{begun}{}:", name(key))?;
                match is_long(entry) {
                    true => write!(out, "\n{below}")?,
                    false => write!(out, " ")?,
                }
                yaml(entry, &below, out)?;
            }
            Ok(())
        }
        Value::Array(entries) if !entries.is_empty() => {
            for (place, entry) in entries.iter().enumerate() {
                let begun = if place == 0 { "" } else { indent };
                write!(out, "{begun}- ")?;
                yaml(entry, &below, out)?;
            }
            Ok(())
        }
        scalar => writeln!(out, "{scalar}"),
    }
}

/// Whether a value needs lines of its own.
fn is_long(value: &Value) -> bool {
    match value {
        Value::Object(entries) => !entries.is_empty(),
        Value::Array(entries) => !entries.is_empty(),
        _ => false,
    }
}

/// Quotes a key that YAML could misread.
fn name(key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    match !key.is_empty()
        && key.bytes().all(is_plain)
        && !matches!(
            key,
            "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n"
        ) {
        true => key.to_owned(),
        false => Value::from(key).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_has_a_line_for_each_entry() {
        let document = json!({
            "api": "berth/1",
            "empty": {"list": [], "map": {}},
            "list": [1, "a: b", {"a": null, "b": [true, [2]], "c": {"d": 1.5}}, []],
            "no": "é\n",
            "Some-Key": {"x": 1},
        });
        let mut out = Vec::new();
        let printed = DocumentFormat::Yaml.print(&document, &mut out);
        assert!(printed.is_ok());
        let expected = "\
\"Some-Key\":
  x: 1
api: \"berth/1\"
empty:
  list: []
  map: {}
list:
  - 1
  - \"a: b\"
  - a: null
    b:
      - true
      - - 2
    c:
      d: 1.5
  - []
\"no\": \"é\\n\"
";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
