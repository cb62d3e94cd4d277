//! The operations: for each method and path its name, summary, statuses and query keys.

mod hosts;
mod names;
mod servers;

use berth_http::openapi::OpenApiOperation;
use serde_json::{Value, json};

/// The schema of a query key.
pub(super) fn of_query(name: &str) -> Value {
    match name {
        "limit" | "offset" | "minRam" | "minDisk" => {
            json!({"type": "integer", "minimum": 0, "maximum": 2_147_483_647})
        }
        "sort_dir" => json!({"enum": ["asc", "desc"]}),
        "all_tenants" | "locked" | "deleted" | "with_servers" | "reserved" => {
            json!({"enum": ["true", "false", "1", "0"]})
        }
        "hypervisor_hostname_pattern" => {
            json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[A-Za-z0-9._-]*$"})
        }
        "is_public" => json!({"enum": ["true", "false", "none"]}),
        "uuid" => json!({"type": "string", "format": "uuid"}),
        "changes-since" | "changes-before" => json!({"type": "string", "format": "date-time"}),
        _ => json!({"type": "string", "maxLength": 255}),
    }
}

pub(super) fn all() -> impl Iterator<Item = &'static OpenApiOperation> {
    let all = names::OPERATIONS.iter().chain(servers::OPERATIONS);
    all.chain(hosts::OPERATIONS)
}
