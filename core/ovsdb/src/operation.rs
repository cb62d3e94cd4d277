//! [`Operation`]: one operation of a transaction (RFC 7047, section 5.2), and the notation of values (section 5.1).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// Columns by name.
pub type Row = BTreeMap<String, Value>;

/// A condition on a column: `[column, function, value]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition(&'static str, &'static str, Value);

impl Condition {
    /// The column has this value.
    #[must_use]
    pub fn equals(column: &'static str, value: impl Into<Value>) -> Self {
        Self(column, "==", value.into())
    }

    /// The column, a set or map, contains all of these elements.
    #[must_use]
    pub fn includes(column: &'static str, value: impl Into<Value>) -> Self {
        Self(column, "includes", value.into())
    }
}

/// One operation of a transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Operation {
    /// Reads rows.
    Select {
        table: &'static str,
        #[serde(rename = "where")]
        conditions: Vec<Condition>,
        columns: Vec<&'static str>,
    },
    /// Adds a row. Other operations of the transaction refer to it by [`named_uuid`] of `uuid_name`.
    Insert {
        table: &'static str,
        row: Row,
        #[serde(rename = "uuid-name", skip_serializing_if = "Option::is_none")]
        uuid_name: Option<&'static str>,
    },
    /// Sets columns of the matching rows.
    Update {
        table: &'static str,
        #[serde(rename = "where")]
        conditions: Vec<Condition>,
        row: Row,
    },
    /// Changes elements of sets and maps in the matching rows: `(column, "insert" or "delete", elements)`.
    Mutate {
        table: &'static str,
        #[serde(rename = "where")]
        conditions: Vec<Condition>,
        mutations: Vec<(&'static str, &'static str, Value)>,
    },
    /// Waits until the matching rows are `rows`, at most `timeout` milliseconds; then the transaction fails with
    /// `timed out`.
    Wait {
        timeout: u64,
        table: &'static str,
        #[serde(rename = "where")]
        conditions: Vec<Condition>,
        columns: Vec<&'static str>,
        until: &'static str,
        rows: Vec<Row>,
    },
}

impl Operation {
    /// Waits until a row of `table` meets all conditions. `name` is the value of its column `name`.
    #[must_use]
    pub fn wait_for(
        table: &'static str,
        name: &str,
        mut conditions: Vec<Condition>,
        limit: Duration,
    ) -> Self {
        conditions.push(Condition::equals("name", name));
        Self::Wait {
            timeout: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            table,
            conditions,
            columns: vec!["name"],
            until: "==",
            rows: vec![Row::from([("name".to_owned(), json!(name))])],
        }
    }
}

impl Operation {
    /// Waits as long as the row of this name has this value in a column.
    #[must_use]
    pub fn wait_while(
        table: &'static str,
        name: &str,
        (column, value): (&'static str, Value),
        limit: Duration,
    ) -> Self {
        Self::Wait {
            timeout: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            table,
            conditions: vec![Condition::equals("name", name)],
            columns: vec![column],
            until: "!=",
            rows: vec![Row::from([(column.to_owned(), value)])],
        }
    }
}

/// The result of one operation.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct OperationResult {
    /// The rows of a `select`.
    #[serde(default)]
    pub rows: Vec<Row>,
    /// The number of rows that an `update` or `mutate` changed.
    #[serde(default)]
    pub count: u64,
}

/// A map in the notation of RFC 7047.
#[must_use]
pub fn map<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> Value {
    let entries: Vec<_> = entries.into_iter().collect();
    json!(["map", entries])
}

/// A reference to a row that the same transaction inserts.
#[must_use]
pub fn named_uuid(name: &str) -> Value {
    json!(["named-uuid", name])
}

/// The UUID of a reference to a row; `None` if the value is none.
#[must_use]
pub fn uuid_of(value: &Value) -> Option<Uuid> {
    match value.as_array()?.as_slice() {
        [kind, uuid] if kind == "uuid" => uuid.as_str()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_written_as_in_the_rfc() {
        let wait = Operation::wait_for(
            "Interface",
            "tap1",
            vec![Condition::includes(
                "external_ids",
                map([("ovn-installed", "true".to_owned())]),
            )],
            Duration::from_millis(1500),
        );
        assert_eq!(
            serde_json::to_value(&wait).unwrap(),
            json!({
                "op": "wait",
                "timeout": 1500,
                "table": "Interface",
                "where": [
                    ["external_ids", "includes", ["map", [["ovn-installed", "true"]]]],
                    ["name", "==", "tap1"],
                ],
                "columns": ["name"],
                "until": "==",
                "rows": [{"name": "tap1"}],
            })
        );
    }

    #[test]
    fn a_reference_is_read_as_its_uuid() {
        let uuid = Uuid::from_u128(7);
        assert_eq!(uuid_of(&json!(["uuid", uuid.to_string()])), Some(uuid));
        assert_eq!(uuid_of(&json!(["set", []])), None);
        assert_eq!(uuid_of(&json!("uuid")), None);
    }
}
