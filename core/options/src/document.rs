//! TOML files of operators besides `berth.toml`: typed access to tables and values. Each accessor reports what is wrong and
//! what is expected, with line and key, so one pass finds all problems of a file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Display};
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use berth_model::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// More problems are not useful at a time, and each position is counted from the start of the text.
const MOST_SHOWN: usize = 50;

/// The longest part of a text of the file that a problem repeats, in characters.
const REPEATED: usize = 80;

/// One thing that is wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentProblem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The key, for example `node[0].gpu[1].address`; empty for the file as a whole.
    pub key: String,
    /// What is wrong and what is expected.
    pub text: String,
}

impl Display for DocumentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

/// The problems of a file, one per line.
#[must_use]
pub fn listed(file: &str, problems: &[DocumentProblem]) -> String {
    let lines = problems.iter().map(|problem| format!("{file}:{problem}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Parses a text; `read` gets its top table.
///
/// Errors: The problems in the order of the text, if it is not TOML, or if `read` reported any.
pub fn parse_document<T>(
    text: &str,
    read: impl FnOnce(&DocumentTable<'_>, &mut DocumentParser<'_>) -> Option<T>,
) -> Result<T, Vec<DocumentProblem>> {
    let mut parser = DocumentParser {
        text,
        problems: Vec::new(),
        first_keys: BTreeMap::new(),
    };
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            let first = error.message().lines().next().unwrap_or("no TOML");
            parser.wrong(&span, "", format!("this is not valid TOML: {first}"));
            return Err(parser.problems);
        }
    };
    let top = DocumentTable {
        values: document.get_ref(),
        key: String::new(),
        span: 0..0,
    };
    let value = read(&top, &mut parser);
    let mut problems = parser.problems;
    problems.sort();
    problems.dedup();
    match value {
        Some(value) if problems.is_empty() => Ok(value),
        _ => Err(problems),
    }
}

/// What a parse collects: problems, and values that must be unique.
pub struct DocumentParser<'t> {
    text: &'t str,
    problems: Vec<DocumentProblem>,
    /// The key of the first occurrence of each unique value, by its kind (such as "user id") and text.
    first_keys: BTreeMap<(&'static str, String), String>,
}

impl DocumentParser<'_> {
    /// Reports a problem at this span and key of the file.
    pub fn wrong(&mut self, span: &Range<usize>, key: &str, text: impl Into<String>) {
        if self.problems.len() >= MOST_SHOWN {
            return;
        }
        let mut end = span.start.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        let before = &self.text[..end];
        let line = before.rsplit('\n').next().unwrap_or_default();
        self.problems.push(DocumentProblem {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            key: key.to_owned(),
            text: text.into(),
        });
    }

    /// Reports a second occurrence of a value that must be unique.
    pub fn once(&mut self, what: &'static str, shown: impl ToString, field: &DocumentField<'_>) {
        let shown = shown.to_string();
        if let Some(first) = self.earlier(what, shown.clone(), &field.key) {
            let text = format!("{what} {shown} is already at {first}");
            field.wrong(text, self);
        }
    }

    /// The key of the earlier occurrence of a value that must be unique; `None` for the first one.
    pub fn earlier(&mut self, what: &'static str, value: String, key: &str) -> Option<String> {
        match self.first_keys.entry((what, value)) {
            Entry::Occupied(first) => Some(first.get().clone()),
            Entry::Vacant(place) => {
                place.insert(key.to_owned());
                None
            }
        }
    }
}

/// A table of the file.
pub struct DocumentTable<'a> {
    values: &'a DeTable<'a>,
    /// Empty for the top.
    pub key: String,
    pub span: Range<usize>,
}

/// A value of the file.
pub struct DocumentField<'a> {
    value: &'a Spanned<DeValue<'a>>,
    pub key: String,
}

