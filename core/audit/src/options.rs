//! The options of the audit trail.

use std::path::PathBuf;

use berth_options::options;

options! {
    /// Audit records: one JSON object for each request to a service or to the agent, in the log (target
    /// `berth::audit`). Logins, revocations and refusals always leave one.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct AuditOptions in "audit" {
        /// A file that gets each record as one line, in addition to the log. It is created with mode 0600. If it is
        /// renamed or removed, the next record opens a new one, so logrotate needs no signal.
        pub file: Option<PathBuf> = None, example: "\"/var/log/berth/audit.log\"";
        /// Whether each request that changes something needs a record in `file` first: it gets 503 and changes nothing
        /// if the record cannot be written. It then has two records, one with the outcome `pending`.
        pub required: bool = false;
        /// Whether requests that only read, and the heartbeats of agents, leave a record if they succeed.
        pub reads: bool = false;
    }
}
