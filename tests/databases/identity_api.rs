//! The identity service's own tests on a database server: everything that holds on SQLite must hold there. This file is
//! compiled as two modules, one for each server, and its module name selects the server. Tests of a SQLite file, or
//! without a database, are left out.

#![allow(
    dead_code,
    reason = "what only the tests that are left out use of the others' tools"
)]

#[path = "../../services/identity/tests/api/schema.rs"]
mod schema;
#[path = "../../services/identity/tests/api/service.rs"]
mod service;
#[path = "../../services/identity/tests/api/tokens.rs"]
mod tokens;
#[path = "../../services/identity/tests/api/validate.rs"]
mod validate;

/// A database of its own for each test.
mod place {
    use crate::databases::database_pool::{OpenDatabase, new_database};

    pub(super) async fn fresh() -> OpenDatabase {
        new_database(module_path!()).await
    }
}
