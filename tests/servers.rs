//! Berth's libraries against real servers: PostgreSQL, MariaDB, OpenStack's Placement and Cyborg.

#![cfg(test)]

#[path = "../core/serve/tests/serve/tls/authority.rs"]
mod authority;
#[path = "databases/main.rs"]
mod databases;
mod peers;
#[path = "real_cyborg/main.rs"]
mod real_cyborg;
#[path = "real_placement/main.rs"]
mod real_placement;
