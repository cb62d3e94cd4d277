//! The audit trail of a listener, as `[audit]` configures it.

use berth_audit::AuditTrail;
use berth_config::Config;
use berth_output::{ErrorCode, Failure};

/// Opens the audit trail. Each listener opens one: a record is one append, so they share the file.
///
/// Errors: The file cannot be opened for writing.
pub fn open(config: &Config) -> Result<AuditTrail, Failure> {
    AuditTrail::open(&config.audit).map_err(|error| {
        Failure::caused(ErrorCode::File, "[audit] file cannot be used", &error)
            .hint("make its folder, and let the user of this process write to it")
    })
}