impl<'a> DocumentTable<'a> {
    fn path(&self, name: &str) -> String {
        if self.key.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.key)
        }
    }

    /// Reports unknown keys, each with the nearest known one.
    pub fn only(&self, known: &[&str], parser: &mut DocumentParser<'_>) {
        for key in self.values.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let shown: String = name.chars().take(REPEATED).collect();
                let text = format!("unknown key; {}", did_you_mean(name, known));
                parser.wrong(&key.span(), &self.path(&shown), text);
            }
        }
    }

    #[must_use]
    pub fn field(&self, name: &str) -> Option<DocumentField<'a>> {
        let value = self.values.get(name)?;
        let key = self.path(name);
        Some(DocumentField { value, key })
    }

    /// A required key; `right` describes its value.
    pub fn need(
        &self,
        name: &str,
        right: &str,
        parser: &mut DocumentParser<'_>,
    ) -> Option<DocumentField<'a>> {
        let field = self.field(name);
        if field.is_none() {
            let text = format!("{name:?} is missing: {right}");
            parser.wrong(&self.span, &self.key, text);
        }
        field
    }

    /// The tables of a list (`[[user]]`); empty without the key.
    pub fn tables(&self, name: &str, parser: &mut DocumentParser<'_>) -> Vec<DocumentTable<'a>> {
        let tables = self.field(name).map(|field| field.tables(parser));
        tables.unwrap_or_default()
    }

    /// Every key with its value.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'a str, DocumentField<'a>)> {
        self.values
            .iter()
            .map(|(key, value)| {
                let name: &'a str = key.get_ref().as_ref();
                let key = self.path(name);
                (name, DocumentField { value, key })
            })
            .collect()
    }
}

impl<'a> DocumentField<'a> {
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.value.span()
    }

    pub fn wrong(&self, text: impl Into<String>, parser: &mut DocumentParser<'_>) {
        parser.wrong(&self.span(), &self.key, text);
    }

    fn other_kind(&self, right: &str, parser: &mut DocumentParser<'_>) {
        let here = match self.value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.wrong(format!("found {here}; expected {right}"), parser);
    }

    #[must_use]
    pub fn is_text(&self) -> bool {
        self.value.get_ref().is_str()
    }

    #[must_use]
    pub fn is_list(&self) -> bool {
        self.value.get_ref().is_array()
    }

    pub fn text(&self, parser: &mut DocumentParser<'_>) -> Option<&'a str> {
        let text = self.value.get_ref().as_str();
        if text.is_none() {
            self.other_kind("a text in quotes", parser);
        }
        text
    }

    /// Parses a text as `T`; the error of `T` states what is expected.
    pub fn parsed<T>(&self, parser: &mut DocumentParser<'_>) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        match self.text(parser)?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(error.to_string(), parser);
                None
            }
        }
    }

    /// An integer within the range. `unit` describes it, for example "MiB of memory".
    pub fn number(
        &self,
        range: RangeInclusive<u64>,
        unit: &str,
        parser: &mut DocumentParser<'_>,
    ) -> Option<u64> {
        let right = format!(
            "a whole number of {unit}, {} to {}",
            range.start(),
            range.end()
        );
        let Some(integer) = self.value.get_ref().as_integer() else {
            self.other_kind(&right, parser);
            return None;
        };
        // The text may have underscores and be hexadecimal.
        let digits = integer.as_str().replace('_', "");
        let number = u64::from_str_radix(digits.trim_start_matches('+'), integer.radix()).ok();
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let shown: String = integer.as_str().chars().take(40).collect();
            self.wrong(format!("{shown} is out of range; expected {right}"), parser);
        }
        number
    }

    pub fn flag(&self, parser: &mut DocumentParser<'_>) -> Option<bool> {
        let flag = self.value.get_ref().as_bool();
        if flag.is_none() {
            self.other_kind("true or false", parser);
        }
        flag
    }

    /// One of a fixed set of values.
    pub fn one_of<T: Copy>(
        &self,
        words: &[(&str, T)],
        parser: &mut DocumentParser<'_>,
    ) -> Option<T> {
        let text = self.text(parser)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            let shown: String = text.chars().take(REPEATED).collect();
            let text = format!("unknown value {shown:?}; {}", did_you_mean(text, &known));
            self.wrong(text, parser);
        }
        found.map(|(_, value)| *value)
    }

    pub fn list(&self, parser: &mut DocumentParser<'_>) -> Vec<DocumentField<'a>> {
        let Some(items) = self.value.get_ref().as_array() else {
            self.other_kind("a list", parser);
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .map(|(n, value)| DocumentField {
                value,
                key: format!("{}[{n}]", self.key),
            })
            .collect()
    }

    pub fn table(&self, parser: &mut DocumentParser<'_>) -> Option<DocumentTable<'a>> {
        let Some(values) = self.value.get_ref().as_table() else {
            self.other_kind("a table", parser);
            return None;
        };
        Some(DocumentTable {
            values,
            key: self.key.clone(),
            span: self.span(),
        })
    }

    /// A list of tables (`[[node]]`).
    pub fn tables(&self, parser: &mut DocumentParser<'_>) -> Vec<DocumentTable<'a>> {
        let items = self.list(parser);
        items.iter().filter_map(|item| item.table(parser)).collect()
    }
}
