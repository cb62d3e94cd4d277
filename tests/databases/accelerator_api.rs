//! The accelerator API's own tests on a database server: everything that holds on SQLite must hold there. This file is
//! compiled as two modules, one for each server, and its module name selects the server. Tests of a SQLite file, and
//! planted defects, are left out.

#![allow(
    dead_code,
    reason = "what only the tests that are left out use of the others' tools"
)]

#[path = "../../services/accelerator/tests/api/adopted.rs"]
mod adopted;
#[path = "../../services/accelerator/tests/api/bad_input.rs"]
mod bad_input;
#[path = "../../services/accelerator/tests/api/binds.rs"]
mod binds;
#[path = "../../services/accelerator/tests/api/client.rs"]
mod client;
#[path = "../../services/accelerator/tests/api/defects.rs"]
mod defects;
#[path = "../../services/accelerator/tests/api/devices.rs"]
mod devices;
#[path = "../../services/accelerator/tests/api/events.rs"]
mod events;
#[path = "../../services/accelerator/tests/api/nouns.rs"]
mod nouns;
#[path = "../../services/accelerator/tests/api/placement.rs"]
mod placement;
#[path = "../../services/accelerator/tests/api/programmings.rs"]
mod programmings;
#[path = "../../services/accelerator/tests/api/receiver.rs"]
pub(crate) mod receiver;
#[path = "../../services/accelerator/tests/api/service.rs"]
pub(crate) mod service;
#[path = "../../services/accelerator/tests/api/unbound.rs"]
mod unbound;

/// A database of its own for each test, emptied where another test had it: to make one takes longer than most of them.
mod place {
    use std::any::Any;
    use std::sync::{Arc, Mutex, PoisonError};

    use berth_store::{Isolation, SqlError, SqlOptions, SqlStore, Statement, Transaction, Work};

    use crate::databases::test_database::TestDatabase;

    /// The databases that no test uses now.
    static FREE: Mutex<Vec<TestDatabase>> = Mutex::new(Vec::new());

    /// The tables, who refers to another before it.
    const TABLES: [&str; 9] = [
        "host_changes",
        "programmings",
        "events",
        "attach_handles",
        "accelerator_requests",
        "attributes",
        "deployables",
        "devices",
        "device_profiles",
    ];

    /// Gives its place back.
    struct DatabaseGuard(Option<TestDatabase>);

    impl Drop for DatabaseGuard {
        fn drop(&mut self) {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            free.extend(self.0.take());
        }
    }

    pub(super) async fn fresh() -> (SqlStore, Arc<dyn Any + Send + Sync>) {
        // As the program opens it.
        let options = SqlOptions {
            isolation: Isolation::ReadCommitted,
            ..SqlOptions::default()
        };
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(place) = free {
            let store = place.open(&options).await;
            // A test that has ended has no connection; what one did to the schema stays.
            let sessions = store.other_sessions().await.unwrap();
            if sessions.seen.is_empty() && store.write(&Empty).await.unwrap_or(false) {
                return (store, Arc::new(DatabaseGuard(Some(place))));
            }
            store.close().await;
        }
        let place = match module_path!().contains("postgres") {
            true => TestDatabase::postgres(),
            false => TestDatabase::mariadb(),
        };
        (
            place.open(&options).await,
            Arc::new(DatabaseGuard(Some(place))),
        )
    }

    /// Empties the tables; whether they are all there, and no more than they should be.
    struct Empty;

    impl Work for Empty {
        type Output = bool;
        type Error = SqlError;

        async fn run(&self, tx: &mut Transaction) -> Result<bool, SqlError> {
            if tx.table_names().await?.len() != TABLES.len() + 1 {
                return Ok(false);
            }
            for table in TABLES {
                let delete = format!("DELETE FROM {table}");
                tx.execute(Statement::new(delete)).await?;
            }
            let sql = "SELECT COUNT(*) FROM accelerator_schema WHERE version = ?";
            let known = Statement::new(sql).bind(berth_accelerator::SCHEMA_VERSION);
            let row = tx.row(known).await?;
            Ok(row.map_or(Ok(0), |row| row.int(0))? == 1)
        }
    }
}

/// Nothing is planted before a service here.
mod canaries {
    use super::service::{Reply, Service};

    pub(super) enum Defect {}

    pub(super) fn planted() -> Option<Defect> {
        None
    }

    impl Defect {
        pub(super) async fn answer(
            self,
            _: &Service,
            _: &str,
            _: &str,
            _: Option<String>,
        ) -> Reply {
            match self {}
        }
    }
}
