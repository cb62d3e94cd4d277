//! Berth's libraries against real servers: PostgreSQL, MariaDB, OpenStack's Placement, Cyborg and Neutron.

#![cfg(test)]

#[path = "../core/serve/tests/serve/tls/authority.rs"]
mod authority;
#[path = "databases/main.rs"]
mod databases;
mod peers;
#[path = "real_cyborg/main.rs"]
mod real_cyborg;
#[path = "real_neutron/main.rs"]
mod real_neutron;
#[path = "real_placement/main.rs"]
mod real_placement;
