//! A recorded reason: code, values and sentence, all of limited length.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use berth_scheduler_objects::reason::Reason;
use berth_scheduler_objects::text::{beginning, shortened};

/// The maximum number of recorded entries of a list or an object.
const ENTRIES: usize = 20;

/// Why a host is out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedReason {
    /// A code of the closed vocabulary [`Reason`]: `not_enough_free`.
    pub code: String,
    /// One sentence about the host: `it has 512 MiB of memory free, and 1024 are asked for`.
    pub text: String,
    /// The compared values by name. Long texts and lists are truncated.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
}

impl RecordedReason {
    pub(super) fn of(reason: &Reason) -> Self {
        let mut values = match serde_json::to_value(reason) {
            Ok(Value::Object(values)) => values,
            _ => Map::new(),
        };
        let code = match values.remove("code") {
            Some(Value::String(code)) => code,
            _ => String::new(),
        };
        values.values_mut().for_each(bound);
        let text = shortened(&reason.to_string()).into_owned();
        Self { code, text, values }
    }
}

fn bound(value: &mut Value) {
    match value {
        Value::String(text) => *text = beginning(text).into_owned(),
        Value::Array(list) => {
            let more = list.len().saturating_sub(ENTRIES);
            list.truncate(ENTRIES);
            list.iter_mut().for_each(bound);
            if more > 0 {
                list.push(json!(format!("and {more} more")));
            }
        }
        Value::Object(object) => {
            let beyond: Vec<String> = object.keys().skip(ENTRIES).cloned().collect();
            beyond.iter().for_each(|key| {
                object.remove(key);
            });
            object.values_mut().for_each(bound);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_reason_is_kept_with_its_values_and_no_longer_than_is_read() {
        let recorded = RecordedReason::of(&Reason::TooManyIoOps {
            num_io_ops: 9,
            max_io_ops_per_host: 8,
        });
        assert_eq!(recorded.code, "too_many_io_ops");
        assert_eq!(
            Value::from(recorded.values),
            json!({"num_io_ops": 9, "max_io_ops_per_host": 8})
        );
        let hosts = (0..100_000).map(|at| format!("compute-{at}")).collect();
        let long = RecordedReason::of(&Reason::GroupAffinity {
            hosts: Arc::new(hosts),
        });
        assert_eq!(long.values["hosts"][20], "and 99980 more");
        let query = format!("[\"=\", {}]", "1, ".repeat(10_000));
        let query = RecordedReason::of(&Reason::QueryNotSatisfied {
            query: query.into(),
            values: (0..100)
                .map(|at| (format!("v{at}").into(), "x".repeat(9_999)))
                .collect(),
        });
        for recorded in [long, query] {
            let size = serde_json::to_string(&recorded).map_or(0, |text| text.len());
            assert!((100..20_000).contains(&size), "{size} bytes");
        }
    }
}
