//! Converts a statement to the form of each driver.

use std::fmt::Write as _;
use std::sync::Arc;

use sqlx::mysql::{MySql, MySqlArguments, MySqlConnection, MySqlQueryResult};
use sqlx::postgres::{PgArguments, Postgres};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments};
use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use super::numbered::{Mismatch, ParameterType, count, numbered, numbered_once, spelled};
use super::{Dialect, Row, Statement, Value};

pub(super) fn sqlite(statement: Statement) -> Query<'static, Sqlite, SqliteArguments> {
    let mut query =
        sqlx::query::<Sqlite>(AssertSqlSafe(statement.sql)).persistent(statement.recurring);
    for value in statement.values {
        query = match value {
            Value::Null => query.bind(None::<i64>),
            Value::Int(number) => query.bind(number),
            Value::Double(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
            Value::Timestamp(moment) => query.bind(moment.to_string()),
        };
    }
    query
}

pub(super) fn postgres(
    statement: Statement,
) -> Result<Query<'static, Postgres, PgArguments>, sqlx::Error> {
    few_enough(&statement, Dialect::Postgres)?;
    let keys = statement.keys.map(Keys::of);
    let kinds = statement.values.iter().map(ParameterType::of);
    let kinds: Vec<ParameterType> = kinds.chain(keys.as_ref().map(Keys::kind)).collect();
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
            Value::Timestamp(moment) => query.bind(moment.to_string()),
        };
    }
    Ok(match keys {
        None => query,
        Some(Keys::Ints(keys)) => query.bind(keys),
        Some(Keys::Doubles(keys)) => query.bind(keys),
        Some(Keys::Texts(keys)) => query.bind(keys),
    })
}

pub(super) fn mysql(statement: Statement) -> Result<MySqlQuery, sqlx::Error> {
    few_enough(&statement, Dialect::MySql)?;
    if !statement.recurring {
        let text = spelled(&statement.sql, &statement.values, literal).map_err(unequal)?;
        return Ok(MySqlQuery::Text(AssertSqlSafe(text).into_sql_str()));
    }
    let (placeholders, values) = (count(&statement.sql), statement.values.len());
    if placeholders != values {
        return Err(unequal(Mismatch {
            placeholders,
            values,
        }));
    }
    let mut query = sqlx::query::<MySql>(AssertSqlSafe(statement.sql)).persistent(true);
    for value in statement.values {
        query = match value {
            Value::Null => query.bind(None::<i64>),
            Value::Int(number) => query.bind(number),
            Value::Double(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
            Value::Timestamp(moment) => query.bind(moment.to_string()),
        };
    }
    Ok(MySqlQuery::Prepared(query))
}

/// A recurring statement is prepared. Other statements are sent once, with their values in the text. Preparing would
/// take three messages (prepare, execute, close). The server does not answer the last one, so the driver's socket
/// delays the next message until the kernel's acknowledgement, about 40 milliseconds.
pub(super) enum MySqlQuery {
    Prepared(Query<'static, MySql, MySqlArguments>),
    Text(SqlStr),
}

impl MySqlQuery {
    pub(super) async fn rows(
        self,
        connection: &mut MySqlConnection,
    ) -> Result<Vec<Row>, sqlx::Error> {
        Ok(match self {
            Self::Prepared(query) => {
                let rows = query.fetch_all(connection).await?;
                rows.into_iter().map(Row::mysql).collect()
            }
            Self::Text(text) => {
                let rows = sqlx::raw_sql(text).fetch_all(connection).await?;
                rows.into_iter().map(Row::mysql_text).collect()
            }
        })
    }

    pub(super) async fn row(
        self,
        connection: &mut MySqlConnection,
    ) -> Result<Option<Row>, sqlx::Error> {
        Ok(match self {
            Self::Prepared(query) => query.fetch_optional(connection).await?.map(Row::mysql),
            Self::Text(text) => {
                let row = sqlx::raw_sql(text).fetch_optional(connection).await?;
                row.map(Row::mysql_text)
            }
        })
    }

    pub(super) async fn execute(
        self,
        connection: &mut MySqlConnection,
    ) -> Result<MySqlQueryResult, sqlx::Error> {
        match self {
            Self::Prepared(query) => query.execute(connection).await,
            Self::Text(text) => sqlx::raw_sql(text).execute(connection).await,
        }
    }
}

/// Writes a value as a literal of MariaDB and MySQL that is valid in all modes. A text with other characters than
/// letters and digits is written in hexadecimal, so that no character can end the literal.
fn literal(value: &Value, text: &mut String) {
    // A String takes everything.
    let _ = match value {
        Value::Null => write!(text, "NULL"),
        // In parentheses: behind a minus another would begin a comment.
        Value::Int(number) if *number < 0 => write!(text, "({number})"),
        Value::Int(number) => write!(text, "{number}"),
        Value::Double(number) => write!(text, "({number:e})"),
        Value::Text(word) if is_plain(word) => write!(text, "'{word}'"),
        Value::Text(word) => {
            text.push_str("_utf8mb4 0x");
            word.bytes().try_for_each(|byte| write!(text, "{byte:02x}"))
        }
        Value::Timestamp(moment) => write!(text, "'{moment}'"),
    };
}

fn is_plain(word: &str) -> bool {
    word.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte))
}

fn few_enough(statement: &Statement, dialect: Dialect) -> Result<(), sqlx::Error> {
    let (values, most) = (statement.values.len(), dialect.max_variables());
    match values <= most {
        true => Ok(()),
        false => Err(sqlx::Error::Encode(
            format!("the statement has {values} values; at most {most} are possible").into(),
        )),
    }
}

fn unequal(mismatch: Mismatch) -> sqlx::Error {
    sqlx::Error::Encode(mismatch.into())
}

/// Keys that are bound as one array, which has one type.
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
        // Whole numbers mixed with doubles.
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

    fn kind(&self) -> ParameterType {
        match self {
            Self::Ints(_) => ParameterType::Ints,
            Self::Doubles(_) => ParameterType::Doubles,
            Self::Texts(_) => ParameterType::Texts,
        }
    }
}

fn text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Int(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Timestamp(moment) => moment.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_can_end_the_literal_that_it_stands_in() {
        for (value, expected) in [
            (Value::Null, "NULL"),
            (Value::Int(5), "5"),
            (Value::Int(-5), "(-5)"),
            (Value::Int(i64::MIN), "(-9223372036854775808)"),
            (Value::Double(1.5), "(1.5e0)"),
            (Value::Double(-2e30), "(-2e30)"),
            (Value::from("a-B_1.2:3"), "'a-B_1.2:3'"),
            (Value::from(""), "''"),
            (Value::from("it's"), "_utf8mb4 0x69742773"),
            (Value::from("\\"), "_utf8mb4 0x5c"),
            (Value::from("?"), "_utf8mb4 0x3f"),
            (Value::from("\u{e4}\0"), "_utf8mb4 0xc3a400"),
        ] {
            let mut text = String::new();
            literal(&value, &mut text);
            assert_eq!(text, expected, "{value:?}");
        }
    }

    #[test]
    fn each_placeholder_is_a_value_and_none_else_is() {
        let values = [Value::Int(1), Value::from("a?b")];
        let spelled = |sql| spelled(sql, &values, literal);
        let text = "SELECT '?', ? -- ?\n + ?";
        assert_eq!(
            spelled(text).unwrap(),
            "SELECT '?', 1 -- ?\n + _utf8mb4 0x613f62"
        );
        assert!(spelled("SELECT ?").is_err());
        assert!(spelled("SELECT ?, ?, ?").is_err());
    }
}
