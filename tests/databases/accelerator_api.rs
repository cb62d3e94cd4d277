//! The accelerator API's own tests, over a server: what holds on SQLite holds there. This file is a module twice, once for each
//! server, and knows by its name which. What is left out is about a SQLite file, or plants a defect before the service.

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

/// A database of its own for each test.
mod place {
    use std::any::Any;
    use std::sync::Arc;

    use berth_store::{Isolation, SqlOptions, SqlStore};

    use crate::place::Place;

    pub(super) async fn fresh() -> (SqlStore, Arc<dyn Any + Send + Sync>) {
        let place = match module_path!().contains("postgres") {
            true => Place::postgres(),
            false => Place::mariadb(),
        };
        // As the program opens it.
        let options = SqlOptions {
            isolation: Isolation::ReadCommitted,
            ..SqlOptions::default()
        };
        (place.open(&options).await, Arc::new(place))
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
