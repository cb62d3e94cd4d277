//! A statement with its values, and a row of the answer.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::{Dialect, SqlError};

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
/// A text known at compile time is prepared once per connection and kept; one made at run time is not.
#[derive(Debug, Clone)]
pub struct Statement {
    pub(super) sql: Cow<'static, str>,
    pub(super) values: Vec<Value>,
    /// Whether the text is one of few: then it is prepared once per connection.
    pub(super) recurring: bool,
}

impl Statement {
    /// A statement without values yet. The text must not contain data: bind it.
    #[must_use]
    pub fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        let sql = sql.into();
        Self {
            recurring: matches!(sql, Cow::Borrowed(_)),
            sql,
            values: Vec::new(),
        }
    }

    /// A statement whose text is made at run time but is one of few: it is prepared once per connection, too.
    #[must_use]
    pub fn recurring(sql: String) -> Self {
        Self {
            recurring: true,
            ..Self::new(sql)
        }
    }

    /// Its text.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// What asks how the database would go about it; each row's fourth column is a line of the plan.
    #[must_use]
    pub fn query_plan(&self) -> Self {
        Self {
            sql: format!("EXPLAIN QUERY PLAN {}", self.sql).into(),
            values: self.values.clone(),
            recurring: false,
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

    /// This statement followed by a list of keys and by `tail`. The keys are bound as one value, so that the text is the same
    /// for any number of them.
    pub(super) fn with_list<V: Into<Value> + Clone>(
        &self,
        dialect: Dialect,
        keys: &[V],
        tail: &str,
    ) -> Self {
        let keys = keys.iter().cloned().map(|key| json(key.into())).collect();
        Self {
            sql: format!("{} ({}) {tail}", self.sql, dialect.list()).into(),
            values: self.values.clone(),
            recurring: self.recurring,
        }
        .bind(serde_json::Value::Array(keys).to_string())
    }
}

fn json(value: Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Int(number) => number.into(),
        Value::Double(number) => number.into(),
        Value::Text(text) => text.into(),
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

    /// The many short rows that [`super::Dialect::packed`] brought over as one value.
    ///
    /// # Errors
    /// [`SqlError::Column`] when one of them is no `T`.
    pub fn unpack<T: DeserializeOwned>(&self, column: usize) -> Result<Vec<T>, SqlError> {
        let expected = "packed rows";
        let text: &str = self.get(column, expected)?;
        serde_json::from_str(text).map_err(|error| SqlError::Column {
            column,
            expected,
            source: sqlx::Error::Decode(error.into()),
        })
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
