//! A table to copy: its columns, and its rows page by page in key order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use berth_store::{Dialect, Row, SqlError, Statement, Transaction, Value};

use super::super::revision::Revision;
use super::super::shape::{Object, ShapePart, TableShape, at};
use super::PAGE;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Int,
    Double,
    Text,
    Timestamp,
}

/// A table by its columns, in the order of their names.
pub(super) struct CopyTable {
    pub(super) name: &'static str,
    pub(super) columns: Vec<(String, ColumnKind)>,
    /// Columns of the primary key, by their places among all.
    pub(super) key: Vec<usize>,
}

impl CopyTable {
    pub(super) fn of(name: &'static str) -> Self {
        let shape = at(Revision::HEAD, Dialect::Sqlite);
        let columns: Vec<_> = shape
            .iter()
            .filter(|(object, _)| object.table == name)
            .filter_map(|(object, description)| match &object.part {
                ShapePart::Column(column) => Some((column.clone(), kind(description))),
                _ => None,
            })
            .collect();
        Self {
            key: key(name, &shape, &columns),
            name,
            columns,
        }
    }

    /// The rows after `after` in key order; empty at the end.
    pub(super) async fn page(
        &self,
        tx: &mut Transaction,
        after: Option<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let dialect = tx.dialect();
        let columns = self.columns.iter().map(|(name, kind)| match kind {
            ColumnKind::Double => dialect.double(name),
            _ => name.clone(),
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        let keys: Vec<&str> = self
            .key
            .iter()
            .map(|at| self.columns[*at].0.as_str())
            .collect();
        let order = keys.join(", ");
        let (behind, values) = match (after, keys.as_slice()) {
            (None, _) => (String::new(), Vec::new()),
            (Some(after), [first, second]) => (
                format!("WHERE {first} > ? OR ({first} = ? AND {second} > ?)"),
                vec![after[0].clone(), after[0].clone(), after[1].clone()],
            ),
            (Some(after), _) => (format!("WHERE {order} > ?"), after),
        };
        let table = self.name;
        let sql = format!("SELECT {columns} FROM {table} {behind} ORDER BY {order} LIMIT {PAGE}");
        let rows = tx.rows(Statement::recurring(sql).bind_all(values)).await?;
        rows.iter().map(|row| self.values(row)).collect()
    }

    fn values(&self, row: &Row) -> Result<Vec<Value>, SqlError> {
        let values = self.columns.iter().enumerate().map(|(at, (_, kind))| {
            Ok(match kind {
                ColumnKind::Int => row.opt_int(at)?.into(),
                ColumnKind::Double => row.double(at)?.into(),
                ColumnKind::Text => row.opt_text(at)?.into(),
                ColumnKind::Timestamp => row.opt_moment(at)?.into(),
            })
        });
        values.collect()
    }

    pub(super) fn key_of(&self, row: &[Value]) -> Vec<Value> {
        self.key.iter().map(|at| row[*at].clone()).collect()
    }

    pub(super) fn place_of(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|(name, _)| name == column)
    }
}

fn kind(description: &str) -> ColumnKind {
    match description.split([' ', '(']).next() {
        Some("INTEGER") => ColumnKind::Int,
        Some("FLOAT") => ColumnKind::Double,
        Some("DATETIME") => ColumnKind::Timestamp,
        _ => ColumnKind::Text,
    }
}

fn key(table: &str, shape: &TableShape, columns: &[(String, ColumnKind)]) -> Vec<usize> {
    let key = shape.get(&Object::new(table, ShapePart::PrimaryKey));
    let names = key.map_or("", String::as_str).split(", ");
    names
        .filter_map(|name| columns.iter().position(|(column, _)| column == name))
        .collect()
}

/// Sorts providers so that each comes after its parent and root. Dangling references come last;
/// the target reports them.
pub(super) fn parents_first(table: &CopyTable, rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let places = ["id", "parent_provider_id", "root_provider_id"].map(|name| table.place_of(name));
    let [Some(id), Some(parent), Some(root)] = places else {
        return rows;
    };
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let mut waiting: BTreeMap<Option<i64>, Vec<Vec<Value>>> = BTreeMap::new();
    let mut ready = VecDeque::new();
    let mut sorted = Vec::with_capacity(rows.len());
    let mut known = BTreeSet::new();
    let missing = |row: &[Value], known: &BTreeSet<Option<i64>>| {
        let own = number(&row[id]);
        let others = [number(&row[parent]), number(&row[root])].into_iter();
        let mut others = others.filter(|other| other.is_some() && *other != own);
        others.find(|other| !known.contains(other))
    };
    ready.extend(rows);
    while let Some(row) = ready.pop_front() {
        match missing(&row, &known) {
            Some(other) => waiting.entry(other).or_default().push(row),
            None => {
                let own = number(&row[id]);
                known.insert(own);
                sorted.push(row);
                ready.extend(waiting.remove(&own).unwrap_or_default());
            }
        }
    }
    sorted.extend(waiting.into_values().flatten());
    sorted
}
