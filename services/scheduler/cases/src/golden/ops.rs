//! Kind `ops`: whether a value satisfies the requirement of an extra spec.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::SchedulerCase;
use berth_scheduler::extra_specs::Requirement;
use berth_scheduler_objects::from_json::CaseRequestError;
use berth_scheduler_objects::host_state::Capability;

/// `match`, or `error` if the two cannot be compared.
pub(super) fn answer(case: &SchedulerCase<'_>) -> Result<Value, CaseRequestError> {
    let field = case.field.required("value")?;
    let value = Capability::deserialize(field.value());
    let value = value.map_err(|error| field.error(error.to_string()))?;
    let requirement = Requirement::new(case.field.required("requirement")?.text()?);
    Ok(match requirement.holds_for(value.view()) {
        Ok(holds) => json!({ "match": holds }),
        Err(error) => json!({ "error": error.to_string() }),
    })
}
