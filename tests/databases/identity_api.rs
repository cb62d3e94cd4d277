//! The identity service's own tests, over a server: what holds on SQLite holds there. This file is a module twice, once for each
//! server, and knows by its name which. What is left out is about a SQLite file, or asks no database.

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
    use std::any::Any;
    use std::sync::Arc;

    use berth_store::{Isolation, SqlOptions, SqlStore};

    use crate::databases::place::Place;

    pub(super) async fn fresh() -> (SqlStore, Arc<dyn Any + Send + Sync>) {
        // As the program opens it.
        let options = SqlOptions {
            isolation: Isolation::ReadCommitted,
            ..SqlOptions::default()
        };
        let place = match module_path!().contains("postgres") {
            true => Place::postgres(),
            false => Place::mariadb(),
        };
        (place.open(&options).await, Arc::new(place))
    }
}
