//! A statement in the form of each driver.

use std::sync::Arc;

use sqlx::mysql::{MySql, MySqlArguments};
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments};
use sqlx::{AssertSqlSafe, SqlSafeStr as _};

use super::numbered::{Kind, Mismatch, count, numbered, numbered_once};
use super::{Dialect, Statement, Value};

pub(super) fn sqlite(statement: Statement) -> Query<'static, Sqlite, SqliteArguments> {
    let mut query =
        sqlx::query::<Sqlite>(AssertSqlSafe(statement.sql)).persistent(statement.recurring);
    for value in statement.values {
        query = match value {
            Value::Null => query.bind(None::<i64>),
            Value::Int(number) => query.bind(number),
            Value::Double(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
            Value::Moment(moment) => query.bind(moment.to_string()),
        };
    }
    query
}

/// # Errors
/// The number of values is not the number of `?`, or too many.
pub(super) fn postgres(
    statement: Statement,
) -> Result<Query<'static, Postgres, PgArguments>, sqlx::Error> {
    few_enough(&statement, Dialect::Postgres)?;
    let keys = statement.keys.map(Keys::of);
    let kinds = statement.values.iter().map(Kind::of);
    let kinds: Vec<Kind> = kinds.chain(keys.as_ref().map(Keys::kind)).collect();
    let text = match statement.recurring {
        true => numbered_once(&statement.sql, &kinds),
        false => numbered(&statement.sql, &kinds).map(Arc::from),
    };
    let text = AssertSqlSafe(text.map_err(unequal)?).into_sql_str();
    let mut query = sqlx::query::<Postgres>(text).persistent(statement.recurring);
    for value in statement.values {
        query = match value {
            Value::Null => query,
            Value::Int(number) => query.bind(number),
            Value::Double(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
            Value::Moment(moment) => query.bind(moment.to_string()),
        };
    }
    Ok(match keys {
        None => query,
        Some(Keys::Ints(keys)) => query.bind(keys),
        Some(Keys::Doubles(keys)) => query.bind(keys),
        Some(Keys::Texts(keys)) => query.bind(keys),
    })
}

/// # Errors
/// As [`postgres`]. The driver would only find out when the server waits for more.
pub(super) fn mysql(
    statement: Statement,
) -> Result<Query<'static, MySql, MySqlArguments>, sqlx::Error> {
    few_enough(&statement, Dialect::MySql)?;
    let (placeholders, values) = (count(&statement.sql), statement.values.len());
    if placeholders != values {
        return Err(unequal(Mismatch {
            placeholders,
            values,
        }));
    }
    let mut query =
        sqlx::query::<MySql>(AssertSqlSafe(statement.sql)).persistent(statement.recurring);
    for value in statement.values {
        query = match value {
            Value::Null => query.bind(None::<i64>),
            Value::Int(number) => query.bind(number),
            Value::Double(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
            Value::Moment(moment) => query.bind(moment.to_string()),
        };
    }
    Ok(query)
}

fn few_enough(statement: &Statement, dialect: Dialect) -> Result<(), sqlx::Error> {
    let (values, most) = (statement.values.len(), dialect.max_variables());
    match values <= most {
        true => Ok(()),
        false => Err(sqlx::Error::Encode(
            format!("the statement has {values} values, and {most} are the most").into(),
        )),
    }
}

fn unequal(mismatch: Mismatch) -> sqlx::Error {
    sqlx::Error::Encode(mismatch.into())
}

/// Keys that go over as one array, which has one type.
enum Keys {
    Ints(Vec<i64>),
    Doubles(Vec<f64>),
    Texts(Vec<String>),
}

impl Keys {
    fn of(keys: Vec<Value>) -> Self {
        let all_ints = keys.iter().map(|key| match key {
            Value::Int(number) => Some(*number),
            _ => None,
        });
        if let Some(ints) = all_ints.collect() {
            return Self::Ints(ints);
        }
        // Whole numbers among others that are not.
        #[expect(clippy::cast_precision_loss, reason = "compared with doubles")]
        let all_doubles = keys.iter().map(|key| match key {
            Value::Double(number) => Some(*number),
            Value::Int(number) => Some(*number as f64),
            _ => None,
        });
        match all_doubles.collect() {
            Some(doubles) => Self::Doubles(doubles),
            None => Self::Texts(keys.into_iter().map(text).collect()),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Ints(_) => Kind::Ints,
            Self::Doubles(_) => Kind::Doubles,
            Self::Texts(_) => Kind::Texts,
        }
    }
}

fn text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Int(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Moment(moment) => moment.to_string(),
    }
}
