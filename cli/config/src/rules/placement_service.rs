//! Rules for `[placement_service]`: access from other hosts, and the snapshot in memory.

use berth_output::ErrorCode;
use berth_placement::CandidatesFrom;
use berth_store::sql::Location;

use super::Judge;
use crate::sections::AuthStrategy;

impl Judge<'_> {
    pub(super) fn placement_service(&mut self) {
        self.believed_on_loopback_only();
        self.snapshot_of_the_only_writer();
    }

    /// A service without authentication may listen on loopback only.
    fn believed_on_loopback_only(&mut self) {
        let (listen, strategy) = (
            "placement_service.listen",
            "placement_service.auth_strategy",
        );
        if self.is_broken(&[listen, strategy]) {
            return;
        }
        let service = &self.config.placement_service;
        let address = service.listen;
        if service.auth_strategy == AuthStrategy::Noauth2 && !address.ip().is_loopback() {
            self.refuse(
                listen,
                format!(
                    "{address} is not on the loopback interface, and callers are not authenticated (noauth2)"
                ),
                "write 127.0.0.1 or [::1], or auth_strategy = \"keystone\" in [placement_service]",
                ErrorCode::BadValue,
            );
        }
    }

    /// A URL in a file is checked when the service starts.
    fn snapshot_of_the_only_writer(&mut self) {
        let (from, connection) = (
            "placement_service.allocation_candidates_from",
            "placement_service.connection",
        );
        if self.is_broken(&[from, connection]) {
            return;
        }
        let asked = self.config.placement_service.allocation_candidates_from;
        let url = self.config.placement_database();
        let is_server = matches!(url.reveal().parse(), Ok(Location::Server(_)));
        if asked == CandidatesFrom::Snapshot && is_server {
            self.refuse(
                from,
                SNAPSHOT_NEEDS_SQLITE,
                "write \"auto\" or \"sql\"",
                ErrorCode::BadValue,
            );
        }
    }
}

/// The error for a snapshot on a database with other writers.
pub const SNAPSHOT_NEEDS_SQLITE: &str = "\"snapshot\" is for SQLite: a database on a server may have other \
     writers, whose changes the snapshot would miss";
