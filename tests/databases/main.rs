//! The SQL store behaves the same on each database: its guarantees are tested on SQLite, on a real PostgreSQL and on a
//! real MariaDB, in a separate database each. The services' own API tests run here on PostgreSQL, and in `make soak`
//! also on MariaDB.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::duplicate_mod,
    reason = "the same tests over each of the servers"
)]

/// Tests that hold on all three. Each is an `async fn(Place)` of the module.
macro_rules! on_all {
    ($($name:ident)*) => {
        on_all!(@on sqlite $($name)*);
        on_servers!($($name)*);
    };
    (@on $database:ident $($name:ident)*) => {
        mod $database {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                super::$name(crate::databases::test_database::TestDatabase::$database()).await;
            })*
        }
    };
}

/// Tests that only make sense where others may write.
macro_rules! on_servers {
    ($($name:ident)*) => {
        on_all!(@on postgres $($name)*);
        on_all!(@on mariadb $($name)*);
    };
}

mod accelerator;
#[cfg(feature = "soak")]
#[path = "accelerator_api.rs"]
mod accelerator_on_mariadb;
#[path = "accelerator_api.rs"]
mod accelerator_on_postgres;
mod claims;
#[cfg(feature = "soak")]
#[path = "compute_api.rs"]
mod compute_on_mariadb;
#[path = "compute_api.rs"]
mod compute_on_postgres;
mod conflicts;
mod database_pool;
mod hosts;
#[cfg(feature = "soak")]
#[path = "hosts_api.rs"]
mod hosts_on_mariadb;
#[path = "hosts_api.rs"]
mod hosts_on_postgres;
#[cfg(feature = "soak")]
#[path = "identity_api.rs"]
mod identity_on_mariadb;
#[path = "identity_api.rs"]
mod identity_on_postgres;
mod lists;
mod outages;
mod placement_copy;
mod placement_schema;
mod proxy;
#[path = "../../services/placement/tests/api/random_cloud.rs"]
#[allow(dead_code, reason = "the other user of it asks for more")]
mod random_cloud;
mod refusals;
mod schema;
mod searches;
mod test_database;
mod trees;
mod values;
mod work;
