//! The order of tables and rows, and the digests.

use std::collections::BTreeSet;

use berth_store::{Dialect, SqlTimestamp, Value};

use super::super::shape::at;
use super::digest::Precision;
use super::table::{CopyTable, parents_first};
use super::*;

#[test]
fn every_table_is_copied_and_by_its_key() {
    let shape = at(Revision::HEAD, Dialect::Sqlite);
    let all: BTreeSet<_> = shape.keys().map(|object| object.table.as_str()).collect();
    let copied = ORDER.iter().copied().chain(["alembic_version"]);
    assert_eq!(copied.collect::<BTreeSet<_>>(), all);
    for name in ORDER {
        assert!(!CopyTable::of(name).key.is_empty(), "{name}");
    }
    assert_eq!(CopyTable::of("resource_provider_traits").key.len(), 2);
}

#[test]
fn providers_come_behind_their_parents() {
    let table = CopyTable::of("resource_providers");
    let row = |id: i64, parent: Option<i64>, root: i64| {
        let values = table.columns.iter().map(|(name, _)| match name.as_str() {
            "id" => Value::from(id),
            "parent_provider_id" => Value::from(parent),
            "root_provider_id" => Value::from(root),
            _ => Value::Null,
        });
        values.collect::<Vec<_>>()
    };
    let rows = vec![
        row(1, Some(3), 4),
        row(2, None, 2),
        row(3, Some(4), 4),
        row(4, None, 4),
        row(5, Some(9), 9),
    ];
    let sorted = parents_first(&table, rows);
    let id = table.place_of("id").unwrap();
    let ids: Vec<_> = sorted.iter().map(|row| row[id].clone()).collect();
    assert_eq!(ids, [2, 4, 3, 1, 5].map(|id: i64| Value::from(id)));
}

#[test]
fn what_mysql_cannot_hold_is_not_compared() {
    let moment = |micros| Value::Timestamp(SqlTimestamp::from_micros(micros).unwrap());
    for (one, other) in [
        (Value::from(1.1), Value::from(1.100_000_02)),
        (moment(1_700_000_000_999_999), moment(1_700_000_000_000_000)),
    ] {
        assert_eq!(Precision::Coarse.text(&one), Precision::Coarse.text(&other));
        assert_ne!(Precision::Fine.text(&one), Precision::Fine.text(&other));
    }
}
