//! Digests for comparing a copy: the number of rows of a table and a hash of their values.

use berth_store::{Dialect, SqlError, SqlTimestamp, Transaction, Value};
use sha2::{Digest as _, Sha256};

use super::CopiedTable;
use super::table::CopyTable;

/// The precision that both databases support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Fine,
    /// Six digits and whole seconds, like MySQL's `float` and `datetime`.
    Coarse,
}

impl Precision {
    pub(super) fn of(from: Dialect, to: Dialect) -> Self {
        match from == Dialect::MySql || to == Dialect::MySql {
            true => Self::Coarse,
            false => Self::Fine,
        }
    }

    /// A value at this precision. Timestamps are truncated, because MySQL would round them into the future. Numbers are
    /// rounded once; rounding twice would turn 1.23456499 into 1.23457.
    pub(super) fn stored(self, value: Value) -> Value {
        match (self, value) {
            (Self::Coarse, Value::Timestamp(moment)) => {
                let micros = moment.as_micros();
                let whole = SqlTimestamp::from_micros(micros - micros.rem_euclid(1_000_000));
                Value::Timestamp(whole.unwrap_or(moment))
            }
            (Self::Coarse, Value::Double(number)) => {
                Value::Double(format!("{number:.5e}").parse().unwrap_or(number))
            }
            (_, value) => value,
        }
    }

    pub(super) fn text(self, value: &Value) -> String {
        match (self, self.stored(value.clone())) {
            (_, Value::Null) => "-".to_owned(),
            (_, Value::Int(number)) => format!("i{number}"),
            (_, Value::Double(number)) => format!("d{number:e}"),
            (_, Value::Text(text)) => format!("t{}:{text}", text.len()),
            (_, Value::Timestamp(moment)) => format!("m{}", moment.as_micros()),
        }
    }
}

/// A row count and a digest.
#[derive(Default)]
pub(super) struct TableDigest {
    rows: u64,
    digest: Sha256,
}

impl TableDigest {
    pub(super) fn add(&mut self, rows: &[Vec<Value>], precision: Precision) {
        for row in rows {
            self.rows += 1;
            for value in row {
                self.digest.update(precision.text(value));
                self.digest.update(b",");
            }
            self.digest.update(b";");
        }
    }

    pub(super) fn copied(self, table: &'static str) -> CopiedTable {
        let digest = self.digest.finalize();
        CopiedTable {
            table,
            rows: self.rows,
            digest: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// The digest of a table.
pub(super) async fn digest(
    tx: &mut Transaction,
    table: &CopyTable,
    precision: Precision,
) -> Result<CopiedTable, SqlError> {
    let mut sum = TableDigest::default();
    let mut after = None;
    loop {
        let rows = table.page(tx, after).await?;
        sum.add(&rows, precision);
        after = rows.last().map(|row| table.key_of(row));
        if after.is_none() {
            return Ok(sum.copied(table.name));
        }
    }
}
