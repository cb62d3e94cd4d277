//! Kind `ops`: whether a value is as an extra spec demands.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::extra_specs::Requirement;
use crate::host_state::Capability;
use crate::replay::case::{Case, CaseError};

/// `match`, or `error` where both cannot be compared.
pub(super) fn answer(case: &Case<'_>) -> Result<Value, CaseError> {
    let field = case.field.needed("value")?;
    let value = Capability::deserialize(field.value());
    let value = value.map_err(|error| field.wrong(error.to_string()))?;
    let requirement = Requirement::new(case.field.needed("requirement")?.text()?);
    Ok(match requirement.holds_for(value.view()) {
        Ok(holds) => json!({ "match": holds }),
        Err(error) => json!({ "error": error.to_string() }),
    })
}
