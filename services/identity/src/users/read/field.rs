//! Typed access to tables and values of the file. Each accessor reports what would be right.

use std::ops::Range;

use berth_wire::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::UsersParser;

/// A table of the file.
pub(super) struct UsersTable<'a> {
    values: &'a DeTable<'a>,
    /// Empty for the top.
    pub(super) key: String,
    pub(super) span: Range<usize>,
}

/// A value of the file.
pub(super) struct UsersField<'a> {
    value: &'a Spanned<DeValue<'a>>,
    pub(super) key: String,
}

impl<'a> UsersTable<'a> {
    pub(super) fn top(values: &'a DeTable<'a>) -> Self {
        UsersTable {
            values,
            key: String::new(),
            span: 0..0,
        }
    }

    fn path(&self, name: &str) -> String {
        if self.key.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.key)
        }
    }

    /// Refuses keys that are not known, with the nearest that is.
    pub(super) fn only(&self, known: &[&str], parser: &mut UsersParser<'_>) {
        for key in self.values.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let shown: String = name.chars().take(80).collect();
                let text = format!("this key is not known; {}", did_you_mean(name, known));
                parser.wrong(&key.span(), &self.path(&shown), text);
            }
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<UsersField<'a>> {
        let value = self.values.get(name)?;
        let key = self.path(name);
        Some(UsersField { value, key })
    }

    /// A required key; `right` describes it.
    pub(super) fn need(
        &self,
        name: &str,
        right: &str,
        parser: &mut UsersParser<'_>,
    ) -> Option<UsersField<'a>> {
        let field = self.field(name);
        if field.is_none() {
            let text = format!("{name:?} is missing: {right}");
            parser.wrong(&self.span, &self.key, text);
        }
        field
    }

    /// The tables of a list (`[[user]]`); empty if missing.
    pub(super) fn tables(&self, name: &str, parser: &mut UsersParser<'_>) -> Vec<UsersTable<'a>> {
        let list = self.field(name).map(|field| field.list(parser));
        list.unwrap_or_default()
            .iter()
            .filter_map(|item| item.table(parser))
            .collect()
    }
}

impl<'a> UsersField<'a> {
    pub(super) fn wrong(&self, text: impl Into<String>, parser: &mut UsersParser<'_>) {
        parser.wrong(&self.value.span(), &self.key, text);
    }

    fn other_kind(&self, right: &str, parser: &mut UsersParser<'_>) {
        let here = match self.value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.wrong(
            format!("{here} stands here; {right} would be right"),
            parser,
        );
    }

    pub(super) fn text(&self, parser: &mut UsersParser<'_>) -> Option<&'a str> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.other_kind("a text in quotes", parser);
        }
        text
    }

    /// A name of 1 to `longest` characters without control characters and without blanks at its ends.
    pub(super) fn name(&self, longest: usize, parser: &mut UsersParser<'_>) -> Option<&'a str> {
        let text = self.text(parser)?;
        let fits = (1..=longest).contains(&text.chars().count());
        if fits && !text.contains(char::is_control) && text.trim() == text {
            return Some(text);
        }
        let right = format!(
            "a name has 1 to {longest} characters, no control character, and no blank at an end"
        );
        self.wrong(right, parser);
        None
    }

    pub(super) fn flag(&self, parser: &mut UsersParser<'_>) -> Option<bool> {
        let flag = self.value.get_ref().as_bool();
        if flag.is_none() {
            self.other_kind("true or false", parser);
        }
        flag
    }

    pub(super) fn list(&self, parser: &mut UsersParser<'_>) -> Vec<UsersField<'a>> {
        let Some(items) = self.value.get_ref().as_array() else {
            self.other_kind("a list", parser);
            return Vec::new();
        };
        let item = |(n, value)| UsersField {
            value,
            key: format!("{}[{n}]", self.key),
        };
        items.iter().enumerate().map(item).collect()
    }

    fn table(&self, parser: &mut UsersParser<'_>) -> Option<UsersTable<'a>> {
        let Some(values) = self.value.get_ref().as_table() else {
            self.other_kind("a table", parser);
            return None;
        };
        Some(UsersTable {
            values,
            key: self.key.clone(),
            span: self.value.span(),
        })
    }
}
