//! The hosts service's own tests on a database server: everything that holds on SQLite must hold there. This file is
//! compiled as two modules, one for each server, and its module name selects the server. Tests of a SQLite file are
//! left out.

#![allow(
    dead_code,
    reason = "what only the tests that are left out use of the others' tools"
)]

#[path = "../../services/hosts/tests/api/aggregates.rs"]
mod aggregates;
#[path = "../../services/hosts/tests/api/guests.rs"]
mod guests;
#[path = "../../services/hosts/tests/api/host_states.rs"]
mod host_states;
#[path = "../../services/hosts/tests/api/scheduling_records.rs"]
mod scheduling_records;
#[path = "../../services/hosts/tests/api/schema.rs"]
mod schema;
#[path = "../../services/hosts/tests/api/server_groups.rs"]
pub(crate) mod server_groups;
#[path = "../../services/hosts/tests/api/service.rs"]
pub(crate) mod service;
#[path = "../../services/hosts/tests/api/states.rs"]
mod states;

/// A database for each test, emptied after another test has used it.
mod place {
    use crate::databases::database_pool::{DatabasePool, OpenDatabase};

    static POOL: DatabasePool = DatabasePool::of(
        "compute_hosts_schema",
        berth_hosts::SCHEMA_VERSION,
        &[
            "scheduling_records",
            "server_group_members",
            "server_groups",
            "host_aggregate_members",
            "host_aggregates",
            "compute_nodes",
            "compute_hosts",
        ],
    );

    pub(super) async fn fresh() -> OpenDatabase {
        POOL.take(module_path!()).await
    }
}
