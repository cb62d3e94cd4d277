//! The compute API's own tests on a database server: everything that holds on SQLite must hold there. This file is
//! compiled as two modules, one for each server, and its module name selects the server. Tests with the same statements
//! as others, or without a database, are left out.
//! Tests of what is above the store run in `make soak` only.

#![allow(
    dead_code,
    reason = "what only the tests that are left out use of the others' tools"
)]

#[path = "../../services/compute/tests/api/cloud.rs"]
mod cloud;
#[path = "../../services/compute/tests/api/quota_limits.rs"]
mod quota_limits;
#[path = "../../services/compute/tests/api/remote_consoles.rs"]
mod remote_consoles;
#[path = "../../services/compute/tests/api/schema.rs"]
mod schema;
#[path = "../../services/compute/tests/api/server_filters.rs"]
mod server_filters;
#[path = "../../services/compute/tests/api/server_lists.rs"]
mod server_lists;
#[cfg(feature = "soak")]
#[path = "../../services/compute/tests/api/server_owners.rs"]
mod server_owners;
#[cfg(feature = "soak")]
#[path = "../../services/compute/tests/api/server_tasks.rs"]
mod server_tasks;
#[path = "../../services/compute/tests/api/service.rs"]
mod service;

/// A database of its own for each test.
mod place {
    use crate::databases::database_pool::{OpenDatabase, new_database};

    pub(super) async fn fresh() -> OpenDatabase {
        new_database(module_path!()).await
    }
}
