//! A row of a result, and the values of its columns.

mod cell;
mod mysql;
mod postgres;

use serde::de::DeserializeOwned;
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::{SqlError, SqlTimestamp};
use cell::ColumnValue;
use mysql::WireFormat;

/// One row of an answer. Columns are counted from 0 in the order of the SELECT.
pub struct Row {
    inner: RowInner,
}

enum RowInner {
    Sqlite(SqliteRow),
    Postgres(PgRow),
    MySql(MySqlRow),
    /// Of a statement that went over as text.
    MySqlText(MySqlRow),
}

impl From<SqliteRow> for Row {
    fn from(row: SqliteRow) -> Self {
        Self {
            inner: RowInner::Sqlite(row),
        }
    }
}

impl From<PgRow> for Row {
    fn from(row: PgRow) -> Self {
        Self {
            inner: RowInner::Postgres(row),
        }
    }
}

impl Row {
    pub(super) fn mysql(row: MySqlRow) -> Self {
        Self {
            inner: RowInner::MySql(row),
        }
    }

    pub(super) fn mysql_text(row: MySqlRow) -> Self {
        Self {
            inner: RowInner::MySqlText(row),
        }
    }

    /// A whole number of any width, or a decimal without fraction (such as a SUM on a server).
    pub fn int(&self, column: usize) -> Result<i64, SqlError> {
        let expected = "a whole number";
        match &self.inner {
            RowInner::Sqlite(row) => some(row, column, expected),
            _ => self.cell(column, expected, ColumnValue::int),
        }
    }

    /// A whole number or NULL.
    pub fn opt_int(&self, column: usize) -> Result<Option<i64>, SqlError> {
        let expected = "a whole number or NULL";
        match &self.inner {
            RowInner::Sqlite(row) => get(row, column, expected),
            _ => self.opt_cell(column, expected, ColumnValue::int),
        }
    }

    /// A double; the SELECT must have cast it ([`super::Dialect::double`]).
    pub fn double(&self, column: usize) -> Result<f64, SqlError> {
        let expected = "a number";
        match &self.inner {
            RowInner::Sqlite(row) => some(row, column, expected),
            _ => self.cell(column, expected, ColumnValue::double),
        }
    }

    /// Text. A date of a server is given as [`SqlTimestamp`] writes it.
    pub fn text(&self, column: usize) -> Result<String, SqlError> {
        let expected = "text";
        match &self.inner {
            RowInner::Sqlite(row) => some(row, column, expected),
            _ => self.cell(column, expected, ColumnValue::text),
        }
    }

    pub fn opt_text(&self, column: usize) -> Result<Option<String>, SqlError> {
        let expected = "text or NULL";
        match &self.inner {
            RowInner::Sqlite(row) => get(row, column, expected),
            _ => self.opt_cell(column, expected, ColumnValue::text),
        }
    }

    /// A moment: a date of a server, or text that is one.
    pub fn moment(&self, column: usize) -> Result<SqlTimestamp, SqlError> {
        let expected = "a moment";
        let moment = self.opt_moment(column)?;
        moment.ok_or_else(|| refused(column, expected, "it is NULL".to_owned()))
    }

    /// A moment or NULL.
    pub fn opt_moment(&self, column: usize) -> Result<Option<SqlTimestamp>, SqlError> {
        let expected = "a moment or NULL";
        match &self.inner {
            RowInner::Sqlite(row) => {
                let text: Option<&str> = get(row, column, expected)?;
                text.map(|text| ColumnValue::Text(text).moment())
                    .transpose()
                    .map_err(|why| refused(column, expected, why))
            }
            _ => self.opt_cell(column, expected, ColumnValue::moment),
        }
    }

    /// The rows that [`super::Dialect::packed`] put into this row, starting at `column`. There may be any number of
    /// such rows, each with any number of packed ones, so the caller must read them all.
    pub fn unpack<T: DeserializeOwned>(&self, column: usize) -> Result<Vec<T>, SqlError> {
        let expected = "packed rows";
        let unread = |error: serde_json::Error| refused(column, expected, error.to_string());
        match &self.inner {
            RowInner::Sqlite(row) => {
                let text: &str = some(row, column, expected)?;
                serde_json::from_str(text).map_err(unread)
            }
            RowInner::Postgres(_) | RowInner::MySql(_) | RowInner::MySqlText(_) => {
                let cells = (column..self.columns()).map(|column| {
                    self.any(column)
                        .and_then(|cell| cell.json())
                        .map_err(|why| refused(column, expected, why))
                });
                let cells = cells.collect::<Result<Vec<_>, _>>()?;
                let row = serde_json::from_value(serde_json::Value::Array(cells));
                Ok(vec![row.map_err(unread)?])
            }
        }
    }

    fn columns(&self) -> usize {
        match &self.inner {
            RowInner::Sqlite(row) => row.len(),
            RowInner::Postgres(row) => row.len(),
            RowInner::MySql(row) | RowInner::MySqlText(row) => row.len(),
        }
    }

    /// The value in a server's row. SQLite's values are read by their own types.
    fn any(&self, column: usize) -> Result<ColumnValue<'_>, String> {
        match &self.inner {
            RowInner::Sqlite(_) => Ok(ColumnValue::Other("a value of SQLite".to_owned())),
            RowInner::Postgres(row) => postgres::cell(row, column),
            RowInner::MySql(row) => mysql::cell(row, column, WireFormat::Binary),
            RowInner::MySqlText(row) => mysql::cell(row, column, WireFormat::Text),
        }
    }

    fn cell<'r, T>(
        &'r self,
        column: usize,
        expected: &'static str,
        read: fn(ColumnValue<'r>) -> Result<T, String>,
    ) -> Result<T, SqlError> {
        self.any(column)
            .and_then(read)
            .map_err(|why| refused(column, expected, why))
    }

    fn opt_cell<'r, T>(
        &'r self,
        column: usize,
        expected: &'static str,
        read: fn(ColumnValue<'r>) -> Result<T, String>,
    ) -> Result<Option<T>, SqlError> {
        match self.any(column) {
            Ok(ColumnValue::Null) => Ok(None),
            cell => cell
                .and_then(read)
                .map(Some)
                .map_err(|why| refused(column, expected, why)),
        }
    }
}

fn get<'r, T>(row: &'r SqliteRow, column: usize, expected: &'static str) -> Result<T, SqlError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(column).map_err(|source| SqlError::Column {
        column,
        expected,
        source,
    })
}

/// Checks for NULL first: the driver reads a NULL as 0 or as an empty text.
fn some<'r, T>(row: &'r SqliteRow, column: usize, expected: &'static str) -> Result<T, SqlError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    let value: Option<T> = get(row, column, expected)?;
    value.ok_or_else(|| refused(column, expected, "it is NULL".to_owned()))
}

fn refused(column: usize, expected: &'static str, why: String) -> SqlError {
    SqlError::Column {
        column,
        expected,
        source: sqlx::Error::Decode(why.into()),
    }
}
