//! What the built-in Placement needs before it may be heard outside its host, and before it may remember.

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

    /// A service that believes its callers is for this host alone.
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
                    "{address} is not on the loopback interface, and callers are believed (noauth2)"
                ),
                "write 127.0.0.1 or [::1], or auth_strategy = \"keystone\" in [placement_service]",
                ErrorCode::BadValue,
            );
        }
    }

    /// A URL that a file holds is looked at when the service starts.
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
                SNAPSHOT_BESIDE_OTHERS,
                "write \"auto\" or \"sql\"",
                ErrorCode::BadValue,
            );
        }
    }
}

/// What is told where a database has other writers.
pub const SNAPSHOT_BESIDE_OTHERS: &str = "\"snapshot\" is for SQLite: a database on a server may have other \
     writers, of whom no snapshot in memory would know";
