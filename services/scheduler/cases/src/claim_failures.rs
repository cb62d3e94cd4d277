//! The claims of a case that the simulated Placement refuses.

use std::collections::BTreeSet;

use berth_scheduler_objects::from_json::{CaseField, FieldError};

/// Pairs of instance and host.
pub(super) type ClaimFailures = BTreeSet<(String, String)>;

pub(super) fn claim_failures(request: &CaseField<'_>) -> Result<ClaimFailures, FieldError> {
    request.optional_or("claim_fails", ClaimFailures::new(), |all| all.list(pair))
}

fn pair(field: &CaseField<'_>) -> Result<(String, String), FieldError> {
    let parts: Vec<String> = field.list(CaseField::string)?;
    <[String; 2]>::try_from(parts)
        .map(|[uuid, host]| (uuid, host))
        .map_err(|_| field.expected("an instance and a host"))
}
