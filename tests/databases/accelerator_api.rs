//! The accelerator API's own tests on a database server: everything that holds on SQLite must hold there. This file is
//! compiled as two modules, one for each server, and its module name selects the server. Tests of a SQLite file, and
//! planted defects, are left out.
//! Tests of what is above the store run in `make soak` only.

#![allow(
    dead_code,
    reason = "what only the tests that are left out use of the others' tools"
)]

#[path = "../../services/accelerator/tests/api/adopted.rs"]
mod adopted;
#[cfg(feature = "soak")]
#[path = "../../services/accelerator/tests/api/bad_input.rs"]
mod bad_input;
#[path = "../../services/accelerator/tests/api/binds.rs"]
mod binds;
#[cfg(feature = "soak")]
#[path = "../../services/accelerator/tests/api/client.rs"]
mod client;
#[cfg(feature = "soak")]
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

/// A database for each test, emptied after another test has used it.
mod place {
    use crate::databases::database_pool::{DatabasePool, OpenDatabase};

    static POOL: DatabasePool = DatabasePool::of(
        "accelerator_schema",
        berth_accelerator::SCHEMA_VERSION,
        &[
            "host_changes",
            "programmings",
            "events",
            "attach_handles",
            "accelerator_requests",
            "attributes",
            "deployables",
            "devices",
            "device_profiles",
        ],
    );

    pub(super) async fn fresh() -> OpenDatabase {
        POOL.take(module_path!()).await
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
