//! Tables and values with their positions. Each accessor reports the expected value if it does not match.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use berth_model::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::MachineParser;

/// A table of the file.
pub(super) struct Table<'a> {
    values: &'a DeTable<'a>,
    /// Empty for the top.
    pub(super) key: String,
    pub(super) span: Range<usize>,
}

/// A value of the file.
pub(super) struct MachineField<'a> {
    value: &'a Spanned<DeValue<'a>>,
    pub(super) key: String,
}

impl<'a> Table<'a> {
    pub(super) fn top(values: &'a DeTable<'a>) -> Self {
        Table {
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

    /// Reports unknown keys, each with the nearest known one.
    pub(super) fn only(&self, known: &[&str], reading: &mut MachineParser<'_>) {
        for key in self.values.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let right = did_you_mean(name, known);
                let text = format!("unknown key; {right}");
                reading.wrong(&key.span(), &self.path(name), text);
            }
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<MachineField<'a>> {
        let value = self.values.get(name)?;
        let key = self.path(name);
        Some(MachineField { value, key })
    }

    /// A required key; `right` describes its value.
    pub(super) fn need(
        &self,
        name: &str,
        right: &str,
        reading: &mut MachineParser<'_>,
    ) -> Option<MachineField<'a>> {
        let field = self.field(name);
        if field.is_none() {
            let text = format!("{name:?} is missing: {right}");
            reading.wrong(&self.span, &self.key, text);
        }
        field
    }

    /// Every key with its value.
    pub(super) fn fields(&self) -> Vec<(&'a str, MachineField<'a>)> {
        self.values
            .iter()
            .map(|(key, value)| {
                let name: &'a str = key.get_ref().as_ref();
                let key = self.path(name);
                (name, MachineField { value, key })
            })
            .collect()
    }
}

impl<'a> MachineField<'a> {
    pub(super) fn span(&self) -> Range<usize> {
        self.value.span()
    }

    pub(super) fn wrong(&self, text: impl Into<String>, reading: &mut MachineParser<'_>) {
        reading.wrong(&self.span(), &self.key, text);
    }

    fn other_kind(&self, right: &str, reading: &mut MachineParser<'_>) {
        let here = match self.value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.wrong(format!("found {here}; expected {right}"), reading);
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    pub(super) fn is_list(&self) -> bool {
        self.value.get_ref().is_array()
    }

    pub(super) fn text(&self, reading: &mut MachineParser<'_>) -> Option<&'a str> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.other_kind("a text in quotes", reading);
        }
        text
    }

    /// Parses a text as `T`; the error of `T` states what is expected.
    pub(super) fn parsed<T>(&self, reading: &mut MachineParser<'_>) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        match self.text(reading)?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(error.to_string(), reading);
                None
            }
        }
    }

    /// An integer within the range. `unit` describes it, for example "MiB of memory".
    pub(super) fn number(
        &self,
        range: RangeInclusive<u64>,
        unit: &str,
        reading: &mut MachineParser<'_>,
    ) -> Option<u64> {
        let right = format!(
            "a whole number of {unit}, {} to {}",
            range.start(),
            range.end()
        );
        let Some(integer) = self.value.get_ref().as_integer() else {
            self.other_kind(&right, reading);
            return None;
        };
        // The text may have underscores and be hexadecimal.
        let digits = integer.as_str().replace('_', "");
        let number = u64::from_str_radix(digits.trim_start_matches('+'), integer.radix()).ok();
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let shown: String = integer.as_str().chars().take(40).collect();
            self.wrong(
                format!("{shown} is out of range; expected {right}"),
                reading,
            );
        }
        number
    }

    pub(super) fn cell(&self, reading: &mut MachineParser<'_>) -> Option<u32> {
        let cell = self.number(0..=1023, "the NUMA cell (its number)", reading)?;
        u32::try_from(cell).ok()
    }

    pub(super) fn flag(&self, reading: &mut MachineParser<'_>) -> Option<bool> {
        let flag = self.value.get_ref().as_bool();
        if flag.is_none() {
            self.other_kind("true or false", reading);
        }
        flag
    }

    /// One of a fixed set of values.
    pub(super) fn one_of<T: Copy>(
        &self,
        words: &[(&str, T)],
        reading: &mut MachineParser<'_>,
    ) -> Option<T> {
        let text = self.text(reading)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let shown: String = text.chars().take(80).collect();
            let text = format!("unknown value {shown:?}; {}", did_you_mean(text, &known));
            self.wrong(text, reading);
        }
        found.map(|(_, value)| *value)
    }

    pub(super) fn list(&self, reading: &mut MachineParser<'_>) -> Vec<MachineField<'a>> {
        let Some(items) = self.value.get_ref().as_array() else {
            self.other_kind("a list", reading);
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .map(|(n, value)| MachineField {
                value,
                key: format!("{}[{n}]", self.key),
            })
            .collect()
    }

    pub(super) fn table(&self, reading: &mut MachineParser<'_>) -> Option<Table<'a>> {
        let Some(values) = self.value.get_ref().as_table() else {
            self.other_kind("a table", reading);
            return None;
        };
        Some(Table {
            values,
            key: self.key.clone(),
            span: self.span(),
        })
    }

    /// A list of tables (`[[node]]`).
    pub(super) fn tables(&self, reading: &mut MachineParser<'_>) -> Vec<Table<'a>> {
        let items = self.list(reading);
        items
            .iter()
            .filter_map(|item| item.table(reading))
            .collect()
    }
}
