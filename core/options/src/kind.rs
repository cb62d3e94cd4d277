//! Kinds of option values: their check, their parsing from the environment, and their name in the reference.

use berth_model::nearest_name;
use serde_json::{Number, Value};

use crate::text::{FileRole, TablesKind, TextKind};

/// The kind of an option's value.
#[derive(Debug, Clone, Copy)]
pub enum OptionKind {
    /// `true` or `false`.
    Flag,
    /// A whole number in this range.
    Integer(i64, i64),
    /// One of these whole numbers.
    Numbers(&'static [i64]),
    /// A decimal number over 0, at most this.
    Ratio(f64),
    /// A decimal number in this range.
    Number(f64, f64),
    /// A decimal number of seconds in this range.
    Seconds(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of these words.
    Choices(&'static [&'static str]),
    /// A text.
    Text(&'static TextKind),
    /// A list of texts, none of them twice.
    Texts(&'static TextKind),
    /// A list of tables, or of JSON texts of them.
    Tables(&'static TablesKind),
}

/// Why a value is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    pub wrong: String,
    /// What would be right.
    pub right: String,
    pub fault: ValueFault,
    /// Index of the wrong list element, if the value is a list.
    pub element: Option<usize>,
}

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueFault {
    /// The value has the wrong type.
    Type,
    /// The type is right, but the value is not accepted.
    Value,
}

impl ValueError {
    fn new(fault: ValueFault, wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Self {
            wrong: wrong.into(),
            right: right.into(),
            fault,
            element: None,
        }
    }
}

impl OptionKind {
    /// What would be right, as the end of a sentence.
    #[must_use]
    pub fn write(self) -> String {
        match self {
            Self::Flag => "write true or false, without quotes".into(),
            Self::Integer(low, i64::MAX) => format!("write a whole number from {low} on"),
            Self::Integer(low, high) => format!("write a whole number from {low} to {high}"),
            Self::Numbers(numbers) => format!("write one of {}", listed(numbers)),
            Self::Ratio(high) => format!("write a number over 0, at most {high}"),
            Self::Number(low, high) => format!("write a number from {low} to {high}"),
            Self::Seconds(low, high) => format!("write a number of seconds from {low} to {high}"),
            Self::Choice(words) => format!("write one of {}", words.join(", ")),
            Self::Choices(words) => format!("write a list of: {}", words.join(", ")),
            Self::Text(format) | Self::Texts(format) => format.write.into(),
            Self::Tables(format) => format.write.into(),
        }
    }

    /// The kind in the option reference.
    #[must_use]
    pub fn documented(self) -> String {
        match self {
            Self::Flag => "true or false".into(),
            Self::Integer(low, i64::MAX) => format!("whole number, {low} or more"),
            Self::Integer(low, high) => format!("whole number, {low} to {high}"),
            Self::Numbers(numbers) => format!("one of {}", listed(numbers)),
            Self::Ratio(high) => format!("number over 0, at most {high}"),
            Self::Number(low, _) if low < 0.0 => "number".into(),
            Self::Number(low, _) => format!("number, {low} or more"),
            Self::Seconds(low, high) => format!("seconds, {low} to {high}"),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Choices(words) => format!("list of: {}", words.join(", ")),
            Self::Text(format) | Self::Texts(format) => format.documented.into(),
            Self::Tables(_) => "list of tables, or of JSON texts".into(),
        }
    }

    /// Whether the value must never be shown.
    #[must_use]
    pub fn is_secret(self) -> bool {
        matches!(self, Self::Text(format) if format.is_secret)
    }

    /// The files that a checked value names, if rights depend on who can change or read them.
    #[must_use]
    pub fn files(self, value: &Value) -> Vec<(FileRole, &str)> {
        match (self, value) {
            (Self::Text(format), Value::String(text)) => (format.file)(text).into_iter().collect(),
            (Self::Texts(format), Value::Array(texts)) => {
                let texts = texts.iter().filter_map(Value::as_str);
                texts.filter_map(format.file).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Reads the text of an environment variable: lists are separated by commas.
    pub fn of_variable(self, text: &str) -> Result<Value, ValueError> {
        let trimmed = text.trim();
        Ok(match self {
            Self::Flag => match trimmed.to_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Value::from(true),
                "false" | "no" | "off" | "0" => Value::from(false),
                _ => Value::from(text),
            },
            Self::Integer(..) | Self::Numbers(_) => trimmed
                .parse::<i64>()
                .map_or_else(|_| Value::from(text), Value::from),
            Self::Ratio(_) | Self::Number(..) | Self::Seconds(..) => match trimmed.parse::<f64>() {
                Ok(number) if !number.is_finite() => return Err(self.out_of_range(number)),
                Ok(number) => Value::from(number),
                Err(_) => Value::from(text),
            },
            // One text may contain a whole list with commas.
            Self::Tables(_) => Value::from(vec![trimmed]),
            Self::Choices(_) | Self::Texts(_) => {
                let words = trimmed.split(',').map(str::trim);
                words.filter(|word| !word.is_empty()).collect()
            }
            Self::Choice(_) | Self::Text(_) => Value::from(text),
        })
    }

    /// Checks a value and returns its normal form: whole numbers become decimal ones for kinds of decimal numbers.
    pub fn check(self, value: &Value) -> Result<Value, ValueError> {
        match (self, value) {
            (Self::Flag, Value::Bool(_)) => Ok(value.clone()),
            (Self::Flag, _) => Err(self.wants("true or false", value)),
            (Self::Integer(low, high), _) => match value.as_i64() {
                Some(number) if (low..=high).contains(&number) => Ok(value.clone()),
                Some(number) => Err(self.out_of_range(number)),
                None => Err(self.wants("a whole number", value)),
            },
            (Self::Numbers(numbers), _) => match value.as_i64() {
                Some(number) if numbers.contains(&number) => Ok(value.clone()),
                Some(number) => {
                    let wrong = format!("{number} is not one of the numbers accepted");
                    Err(ValueError::new(ValueFault::Value, wrong, self.write()))
                }
                None => Err(self.wants("a whole number", value)),
            },
            (Self::Ratio(_) | Self::Number(..) | Self::Seconds(..), _) => self.check_decimal(value),
            (Self::Choices(_) | Self::Texts(_), _) => self.check_list(value),
            (Self::Tables(format), Value::Array(elements)) => match (format.check)(elements) {
                Ok(()) => Ok(value.clone()),
                Err(error) => Err(ValueError {
                    element: error.element,
                    ..ValueError::new(ValueFault::Value, error.wrong, format.write)
                }),
            },
            (Self::Tables(_), _) => Err(self.wants("a list", value)),
            (Self::Choice(_) | Self::Text(_), Value::String(text)) => {
                self.check_text(text).map(|()| value.clone())
            }
            (Self::Choice(_) | Self::Text(_), _) => Err(self.wants("a text", value)),
        }
    }

    fn check_decimal(self, value: &Value) -> Result<Value, ValueError> {
        let Some(number) = value.as_f64() else {
            return Err(self.wants("a number", value));
        };
        let is_allowed = match self {
            Self::Ratio(high) => number > 0.0 && number <= high,
            Self::Number(low, high) | Self::Seconds(low, high) => number >= low && number <= high,
            _ => false,
        };
        match is_allowed {
            true => Ok(Value::from(number)),
            false => Err(self.out_of_range(number)),
        }
    }

    fn check_list(self, value: &Value) -> Result<Value, ValueError> {
        let elements = match value {
            Value::Array(elements) => elements,
            // oslo.config separates the elements of a list by commas.
            Value::String(text) => {
                let words = text.split(',').map(str::trim);
                let words = words.filter(|word| !word.is_empty());
                let words: Vec<String> = words.map(|word| format!("{word:?}")).collect();
                return Err(ValueError::new(
                    ValueFault::Type,
                    "a list is wanted, not a text",
                    format!("write [{}]", words.join(", ")),
                ));
            }
            _ => return Err(self.wants("a list", value)),
        };
        let mut seen: Vec<&str> = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let at = |wrong: ValueError| ValueError {
                element: Some(index),
                ..wrong
            };
            let Value::String(text) = element else {
                let wrong = format!(
                    "a list of texts is wanted, this element is {}",
                    self.described(element)
                );
                return Err(at(ValueError::new(ValueFault::Type, wrong, self.write())));
            };
            self.check_text(text).map_err(at)?;
            if seen.contains(&text.as_str()) {
                let wrong = format!("{text:?} is in the list twice");
                return Err(at(ValueError::new(
                    ValueFault::Value,
                    wrong,
                    "write it once",
                )));
            }
            seen.push(text);
        }
        Ok(value.clone())
    }

    /// Checks a text, or one element of a list of texts.
    fn check_text(self, text: &str) -> Result<(), ValueError> {
        let refuse =
            |wrong: String, right: String| Err(ValueError::new(ValueFault::Value, wrong, right));
        if text.trim().is_empty() {
            return refuse("the text is empty".to_owned(), self.write());
        }
        if text.contains(|letter: char| letter.is_control()) {
            return refuse("the text has control characters".to_owned(), self.write());
        }
        match self {
            Self::Choice(words) | Self::Choices(words) if !words.contains(&text) => {
                let right = match nearest_name(text, words.iter().copied()) {
                    Some(word) => format!("did you mean {word:?}? {}", self.write()),
                    None => self.write(),
                };
                refuse(format!("{text:?} is not one of the words accepted"), right)
            }
            Self::Text(format) | Self::Texts(format) => match (format.check)(text) {
                Ok(()) => Ok(()),
                Err(error) => {
                    let right = error.right.unwrap_or_else(|| self.write());
                    refuse(error.wrong, right)
                }
            },
            _ => Ok(()),
        }
    }

    fn wants(self, what: &str, value: &Value) -> ValueError {
        let wrong = format!("{what} is wanted, not {}", self.described(value));
        ValueError::new(ValueFault::Type, wrong, self.write())
    }

    fn out_of_range(self, number: impl std::fmt::Display) -> ValueError {
        let wrong = format!("{number} is out of range");
        ValueError::new(ValueFault::Value, wrong, self.write())
    }

    /// Describes a refused value for an error text; never shows the value of a secret.
    fn described(self, value: &Value) -> String {
        let is_whole = |number: &Number| number.is_i64() || number.is_u64();
        match value {
            Value::String(text) if !self.is_secret() => format!("the text {text:?}"),
            Value::Number(number) if !self.is_secret() => match number.as_f64() {
                Some(decimal) if !is_whole(number) => format!("the number {decimal}"),
                _ => format!("the number {number}"),
            },
            Value::Bool(flag) if !self.is_secret() => flag.to_string(),
            Value::Null => "nothing".to_owned(),
            Value::Bool(_) => "true or false".to_owned(),
            Value::Number(number) if is_whole(number) => "a whole number".to_owned(),
            Value::Number(_) => "a decimal number".to_owned(),
            Value::String(_) => "a text".to_owned(),
            Value::Object(_) => "a table".to_owned(),
            Value::Array(_) => "a list".to_owned(),
        }
    }

    /// Converts a default to the normal form of a checked value.
    pub(crate) fn default_form(self, value: Value) -> Value {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "defaults are far from the limits of whole numbers"
        )]
        match (self, value.as_f64()) {
            (Self::Integer(..) | Self::Numbers(_), Some(number)) => Value::from(number as i64),
            (Self::Ratio(_) | Self::Number(..) | Self::Seconds(..), Some(number)) => {
                Value::from(number)
            }
            _ => value,
        }
    }
}

fn listed(numbers: &[i64]) -> String {
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    texts.join(", ")
}
