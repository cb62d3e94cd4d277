//! A statement: SQL text with `?` placeholders, and its values.

use std::borrow::Cow;
use std::iter;

use super::{Dialect, SqlTimestamp};

/// A value bound to a `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL, for a column of any type.
    Null,
    Int(i64),
    Double(f64),
    Text(String),
    /// A moment, for a column that holds dates. PostgreSQL takes no text there.
    Timestamp(SqlTimestamp),
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

impl From<SqlTimestamp> for Value {
    fn from(value: SqlTimestamp) -> Self {
        Self::Timestamp(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// SQL with `?` for its values, on every database.
///
/// A text known at compile time is prepared once per connection; a text made at run time is not. A `?` in a literal
/// must be in single quotes. PostgreSQL gets the type of each value, so a text for a column of another type (an enum,
/// JSON) needs a `CAST(? AS ...)`.
#[derive(Debug, Clone)]
pub struct Statement {
    pub(super) sql: Cow<'static, str>,
    pub(super) values: Vec<Value>,
    /// Whether the text is one of a small set, so that it is prepared once per connection.
    pub(super) recurring: bool,
    /// Keys that are bound as one value after the others, if the database supports it.
    pub(super) keys: Option<Vec<Value>>,
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
            keys: None,
        }
    }

    /// A statement made at run time from a small set of texts, so it is also prepared once per connection.
    #[must_use]
    pub fn recurring(sql: String) -> Self {
        Self {
            recurring: true,
            ..Self::new(sql)
        }
    }

    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// SQLite's query plan of the statement; the fourth column of each row is one line.
    #[must_use]
    pub fn query_plan(&self) -> Self {
        Self {
            sql: format!("EXPLAIN QUERY PLAN {}", self.sql).into(),
            recurring: false,
            ..self.clone()
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

    /// The same statement with `end` appended to its text.
    pub(super) fn followed_by(mut self, end: &str) -> Self {
        self.sql = format!("{}{end}", self.sql).into();
        self
    }

    /// This statement followed by a list of keys and by `tail`; several statements if the database limits
    /// the number of keys.
    pub(super) fn with_list<V: Into<Value> + Clone>(
        &self,
        dialect: Dialect,
        keys: &[V],
        tail: &str,
    ) -> impl Iterator<Item = Self> {
        keys.chunks(dialect.max_keys().min(keys.len()).max(1))
            .map(move |keys| match dialect {
                Dialect::Sqlite => self.with_json(keys, tail),
                Dialect::Postgres => self.with_array(keys, tail),
                Dialect::MySql => self.with_placeholders(keys, tail),
            })
    }

    /// Binds the keys as one value, so that the text is the same for any number of keys.
    fn with_json<V: Into<Value> + Clone>(&self, keys: &[V], tail: &str) -> Self {
        let keys = keys.iter().cloned().map(|key| json(key.into())).collect();
        Self {
            sql: format!("{} (SELECT value FROM json_each(?)) {tail}", self.sql).into(),
            values: self.values.clone(),
            recurring: self.recurring,
            keys: None,
        }
        .bind(serde_json::Value::Array(keys).to_string())
    }

    /// Binds the keys as one array, for the same reason. As a subquery and not `= ANY`, which PostgreSQL would compare
    /// key by key without an index.
    fn with_array<V: Into<Value> + Clone>(&self, keys: &[V], tail: &str) -> Self {
        let keys = keys.iter().cloned().map(Into::into);
        let keys: Vec<Value> = keys.filter(|key| *key != Value::Null).collect();
        // Without keys there is no type.
        let list = if keys.is_empty() {
            "NULL"
        } else {
            "SELECT unnest(?)"
        };
        Self {
            sql: format!("{} ({list}) {tail}", self.sql).into(),
            values: self.values.clone(),
            recurring: self.recurring,
            keys: Some(keys).filter(|keys| !keys.is_empty()),
        }
    }

    /// One by one: MariaDB reads neither JSON_TABLE in an UPDATE or DELETE nor one in another character set by the index. The
    /// last is repeated up to a power of two, so that few texts are prepared.
    fn with_placeholders<V: Into<Value> + Clone>(&self, keys: &[V], tail: &str) -> Self {
        let count = keys.len().next_power_of_two();
        let last = keys.last().cloned().map_or(Value::Null, Into::into);
        let mut statement = Self {
            sql: format!("{} ({}) {tail}", self.sql, placeholders(count)).into(),
            values: self.values.clone(),
            recurring: self.recurring && count <= 1_024,
            keys: None,
        };
        statement.values.reserve(count);
        statement
            .bind_all(keys.iter().cloned().map(Into::into))
            .bind_all(iter::repeat_n(last, count - keys.len()))
    }
}

fn json(value: Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Int(number) => number.into(),
        Value::Double(number) => number.into(),
        Value::Text(text) => text.into(),
        Value::Timestamp(moment) => moment.to_string().into(),
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
