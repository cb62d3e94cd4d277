//! A statement with its values, and a row of the answer.

use std::borrow::Cow;

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::SqlError;

/// A value bound to a `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// A double.
    Double(f64),
    /// Text.
    Text(String),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// SQL with `?` for its values.
///
/// A text known at compile time is prepared once per connection and kept; one made at run time
/// (a list of unknown length) is not.
#[derive(Debug, Clone)]
pub struct Statement {
    pub(super) sql: Cow<'static, str>,
    pub(super) values: Vec<Value>,
}

impl Statement {
    /// A statement without values yet. The text must not contain data: bind it.
    #[must_use]
    pub fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self {
            sql: sql.into(),
            values: Vec::new(),
        }
    }

    /// Binds the next `?`.
    #[must_use]
    pub fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Binds the next `?`s in order.
    #[must_use]
    pub fn bind_all<V: Into<Value>>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        self.values.extend(values.into_iter().map(Into::into));
        self
    }

    /// This statement followed by a list of bound keys and by `tail`.
    pub(super) fn with_list<V: Into<Value> + Clone>(&self, keys: &[V], tail: &str) -> Self {
        Self {
            sql: format!("{} ({}) {tail}", self.sql, placeholders(keys.len())).into(),
            values: self.values.clone(),
        }
        .bind_all(keys.iter().cloned())
    }
}

/// `?, ?, ?`: the inside of a list of `count` values.
#[must_use]
pub fn placeholders(count: usize) -> String {
    let mut text = String::with_capacity(count * 2);
    for index in 0..count {
        text.push_str(if index == 0 { "?" } else { ",?" });
    }
    text
}

/// One row of an answer. Columns are counted from 0 in the order of the SELECT.
pub struct Row {
    inner: SqliteRow,
}

impl Row {
    pub(super) fn sqlite(inner: SqliteRow) -> Self {
        Self { inner }
    }

    /// A whole number.
    ///
    /// # Errors
    /// [`SqlError::Column`] when the column holds NULL or something else.
    pub fn int(&self, column: usize) -> Result<i64, SqlError> {
        self.get(column, "a whole number")
    }

    /// A whole number or NULL.
    ///
    /// # Errors
    /// [`SqlError::Column`] when the column holds something else.
    pub fn opt_int(&self, column: usize) -> Result<Option<i64>, SqlError> {
        self.get(column, "a whole number or NULL")
    }

    /// A double; the SELECT must have cast it ([`super::Dialect::double`]).
    ///
    /// # Errors
    /// [`SqlError::Column`] when the column holds NULL or something else.
    pub fn double(&self, column: usize) -> Result<f64, SqlError> {
        self.get(column, "a number")
    }

    /// Text.
    ///
    /// # Errors
    /// [`SqlError::Column`] when the column holds NULL or something else.
    pub fn text(&self, column: usize) -> Result<String, SqlError> {
        self.get(column, "text")
    }

    /// Text or NULL.
    ///
    /// # Errors
    /// [`SqlError::Column`] when the column holds something else.
    pub fn opt_text(&self, column: usize) -> Result<Option<String>, SqlError> {
        self.get(column, "text or NULL")
    }

    fn get<'r, T>(&'r self, column: usize, expected: &'static str) -> Result<T, SqlError>
    where
        T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
    {
        self.inner
            .try_get(column)
            .map_err(|source| SqlError::Column {
                column,
                expected,
                source,
            })
    }
}
