//! A rule for `[placement_service]`: the snapshot in memory.

use berth_output::ErrorCode;
use berth_placement::CandidatesFrom;
use berth_store::sql::Location;

use super::Judge;

impl Judge<'_> {
    /// A snapshot in memory is for the only writer. A URL in a file is checked when the service starts.
    pub(super) fn placement_service(&mut self) {
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
