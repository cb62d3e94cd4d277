//! The text of the berth.toml that an import writes.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::report::{ImportedConfig, ImportedOption};

/// The text of the berth.toml. Each option has the place of its origin above it; options that are not read yet are comments.
#[must_use]
pub fn berth_toml(imported: &ImportedConfig) -> String {
    let mut text = String::from(
        "# Written by `berth config import`. Above each option is its place in Nova's file.\n\
         # Check it with: berth config check\n",
    );
    write_sections(&mut text, &imported.options, "");
    if !imported.not_yet.is_empty() {
        text.push_str(
            "\n# This release of Berth does not read the options below yet.\n\
             # They are what a host in a Nova cell needs: messaging, notifications, versions.\n",
        );
        write_sections(&mut text, &imported.not_yet, "#");
    }
    text
}

/// The options by section, those of the top level first.
fn write_sections(text: &mut String, options: &[ImportedOption], prefix: &str) {
    let mut sorted: Vec<&ImportedOption> = options.iter().collect();
    sorted.sort_by(|a, b| (&a.section, &a.key).cmp(&(&b.section, &b.key)));
    let mut section = "";
    for option in sorted {
        if option.section != section {
            section = &option.section;
            let _ = writeln!(text, "\n{prefix}[{}]", toml_key(section));
        }
        let _ = writeln!(text, "# {}", option.at);
        // A text of several lines would end the comment.
        let value = toml_value(&option.value);
        let _ = writeln!(text, "{prefix}{} = {value}", option.key);
    }
}

/// A key as TOML: without quotes where TOML needs none.
fn toml_key(key: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    match !key.is_empty() && key.chars().all(is_bare) {
        true => key.to_owned(),
        false => toml_text(key),
    }
}

fn toml_value(value: &Json) -> String {
    match value {
        Json::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(toml_value).collect();
            format!("[{}]", elements.join(", "))
        }
        Json::Object(entries) => {
            let entries = entries.iter();
            let entries =
                entries.map(|(key, value)| format!("{} = {}", toml_key(key), toml_value(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Json::String(text) => toml_text(text),
        other => other.to_string(),
    }
}

/// A text in one line: between apostrophes if it has quotation marks, as JSON has.
fn toml_text(text: &str) -> String {
    let is_plain = |letter: char| !letter.is_control() && letter != '\'';
    if text.contains(['"', '\\']) && text.chars().all(is_plain) {
        return format!("'{text}'");
    }
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_is_one_line_that_toml_reads_back() {
        let value = json!({
            "a b": ["it's", "\"x\"", "back\\slash", "two\nlines\u{7f}", ""], "n": 1, "f": 1.5, "b": true, "o": {"k": "v"}
        });
        let text = format!("value = {}", toml_value(&value));
        assert_eq!(text.lines().count(), 1);
        let read: toml::Table = toml::from_str(&text).expect("it is TOML");
        assert_eq!(serde_json::to_value(&read["value"]).expect("plain"), value);
    }
}
