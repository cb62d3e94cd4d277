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

/// A database of its own for each test, emptied where another test had it: to make one takes longer than most of them.
mod place {
    use std::any::Any;
    use std::sync::{Arc, Mutex, PoisonError};

    use berth_store::{Isolation, SqlError, SqlOptions, SqlStore, Statement, Transaction, Work};

    use crate::databases::test_database::TestDatabase;

    /// The databases that no test uses now.
    static FREE: Mutex<Vec<TestDatabase>> = Mutex::new(Vec::new());

    /// The tables, who refers to another before it.
    const TABLES: [&str; 7] = [
        "scheduling_records",
        "server_group_members",
        "server_groups",
        "host_aggregate_members",
        "host_aggregates",
        "compute_nodes",
        "compute_hosts",
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
            let sql = "SELECT COUNT(*) FROM compute_hosts_schema WHERE version = ?";
            let known = Statement::new(sql).bind(berth_hosts::SCHEMA_VERSION);
            let row = tx.row(known).await?;
            Ok(row.map_or(Ok(0), |row| row.int(0))? == 1)
        }
    }
}
